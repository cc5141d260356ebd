package store

import (
	"github.com/scanner-operator/scanner-operator/internal/model"
)

// MaxListedBases bounds the entries of the list of base images.
const MaxListedBases = 100

// BaseSource is how a base image was recognized.
type BaseSource string

// The sources.
const (
	// BaseListed: an entry of the list of base images matches an image that has these layers and no others.
	BaseListed BaseSource = "listed"
	// BaseShared: another image has these layers, too.
	BaseShared BaseSource = "shared"
)

// Base is the base image of an image: the most of its layers, from the lowest one, that a visible image of the list of base images has, and that image has no
// other layers. If there is none, it is the most layers that another visible image has, too. That image has no other layers, or the last part of its
// repository is another one: versions of an application share layers that are no base. Images that have all layers of the image do not count.
type Base struct {
	// Layers is how many layers of the image are those of the base, ChainID what they are identified by (model.ChainIDs). Layers is 0 if no other visible
	// image shares layers with the image.
	Layers  int
	ChainID string
	// Source is how the base was recognized, "" if Layers is 0.
	Source BaseSource
	// Image is a visible image that has these layers only, the one that was created first, and of the list of base images if the base is listed; zero if there
	// is none.
	Image model.ImageKey
	// Stated is what the image states. It may be another image than Image.
	Stated model.StatedBase
}

// BaseSort orders base images; ties are broken by chain ID.
type BaseSort string

// The orders.
const (
	SortBaseImages   BaseSort = "-images"
	SortBaseSeverity BaseSort = "-severity"
)

// BaseQuery asks for a page of base images. Zero fields do not filter.
type BaseQuery struct {
	// Where chooses the images that count.
	Where
	Sort BaseSort
	Page
}

// BaseSummary is the Base of an image, and all images that have its layers and others on them.
type BaseSummary struct {
	Layers  int
	ChainID string
	Source  BaseSource
	// Image is as in Base.
	Image model.ImageKey
	// Matched says whether Image was matched, and ImageCounts counts its findings.
	Matched     bool
	ImageCounts Counts
	// StatedName is what all images on the base that state a name state; "" if there is no such name.
	StatedName string
	// Images counts the images on the base, Scanned those that were matched; Counts are the findings of these.
	Images, Scanned int
	Counts          Counts
	// Workloads counts the workloads that run images on the base, as WorkloadQuery.Base keeps them.
	Workloads int
}

// BasePage is a page of base images.
type BasePage struct {
	Bases     []BaseSummary
	NextToken string
	Total     int
	// Listed are the entries of the list of base images, as the administrator wrote them; in some namespaces only, those that match a visible image.
	Listed []ListedBase
}

// ListedBase is an entry of the list of base images.
type ListedBase struct {
	// Pattern is as of decision.ParseImagePattern.
	Pattern string
	// Images counts the visible images that it matches and whose layers are known.
	Images int
}
