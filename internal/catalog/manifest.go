package catalog

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"runtime"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

const (
	// maxManifestBytes bounds a manifest or index, as registries themselves do; maxConfigBytes the configuration.
	maxManifestBytes = 4 << 20
	maxConfigBytes   = 8 << 20
	// maxLayers and maxIndexEntries bound lists, maxIndexDepth an index within an index.
	maxLayers       = 512
	maxIndexEntries = 1000
	maxIndexDepth   = 3
)

// acceptedManifests is what is asked for.
var acceptedManifests = strings.Join([]string{
	string(types.OCIManifestSchema1), string(types.DockerManifestSchema2),
	string(types.OCIImageIndex), string(types.DockerManifestList),
}, ", ")

// blobSource opens content by its digest, wherever it is kept. What it returns is not verified.
type blobSource interface {
	// manifest and config read no more than maxManifestBytes and maxConfigBytes.
	manifest(ctx context.Context, digest v1.Hash) ([]byte, error)
	config(ctx context.Context, descriptor v1.Descriptor) ([]byte, error)
	blob(ctx context.Context, descriptor v1.Descriptor) (io.ReadCloser, error)
}

// layer is one layer whose content has not been trusted yet.
type layer struct {
	descriptor v1.Descriptor
	diffID     v1.Hash
	// open reads the content from its start. It is not verified.
	open func(context.Context) (io.ReadCloser, error)
}

// resolved is an image whose manifest and configuration were read and checked.
type resolved struct {
	manifestDigest string
	repoDigests    []string
	tags           []string
	mediaType      types.MediaType
	// rawManifest is nil for a Docker archive, which has no manifest of its own.
	rawManifest  []byte
	rawConfig    []byte
	configDigest v1.Hash
	config       *v1.ConfigFile
	layers       []layer
	// registry is where the image is pulled from, nil for a local one.
	registry *registryClient
	// attested is the SBOM that is used instead of layers, nil for none.
	attested *attestedSBOM
	// release gives up what the source holds; may be nil.
	release func()
}

func (r *resolved) close() {
	if r.release != nil {
		r.release()
	}
}

func (r *resolved) bytes() int64 {
	total := int64(len(r.rawConfig))
	for _, l := range r.layers {
		total += max(0, l.descriptor.Size)
	}
	return total
}

func (r *resolved) platform() model.Platform {
	return model.Platform{OS: r.config.OS, Architecture: r.config.Architecture, Variant: r.config.Variant}
}

// resolveManifest follows a manifest that was already verified down to one image of the platform.
func resolveManifest(ctx context.Context, source blobSource, raw []byte, mediaType types.MediaType, platform model.Platform, limits Limits) (*resolved, error) {
	explicit := platform != (model.Platform{})
	for depth := 0; ; depth++ {
		if depth > maxIndexDepth {
			return nil, failf(model.ReasonNotPullable, "an index is nested deeper than the limit of %d", maxIndexDepth)
		}
		kind, err := manifestKind(raw, mediaType)
		if err != nil {
			return nil, err
		}
		if !kind.IsIndex() {
			return resolveImage(ctx, source, raw, kind, platform, explicit, limits)
		}
		if !explicit {
			platform = model.Platform{OS: "linux", Architecture: runtime.GOARCH}
		}
		index, err := v1.ParseIndexManifest(bytes.NewReader(raw))
		if err != nil {
			return nil, failf(model.ReasonNotPullable, "the index cannot be read: %w", err)
		}
		child, err := pickChild(index.Manifests, platform)
		if err != nil {
			return nil, err
		}
		if raw, err = source.manifest(ctx, child.Digest); err != nil {
			return nil, err
		}
		if err := verify(raw, child.Digest, "manifest"); err != nil {
			return nil, err
		}
		mediaType = child.MediaType
		if child.Platform != nil && !mediaType.IsIndex() {
			// The index decided; many images do not repeat their variant.
			platform.Variant = ""
		}
	}
}

// manifestKind decides what a manifest is: by its content, then by what its reference said.
func manifestKind(raw []byte, stated types.MediaType) (types.MediaType, error) {
	// Both forms share enough for a first look.
	manifest, err := v1.ParseManifest(bytes.NewReader(raw))
	if err != nil {
		return "", failf(model.ReasonNotPullable, "the manifest cannot be read: %w", err)
	}
	kind := manifest.MediaType
	if kind == "" {
		kind = stated
	}
	index, err := v1.ParseIndexManifest(bytes.NewReader(raw))
	isIndex := err == nil && len(index.Manifests) > 0
	switch {
	case manifest.SchemaVersion == 1:
		return "", failf(model.ReasonNotPullable, "the manifest has schema version 1, which is not supported; push the image again with a current tool")
	case kind.IsIndex() && isIndex, kind.IsImage() && !isIndex:
		return kind, nil
	case kind.IsIndex():
		return "", failf(model.ReasonNotPullable, "the index contains no image")
	case kind == "" && isIndex:
		return types.OCIImageIndex, nil
	case kind == "" && manifest.Config.Digest != (v1.Hash{}):
		return types.OCIManifestSchema1, nil
	}
	return "", failf(model.ReasonNotPullable, "the manifest has the type %q, which is not an image", quoteText(string(kind), 100))
}

func resolveImage(ctx context.Context, source blobSource, raw []byte, kind types.MediaType, platform model.Platform, explicit bool, limits Limits) (*resolved, error) {
	manifest, err := v1.ParseManifest(bytes.NewReader(raw))
	if err != nil {
		return nil, failf(model.ReasonNotPullable, "the manifest cannot be read: %w", err)
	}
	if err := checkManifest(manifest, limits); err != nil {
		return nil, err
	}
	config, rawConfig, err := readConfig(ctx, source, manifest.Config)
	if err != nil {
		return nil, err
	}
	digest, _, err := v1.SHA256(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	result := &resolved{
		manifestDigest: digest.String(), mediaType: kind, rawManifest: raw,
		config: config, rawConfig: rawConfig, configDigest: manifest.Config.Digest,
	}
	layers := make([]layer, len(manifest.Layers))
	for i, d := range manifest.Layers {
		layers[i] = layer{descriptor: d, open: func(ctx context.Context) (io.ReadCloser, error) { return source.blob(ctx, d) }}
	}
	return result, result.setLayers(layers, platform, explicit)
}

// setLayers joins the layers with their diff IDs and checks the platform.
func (r *resolved) setLayers(layers []layer, platform model.Platform, explicit bool) error {
	diffIDs := r.config.RootFS.DiffIDs
	if len(diffIDs) != len(layers) {
		return failf(model.ReasonCatalogFailed, "the image's configuration lists %d layers, its manifest %d", len(diffIDs), len(layers))
	}
	for i := range layers {
		if diffIDs[i].Algorithm != "sha256" {
			return failf(model.ReasonCatalogFailed, "the diff ID of layer %d has the algorithm %q; only sha256 is supported", i+1, diffIDs[i].Algorithm)
		}
		layers[i].diffID = diffIDs[i]
	}
	r.layers = layers
	got := r.platform()
	if explicit && got.OS != "" && got.Architecture != "" && !suits(got, platform) {
		return failf(model.ReasonPlatformMismatch, "the image is built for %s, not for %s", got, platform)
	}
	return nil
}

func checkManifest(manifest *v1.Manifest, limits Limits) error {
	if t := string(manifest.Config.MediaType); t != "" && t != string(types.OCIConfigJSON) && t != string(types.DockerConfigJSON) {
		return failf(model.ReasonNotPullable, "it is an artifact of type %q, not an image", quoteText(t, 100))
	}
	if len(manifest.Layers) > maxLayers {
		return failf(model.ReasonImageTooLarge, "the image has %d layers, more than the limit of %d", len(manifest.Layers), maxLayers)
	}
	total := manifest.Config.Size
	for i, d := range manifest.Layers {
		if len(d.URLs) > 0 || d.MediaType == types.DockerForeignLayer ||
			d.MediaType == types.OCIRestrictedLayer || d.MediaType == types.OCIUncompressedRestrictedLayer {
			return failf(model.ReasonNotPullable, "layer %d is a foreign layer, which is stored outside the registry; foreign layers are not supported", i+1)
		}
		if d.Size < 0 {
			return failf(model.ReasonCatalogFailed, "layer %d has the invalid size of %d bytes", i+1, d.Size)
		}
		// Compared one by one, so that the sum cannot overflow.
		if total += d.Size; d.Size > limits.ImageBytes || total > limits.ImageBytes {
			return failf(model.ReasonImageTooLarge, "the compressed size of the image is at least %d bytes, more than the limit of %d",
				max(total, d.Size), limits.ImageBytes)
		}
	}
	return nil
}

func readConfig(ctx context.Context, source blobSource, descriptor v1.Descriptor) (*v1.ConfigFile, []byte, error) {
	if descriptor.Size < 0 || descriptor.Size > maxConfigBytes {
		return nil, nil, failf(model.ReasonImageTooLarge, "the image's configuration has %d bytes, more than the limit of %d", descriptor.Size, maxConfigBytes)
	}
	if len(descriptor.URLs) > 0 {
		return nil, nil, failf(model.ReasonNotPullable, "the image's configuration is stored outside the registry, which is not supported")
	}
	raw, err := source.config(ctx, descriptor)
	if err != nil {
		failure := typed(ctx, err, model.ReasonNotPullable)
		return nil, nil, &Error{Reason: failure.Reason, Err: fmt.Errorf("read the image's configuration: %w", failure.Err)}
	}
	if err := verify(raw, descriptor.Digest, "configuration"); err != nil {
		return nil, nil, err
	}
	config, err := v1.ParseConfigFile(bytes.NewReader(raw))
	if err != nil {
		return nil, nil, failf(model.ReasonCatalogFailed, "the image's configuration cannot be read: %w", err)
	}
	return config, raw, nil
}

// verify compares content with the digest that names it.
func verify(content []byte, want v1.Hash, what string) error {
	hasher, err := v1.Hasher(want.Algorithm)
	if err != nil {
		return failf(model.ReasonNotPullable, "the digest of the %s has the algorithm %q, which is not supported", what, quoteText(want.Algorithm, 40))
	}
	_, _ = hasher.Write(content)
	if got := fmt.Sprintf("%x", hasher.Sum(nil)); got != want.Hex {
		return failf(model.ReasonCatalogFailed, "the %s has the digest %s:%s instead of %s; it was modified in transit or in the registry", what, want.Algorithm, got, want)
	}
	return nil
}

// pickChild finds the image of a platform in an index: the exact variant, else the best that the platform can run.
func pickChild(children []v1.Descriptor, platform model.Platform) (v1.Descriptor, error) {
	if len(children) > maxIndexEntries {
		return v1.Descriptor{}, failf(model.ReasonNotPullable, "the index contains %d images, more than the limit of %d", len(children), maxIndexEntries)
	}
	var best *v1.Descriptor
	var offered []string
	for i := range children {
		child := &children[i]
		if !child.MediaType.IsImage() && !child.MediaType.IsIndex() {
			continue
		}
		if child.Platform == nil {
			// An index of an index, or of a layout, may leave the platform to the image.
			if len(children) == 1 {
				return *child, nil
			}
			continue
		}
		got := model.Platform{OS: child.Platform.OS, Architecture: child.Platform.Architecture, Variant: child.Platform.Variant}
		offered = append(offered, got.String())
		if suits(got, platform) && (best == nil || better(got, fromV1(best.Platform), platform)) {
			best = child
		}
	}
	if best == nil {
		return v1.Descriptor{}, failf(model.ReasonPlatformMismatch, "the index contains no image for %s, only for: %s",
			platform, quoteText(strings.Join(offered, ", "), maxQuotedBytes))
	}
	return *best, nil
}

func fromV1(p *v1.Platform) model.Platform {
	return model.Platform{OS: p.OS, Architecture: p.Architecture, Variant: p.Variant}
}

// suits reports whether an image built for got runs on want. A wanted variant that is not given admits all; otherwise
// an older variant of the same architecture runs as well.
func suits(got, want model.Platform) bool {
	if got.OS != want.OS || got.Architecture != want.Architecture {
		return false
	}
	return want.Variant == "" || variantOf(got) <= variantOf(want)
}

// better reports whether a is to be preferred to b: the default variant where none is wanted, then the highest.
func better(a, b, want model.Platform) bool {
	if want.Variant == "" {
		standard := variantOf(want)
		if isA, isB := variantOf(a) == standard, variantOf(b) == standard; isA != isB {
			return isA
		}
	}
	return variantOf(a) > variantOf(b)
}

// variantOf gives variants an order, with the defaults that runtimes take: v7 for arm, v8 for arm64, v1 for amd64.
func variantOf(p model.Platform) string {
	if p.Variant != "" {
		return p.Variant
	}
	return map[string]string{"arm": "v7", "arm64": "v8", "amd64": "v1"}[p.Architecture]
}
