package store

import (
	"github.com/scanner-operator/scanner-operator/internal/model"
)

// FixKind is what a person can do about findings of an image.
type FixKind string

// The kinds.
const (
	// FixUpdate: update a package of the application, which the image gets from its own build.
	FixUpdate FixKind = "update"
	// FixRebuild: rebuild the image, which then gets the fixed packages of its distribution.
	FixRebuild FixKind = "rebuild"
	// FixNewerTag: let containers run a newer tag of the image, which a lookup of TagLookups recommends.
	FixNewerTag FixKind = "newerTag"
	// FixNewerBase: rebuild the image on a newer tag of the image that it was built on, which a lookup of TagLookups recommends for that one.
	FixNewerBase FixKind = "newerBase"
	// FixWait: there is no fix yet.
	FixWait FixKind = "wait"
)

// Bounds of what is said of a fix.
const (
	// MaxFixPackages is the most packages that a fix names, those with the highest risk.
	MaxFixPackages = 10
	// MaxFixVulnerabilities is the most vulnerabilities that an update names, and the most findings that a newer tag opens which are named, the worst ones.
	MaxFixVulnerabilities = 10
)

// FixQuery asks for a page of fixes of images that run, those that remove the most risk first and those of FixWait last. Zero fields do not filter.
type FixQuery struct {
	// Where chooses workloads. Findings count, and are overdue, if they are in one of these.
	Where
	// ImageID keeps those of an image, on all platforms, even if nothing runs it.
	ImageID string
	Kind    FixKind
	// KEV keeps those with a finding that is known to be exploited, Overdue those with a finding whose date has passed.
	KEV, Overdue bool
	Page
}

// Fix is what a person can do about an image: an update of one package, or about all findings of one kind, or a newer tag. Findings that decisions suppress are not
// counted. A newer tag, of the image or of its base, closes findings that other fixes close, too.
type Fix struct {
	Kind  FixKind
	Image model.ImageKey
	// Counts are the findings that it closes, or with FixWait those that remain. Counts.Fixable is 0 or all of them, but with FixNewerTag and FixNewerBase.
	Counts Counts
	// Overdue is the number of those whose date has passed.
	Overdue int
	// Risk is the sum of the risk of these findings.
	Risk float64
	// Packages are those with the findings, at most MaxFixPackages, the highest risk first; PackageCount counts all. An update has one.
	Packages     []FixPackage
	PackageCount int
	// Workloads names the first MaxReach by name that run the image, of those that the query chooses; WorkloadCount counts them all.
	Workloads     []Workload
	WorkloadCount int
	// Owners are those of all these workloads, by name, at most MaxImageOwners.
	Owners []string
	// NewerTag is that of FixNewerTag, or that of the base with FixNewerBase, and otherwise nil.
	NewerTag *FixTag
	// Base is the image that the image was built on, with FixNewerBase: the one with the most layers of those that run with a newer tag, where that is visible.
	// Of its newer tags, NewerTag is the one that removes the most risk from the image.
	Base model.ImageKey
}

// FixTag is a newer tag that is recommended for an image: it opens no finding that is High, Critical or known to be exploited, and closes more than it opens.
// Which one that is does not depend on decisions. Of a lookup without a tag that closes more than it opens of what counts, there is no fix.
type FixTag struct {
	// Lookup is the ID of the lookup. Each scope has its own, so that two fixes can say the same.
	Lookup string
	// Repository and From are what containers name the image, in the namespaces that see the lookup; the workloads of the fix are in these.
	Repository, From string
	// Tag, Kind and Digest are those of the NewerTag.
	Tag, Kind, Digest string
	// Opened counts what the tag opens in the image that has it, and OpenedFindings are the worst of that, at most MaxFixVulnerabilities.
	Opened         model.SeverityCounts
	OpenedFindings []RolloutFinding
}

// FixPackage is a package of a fix.
type FixPackage struct {
	Package model.Package
	Counts  Counts
	Risk    float64
	// Versions has the fixed versions of each of its fixable findings, each list once.
	Versions [][]string
	// Vulnerabilities are the IDs of those that an update closes, at most MaxFixVulnerabilities, the worst first.
	Vulnerabilities []string
}

// FixPage is a page of fixes.
type FixPage struct {
	Fixes     []Fix
	NextToken string
	Total     int
}
