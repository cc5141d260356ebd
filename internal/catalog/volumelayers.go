package catalog

import (
	"context"
	"fmt"
	"time"

	"github.com/anchore/syft/syft/sbom"
	"github.com/anchore/syft/syft/source"
	"github.com/google/go-containerregistry/pkg/name"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

const (
	// layersTimeout bounds asking for the layers of a root file system, retries included. The scan goes on without them.
	layersTimeout = 20 * time.Second
	// maxStatedBytes bounds the size that the manifest of a root file system states. No layer is fetched, so that it only keeps sums in range.
	maxStatedBytes = 1 << 50
)

// statedImage is what the registry states about an image whose files come from elsewhere: its manifest and its configuration.
type statedImage struct {
	// image is nil if the registry was not asked, or its answer cannot be used. unknown says why then.
	image   *resolved
	unknown string
}

// askLayers asks the registry of an image for its manifest and configuration while the caller reads the files. The returned function waits for the answer, and must be
// called.
func askLayers(ctx context.Context, request Request) (wait func() statedImage) {
	if !request.Registries.AskLayers {
		return func() statedImage {
			return statedImage{unknown: "the operator is not configured to ask registries for the layers of images that scans read from nodes (scans.imageVolumeLayers in the chart)"}
		}
	}
	answers := make(chan statedImage, 1)
	go func() { answers <- layersOf(ctx, request) }()
	return func() statedImage { return <-answers }
}

// layersOf asks with the mirrors, proxy and credentials with which an image is pulled, for the digest of the image only: a tag may name another image by now.
func layersOf(ctx context.Context, request Request) statedImage {
	ctx, cancel := context.WithTimeoutCause(ctx, layersTimeout, failf(model.ReasonDeadlineExceeded, "it took longer than %s", layersTimeout))
	defer cancel()
	img, err := manifestOf(ctx, request)
	if err != nil {
		failure := typed(ctx, err, model.ReasonRegistryUnavailable)
		return statedImage{unknown: quoteText(whyUnknown(failure.Reason)+failure.Err.Error(), model.MaxLayersUnknown)}
	}
	img.close()
	return statedImage{image: img}
}

// manifestOf resolves the digest of an image without its layers.
func manifestOf(ctx context.Context, request Request) (*resolved, error) {
	reference, err := parseReference(request.Image)
	if err != nil {
		return nil, err
	}
	digest, ok := reference.(name.Digest)
	if !ok {
		return nil, failf(model.ReasonNotPullable, "%s has no digest, and the registry may have another image under this name", request.Image)
	}
	limits := request.Limits.orDefaults()
	limits.ImageBytes = maxStatedBytes
	return fromMirrors(ctx, request, digest.Context(), func(repository name.Repository) (*resolved, error) {
		return openAt(ctx, request, digest, repository, limits)
	})
}

// whyUnknown says in plain words what kept a registry from answering, to be followed by the details.
func whyUnknown(reason model.Reason) string {
	switch reason {
	case model.ReasonImagePullDenied:
		return "the registry requires credentials, which scans of image volumes do not have; with spec.job.source: Registry in the Scanner, scans pull the image with its pull secrets: "
	case model.ReasonImageNotFound:
		return "the registry does not have the image: "
	case model.ReasonRegistryRateLimited:
		return "the registry limits how often it is asked; scan the image again later: "
	case model.ReasonRegistryUnavailable, model.ReasonDeadlineExceeded:
		return "the registry could not be asked: "
	default: // The details say what is wrong with the answer.
		return ""
	}
}

// describe adds what the registry states to an SBOM, as if the image had been pulled. The locations of packages stay without a layer.
func (s statedImage) describe(bom *sbom.SBOM) error {
	if s.image == nil {
		return nil
	}
	metadata, ok := bom.Source.Metadata.(source.ImageMetadata)
	if !ok {
		return fmt.Errorf("describe the image in the SBOM: its source is a %T", bom.Source.Metadata)
	}
	metadata.ID, metadata.MediaType = s.image.configDigest.String(), string(s.image.mediaType)
	metadata.ManifestDigest, metadata.RawManifest = s.image.manifestDigest, s.image.rawManifest
	metadata.RawConfig, metadata.Labels = s.image.rawConfig, s.image.config.Config.Labels
	metadata.Layers = make([]source.LayerMetadata, len(s.image.layers))
	for i := range s.image.layers {
		layer := &s.image.layers[i]
		// Its size without compression is not known.
		metadata.Layers[i] = source.LayerMetadata{MediaType: string(layer.descriptor.MediaType), Digest: layer.diffID.String()}
	}
	bom.Source.Metadata = metadata
	return nil
}
