package sampleimages

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// buildTime is the time of everything in the images, so that digests do not change from build to build.
var buildTime = time.Date(2024, time.January, 1, 0, 0, 0, 0, time.UTC)

// maxFileBytes bounds one file that is taken into an image, 64 MiB.
const maxFileBytes = 64 << 20

// rootfs collects the files of a layer. Names are without a leading slash.
type rootfs map[string]node

type node struct {
	mode    int64
	link    string
	hard    bool
	folder  bool
	content []byte
}

func (r rootfs) add(name string, content []byte) {
	r[clean(name)] = node{mode: 0o644, content: content}
}

func (r rootfs) addExecutable(name string, content []byte) {
	r[clean(name)] = node{mode: 0o755, content: content}
}

func clean(name string) string { return strings.TrimPrefix(path.Clean("/"+name), "/") }

// addTar takes over the entries of an archive that keep says yes to.
func (r rootfs) addTar(reader io.Reader, keep func(name string) bool) error {
	archive := tar.NewReader(reader)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		name := clean(header.Name)
		if name == "" || !keep(name) {
			continue
		}
		switch header.Typeflag {
		case tar.TypeDir:
			r[name] = node{mode: 0o755, folder: true}
		case tar.TypeSymlink:
			r[name] = node{mode: 0o777, link: header.Linkname}
		case tar.TypeLink:
			r[name] = node{mode: header.Mode & 0o755, link: clean(header.Linkname), hard: true}
		case tar.TypeReg:
			if header.Size > maxFileBytes {
				return fmt.Errorf("%s has %d bytes, more than the limit of %d", name, header.Size, maxFileBytes)
			}
			content, err := io.ReadAll(archive)
			if err != nil {
				return err
			}
			r[name] = node{mode: header.Mode & 0o755, content: content}
		}
	}
}

// layer writes the files as a compressed OCI layer, sorted and with fixed times.
func (r rootfs) layer() (v1.Layer, error) {
	for name := range r {
		for parent := path.Dir(name); parent != "."; parent = path.Dir(parent) {
			if _, there := r[parent]; !there {
				r[parent] = node{mode: 0o755, folder: true}
			}
		}
	}
	names := make([]string, 0, len(r))
	for name := range r {
		names = append(names, name)
	}
	slices.Sort(names)
	var out bytes.Buffer
	writer := tar.NewWriter(&out)
	// Hard links come last, when what they point to is there.
	for _, hard := range []bool{false, true} {
		for _, name := range names {
			if r[name].hard != hard {
				continue
			}
			if err := writeNode(writer, name, r[name]); err != nil {
				return nil, fmt.Errorf("write %s: %w", name, err)
			}
		}
	}
	if err := writer.Close(); err != nil {
		return nil, err
	}
	content := out.Bytes()
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil }
	return tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
}

func writeNode(writer *tar.Writer, name string, n node) error {
	header := &tar.Header{Name: name, Mode: n.mode, ModTime: buildTime, Format: tar.FormatPAX}
	switch {
	case n.folder:
		header.Typeflag, header.Name = tar.TypeDir, name+"/"
	case n.hard:
		header.Typeflag, header.Linkname = tar.TypeLink, n.link
	case n.link != "":
		header.Typeflag, header.Linkname = tar.TypeSymlink, n.link
	default:
		header.Typeflag, header.Size = tar.TypeReg, int64(len(n.content))
	}
	if err := writer.WriteHeader(header); err != nil {
		return err
	}
	_, err := writer.Write(n.content)
	return err
}
