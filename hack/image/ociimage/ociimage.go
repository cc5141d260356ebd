// Package ociimage makes the operator's image as an OCI archive, without a container engine: one layer with one static
// binary, which carries the root certificates and the UI itself. Equal input gives equal bytes.
package ociimage

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"time"

	"github.com/distribution/reference"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Binary is the operator's binary for one platform.
type Binary struct {
	Path     string
	Platform v1.Platform
}

// Image returns the image of a binary. The times in it are created; labels are added to those that every image has.
func Image(binary Binary, created time.Time, labels map[string]string) (v1.Image, error) {
	content, err := layer(binary.Path, created)
	if err != nil {
		return nil, err
	}
	added, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(content)), nil
	}, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, fmt.Errorf("make the layer: %w", err)
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	if image, err = mutate.AppendLayers(image, added); err != nil {
		return nil, fmt.Errorf("add the layer: %w", err)
	}
	file, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Variant = binary.Platform.OS, binary.Platform.Architecture, binary.Platform.Variant
	file.Created = v1.Time{Time: created.UTC()}
	file.Config = v1.Config{
		Entrypoint: []string{"/scanner-operator"}, Cmd: []string{"manager"}, User: "65532:65532", WorkingDir: "/",
		Labels: map[string]string{
			"org.opencontainers.image.title":    "scanner-operator",
			"org.opencontainers.image.licenses": "Apache-2.0",
		},
	}
	maps.Copy(file.Config.Labels, labels)
	return mutate.ConfigFile(image, file)
}

// layer is a tar with the binary.
func layer(binary string, created time.Time) ([]byte, error) {
	content, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	header := &tar.Header{
		Typeflag: tar.TypeReg, Name: "scanner-operator", Mode: 0o755, Size: int64(len(content)), ModTime: created.UTC(),
	}
	if err := w.WriteHeader(header); err != nil {
		return nil, err
	}
	if _, err := w.Write(content); err != nil {
		return nil, err
	}
	return buf.Bytes(), w.Close()
}

// Annotations are the names that containerd and other tools give an image on import.
func Annotations(name string) (map[string]string, error) {
	// Kubernetes looks for the name with the registry and the tag.
	full, err := reference.ParseDockerRef(name)
	if err != nil {
		return nil, fmt.Errorf("parse the name of the image: %w", err)
	}
	return map[string]string{
		"io.containerd.image.name":          full.String(),
		"org.opencontainers.image.ref.name": name,
	}, nil
}

// WriteArchive writes the index as the index.json of an OCI archive and returns the archive's size.
func WriteArchive(index v1.ImageIndex, output string) (_ int64, err error) {
	dir, err := os.MkdirTemp("", "scanner-operator-layout-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if _, err := layout.Write(dir, index); err != nil {
		return 0, fmt.Errorf("write the OCI layout: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(output), 0o755); err != nil {
		return 0, err
	}
	return archive(dir, output)
}

// archive writes the folder as a tar and returns its size.
func archive(dir, output string) (_ int64, err error) {
	file, err := os.Create(output)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	w := tar.NewWriter(file)
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		header := &tar.Header{Typeflag: tar.TypeReg, Name: filepath.ToSlash(name), Mode: 0o644, Size: int64(len(content)), ModTime: time.Unix(0, 0).UTC()}
		if err := w.WriteHeader(header); err != nil {
			return err
		}
		_, err = w.Write(content)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("write the archive: %w", err)
	}
	if err := w.Close(); err != nil {
		return 0, fmt.Errorf("write the archive: %w", err)
	}
	info, err := file.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}
