package store

import (
	"context"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/vuln"
)

// Generation is one complete set of answers: what one database build says about every package. One generation is
// current: all that the store shows comes from it. The next one is prepared beside it, invisibly, and takes its place in one
// transaction. Only what differs is written; what stays the same is shared by both.
type Generation struct {
	// Number grows by one with every generation that is started; numbers are not used twice.
	Number int64
	Build  vuln.DatabaseBuild
	// Engine names what matched; another engine may answer differently from the same database.
	Engine string
	// PreviousBuild is the ID of the build of the generation that was current when this one started, "" for the first.
	PreviousBuild string
	// Full says that every package is matched again, not only those that the difference of the databases can touch.
	Full  bool
	State GenerationState
	// StartedAt is when it was started, CurrentSince when it became current: zero before.
	StartedAt, CurrentSince time.Time
	// Queued is how many packages were to be matched, Matched how many of them have been.
	Queued, Matched int
	Changes         ChangeCounts
}

// GenerationState is how far a generation has come.
type GenerationState string

// The states.
const (
	// GenerationPreparing: it is not known yet which packages have to be matched.
	GenerationPreparing GenerationState = "Preparing"
	// GenerationMatching: the packages in the queue are being matched.
	GenerationMatching GenerationState = "Matching"
	GenerationCurrent  GenerationState = "Current"
	// GenerationPast: it was current.
	GenerationPast GenerationState = "Past"
)

// ChangeCounts sums up what a generation changed. A finding of a package counts once, however many images hold the package.
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
	vuln.Package
}

// AnsweredPackage is a package that the current generation has an answer for.
type AnsweredPackage struct {
	ID         int64
	SearchKeys []vuln.SearchKey
	// Failed says that the answer is a failure to match.
	Failed bool
}

// StoredVulnerability is a vulnerability that some finding names, with its number in the store.
type StoredVulnerability struct {
	ID int64
	vuln.Vulnerability
}

// Generations is the part of the store that keeps what vulnerability databases say of packages. One process at a time
// writes through it. Numbers of generations that are neither current nor next are refused with ErrNotFound.
type Generations interface {
	// CurrentGeneration returns the generation that is visible, false when there is none yet.
	CurrentGeneration(ctx context.Context) (Generation, bool, error)
	// NextGeneration returns the generation that is being prepared, false when there is none.
	NextGeneration(ctx context.Context) (Generation, bool, error)
	// ListGenerations returns up to limit generations that are known, newest first.
	ListGenerations(ctx context.Context, limit int) ([]Generation, error)
	// StartGeneration begins a generation. The first one of all is current at once: there is no answer to keep meanwhile.
	// An unfinished next generation is thrown away. What it wrote is removed in short transactions, so it may be called
	// again after it failed.
	StartGeneration(ctx context.Context, build vuln.DatabaseBuild, engine string, full bool) (Generation, error)

	// AnsweredPackages returns up to limit packages with an answer under the current generation, by ID, behind after.
	AnsweredPackages(ctx context.Context, after int64, limit int) ([]AnsweredPackage, error)
	// QueuePackages says that these packages (at most MaxKeys) have to be matched for the next generation. Naming one twice is
	// harmless.
	QueuePackages(ctx context.Context, generation int64, ids []int64) error
	// StartMatching makes a GenerationPreparing one GenerationMatching: all packages that were answered are queued, as far as
	// they have to be.
	StartMatching(ctx context.Context, generation int64) error
	// QueuedPackages returns up to limit packages of the queue of the next generation.
	QueuedPackages(ctx context.Context, generation int64, limit int) ([]StoredPackage, error)

	// WaitingImages returns up to limit images that have an SBOM and no complete answer under the current generation, by key,
	// behind after (zero: from the start). Those that FinishImage noted a failure of are not waiting until no package of them
	// has a failure for an answer any more.
	WaitingImages(ctx context.Context, after vuln.ImageKey, limit int) ([]vuln.ImageKey, error)
	// UnansweredPackages returns the packages of an image that take part in matching and have no answer under the current
	// generation, and the digest of the SBOM that they are from.
	UnansweredPackages(ctx context.Context, key vuln.ImageKey) (sbomDigest string, packages []StoredPackage, err error)
	// SaveAnswers keeps answers by package ID. Under the current generation they are visible at once, and the packages are
	// queued for the next generation, if there is one; under the next generation they replace, when it becomes current, what
	// the current one says, and leave its queue. An answer that equals the visible one writes nothing but that. A Failure under the
	// next generation keeps the visible findings. Packages that are gone are passed over.
	SaveAnswers(ctx context.Context, generation int64, answers map[int64]vuln.PackageAnswer) error
	// FinishImage counts the findings of an image and makes it StateScanned. When one of its packages has a failure for an
	// answer, it notes vuln.ReasonMatchFailed with that failure and leaves the state. ErrNotFound: its SBOM is another one by
	// now, or it is gone, or packages have no answer.
	FinishImage(ctx context.Context, key vuln.ImageKey, sbomDigest string) error

	// Vulnerabilities returns up to limit vulnerabilities, by ID, behind after.
	Vulnerabilities(ctx context.Context, after int64, limit int) ([]StoredVulnerability, error)
	// StageScores keeps the EPSS, KEV, CWEs and Risk that vulnerabilities have from when the generation becomes current.
	// Other fields are not read. Vulnerabilities that are gone are passed over.
	StageScores(ctx context.Context, generation int64, vulnerabilities []StoredVulnerability) error
	// Switch makes the next generation current, in one transaction with the counts of all images, the scores and the events
	// that tell of it. It must be GenerationMatching with an empty queue.
	Switch(ctx context.Context, generation int64) (Generation, error)
	// Changes returns a page of what generations changed in packages that some image held at the switch, newest generation first,
	// then worst first, opened before closed before changed.
	Changes(ctx context.Context, query ChangeQuery) (ChangePage, error)

	// StorePackages records packages that no image holds yet, and returns those of them that take part in matching and have no
	// answer under the current generation. With it and ReplaceCatalog an SBOM can be read anew without a gap.
	StorePackages(ctx context.Context, packages []vuln.HeldPackage) ([]StoredPackage, error)
	// ReplaceCatalog replaces what an image holds by another reading of the same SBOM. The counts of an image that is StateScanned
	// are made anew. ErrNotFound: its SBOM is another one by now, or packages have no answer though the image is scanned.
	ReplaceCatalog(ctx context.Context, key vuln.ImageKey, sbomDigest string, catalog vuln.Catalog) error
	// OutdatedCatalogs returns up to limit images whose SBOM was read by another projection than this, by key, behind after.
	OutdatedCatalogs(ctx context.Context, projection int, after vuln.ImageKey, limit int) ([]vuln.ImageKey, error)

	// Prune removes what nothing needs any more: findings that closed before the given time and changes from before it, packages
	// that no image holds and no change is about, past generations without any; rollouts from before that time, presences that ended
	// before it, unless the same container runs the image again, and sums of days that no TrendQuery from today can reach. It works in
	// short transactions.
	Prune(ctx context.Context, before time.Time) error
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
	// ReasonKEV: it was added to the catalogue of known exploited vulnerabilities, or taken out.
	ReasonKEV ChangeReason = "kev"
)

// EPSSThreshold is the probability of exploitation within 30 days from which on a vulnerability is worth a notice.
const EPSSThreshold = 0.1

// Change is one difference between a generation and the one before: of one vulnerability in one package.
type Change struct {
	ID         int64
	Generation int64
	// Build and PreviousBuild are the IDs of the database builds that differ. At is when the later one became current.
	Build, PreviousBuild string
	At                   time.Time
	Kind                 ChangeKind
	Reasons              []ChangeReason
	Package              vuln.Package
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
	Severity    vuln.Severity `json:"severity"`
	FixState    vuln.FixState `json:"fixState"`
	FixVersions []string      `json:"fixVersions,omitempty"`
	EPSS        float64       `json:"epss"`
	KEV         bool          `json:"kev"`
}

// ChangeQuery asks for a page of changes. Zero fields do not filter.
type ChangeQuery struct {
	// Build is the ID of the later database build.
	Build string
	// Generation is the number of one generation.
	Generation int64
	Kinds      []ChangeKind
	// MinSeverity keeps changes with this severity or worse on one of their sides.
	MinSeverity vuln.Severity
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
}

// Use says that a container of a workload runs an image.
type Use struct {
	Image     vuln.ImageKey
	Workload  Workload
	Container string
}

// MaxUses bounds the uses of one scope.
const MaxUses = 250000

// Uses is the part of the store about where images run.
type Uses interface {
	// RecordUses replaces what is known to run in a scope, such as that of one Scanner. Images that are not known are passed
	// over. When nothing differs it only reads. No uses at all forget the scope. More than MaxUses are an error.
	RecordUses(ctx context.Context, scope string, uses []Use) error
}

// Events about findings that a database update changed. Data of the first three is a FindingEvent; each generation writes at most
// MaxFindingEvents of them, worst first, opened before closed before changed. EventDatabaseUpdated tells all counts, and how many were
// left out. What a new image brings is told by EventImageMatched, in counts.
const (
	EventFindingOpened  EventKind = "finding.opened"
	EventFindingClosed  EventKind = "finding.closed"
	EventFindingChanged EventKind = "finding.changed"
)

// DatabaseEvent is the data of EventDatabaseUpdated: a generation became current.
type DatabaseEvent struct {
	vuln.DatabaseBuild
	PreviousBuild string       `json:"previousBuild"`
	Changes       ChangeCounts `json:"changes"`
	// Omitted is how many of the changes have no event of their own.
	Omitted int `json:"omitted"`
}

// MaxFindingEvents bounds the events about single findings that one generation writes.
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
	Severity        vuln.Severity  `json:"severity"`
	KEV             bool           `json:"kev"`
	Reasons         []ChangeReason `json:"reasons,omitempty"`
	Images          int            `json:"images"`
}
