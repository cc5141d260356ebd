package main

import (
	"errors"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/scanner-operator/scanner-operator/hack/image/ociimage"
)

// indexedImage is the image index of a release.
type indexedImage struct {
	// Repository is the image's name without a tag, Archive the path of the OCI archive.
	Repository, Archive string
	Digest              v1.Hash
	Platforms           []v1.Platform
	// Manifests are the digests of the platforms' images, in the order of Platforms.
	Manifests []v1.Hash
}

func imageArchive(dir, version string) string {
	return filepath.Join(dir, "scanner-operator_"+version+"_image.tar")
}

// writeImage writes an OCI archive that holds one image index with the images for Linux. The index is what is pushed
// to a registry, so its digest is known before.
func writeImage(src *source, name string, binaries []ociimage.Binary, dir string) (*indexedImage, error) {
	result := &indexedImage{Repository: name, Archive: imageArchive(dir, src.Version)}
	index := v1.ImageIndex(empty.Index)
	for _, binary := range binaries {
		if binary.Platform.OS != "linux" {
			continue
		}
		image, err := ociimage.Image(binary, src.Time, map[string]string{
			"org.opencontainers.image.version": src.Version, "org.opencontainers.image.revision": src.Commit,
			"org.opencontainers.image.source": repository,
		})
		if err != nil {
			return nil, err
		}
		digest, err := image.Digest()
		if err != nil {
			return nil, err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: &binary.Platform}})
		result.Platforms, result.Manifests = append(result.Platforms, binary.Platform), append(result.Manifests, digest)
	}
	if len(result.Platforms) == 0 {
		return nil, errors.New("the image needs a platform of Linux")
	}
	index = mutate.IndexMediaType(index, types.OCIImageIndex)
	var err error
	if result.Digest, err = index.Digest(); err != nil {
		return nil, err
	}
	annotations, err := ociimage.Annotations(name + ":" + src.Version)
	if err != nil {
		return nil, err
	}
	archived := mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: index, Descriptor: v1.Descriptor{Annotations: annotations}})
	_, err = ociimage.WriteArchive(archived, result.Archive)
	return result, err
}
