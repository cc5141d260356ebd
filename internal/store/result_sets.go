package store

import (
	"context"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

// ResultSet is one complete set of answers: what one database build says about every package. One result set is
// current: all that the store shows comes from it. The next one is prepared beside it, invisibly, and takes its place in one
// transaction. Only what differs is written; what stays the same is shared by both.
type ResultSet struct {
	// Number grows by one with every result set that is started; numbers are not used twice.
	Number int64
	Build  model.DatabaseBuild
	// Engine names what matched; another engine may answer differently from the same database.
	Engine string
	// PreviousBuild is the ID of the build of the result set that was current when this one started, "" for the first.
	PreviousBuild string
	// Full says that every package is matched again, not only those that the difference of the databases can touch.
	Full  bool
	State ResultSetState
	// StartedAt is when it was started, CurrentSince when it became current: zero before.
	StartedAt, CurrentSince time.Time
	// Queued is how many packages were to be matched, Matched how many of them have been.
	Queued, Matched int
	Changes         ChangeCounts
}

// ResultSetState is how far a result set has come.
type ResultSetState string

// The states.
const (
	// ResultSetPreparing: it is not known yet which packages have to be matched.
	ResultSetPreparing ResultSetState = "Preparing"
	// ResultSetMatching: the packages in the queue are being matched.
	ResultSetMatching ResultSetState = "Matching"
	ResultSetCurrent  ResultSetState = "Current"
	// ResultSetPast: it was current.
	ResultSetPast ResultSetState = "Past"
)

// ChangeCounts sums up what a result set changed. A finding of a package counts once, however many images hold the package.
type ChangeCounts struct {
	Opened  int `json:"opened"`
	Closed  int `json:"closed"`
	Changed int `json:"changed"`
	// Images is the number of images that the changes reach.
	Images int `json:"images"`
	// OpenedCritical counts opened findings of severity Critical, NewKEV findings that were opened as known to be exploited or
	// became it.
	OpenedCritical int `json:"openedCritical"`
	NewKEV         int `json:"newKev"`
}

// StoredPackage is a distinct package with its number in the store.
type StoredPackage struct {
	ID int64
	model.Package
}

// AnsweredPackage is a package that the current result set has an answer for.
type AnsweredPackage struct {
	ID         int64
	SearchKeys []model.SearchKey
	// Failed says that the answer is a failure to match.
	Failed bool
}

// StoredVulnerability is a vulnerability that some finding names, with its number in the store.
type StoredVulnerability struct {
	ID int64
	model.Vulnerability
}

// ResultSets is the part of the store that keeps what vulnerability databases say of packages. One process at a time
// writes through it. Numbers of result sets that are neither current nor next are refused with ErrNotFound.
type ResultSets interface {
	// CurrentResultSet returns the result set that is visible, false when there is none yet.
	CurrentResultSet(ctx context.Context) (ResultSet, bool, error)
	// NextResultSet returns the result set that is being prepared, false when there is none.
	NextResultSet(ctx context.Context) (ResultSet, bool, error)
	// StartResultSet begins a result set. The first one of all is current at once: there is no answer to keep meanwhile.
	// An unfinished next result set is thrown away. What it wrote is removed in short transactions, so it may be called
	// again after it failed.
	StartResultSet(ctx context.Context, build model.DatabaseBuild, engine string, full bool) (ResultSet, error)

	// AnsweredPackages returns up to limit packages with an answer under the current result set, by ID, behind after.
	AnsweredPackages(ctx context.Context, after int64, limit int) ([]AnsweredPackage, error)
	// QueuePackages says that these packages (at most MaxKeys) have to be matched for the next result set. Naming one twice is
	// harmless.
	QueuePackages(ctx context.Context, resultSet int64, ids []int64) error
	// StartMatching makes a ResultSetPreparing one ResultSetMatching: all packages that were answered are queued, as far as
	// they have to be.
	StartMatching(ctx context.Context, resultSet int64) error
	// QueuedPackages returns up to limit packages of the queue of the next result set.
	QueuedPackages(ctx context.Context, resultSet int64, limit int) ([]StoredPackage, error)

	// WaitingImages returns up to limit images that have an SBOM and no complete answer under the current result set, by key,
	// behind after (zero: from the start), without those of UnreadSymbols. Those that FinishImage noted a failure of are not waiting until no package of them
	// has a failure for an answer any more.
	WaitingImages(ctx context.Context, after model.ImageKey, limit int) ([]model.ImageKey, error)
	// UnansweredPackages returns the packages of an image that take part in matching and have no answer under the current
	// result set, and the digest of the SBOM that they are from.
	UnansweredPackages(ctx context.Context, key model.ImageKey) (sbomDigest string, packages []StoredPackage, err error)
	// SaveAnswers keeps answers by package ID. Under the current result set they are visible at once, and the packages are
	// queued for the next result set, if there is one; under the next result set they replace, when it becomes current, what
	// the current one says, and leave its queue. An answer that equals the visible one writes nothing but that. A Failure under the
	// next result set keeps the visible findings. Packages that are gone are passed over.
	SaveAnswers(ctx context.Context, resultSet int64, answers map[int64]model.PackageAnswer) error
	// FailedPackages returns up to limit packages that images hold and that have a failure for an answer under the current result set, by
	// ID, behind after.
	FailedPackages(ctx context.Context, after int64, limit int) ([]StoredPackage, error)
	// RecoveredImages returns up to limit scanned images with model.ReasonMatchFailed of which no package has a failure for an answer under
	// the current result set any more, by key, behind after. FinishImage removes the reason.
	RecoveredImages(ctx context.Context, after model.ImageKey, limit int) ([]model.ImageKey, error)
	// FinishImage counts the findings of an image and makes it StateScanned. When one of its packages has a failure for an
	// answer, it notes model.ReasonMatchFailed with that failure and leaves the state. ErrNotFound: its SBOM is another one by
	// now, or it is gone, or packages have no answer.
	FinishImage(ctx context.Context, key model.ImageKey, sbomDigest string) error

	// Vulnerabilities returns up to limit vulnerabilities, by ID, behind after.
	Vulnerabilities(ctx context.Context, after int64, limit int) ([]StoredVulnerability, error)
	// StageScores keeps the EPSS, KEV, CWEs and Risk that vulnerabilities have from when the result set becomes current.
	// Other fields are not read. Vulnerabilities that are gone are passed over.
	StageScores(ctx context.Context, resultSet int64, vulnerabilities []StoredVulnerability) error
	// Switch makes the next result set current, in one transaction with the counts of all images, the scores and the events
	// that tell of it. It must be ResultSetMatching with an empty queue.
	Switch(ctx context.Context, resultSet int64) (ResultSet, error)

	// StorePackages records packages that no image holds yet, and returns those of them that take part in matching and have no
	// answer under the current result set. With it and ReplaceCatalog an SBOM can be read anew without a gap.
	StorePackages(ctx context.Context, packages []model.HeldPackage) ([]StoredPackage, error)
	// ReplaceCatalog replaces what an image holds by another reading of the same SBOM. The counts of an image that is StateScanned
	// are made anew, and findings of packages of the same type, name and version keep since when they are known. ErrNotFound: its SBOM is another one by now, or packages have no answer though the image is scanned.
	ReplaceCatalog(ctx context.Context, key model.ImageKey, sbomDigest string, catalog model.Catalog) error
	// OutdatedCatalogs returns up to limit images whose SBOM was read with another stamp (model.Catalog) than this, by key, behind after;
	// with unmatched, only those that were never matched.
	OutdatedCatalogs(ctx context.Context, stamp int, unmatched bool, after model.ImageKey, limit int) ([]model.ImageKey, error)
	// RecatalogedImages returns up to limit images behind after that hold the packages of the SBOM that SaveSBOM replaced, by key.
	RecatalogedImages(ctx context.Context, after model.ImageKey, limit int) ([]model.ImageKey, error)

	// RefreshFixes computes again what Reader.ListFixes orders by, and what findings of images count in some places only: a process of a version that does not
	// know of these may have changed findings. It works in short transactions.
	RefreshFixes(ctx context.Context) error

	// UnreadSymbols returns up to limit images whose SBOM has to be read again with its symbol tables (model.SymbolsLeftOut), by key, behind
	// after; with unmatched, only those that were never matched.
	UnreadSymbols(ctx context.Context, unmatched bool, after model.ImageKey, limit int) ([]model.ImageKey, error)
	// RereadSymbols makes images with symbol tables that hold packages of these names, in lower case, those of UnreadSymbols.
	RereadSymbols(ctx context.Context, modules []string) error
	// SkipSymbols says that the SBOM of an image cannot be read with its symbol tables, so that it is matched without. ErrNotFound: its
	// SBOM is another one by now.
	SkipSymbols(ctx context.Context, key model.ImageKey, sbomDigest string) error

	// Prune removes what nothing needs any more: findings that closed before the given time and changes from before it, packages
	// that no image holds and no change is about, past result sets without any; rollouts from before that time, presences that ended
	// before it, unless the same container runs the image again, and sums of days that no TrendQuery from today can reach; reports from
	// outside that were uploaded before it, of images that nothing runs and no scope keeps; size classes of repositories without an image,
	// what RecordChange keeps of objects that it was not called for since, and shared databases that were not completed within an hour. It works in short transactions.
	Prune(ctx context.Context, before time.Time) error
	// PruneDecisions deletes the decisions that ended before the given time: of exceptions, and of VEX documents those with Full. The last one of an object
	// stays while the object is not known to be gone: the last SyncDecisions of its source since the store was opened was given it, or there was none. It works in short transactions.
	PruneDecisions(ctx context.Context, before time.Time) error
}

// ChangeKind says what became of a finding.
type ChangeKind string

// The kinds.
const (
	ChangeOpened ChangeKind = "opened"
	ChangeClosed ChangeKind = "closed"
	// ChangeChanged: the finding stays, but what Change.Reasons name is another.
	ChangeChanged ChangeKind = "changed"
)

// ChangeReason says what changed about a finding that stays.
type ChangeReason string

// The reasons.
const (
	ReasonSeverity ChangeReason = "severity"
	ReasonFix      ChangeReason = "fix"
	// ReasonEPSS: the probability of exploitation crossed EPSSThreshold, upwards or downwards.
	ReasonEPSS ChangeReason = "epss"
	// ReasonKEV: it was added to the catalog of known exploited vulnerabilities, or taken out.
	ReasonKEV ChangeReason = "kev"
)

// EPSSThreshold is the probability of exploitation within 30 days from which on a vulnerability is worth a notice.
const EPSSThreshold = 0.1

// Change is one difference between a result set and the one before: of one vulnerability in one package.
type Change struct {
	ID        int64
	ResultSet int64
	// Build and PreviousBuild are the IDs of the database builds that differ. At is when the later one became current.
	Build, PreviousBuild string
	At                   time.Time
	Kind                 ChangeKind
	Reasons              []ChangeReason
	Package              model.Package
	VulnerabilityID      string
	Namespace            string
	// Before is nil for what was opened, After for what was closed.
	Before, After *ChangeSide
	// Images is the number of images that hold the package now, on all platforms; ImageIDs names the MaxReach of them that are
	// known longest, Workloads the first MaxReach by name that run any of them.
	Images    int
	ImageIDs  []string
	Workloads []Workload
}

// MaxReach bounds the images and the workloads that a Change names.
const MaxReach = 20

// ChangeSide is what is said of a finding on one side of a change.
type ChangeSide struct {
	Severity    model.Severity `json:"severity"`
	FixState    model.FixState `json:"fixState"`
	FixVersions []string       `json:"fixVersions,omitempty"`
	EPSS        float64        `json:"epss"`
	KEV         bool           `json:"kev"`
}

// ChangeQuery asks for a page of changes. Zero fields do not filter.
type ChangeQuery struct {
	// Build is the ID of the later database build.
	Build string
	// ResultSet is the number of one result set.
	ResultSet int64
	Kinds     []ChangeKind
	// MinSeverity keeps changes with this severity or worse on one of their sides.
	MinSeverity model.Severity
	// KEV keeps changes of vulnerabilities that are known to be exploited afterwards, closed findings of them too.
	KEV bool
	// ImageID keeps changes that reach this image, Scope those that reach an image with a use in this scope (Uses).
	ImageID string
	Scope   string
	// Text must be contained in the vulnerability ID or the package name, without regard to ASCII case.
	Text string
	Page
}

// ChangePage is a page of changes.
type ChangePage struct {
	Changes   []Change
	NextToken string
	Total     int
}

// Workload is what runs an image: the controller of its pods, or a pod that has none.
type Workload struct {
	Namespace string `json:"namespace"`
	Kind      string `json:"kind"`
	Name      string `json:"name"`
	// Owner is who is responsible for it, "" if that is not known. Of a workload that runs no more it is the last owner.
	Owner string `json:"owner,omitempty" gorm:"-"`
}

// Use says that a container of a workload runs an image.
type Use struct {
	Image     model.ImageKey
	Workload  Workload
	Container string
}

// MaxUses bounds the uses of one scope.
const MaxUses = 250000

// Uses is the part of the store about where images run.
type Uses interface {
	// RecordUses replaces what is known to run in a scope, such as that of one Scanner, and the owners of the workloads. Images that are not
	// known are passed over. When nothing differs it only reads. No uses at all forget the scope. More than MaxUses are an error.
	RecordUses(ctx context.Context, scope string, uses []Use) error
	// AddUses is RecordUses for uses besides those that are known to run in the scope.
	AddUses(ctx context.Context, scope string, uses []Use) error
}

// Events about findings that a database update changed. Data of the first three is a FindingEvent; each result set writes at most
// MaxFindingEvents of them, worst first, opened before closed before changed. EventDatabaseUpdated tells all counts, and how many were
// left out. What a new image brings is told by EventImageMatched, in counts.
const (
	EventFindingOpened  EventKind = "finding.opened"
	EventFindingClosed  EventKind = "finding.closed"
	EventFindingChanged EventKind = "finding.changed"
)

// DatabaseEvent is the data of EventDatabaseUpdated: a result set became current.
type DatabaseEvent struct {
	model.DatabaseBuild
	PreviousBuild string       `json:"previousBuild"`
	Changes       ChangeCounts `json:"changes"`
	// Omitted is how many of the changes have no event of their own.
	Omitted int `json:"omitted"`
}

// MaxFindingEvents bounds the events about single findings that one result set writes.
const MaxFindingEvents = 1000

// FindingEvent is the data of an event about one finding.
type FindingEvent struct {
	Build           string         `json:"build"`
	PreviousBuild   string         `json:"previousBuild"`
	Package         string         `json:"package"`
	Version         string         `json:"version"`
	Type            string         `json:"type"`
	VulnerabilityID string         `json:"vulnerabilityId"`
	Namespace       string         `json:"namespace"`
	Severity        model.Severity `json:"severity"`
	KEV             bool           `json:"kev"`
	Reasons         []ChangeReason `json:"reasons,omitempty"`
	Images          int            `json:"images"`
	// Owners are those of the workloads that run the images, by name, at most MaxImageOwners.
	Owners []string `json:"owners,omitempty"`
}
