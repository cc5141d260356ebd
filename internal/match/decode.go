package match

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/anchore/grype/grype/distro"
	"github.com/anchore/grype/grype/pkg"
	"github.com/anchore/syft/syft/format/syftjson"
	"github.com/anchore/syft/syft/sbom"
	"github.com/anchore/syft/syft/source"

	"github.com/scanner-operator/scanner-operator/internal/catalog"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/truncate"
)

// maxCataloger bounds the name of a cataloger in bytes, and maxNames the references of an image.
const (
	maxCataloger = 100
	maxNames     = 100
)

// SBOM is a decoded software bill of materials, ready to be matched. It is immutable and may be used by several
// goroutines at once.
type SBOM struct {
	catalog model.Catalog
	names   model.ImageNames
}

// Decode reads an SBOM in Syft's JSON format. The input is not trusted: what exceeds lim is refused with an error
// that wraps ErrLimit, what is no syft-json with one that wraps ErrFormat.
//
// imports are those of all databases that the packages will be matched with ([Database.Imports]). Nil leaves symbol tables out; if there are
// any, the Symbols of the catalog say so, and the SBOM has to be decoded again before it is matched.
func Decode(r io.Reader, lim DecodeLimits, imports *Imports) (s *SBOM, err error) {
	lim = lim.withDefaults()
	data, err := readBounded(r, lim.Bytes)
	if err != nil {
		return nil, err
	}
	if err := checkBounds(data, lim); err != nil {
		return nil, err
	}
	// The parsers behind this line were written for documents of friends: odd distribution versions, for one, make
	// them panic.
	defer func() {
		if p := recover(); p != nil {
			s, err = nil, fmt.Errorf("%w: the parser of the SBOM panicked: %v", ErrFormat, p)
		}
	}()
	if id, version := syftjson.NewFormatDecoder().Identify(bytes.NewReader(data)); id != syftjson.ID || version == "" {
		return nil, fmt.Errorf("%w: it is not valid JSON in the format of Syft (syft-json)", ErrFormat)
	}
	return provide(data, lim, imports)
}

// provide leaves the choice of packages, of their distribution and of those that are left out to Grype itself.
func provide(data []byte, lim DecodeLimits, imports *Imports) (*SBOM, error) {
	config := pkg.ProviderConfig{SynthesisConfig: pkg.SynthesisConfig{
		Distro: pkg.DistroConfig{FixChannels: distro.DefaultFixChannels()},
	}}
	kept, context, document, err := pkg.ProvideFromReader(bytes.NewReader(data), config)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	if n := document.Artifacts.Packages.PackageCount(); n > lim.Packages {
		return nil, fmt.Errorf("%w: it has %d packages, more than %d", ErrLimit, n, lim.Packages)
	}
	builder := newCatalogBuilder(len(kept))
	if err := addKept(builder, kept, imports, lim.ContextBytes); err != nil {
		return nil, err
	}
	ids := make(map[pkg.ID]struct{}, len(kept))
	for i := range kept {
		ids[kept[i].ID] = struct{}{}
	}
	for _, p := range pkg.FromCollection(document.Artifacts.Packages, document.Relationships, config.SynthesisConfig) {
		if _, ok := ids[p.ID]; ok {
			continue
		}
		if p.Distro == nil {
			p.Distro = context.Distro
		}
		if err := builder.add(p, &unit{projection: project(p, imports)}, true); err != nil {
			return nil, err
		}
	}
	s := &SBOM{}
	s.catalog = builder.catalog()
	s.catalog.Distro = distroName(context.Distro)
	s.catalog.Size = imageSize(document)
	s.catalog.Created = imageCreated(document)
	s.catalog.Repository = imageRepository(document)
	s.catalog.Layers, s.catalog.Base = imageLayers(document)
	s.catalog.LayerSizes = layerSizes(document, len(s.catalog.Layers))
	s.catalog.AttestedBy = attestedBy(document)
	s.catalog.Cataloger = truncate.Text(strings.TrimSpace(document.Descriptor.Name+" "+document.Descriptor.Version), maxCataloger)
	s.catalog.Symbols = symbolsOf(kept, imports)
	s.names = imageNames(document)
	return s, nil
}

// addKept adds the packages that take part in matching.
func addKept(builder *catalogBuilder, kept []pkg.Package, imports *Imports, contextBytes int) error {
	around, err := newContexts(kept, imports, contextBytes)
	if err != nil {
		return err
	}
	for i := range kept {
		u, err := around.unit(i)
		if err != nil {
			return err
		}
		if err := builder.add(&kept[i], u, false); err != nil {
			return err
		}
	}
	return nil
}

// symbolsOf says what became of the symbol tables of packages.
func symbolsOf(packages []pkg.Package, imports *Imports) model.Symbols {
	for i := range packages {
		if m, ok := packages[i].Metadata.(pkg.GolangBinMetadata); !ok || len(m.Symbols) == 0 {
			continue
		}
		if imports == nil {
			return model.SymbolsLeftOut
		}
		return model.SymbolsRead
	}
	return model.SymbolsNone
}

// Catalog says what the image holds: every package once, those left out of matching included. The caller must not
// change it.
func (s *SBOM) Catalog() model.Catalog { return s.catalog }

// ImageNames says how documents identify the image. The caller must not change it.
func (s *SBOM) ImageNames() model.ImageNames { return s.names }

func imageNames(document *sbom.SBOM) model.ImageNames {
	var names model.ImageNames
	if image, ok := document.Source.Metadata.(source.ImageMetadata); ok {
		names.References = slices.Concat(image.RepoDigests[:min(maxNames, len(image.RepoDigests))], image.Tags[:min(maxNames, len(image.Tags))])
		if image.ManifestDigest != "" {
			names.Digests = []string{image.ManifestDigest}
		}
		names.Architecture = image.Architecture
	}
	if release := document.Artifacts.LinuxDistribution; release != nil {
		names.CPE = release.CPEName
	}
	return names
}

func distroName(d *distro.Distro) string {
	if d == nil {
		return ""
	}
	name := d.ID()
	if name == "" {
		name = d.Name()
	}
	if version := d.VersionString(); version != "" {
		name += ":" + version
	}
	return name
}

func imageSize(document *sbom.SBOM) int64 {
	if image, ok := document.Source.Metadata.(source.ImageMetadata); ok && image.Size > 0 {
		return image.Size
	}
	return 0
}

// imageCreated returns the time that the configuration of the image states.
func imageCreated(document *sbom.SBOM) time.Time {
	var config struct {
		Created time.Time `json:"created"`
	}
	if image, ok := document.Source.Metadata.(source.ImageMetadata); ok {
		if err := json.Unmarshal(image.RawConfig, &config); err != nil {
			return time.Time{} // It has none, or one that states no time.
		}
	}
	return config.Created
}

// imageLayers returns the diff IDs of the layers of the image, the lowest first, and the base image that it states. A tree of files is read as one layer
// without a diff ID.
func imageLayers(document *sbom.SBOM) (layers []string, base model.StatedBase) {
	image, ok := document.Source.Metadata.(source.ImageMetadata)
	if !ok {
		return nil, base
	}
	base = model.StatedBase{Name: image.Labels[model.AnnotationBaseName], Digest: image.Labels[model.AnnotationBaseDigest]}
	if len(image.Layers) > model.MaxLayers {
		return nil, base
	}
	for _, layer := range image.Layers {
		if layer.Digest == "" {
			return nil, base
		}
		layers = append(layers, layer.Digest)
	}
	return layers, base
}

// layerSizes returns the sizes of a number of layers as the manifest states them. A manifest with another number of layers, or with a negative size, is not that of
// the image.
func layerSizes(document *sbom.SBOM, layers int) []int64 {
	var manifest struct {
		Layers []struct {
			Size int64 `json:"size"`
		} `json:"layers"`
	}
	image, ok := document.Source.Metadata.(source.ImageMetadata)
	if !ok || json.Unmarshal(image.RawManifest, &manifest) != nil || len(manifest.Layers) != layers {
		return nil
	}
	var sizes []int64
	for _, layer := range manifest.Layers {
		if layer.Size < 0 {
			return nil
		}
		sizes = append(sizes, layer.Size)
	}
	return sizes
}

// imageRepository returns the first repository in which the image was.
func imageRepository(document *sbom.SBOM) string {
	if image, ok := document.Source.Metadata.(source.ImageMetadata); ok && len(image.RepoDigests) > 0 {
		return model.RepositoryOf(image.RepoDigests[0])
	}
	return ""
}

// attestedBy returns the ID of the key that verified a document in a registry.
func attestedBy(document *sbom.SBOM) string {
	configuration, _ := document.Descriptor.Configuration.(map[string]any)
	key, _ := configuration[catalog.AttestedBy].(string)
	return truncate.Text(key, maxCataloger)
}
