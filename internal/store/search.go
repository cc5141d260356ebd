package store

import (
	"time"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

// SortFindingEPSS orders findings by the probability of exploitation, greatest first.
const SortFindingEPSS FindingSort = "-epss"

// Where chooses images by what runs them now; workloads that are counted or named are then those that it chooses. Zero fields do not
// filter.
type Where struct {
	Namespace string
	// Workload is the name of a workload, WorkloadKind its kind.
	Workload, WorkloadKind string
	Ownership
}

// Ownership chooses workloads by owner. Zero fields do not filter.
type Ownership struct {
	// Owner is the whole name of the owner, None chooses the workloads without an owner. Both together choose nothing.
	Owner string
	None  bool
}

// VulnerabilitySort orders vulnerabilities; ties are broken by ID.
type VulnerabilitySort string

// The orders.
const (
	SortVulnerabilityRisk     VulnerabilitySort = "-risk"
	SortVulnerabilitySeverity VulnerabilitySort = "-severity"
	SortVulnerabilityEPSS     VulnerabilitySort = "-epss"
	SortVulnerabilityID       VulnerabilitySort = "id"
)

// VulnerabilityQuery asks for a page of vulnerabilities. Zero fields do not filter.
type VulnerabilityQuery struct {
	Where
	// ID is the whole ID, not an alias, maybe written in another case.
	ID string
	// Text must be contained in the ID or an alias, without regard to ASCII case.
	Text        string
	MinSeverity model.Severity
	// MinEPSS keeps those with at least this probability of exploitation, from 0 to 1.
	MinEPSS float64
	// Fixable keeps those with a fixed version for some package that has them, KEV those known to be exploited.
	Fixable, KEV bool
	// Suppressed includes those whose findings decisions suppress; what has these findings counts, too.
	Suppressed bool
	// Overdue keeps those with an open finding whose date has passed where Where chooses, DueBefore those with one that is due before a time.
	Overdue   bool
	DueBefore time.Time
	// Owners asks for the owners of what runs them.
	Owners bool
	Sort   VulnerabilitySort
	Page
}

// VulnerabilitySummary is a vulnerability, whatever records of it there are, and what it reaches. Severity, EPSS and Risk are the
// worst of the records that findings name.
type VulnerabilitySummary struct {
	ID       string
	Severity model.Severity
	EPSS     float64
	Risk     float64
	KEV      bool
	// Fixable says that a fixed version is known for some package that has it.
	Fixable bool
	// Images counts images on all platforms, Workloads what runs them now, Packages the distinct packages that have it.
	Images, Workloads, Packages int
	// Owners are those of the Workloads, by name, at most MaxImageOwners; nil unless the query asks for them.
	Owners []string
	// FirstSeen is when it was first found in a package that some image holds.
	FirstSeen time.Time
}

// VulnerabilityPage is a page of vulnerabilities.
type VulnerabilityPage struct {
	Vulnerabilities []VulnerabilitySummary
	NextToken       string
	Total           int
}

// AffectedQuery asks for a page of the packages in images that have a vulnerability, by image ID, platform, package and version. What
// was closed since the image was first seen is listed while the image is known and holds the package, as far as history goes back.
type AffectedQuery struct {
	Where
	// ID or alias of the vulnerability, maybe written in another case.
	ID string
	// On, unless it is zero, asks for what ran at some time of that day of UTC and had the vulnerability then, as far as history
	// goes back, instead of what has it now. Where then means what ran that day.
	On time.Time
	// Closed asks for what had the vulnerability and has it no more, instead of what has it now. It excludes On.
	Closed bool
	// Suppressed includes what decisions suppress. With On or Closed it changes nothing: decisions do not apply to the past.
	Suppressed bool
	Page
}

// Affected is a package of an image with a vulnerability.
type Affected struct {
	Image           model.ImageKey
	Package         model.Package
	VulnerabilityID string
	Namespace       string
	Severity        model.Severity
	Fix             model.Fix
	// FirstSeen is when both were there first: the finding in the package, the package in the image. FixedAt is when the
	// finding was closed, zero while it is open.
	FirstSeen, FixedAt time.Time
	// Running says that something runs the image now. ExposedSince is when something that ran the image first did so with the
	// vulnerability, ExposedUntil when nothing did any more: zero while something does. Both are zero when nothing ever ran it.
	Running                    bool
	ExposedSince, ExposedUntil time.Time
	// Workloads names the first MaxReach by name that run the image, or ran it on the day that was asked for; WorkloadCount
	// counts them all.
	Workloads     []Workload
	WorkloadCount int
	// Owners are those of all these workloads, by name, at most MaxImageOwners.
	Owners []string
	// Suppressed and Decisions are those of model.Finding. They are not set with On or Closed.
	Suppressed bool
	Decisions  []model.Decision
	// Deadline is that of model.Finding. It is not set with On or Closed.
	Deadline *model.Deadline
}

// AffectedPage is a page of affected packages. Images and Workloads count over all pages.
type AffectedPage struct {
	Affected          []Affected
	NextToken         string
	Total             int
	Images, Workloads int
}

// PackageSort orders packages; ties are broken by type and fingerprint.
type PackageSort string

// The orders.
const (
	// SortPackageName is by name, then version bytewise.
	SortPackageName PackageSort = "name"
	// SortPackageSeverity is worst first: by critical, then high, then medium, then low findings, and then by fingerprint.
	SortPackageSeverity PackageSort = "-severity"
)

// Bounds of what PackageQuery.Version is asked about; more is a LimitError.
const (
	// MaxVersions bounds the distinct versions of one package.
	MaxVersions = 10000
	// MaxVersioned bounds the packages with a version that is accepted.
	MaxVersioned = MaxKeys
)

// LimitError says that a query asks for more than the store looks at, and how to ask for less.
type LimitError struct{ Detail string }

// Error is the detail.
func (e *LimitError) Error() string { return e.Detail }

// PackageQuery asks for a page of packages. Zero fields do not filter.
type PackageQuery struct {
	Where
	// Name is the whole name, with AnyCase without regard to ASCII case; Text must be contained in the name, without regard to ASCII case.
	Name, Text string
	AnyCase    bool
	Type       string
	// Version keeps packages whose version it accepts. It needs Name, and is called once for each distinct type and version.
	// VersionText stands for it in page tokens.
	Version     func(packageType, version string) bool
	VersionText string
	// ImageID keeps packages that this image holds.
	ImageID string
	// MinSeverity keeps packages with at least one finding of this severity or worse; Vulnerable those with any.
	MinSeverity model.Severity
	Vulnerable  bool
	// Overdue keeps packages with an open finding whose date has passed where Where chooses, DueBefore those with one that is due before a time.
	Overdue   bool
	DueBefore time.Time
	// Owners asks for the owners of what runs them.
	Owners bool
	Sort   PackageSort
	Page
}

// PackageSummary is a distinct package and where it is. Counts are zero when all images that hold it exclude it.
type PackageSummary struct {
	Package model.Package
	Counts  Counts
	// Images counts the images that hold it, on all platforms; ImageIDs names the MaxReach of them that are known longest. Workloads
	// counts what runs them now.
	Images    int
	ImageIDs  []string
	Workloads int
	// Owners are those of the Workloads, by name, at most MaxImageOwners; nil unless the query asks for them.
	Owners []string
}

// PackagePage is a page of packages.
type PackagePage struct {
	Packages  []PackageSummary
	NextToken string
	Total     int
}

// WorkloadSort orders workloads; ties are broken by namespace, kind and name.
type WorkloadSort string

// The orders.
const (
	SortWorkloadName     WorkloadSort = "name"
	SortWorkloadSeverity WorkloadSort = "-severity"
)

// WorkloadQuery asks for a page of workloads. Zero fields do not filter.
type WorkloadQuery struct {
	Where
	// Text must be contained in the name of the workload, without regard to ASCII case.
	Text string
	// MinSeverity keeps workloads with at least one finding of this severity or worse, KEV and Fixable those with such findings.
	MinSeverity  model.Severity
	KEV, Fixable bool
	// Overdue keeps workloads with at least one open finding whose date has passed there.
	Overdue bool
	// Base keeps workloads that run at least one image with the layers of this chain ID and others on them; "" does not filter. BaseLayers is as of ImageQuery.
	Base       string
	BaseLayers int
	Sort       WorkloadSort
	Page
}

// WorkloadSummary is a workload and what it runs. Counts are over its images, each once.
type WorkloadSummary struct {
	Workload Workload
	// Images are the images that it runs, by ID, at most MaxReach; ImageCount counts them all, Scanned those that were matched.
	Images              []model.ImageKey
	ImageCount, Scanned int
	Containers          int
	Counts              Counts
	// Overdue counts the open findings whose date has passed there, once in each image.
	Overdue int
	// Since is when it was first seen to run any of them.
	Since time.Time
}

// WorkloadPage is a page of workloads.
type WorkloadPage struct {
	Workloads []WorkloadSummary
	NextToken string
	Total     int
}
