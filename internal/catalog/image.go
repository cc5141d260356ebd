package catalog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/anchore/stereoscope/pkg/file"
	"github.com/anchore/stereoscope/pkg/image"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// errNotKept answers for what a fetched image no longer has: its compressed form.
var errNotKept = errors.New("a fetched image keeps its decompressed layers only")

// read reads the fetched layers in a folder.
func (r *resolved) read(folder string) (*image.Image, error) {
	metadata := []image.AdditionalMetadata{image.WithRepoDigests(r.repoDigests...), image.WithTags(r.tags...)}
	if r.rawManifest != nil {
		metadata = append(metadata, image.WithManifest(r.rawManifest))
	}
	metadata = append(metadata, func(i *image.Image) error {
		p := r.platform()
		i.Metadata.OS, i.Metadata.Architecture, i.Metadata.Variant = p.OS, p.Architecture, p.Variant
		return nil
	})
	img := image.New(fetchedImage{r, folder}, file.NewTempDirGenerator("stereoscope"), folder, metadata...)
	if err := img.Read(); err != nil {
		_ = img.Cleanup()
		return nil, fmt.Errorf("read the image's layers: %w", err)
	}
	return img, nil
}

// fetchedImage is an image whose verified layers lie decompressed in a folder. It is what Stereoscope reads.
type fetchedImage struct {
	resolved *resolved
	folder   string
}

var _ v1.Image = fetchedImage{}

func (i fetchedImage) Layers() ([]v1.Layer, error) {
	layers := make([]v1.Layer, len(i.resolved.layers))
	for n, l := range i.resolved.layers {
		layers[n] = fetchedLayer{layer: l, file: filepath.Join(i.folder, l.diffID.String())}
	}
	return layers, nil
}

func (i fetchedImage) MediaType() (types.MediaType, error) { return i.resolved.mediaType, nil }
func (i fetchedImage) ConfigName() (v1.Hash, error)        { return i.resolved.configDigest, nil }
func (i fetchedImage) RawConfigFile() ([]byte, error)      { return bytes.Clone(i.resolved.rawConfig), nil }
func (i fetchedImage) ConfigFile() (*v1.ConfigFile, error) { return i.resolved.config.DeepCopy(), nil }
func (i fetchedImage) Size() (int64, error)                { return 0, errNotKept }
func (i fetchedImage) Digest() (v1.Hash, error)            { return v1.NewHash(i.resolved.manifestDigest) }
func (i fetchedImage) Manifest() (*v1.Manifest, error)     { return nil, errNotKept }
func (i fetchedImage) RawManifest() ([]byte, error)        { return nil, errNotKept }

func (i fetchedImage) LayerByDigest(v1.Hash) (v1.Layer, error) { return nil, errNotKept }

func (i fetchedImage) LayerByDiffID(diffID v1.Hash) (v1.Layer, error) {
	for _, l := range i.resolved.layers {
		if l.diffID == diffID {
			return fetchedLayer{layer: l, file: filepath.Join(i.folder, diffID.String())}, nil
		}
	}
	return nil, os.ErrNotExist
}

type fetchedLayer struct {
	layer layer
	file  string
}

var _ v1.Layer = fetchedLayer{}

func (l fetchedLayer) DiffID() (v1.Hash, error)             { return l.layer.diffID, nil }
func (l fetchedLayer) Digest() (v1.Hash, error)             { return l.layer.descriptor.Digest, nil }
func (l fetchedLayer) Size() (int64, error)                 { return l.layer.descriptor.Size, nil }
func (l fetchedLayer) Compressed() (io.ReadCloser, error)   { return nil, errNotKept }
func (l fetchedLayer) Uncompressed() (io.ReadCloser, error) { return os.Open(l.file) }

// MediaType is that of the manifest; where that is none that Stereoscope knows, the content has proved to be a tar
// archive nevertheless.
func (l fetchedLayer) MediaType() (types.MediaType, error) {
	switch t := l.layer.descriptor.MediaType; t {
	case types.OCILayer, types.OCIUncompressedLayer, types.OCILayerZStd, types.DockerLayer, types.DockerUncompressedLayer:
		return t, nil
	}
	return types.OCIUncompressedLayer, nil
}
