package catalog

import (
	"cmp"
	"encoding/json"
	"time"

	"github.com/anchore/syft/syft/artifact"
	"github.com/anchore/syft/syft/pkg"
	"github.com/anchore/syft/syft/sbom"
	"github.com/anchore/syft/syft/source"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

// slim drops from an SBOM what matching does not read, and what may hold secrets (the image's configuration, with its
// environment, except when the image was created; of the manifest all but the layers; and all labels and annotations but those that state the base image).
// Package IDs and locations stay.
func slim(bom *sbom.SBOM) {
	packages := make([]pkg.Package, 0, bom.Artifacts.Packages.PackageCount())
	kept := make(map[artifact.ID]bool, cap(packages))
	for _, p := range bom.Artifacts.Packages.Sorted() {
		p.Metadata = withoutOwnedFiles(p.Metadata)
		packages = append(packages, p)
		kept[p.ID()] = true
	}
	bom.Artifacts = sbom.Artifacts{Packages: pkg.NewCollection(packages...), LinuxDistribution: bom.Artifacts.LinuxDistribution}

	var relationships []artifact.Relationship
	for _, r := range bom.Relationships {
		retained := r.Type == artifact.OwnershipByFileOverlapRelationship || r.Type == artifact.ContainsRelationship
		if retained && r.From != nil && r.To != nil && kept[r.From.ID()] && kept[r.To.ID()] {
			// Matching does not read the list of overlapping files.
			relationships = append(relationships, artifact.Relationship{From: r.From, To: r.To, Type: r.Type})
		}
	}
	bom.Relationships = relationships

	if metadata, ok := bom.Source.Metadata.(source.ImageMetadata); ok {
		metadata.Labels, metadata.Annotations = statedBase(metadata), nil
		metadata.RawConfig, metadata.RawManifest = slimConfig(metadata.RawConfig), slimManifest(metadata.RawManifest)
		bom.Source.Metadata = metadata
	}
}

// slimConfig keeps of an image's configuration when the image was created. It returns nil for one that does not state that.
func slimConfig(raw []byte) []byte {
	var config struct {
		Created time.Time `json:"created"`
	}
	if err := json.Unmarshal(raw, &config); err != nil || config.Created.IsZero() {
		return nil
	}
	kept, err := json.Marshal(config)
	if err != nil {
		return nil // The year has more than four digits.
	}
	return kept
}

// slimManifest keeps of an image's manifest its layers, with their digests and sizes as they are transferred. It returns nil if it has none.
func slimManifest(raw []byte) []byte {
	type descriptor struct {
		Digest string `json:"digest"`
		Size   int64  `json:"size"`
	}
	var manifest struct {
		Layers []descriptor `json:"layers"`
	}
	if err := json.Unmarshal(raw, &manifest); err != nil || len(manifest.Layers) == 0 || len(manifest.Layers) > maxLayers {
		return nil
	}
	kept, err := json.Marshal(manifest)
	if err != nil {
		return nil
	}
	return kept
}

// statedBase returns, as labels, what an image states about its base image: in annotations of its manifest, where the specification has them, or in its labels.
func statedBase(metadata source.ImageMetadata) map[string]string {
	var manifest struct {
		Annotations map[string]string `json:"annotations"`
	}
	if err := json.Unmarshal(metadata.RawManifest, &manifest); err != nil {
		manifest.Annotations = nil // It has none, or values that are not text.
	}
	stated := map[string]string{}
	for _, key := range []string{model.AnnotationBaseName, model.AnnotationBaseDigest} {
		if value := cmp.Or(manifest.Annotations[key], metadata.Annotations[key], metadata.Labels[key]); value != "" && len(value) <= model.MaxStated {
			stated[key] = value
		}
	}
	if len(stated) == 0 {
		return nil
	}
	return stated
}

// withoutOwnedFiles drops the lists of files that packages own, but those of apk packages, which Grype reads.
func withoutOwnedFiles(metadata any) any {
	switch m := metadata.(type) {
	case pkg.DpkgDBEntry:
		m.Files = nil
		return m
	case pkg.DpkgArchiveEntry:
		m.Files = nil
		return m
	case pkg.RpmDBEntry:
		m.Files = nil
		return m
	case pkg.RpmArchive:
		m.Files = nil
		return m
	case pkg.AlpmDBEntry:
		m.Files = nil
		return m
	case pkg.PortageEntry:
		m.Files = nil
		return m
	case pkg.PythonPackage:
		m.Files = nil
		return m
	case pkg.CondaMetaPackage:
		m.Files = nil
		return m
	case pkg.RubyGemspec:
		m.Files = nil
		return m
	case pkg.NixStoreEntry:
		m.Files = nil
		return m
	case pkg.BitnamiSBOMEntry:
		m.Files = nil
		return m
	case pkg.JavaVMInstallation:
		m.Files = nil
		return m
	}
	return metadata
}
