package main

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// pushImage pushes the image index of the release in dir, with the version as its tag and the credentials of docker's
// configuration, and prints the reference by digest.
func pushImage(ctx context.Context, dir, image string) (err error) {
	version := filepath.Base(filepath.Clean(dir))
	tag, err := name.NewTag(image + ":" + version)
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "scanner-operator-push-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	if err := extract(imageArchive(dir, version), work); err != nil {
		return err
	}
	index, err := archivedIndex(work)
	if err != nil {
		return fmt.Errorf("read the image index: %w", err)
	}
	if err := remote.WriteIndex(tag, index, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
		return fmt.Errorf("push %s: %w", tag, err)
	}
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	fmt.Println(tag.Context().Digest(digest.String()))
	return nil
}

// archivedIndex returns the one image index of an OCI layout that writeImage made.
func archivedIndex(dir string) (v1.ImageIndex, error) {
	outer, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return nil, err
	}
	manifest, err := outer.IndexManifest()
	if err != nil {
		return nil, err
	}
	if len(manifest.Manifests) != 1 {
		return nil, fmt.Errorf("the archive holds %d images, not one", len(manifest.Manifests))
	}
	return outer.ImageIndex(manifest.Manifests[0].Digest)
}

// extract unpacks a tar into an existing folder, and refuses names that lead out of it.
func extract(archive, dir string) error {
	file, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	for r := tar.NewReader(file); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", archive, err)
		}
		if err := root.MkdirAll(filepath.Dir(header.Name), 0o755); err != nil {
			return err
		}
		target, err := root.Create(header.Name)
		if err != nil {
			return err
		}
		_, err = io.Copy(target, r)
		if err := errors.Join(err, target.Close()); err != nil {
			return err
		}
	}
}
