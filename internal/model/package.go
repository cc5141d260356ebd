package model

import (
	"encoding/json"
	"time"
)

// Package is one distinct software package: everything that matching reads of it, and nothing that differs
// from image to image. To that belong those packages of an image that have a say about this one: owners of its files, and
// others of the same type, name and version. Two images that hold the same package in the same context hold the same
// Fingerprint.
type Package struct {
	// Fingerprint is the lower-case hexadecimal SHA-256 of all fields that matching reads. Equal fingerprints give
	// equal findings under one database build and one engine.
	Fingerprint string
	Name        string
	Version     string
	// Type is Syft's package type, such as "deb", "apk", "go-module", "npm", "python", "java-archive".
	Type     string
	Language string
	// PURL is the package URL (https://github.com/package-url/purl-spec).
	PURL string
	// Distro is "id:version" of the distribution that the matcher assigns to the package, "" when it has none.
	Distro   string
	Licenses []string
	CPEs     []string
	// MatchInput is all that the match package needs to rebuild the package. Opaque to everybody else.
	MatchInput json.RawMessage
}

// DistributionTypes are the types of packages that come from a distribution: an image gets fixed versions of them when it is built again.
func DistributionTypes() []string { return []string{"alpm", "apk", "deb", "portage", "rpm"} }

// Location is where a package was found in an image.
type Location struct {
	Path string `json:"path"`
	// Layer is the diff ID of the layer that holds the path.
	Layer string `json:"layer,omitempty"`
}

// HeldPackage is a package as one image holds it.
type HeldPackage struct {
	Package   Package
	Locations []Location
	// Excluded says that Grype leaves the package out of matching in this image, because a package of the
	// distribution owns its files.
	Excluded bool
}

// Catalog is what an SBOM says about an image.
type Catalog struct {
	Packages []HeldPackage
	// Distro is "id:version" of the image's distribution, "" when none was found.
	Distro string
	// Size is the size of the image's layers in bytes, 0 when not known.
	Size int64
	// Created is the time that the configuration of the image states, zero when the SBOM has none. See CreatedAt.
	Created time.Time
	// Cataloger is the program that wrote the SBOM, with its version, such as "syft v1.49.0"; "" when it does not say.
	Cataloger string
	// Repository is the one that the image was pulled from, as of RepositoryOf; "" when the SBOM does not say.
	Repository string
	// Layers are the diff IDs of the image's layers, the lowest first; none if they are not known.
	Layers []string
	// LayerSizes are the sizes of Layers as they are transferred, in bytes; none if they are not known.
	LayerSizes []int64
	// Base is the base image that the image states.
	Base StatedBase
	// AttestedBy is the ID of the key that verified an SBOM which was attested in a registry; "" for one that was generated.
	AttestedBy string
	// Stamp identifies what read the SBOM: the rules that made MatchInput and Fingerprint, and the versions of the libraries. An SBOM
	// with another stamp has to be read again.
	Stamp int
	// Symbols says what became of the symbol tables of Go binaries.
	Symbols Symbols
}

// Symbols says whether packages were read with the part of their symbol tables that advisories name. Its values are stored.
type Symbols int

// The values.
const (
	// SymbolsNone: no package has a symbol table.
	SymbolsNone Symbols = iota
	// SymbolsLeftOut: the SBOM has to be read again with the imports that advisories name before its packages are matched.
	SymbolsLeftOut
	// SymbolsRead: fingerprints contain the symbols that advisories named when the SBOM was read.
	SymbolsRead
)
