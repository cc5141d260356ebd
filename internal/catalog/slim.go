package catalog

import (
	"github.com/anchore/syft/syft/artifact"
	"github.com/anchore/syft/syft/file"
	"github.com/anchore/syft/syft/pkg"
	"github.com/anchore/syft/syft/sbom"
	"github.com/anchore/syft/syft/source"
)

// slim drops from an SBOM what matching does not read, and what may hold secrets (the image's configuration, with its
// environment). Measured on 719 packages: 17.3 MB become 1.2 MB. Package IDs stay.
func slim(bom *sbom.SBOM) {
	hasAPK := len(bom.Artifacts.Packages.Sorted(pkg.ApkPkg)) > 0
	packages := make([]pkg.Package, 0, bom.Artifacts.Packages.PackageCount())
	kept := make(map[artifact.ID]bool, cap(packages))
	for _, p := range bom.Artifacts.Packages.Sorted() {
		// Grype rebuilds missing overlaps from the files of apk packages and the locations of all others.
		if !hasAPK {
			p.Locations = primaryLocation(p.Locations)
		}
		p.Metadata = withoutOwnedFiles(p.Metadata)
		packages = append(packages, p)
		kept[p.ID()] = true
	}
	bom.Artifacts = sbom.Artifacts{Packages: pkg.NewCollection(packages...), LinuxDistribution: bom.Artifacts.LinuxDistribution}

	var relationships []artifact.Relationship
	for _, r := range bom.Relationships {
		retained := r.Type == artifact.OwnershipByFileOverlapRelationship || r.Type == artifact.ContainsRelationship
		if retained && r.From != nil && r.To != nil && kept[r.From.ID()] && kept[r.To.ID()] {
			// The list of overlapping files is for people.
			relationships = append(relationships, artifact.Relationship{From: r.From, To: r.To, Type: r.Type})
		}
	}
	bom.Relationships = relationships

	if metadata, ok := bom.Source.Metadata.(source.ImageMetadata); ok {
		metadata.RawConfig, metadata.RawManifest, metadata.Labels = nil, nil, nil
		bom.Source.Metadata = metadata
	}
}

// primaryLocation keeps the first location that is the evidence for the package.
func primaryLocation(locations file.LocationSet) file.LocationSet {
	all := locations.ToSlice()
	for _, l := range all {
		if l.Annotations[pkg.EvidenceAnnotationKey] == pkg.PrimaryEvidenceAnnotation {
			return file.NewLocationSet(l)
		}
	}
	if len(all) > 1 {
		all = all[:1]
	}
	return file.NewLocationSet(all...)
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
