// Package store keeps what the operator knows: images and their state, SBOMs, distinct packages, findings per
// database build, reports from outside, and the event log. This package is the interface, its words and its errors;
// sqlstore implements it and storetest is the suite that every implementation passes.
package store

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

// Errors that callers tell apart with errors.Is.
var (
	// ErrNotFound says that the thing asked for is not in the store.
	ErrNotFound = errors.New("not found")
	// ErrAttemptClosed says that a Job may deliver no SBOM: it is not known, its attempt has ended, or it has delivered another one.
	ErrAttemptClosed = errors.New("scan attempt closed")
	// ErrInvalidToken says that a page token was not made by this store for this query.
	ErrInvalidToken = errors.New("invalid page token")
	// ErrUnavailable says that the database cannot be reached or is too busy; trying again later can help.
	ErrUnavailable = errors.New("store unavailable")
	// ErrSchemaTooNew says that a newer version of the program has migrated the database.
	ErrSchemaTooNew = errors.New("database schema is newer than this program")
)

// Bounds that hold for every implementation.
const (
	// MaxPageSize is the most rows that a page holds; DefaultPageSize is used when none is asked for.
	MaxPageSize     = 1000
	DefaultPageSize = 100
	// MaxKeys is the most keys that one call takes.
	MaxKeys = 10000
)

// Store is safe for concurrent use. Every change and the events that tell of it are written in one transaction;
// when a method returns without error, both are durable.
type Store interface {
	Reader
	Images
	ResultSets
	Lifecycles
	Uses
	Events
	History
	Rollouts
	Introductions
	Coverage
	Scans
	ScanJobs
	TagLookups
	SharedDatabases
	Sessions
	RunningCounter
	Sizer
	Decisions
	DecisionCounter
	VEXDocuments
	Policies
	Notifications
	ReportSinks
	Reminders

	Close() error
}

// Images is the part of the store about images, their state and their SBOMs.
type Images interface {
	// WantImages records the images that are not known yet, as StatePending, and returns all of them. When all are known
	// it only reads. A key that model.ImageKey.Validate refuses is an error, and nothing is recorded. More than MaxKeys are an error.
	WantImages(ctx context.Context, keys []model.ImageKey) (map[model.ImageKey]Image, error)
	// CountsWithin returns the counts of images as who sees some namespaces has them, of those images only that have other counts in all
	// namespaces together: decisions can apply in some places of an image. More than MaxKeys are an error.
	CountsWithin(ctx context.Context, in Namespaces, keys []model.ImageKey) (map[model.ImageKey]Counts, error)
	// RecordFailure ends attempt number attempt of an image as failed. It returns false, and changes nothing, when
	// that attempt is not the current one: it has been recorded before, or the image was cataloged or removed since. The
	// number of the current attempt is ImageState.Attempts, so the first one is 0. The message is cut to 1 KiB. An image that is cataloged
	// again (BeginRecatalog) keeps its state, reason and message, and no event tells of the failure.
	RecordFailure(ctx context.Context, key model.ImageKey, attempt int, outcome model.Outcome, next time.Time) (bool, error)
	// EndAttempt ends attempt number attempt of an image without a result, because the next one is made in another way. State, reason and message
	// stay, and no event tells of it. It returns false, and changes nothing, in the cases in which RecordFailure does.
	EndAttempt(ctx context.Context, key model.ImageKey, attempt int, next time.Time) (bool, error)
	// RecordQueued tells by an event that attempt number attempt of an image has begun. It returns false, and changes nothing, when
	// that was told before or is not the current attempt.
	RecordQueued(ctx context.Context, key model.ImageKey, attempt int) (bool, error)
	// SaveSBOM keeps an SBOM and what it says, and makes the image StateCataloged. It replaces an earlier one, and ends the attempt at the
	// image. The image must be known: ErrNotFound otherwise. An SBOM of a Job is kept once and while the attempt is open:
	// ErrAttemptClosed otherwise. The same SBOM of the same Job again changes nothing and is no error: its sender may have missed the answer.
	// An image that is cataloged again (BeginRecatalog) and was matched keeps its state, packages and findings until ReplaceCatalog.
	SaveSBOM(ctx context.Context, key model.ImageKey, sbom SBOM, catalog model.Catalog) error
}

// Report is a report from outside.
type Report struct {
	Content []byte
	// Counts are those of its vulnerabilities.
	Counts Counts
	// SBOM is the document as it is kept for being read again, Catalog what its components say; both are nil when it has none.
	SBOM    *SBOM
	Catalog *model.Catalog
}

// Events is the part of the store about the event log.
type Events interface {
	// LastSequence is the sequence number of the newest event that was ever written, 0 when there is none.
	LastSequence(ctx context.Context) (int64, error)
	// CompactEvents removes events from before a time, from the oldest on, in short transactions. The floor rises with them.
	CompactEvents(ctx context.Context, before time.Time) error
	// RecordChange writes an event that an object has changed, unless what it says of the object was told last; of one that is gone
	// only when something was told of it before. So it may be said at every look at an object, and nothing is lost when a process
	// ends between a change and its event.
	RecordChange(ctx context.Context, change ObjectChange) error
	// Changed returns a channel that is closed after the next commit of this process that wrote an event. Other processes'
	// commits do not close it: readers poll as well.
	Changed() <-chan struct{}
}

// State is how far an image has come.
type State string

// The states.
const (
	// StatePending: no SBOM of its own yet, and no failure.
	StatePending State = "Pending"
	// StateFailed: no SBOM of its own, the last attempt failed. Reason, Message and NextAttempt say more.
	StateFailed State = "Failed"
	// StateCataloged: an SBOM, but no findings yet: there is no vulnerability database, or matching is under way or failed.
	StateCataloged State = "Cataloged"
	// StateScanned: an SBOM and findings.
	StateScanned State = "Scanned"
	// StateReported: only a report from outside.
	StateReported State = "Reported"
)

// ImageState is what decisions about an image are made from.
type ImageState struct {
	Key   model.ImageKey
	State State
	// Nonce is a random word that is drawn when the image becomes known, and again when Attempts starts from 0. It makes names of Jobs
	// unguessable beforehand, and no two attempts share one.
	Nonce string
	// Attempts counts the failed attempts to catalog the image.
	Attempts    int
	Reason      model.Reason
	Message     string
	NextAttempt time.Time
}

// Counts sums up the findings of an image.
type Counts struct {
	model.SeverityCounts
	// KEV counts findings that are known to be exploited, Fixable those with a fixed version.
	KEV     int `json:"kev"`
	Fixable int `json:"fixable"`
}

// Image is an image as the API shows it. Times are zero when the thing has not happened.
type Image struct {
	ImageState
	// Distro is that of the model.Catalog, and Lifecycle what the database in use says of it.
	Distro    string
	Lifecycle model.Lifecycle
	// Created is when the image was created, zero when that is not known (model.CreatedAt).
	Created      time.Time
	Size         int64
	PackageCount int
	Counts       Counts
	// Database is the build that the findings and counts come from, nil when the image was not matched. MatchedAt is since when
	// they do.
	Database    *model.DatabaseBuild
	FirstSeen   time.Time
	CatalogedAt time.Time
	MatchedAt   time.Time
	HasReport   bool
	// SizeClass is that of the image's repository.
	SizeClass model.SizeClass
	// ScannedIn is the namespace of the scan that the SBOM comes from, "" when it comes from no scan or is not known.
	ScannedIn string
	// Cataloger is that of the model.Catalog, "" when it is not known. Recatalog says what became of replacing its SBOM.
	Cataloger string
	Recatalog Recatalog
	// PulledFrom is the repository that the image was pulled from if it is not that of the image ID, as of model.RepositoryOf.
	PulledFrom string
	// Source is how the image was read for its SBOM, "" when that is not known or when the SBOM is a report. Unreadable counts the files
	// and directories of the image that could not be read: the SBOM lacks what they hold.
	Source     model.ImageSource
	Unreadable int64
	// LayersUnknown says why the layers of an image that was read from an image volume are not known, "" if they are. Lists do not have it.
	LayersUnknown string
	// AttestedBy is that of the model.Catalog.
	AttestedBy string
	// FromReport says that the SBOM is the report: nothing has pulled the image yet. Reported are the counts of the report, nil
	// when there is none.
	FromReport    bool
	Reported      *Counts
	SBOMSHA256    string
	SBOMSizeBytes int64
	// Overdue counts the open findings whose date has passed.
	Overdue int
	// Owners are those of the workloads that run the image, by name, at most MaxImageOwners.
	Owners []string
	// Base is the base image. Lists do not have it.
	Base Base
}

// MaxImageOwners is the most owners of an image that are listed.
const MaxImageOwners = 20

// Partial reports whether the SBOM of an image lacks files that could not be read.
func (i *Image) Partial() bool { return i.Unreadable > 0 }

// Recatalog says for which cataloger an image with an SBOM was last to be cataloged again, "" when it never was or when its SBOM was partial
// (see Scans.RetryPartial), and AnyCataloger when another scan was requested.
type Recatalog struct {
	Cataloger string
	// Open says that the SBOM has not arrived yet: attempts go on.
	Open bool
}

// SBOM is a stored SBOM.
type SBOM struct {
	// MediaType of the uncompressed document, "application/vnd.syft+json".
	MediaType string
	// Content is compressed with zstd (RFC 8878).
	Content []byte
	// SHA256 is the lower-case hexadecimal digest of the uncompressed document; Size its length in bytes.
	SHA256 string
	Size   int64
	// Delivery says where the SBOM comes from; ScannedIn the namespace of the scan, if it is not that of the Job. Only SaveSBOM reads them.
	Delivery
	ScannedIn string
}

// MaxUnreadable bounds Delivery.Unreadable. It is more than a scan reads.
const MaxUnreadable = 1_000_000_000

// Delivery says where an SBOM comes from.
type Delivery struct {
	// Job is the UID of the recorded Job that delivers the SBOM, "" when no Job does.
	Job string
	// Lookup is that of the Job: one that has it delivers newer tags, and no SBOM.
	Lookup string
	// Source and Unreadable are those of Image; Unreadable is from 0 to MaxUnreadable.
	Source     model.ImageSource
	Unreadable int64
	// LayersUnknown is that of Image, of which model.MaxLayersUnknown bytes are kept.
	LayersUnknown string
}

// ImageSort orders a list of images; ties are broken by image ID and platform.
type ImageSort string

// The orders.
const (
	// SortImageID is by image ID, then platform.
	SortImageID ImageSort = "imageId"
	// SortSeverity is worst first: by critical, then high, then medium, then low findings.
	SortSeverity ImageSort = "-severity"
	// SortCreated is oldest first. Images whose creation is not known come last.
	SortCreated ImageSort = "created"
)

// ImageQuery asks for a page of images. Zero fields do not filter.
type ImageQuery struct {
	// Text must be contained in the image ID, without regard to ASCII case.
	Text string
	// States keeps images in one of these states.
	States []State
	// MinSeverity keeps images with at least one finding of this severity or worse; SeverityUnknown does not filter.
	MinSeverity model.Severity
	// Fixable, KEV and MinEPSS keep images with at least one finding with a fixed version, known to be exploited, with at least
	// this probability of exploitation from 0 to 1.
	Fixable, KEV bool
	MinEPSS      float64
	// Partial keeps images whose SBOM lacks files that could not be read, Source those that were read in this way.
	Partial bool
	Source  model.ImageSource
	// EndOfLifeWithin keeps images whose distribution reaches its end of life within so many days, or has reached it; 0 keeps the latter
	// ones, nil does not filter. OlderThan keeps images that were created at least so many days ago. Both are at most MaxDays.
	EndOfLifeWithin *int
	OlderThan       int
	// Overdue keeps images with at least one open finding whose date has passed.
	Overdue bool
	// Base keeps images that have the layers with this chain ID and others on them; "" does not filter. BaseLayers is how many layers these are, 0 for any number:
	// a diff ID that an image states can be the chain ID of other layers.
	Base       string
	BaseLayers int
	// Running keeps images that something runs, where that is visible.
	Running bool
	// Platform keeps images of a platform; "" does not filter.
	Platform string
	Where
	Sort ImageSort
	Page
}

// Page asks for a part of a list.
type Page struct {
	// Token is the NextToken of the page before, "" for the first.
	Token string
	// Size is the most rows that are wanted, 0 for DefaultPageSize; more than MaxPageSize is cut to it.
	Size int
}

// ImagePage is a page of images.
type ImagePage struct {
	Images []Image
	// NextToken is "" on the last page.
	NextToken string
	// Total is the number of images that the query matches on all pages.
	Total int
}

// FindingSort orders findings; ties are broken by vulnerability, namespace and package.
type FindingSort string

// The orders.
const (
	SortFindingRisk     FindingSort = "-risk"
	SortFindingSeverity FindingSort = "-severity"
	SortFindingPackage  FindingSort = "package"
	// SortFindingDue is by date, the earliest first; findings that are not due come last.
	SortFindingDue FindingSort = "due"
)

// FindingQuery asks for a page of the findings of one image. Zero fields do not filter.
type FindingQuery struct {
	Image model.ImageKey
	// Text must be contained in the vulnerability ID or the package name, without regard to ASCII case.
	Text        string
	MinSeverity model.Severity
	// Fixable keeps findings with a fixed version, KEV those known to be exploited, MinEPSS those with at least this probability
	// of exploitation from 0 to 1.
	Fixable bool
	KEV     bool
	MinEPSS float64
	// Closed asks for the findings that the image had, as far as history goes back, and has no more.
	Closed bool
	// Suppressed includes the findings that decisions suppress. Closed findings are listed whatever was decided about them.
	Suppressed bool
	// Overdue keeps findings whose date has passed, DueBefore those that are due before a time, also in the past. Closed and suppressed findings are not due.
	Overdue   bool
	DueBefore time.Time
	// Origin keeps findings in packages of the base image, or the others; "" keeps both. In an image without a known base, no finding has an origin.
	Origin model.Origin
	// Described adds the origin of each finding, and the owners of the image, which exports do without.
	Described bool
	// Workloads are some that run the image: a finding is suppressed if decisions suppress it in each of these. nil stands for all visible places of the image.
	Workloads []Workload
	Sort      FindingSort
	Page
}

// FindingPage is a page of findings.
type FindingPage struct {
	Findings  []model.Finding
	NextToken string
	Total     int
	// Owners are those of Image.
	Owners []string
}

// Overview sums up all images.
type Overview struct {
	Images map[State]int
	// Running counts the images that something runs now.
	Running int
	// Counts are without the findings that decisions suppress, Suppressed counts those. RunningCounts are those of the images that something runs now.
	Counts, RunningCounts Counts
	Suppressed            int
	Packages              int
}

// EventKind names what happened.
type EventKind string

// The kinds.
const (
	EventImageDiscovered EventKind = "image.discovered"
	EventImageCataloged  EventKind = "image.cataloged"
	EventImageMatched    EventKind = "image.matched"
	EventImageFailed     EventKind = "image.failed"
	EventImageRemoved    EventKind = "image.removed"
	EventScanRequested   EventKind = "image.scanRequested"
	EventImageReported   EventKind = "image.reported"
	EventDatabaseUpdated EventKind = "database.updated"
)

// Event is one entry of the event log. Sequence numbers grow. They are used twice only when the database lost events that it had
// acknowledged: after a failover to a server that lacked them, or a restore.
type Event struct {
	Sequence int64
	// LogID identifies the log up to this event: it is random for each transaction, so a number that is used again has another one. It is
	// "" for events from before there were IDs.
	LogID string
	At    time.Time
	Kind  EventKind
	// ImageID and Platform say which image it is about, empty where it is about none.
	ImageID  string
	Platform string
	// Data is a small JSON object with particulars of the kind.
	Data json.RawMessage
	// Namespaces are those that the event tells something about, by name: those of the image when it was written, of the workload or of the
	// object. What has none, but the kinds of EventKindsToAll, is for who sees all of them.
	Namespaces []string
}
