package catalog

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

const (
	// maxArchiveEntries bounds the files of an archive that holds an image (not those of its layers).
	maxArchiveEntries = 20_000
	// maxArchiveLinks bounds the links from one file of such an archive to another.
	maxArchiveLinks = 8
)

// fileStore is a folder, or an archive that is read as one. Names are slash-separated and relative.
type fileStore interface {
	open(name string) (io.ReadCloser, int64, error)
	close()
}

// openLayout reads an OCI layout folder.
func openLayout(folder string, platform model.Platform, limits Limits) (*resolved, error) {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, failf(model.ReasonNotPullable, "open the directory %s: %w", folder, withoutPath(err))
	}
	return openStore(context.Background(), rootStore{root}, folder, platform, limits)
}

// openArchive reads an OCI archive or a docker archive, compressed or not.
func openArchive(ctx context.Context, file string, platform model.Platform, limits Limits, scratch string) (*resolved, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, failf(model.ReasonNotPullable, "open the archive %s: %w", file, withoutPath(err))
	}
	plain, err := plainArchive(ctx, f, limits, scratch)
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("decompress the archive %s: %w", file, err)
	}
	store, err := indexArchive(plain)
	if err != nil {
		_ = plain.Close()
		return nil, failf(model.ReasonNotPullable, "read the archive %s: %w", file, err)
	}
	return openStore(ctx, store, file, platform, limits)
}

// plainArchive returns the archive itself, or a decompressed copy in the scratch folder.
func plainArchive(ctx context.Context, f *os.File, limits Limits, scratch string) (*os.File, error) {
	reader, compressed, err := decompress(f)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	if !compressed {
		_, err := f.Seek(0, io.SeekStart)
		return f, err
	}
	defer func() { _ = f.Close() }()
	copied, err := os.Create(filepath.Join(scratch, "archive.tar"))
	if err != nil {
		return nil, err
	}
	bounded := &boundedReader{ctx: ctx, reader: reader, left: limits.DecompressedBytes, limit: limits.DecompressedBytes}
	if _, err := io.Copy(copied, bounded); err != nil {
		_ = copied.Close()
		return nil, err
	}
	_, err = copied.Seek(0, io.SeekStart)
	return copied, err
}

func openStore(ctx context.Context, store fileStore, where string, platform model.Platform, limits Limits) (*resolved, error) {
	img, err := func() (*resolved, error) {
		index, err := readFile(store, "index.json", maxManifestBytes)
		if err == nil {
			return openOCI(ctx, store, index, platform, limits)
		}
		manifest, dockerErr := readFile(store, "manifest.json", maxManifestBytes)
		if dockerErr == nil {
			return openDocker(store, manifest, platform, limits)
		}
		return nil, failf(model.ReasonNotPullable, "it is neither an OCI image layout (%w) nor a Docker archive (%w)", err, dockerErr)
	}()
	if err != nil {
		store.close()
		failure := typed(ctx, err, model.ReasonCatalogFailed)
		return nil, &Error{Reason: failure.Reason, Err: fmt.Errorf("%s: %w", where, failure.Err)}
	}
	img.release = store.close
	return img, nil
}

func openOCI(ctx context.Context, store fileStore, index []byte, platform model.Platform, limits Limits) (*resolved, error) {
	source := storeSource{store}
	parsed, err := v1.ParseIndexManifest(bytes.NewReader(index))
	if err != nil {
		return nil, failf(model.ReasonNotPullable, "index.json cannot be read: %w", err)
	}
	if platform != (model.Platform{}) && len(parsed.Manifests) > 1 && len(parsed.Manifests) <= maxIndexEntries && !statesPlatform(parsed.Manifests) {
		return pickImage(ctx, source, parsed.Manifests, platform, limits)
	}
	return resolveManifest(ctx, source, index, types.OCIImageIndex, platform, limits)
}

func statesPlatform(descriptors []v1.Descriptor) bool {
	for _, d := range descriptors {
		if d.Platform != nil {
			return true
		}
	}
	return false
}

// pickImage finds the one image of the platform in a layout whose index does not state platforms.
func pickImage(ctx context.Context, source blobSource, descriptors []v1.Descriptor, platform model.Platform, limits Limits) (*resolved, error) {
	var found *resolved
	for _, d := range descriptors {
		raw, err := source.manifest(ctx, d.Digest)
		if err != nil {
			return nil, err
		}
		if err := verify(raw, d.Digest, "manifest"); err != nil {
			return nil, err
		}
		img, err := resolveManifest(ctx, source, raw, d.MediaType, platform, limits)
		if err != nil {
			if ReasonOf(err) == model.ReasonPlatformMismatch {
				continue
			}
			return nil, err
		}
		if found != nil && found.manifestDigest != img.manifestDigest {
			return nil, failf(model.ReasonNotPullable, "it contains several images for %s; save a single image", platform)
		}
		found = img
	}
	if found == nil {
		return nil, failf(model.ReasonPlatformMismatch, "it contains no image for %s", platform)
	}
	return found, nil
}

func openDocker(store fileStore, manifest []byte, platform model.Platform, limits Limits) (*resolved, error) {
	var images []struct {
		Config   string
		RepoTags []string
		Layers   []string
	}
	if err := json.Unmarshal(manifest, &images); err != nil {
		return nil, failf(model.ReasonNotPullable, "manifest.json cannot be read: %w", err)
	}
	if len(images) != 1 {
		return nil, failf(model.ReasonNotPullable, "it contains %d images; save a single image", len(images))
	}
	rawConfig, err := readFile(store, images[0].Config, maxConfigBytes)
	if err != nil {
		return nil, failf(model.ReasonNotPullable, "read the image's configuration: %w", err)
	}
	config, err := v1.ParseConfigFile(bytes.NewReader(rawConfig))
	if err != nil {
		return nil, failf(model.ReasonCatalogFailed, "the image's configuration cannot be read: %w", err)
	}
	digest, _, err := v1.SHA256(bytes.NewReader(rawConfig))
	if err != nil {
		return nil, err
	}
	if len(images[0].Layers) > maxLayers {
		return nil, failf(model.ReasonImageTooLarge, "the image has %d layers, more than the limit of %d", len(images[0].Layers), maxLayers)
	}
	img := &resolved{mediaType: types.DockerManifestSchema2, config: config, rawConfig: rawConfig, configDigest: digest}
	if len(images[0].RepoTags) <= maxIndexEntries {
		img.tags = images[0].RepoTags
	}
	var total int64
	layers := make([]layer, len(images[0].Layers))
	for i, name := range images[0].Layers {
		body, size, err := store.open(name)
		if err != nil {
			return nil, failf(model.ReasonNotPullable, "open layer %d: %w", i+1, err)
		}
		_ = body.Close()
		// Layers of a docker archive are not compressed as a rule, hence this bound.
		if total += size; total > limits.DecompressedBytes {
			return nil, tooManyBytes(limits.DecompressedBytes)
		}
		layers[i] = layer{
			descriptor: v1.Descriptor{MediaType: types.DockerLayer, Size: size},
			open: func(context.Context) (io.ReadCloser, error) {
				body, _, err := store.open(name)
				return body, err
			},
		}
	}
	return img, img.setLayers(layers, platform, platform != model.Platform{})
}

func readFile(store fileStore, name string, limit int64) ([]byte, error) {
	body, size, err := store.open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }()
	if size > limit {
		return nil, failf(model.ReasonImageTooLarge, "%s has %d bytes, more than the limit of %d", quoteText(name, 100), size, limit)
	}
	return io.ReadAll(io.LimitReader(body, limit))
}

// storeSource reads blobs of an OCI layout.
type storeSource struct{ store fileStore }

func (s storeSource) manifest(_ context.Context, digest v1.Hash) ([]byte, error) {
	return s.read(digest, maxManifestBytes)
}

func (s storeSource) config(_ context.Context, descriptor v1.Descriptor) ([]byte, error) {
	return s.read(descriptor.Digest, maxConfigBytes)
}

func (s storeSource) read(digest v1.Hash, limit int64) ([]byte, error) {
	raw, err := readFile(s.store, blobPath(digest), limit)
	if _, known := errors.AsType[*Error](err); err == nil || known {
		return raw, err
	}
	return nil, failf(model.ReasonNotPullable, "the image layout does not contain the blob %s: %w", digest, withoutPath(err))
}

func (s storeSource) blob(_ context.Context, descriptor v1.Descriptor) (io.ReadCloser, error) {
	body, _, err := s.store.open(blobPath(descriptor.Digest))
	if err != nil {
		return nil, failf(model.ReasonNotPullable, "the image layout does not contain the blob %s: %w", descriptor.Digest, withoutPath(err))
	}
	return body, nil
}

func blobPath(digest v1.Hash) string { return path.Join("blobs", digest.Algorithm, digest.Hex) }

// rootStore is a folder; the operating system keeps links from leading out of it.
type rootStore struct{ root *os.Root }

func (s rootStore) close() { _ = s.root.Close() }

func (s rootStore) open(name string) (io.ReadCloser, int64, error) {
	// Opening a pipe would wait for a writer.
	info, err := s.root.Stat(filepath.FromSlash(name))
	if err != nil {
		return nil, 0, err
	}
	if !info.Mode().IsRegular() {
		return nil, 0, fmt.Errorf("%s is not a regular file", name)
	}
	f, err := s.root.Open(filepath.FromSlash(name))
	if err != nil {
		return nil, 0, err
	}
	return f, info.Size(), nil
}

// archiveStore is an uncompressed tar file whose entries are read in place.
type archiveStore struct {
	file    *os.File
	entries map[string]archiveEntry
}

type archiveEntry struct {
	offset, size int64
	// link is the name of another entry, "" for a file.
	link string
}

// indexArchive notes where the regular files of the archive are. Nothing is unpacked.
func indexArchive(file *os.File) (*archiveStore, error) {
	store := &archiveStore{file: file, entries: map[string]archiveEntry{}}
	reader := tar.NewReader(file)
	for count := 0; ; count++ {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return store, nil
		}
		if err != nil {
			return nil, err
		}
		if count >= maxArchiveEntries {
			return nil, fmt.Errorf("it has more entries than the limit of %d", maxArchiveEntries)
		}
		name := archiveName(header.Name)
		switch header.Typeflag {
		case tar.TypeReg:
			if isSparse(header) {
				return nil, fmt.Errorf("%q is a sparse file, which is not supported in an image archive", quoteText(name, 100))
			}
			offset, err := file.Seek(0, io.SeekCurrent)
			if err != nil {
				return nil, err
			}
			store.entries[name] = archiveEntry{offset: offset, size: header.Size}
		case tar.TypeLink:
			store.entries[name] = archiveEntry{link: archiveName(header.Linkname)}
		case tar.TypeSymlink:
			store.entries[name] = archiveEntry{link: archiveName(path.Join(path.Dir(name), header.Linkname))} //nolint:gosec // a key of a map, no path on disk
		}
	}
}

func isSparse(header *tar.Header) bool {
	for key := range header.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") {
			return true
		}
	}
	return header.Typeflag == tar.TypeGNUSparse
}

// archiveName makes "./a", "/a" and "a" the same name.
func archiveName(name string) string {
	return strings.TrimPrefix(path.Clean("/"+name), "/")
}

func (s *archiveStore) close() { _ = s.file.Close() }

func (s *archiveStore) open(name string) (io.ReadCloser, int64, error) {
	name = archiveName(name)
	for range maxArchiveLinks {
		entry, found := s.entries[name]
		switch {
		case !found:
			return nil, 0, fmt.Errorf("%s is not in the archive", quoteText(name, 100))
		case entry.link == "":
			return io.NopCloser(io.NewSectionReader(s.file, entry.offset, entry.size)), entry.size, nil
		}
		name = entry.link
	}
	return nil, 0, fmt.Errorf("%s is reached through more than %d links", quoteText(name, 100), maxArchiveLinks)
}
