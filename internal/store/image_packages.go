package store

import "github.com/scanner-operator/scanner-operator/internal/model"

// UnknownLayer is the number of the layer of packages in no layer that is known: the image was read from an image volume, which has no layers even if those of
// the image are known, or comes from a report.
const UnknownLayer = 0

// ImagePackageQuery asks for packages of one image. Zero fields do not filter.
type ImagePackageQuery struct {
	Image model.ImageKey
	// Text must be contained in the name of the package, without regard to ASCII case.
	Text string
	// MinSeverity keeps packages with an open finding of at least this severity, Vulnerable those with any.
	MinSeverity model.Severity
	Vulnerable  bool
	// Origin keeps packages of the base image, or the others. In an image without a known base, no package has an origin; nor in one that was read from an image
	// volume, if no image is known that has only the layers of the base.
	Origin model.Origin
	// Layer keeps the packages of the layer with this number, which can be UnknownLayer; nil keeps those of all. ImageLayers does not read it, nor Page.
	Layer *int
	Page
}

// ImagePackage is a package in an image, without its MatchInput.
type ImagePackage struct {
	model.HeldPackage
	// Layer is the number of the lowest layer that has a file of the package, from 1, or UnknownLayer.
	Layer int
	// Path is the location of the package that most packages of the image have in common, such as the database of the distribution, of several the first one in
	// Layer; "" if it has none.
	Path   string
	Origin model.Origin
	// Counts are the open findings in the package, all 0 if it is excluded.
	Counts Counts
}

// ImagePackagePage is a page of packages, by layer, the lowest first and UnknownLayer last, then by path, name, version and fingerprint.
type ImagePackagePage struct {
	Packages  []ImagePackage
	NextToken string
	Total     int
}

// ImageLayer is a layer of an image.
type ImageLayer struct {
	// Number counts layers from the lowest, 1, or is UnknownLayer, which comes last and only if there are such packages.
	Number int
	// DiffID is that of the layer, "" for UnknownLayer.
	DiffID string
	// Size is that of the layer as it is transferred, in bytes; nil if it is not known.
	Size *int64
	// Origin is that of the layer, not of each package in it; "" for UnknownLayer, and if the image has no known base.
	Origin model.Origin
	// Packages counts the packages of the layer that the query keeps, Counts their open findings.
	Packages int
	Counts   Counts
}
