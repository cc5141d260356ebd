package sbomgen

import (
	"bytes"
	"fmt"

	"github.com/anchore/syft/syft/artifact"
	"github.com/anchore/syft/syft/format/syftjson"
	"github.com/anchore/syft/syft/linux"
	syftpkg "github.com/anchore/syft/syft/pkg"
	"github.com/anchore/syft/syft/sbom"
	"github.com/anchore/syft/syft/source"
)

// Document is the content of an SBOM.
type Document struct {
	Name     string
	Release  *linux.Release
	Packages []syftpkg.Package
	// Owners are pairs of indexes into Packages: the files of the second package belong to the first one too.
	Owners [][2]int
}

// Without is the document without one of its packages, to find out which of them a difference needs.
func (d Document) Without(index int) Document {
	out := Document{Name: d.Name, Release: d.Release}
	out.Packages = append(append(out.Packages, d.Packages[:index]...), d.Packages[index+1:]...)
	moved := func(i int) int {
		if i > index {
			return i - 1
		}
		return i
	}
	for _, pair := range d.Owners {
		if pair[0] != index && pair[1] != index {
			out.Owners = append(out.Owners, [2]int{moved(pair[0]), moved(pair[1])})
		}
	}
	return out
}

// Encode writes the document as Syft's JSON.
func (d Document) Encode() ([]byte, error) {
	content := sbom.SBOM{
		Artifacts: sbom.Artifacts{Packages: syftpkg.NewCollection(d.Packages...), LinuxDistribution: d.Release},
		Source: source.Description{ID: d.Name, Name: d.Name, Metadata: source.ImageMetadata{
			UserInput: d.Name, ManifestDigest: layer(0), Size: 4711,
		}},
		Descriptor: sbom.Descriptor{Name: "syft", Version: "generated"},
	}
	for _, pair := range d.Owners {
		content.Relationships = append(content.Relationships, artifact.Relationship{
			From: d.Packages[pair[0]], To: d.Packages[pair[1]], Type: artifact.OwnershipByFileOverlapRelationship,
		})
	}
	var out bytes.Buffer
	if err := syftjson.NewFormatEncoder().Encode(&out, content); err != nil {
		return nil, fmt.Errorf("write the SBOM %s: %w", d.Name, err)
	}
	return out.Bytes(), nil
}
