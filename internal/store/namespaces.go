package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

// ErrNotScanned says that the operator does not scan an image: nothing runs it, or there is an external report about it.
var ErrNotScanned = errors.New("the image is not scanned")

// ErrNoCommonPlatform says that two images are not known on the same platform.
var ErrNoCommonPlatform = errors.New("the images have no platform in common")

// ErrOtherNamespaces says that a change touches namespaces beside those that it may touch.
var ErrOtherNamespaces = errors.New("other namespaces are affected")

// MaxNamespaces bounds the namespaces of a Namespaces.
const MaxNamespaces = 10000

// Namespaces says which namespaces a read may see, or a change may touch: all, or some. What it returns follows from these namespaces alone. The
// zero value is none.
type Namespaces struct {
	all   bool
	names []string
}

// AllNamespaces is every namespace, and what belongs to none.
func AllNamespaces() Namespaces { return Namespaces{all: true} }

// OnlyNamespaces is these namespaces, at most MaxNamespaces, the first ones by name. Names that no namespace of Kubernetes can have are left
// out: the others can stand in statements as they are.
func OnlyNamespaces(names ...string) Namespaces {
	sorted := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !isLabel(name) })
	slices.Sort(sorted)
	sorted = slices.Compact(sorted)
	return Namespaces{names: sorted[:min(len(sorted), MaxNamespaces)]}
}

// isLabel reports whether a text is a label as RFC 1123 has it: 1 to 63 lower-case letters, digits and hyphens inside.
func isLabel(text string) bool {
	if text == "" || len(text) > 63 || text[0] == '-' || text[len(text)-1] == '-' {
		return false
	}
	return strings.IndexFunc(text, func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' }) < 0
}

// All reports whether these are all namespaces.
func (n Namespaces) All() bool { return n.all }

// Names lists the namespaces by name, nil when they are all or none.
func (n Namespaces) Names() []string { return slices.Clone(n.names) }

// Contains reports whether a namespace is among them.
func (n Namespaces) Contains(name string) bool {
	if n.all {
		return true
	}
	_, found := slices.BinarySearch(n.names, name)
	return found
}

// In is the part of them that is one namespace, or all of them if its name is "".
func (n Namespaces) In(name string) Namespaces {
	switch {
	case name == "":
		return n
	case n.Contains(name):
		return OnlyNamespaces(name)
	}
	return OnlyNamespaces()
}

// ContainsAny reports whether one of some namespaces is among them, of all namespaces also when there are none.
func (n Namespaces) ContainsAny(names []string) bool {
	return n.all || slices.ContainsFunc(names, n.Contains)
}

// Literals are the names as a list of literals in a statement, "" when they are all or none.
func (n Namespaces) Literals() string {
	if len(n.names) == 0 {
		return ""
	}
	return "'" + strings.Join(n.names, "','") + "'"
}

// Digest tells apart what is visible: it is the same for the same namespaces only.
func (n Namespaces) Digest() string {
	if n.all {
		return "*"
	}
	sum := sha256.Sum256([]byte(strings.Join(n.names, ",")))
	return hex.EncodeToString(sum[:16])
}

// EventKindsToAll lists the kinds of events that are told to everybody, whichever namespaces they see.
func EventKindsToAll() []EventKind { return []EventKind{EventDatabaseUpdated, EventDatabaseStale} }

func (k EventKind) toAll() bool { return slices.Contains(EventKindsToAll(), k) }

// VisibleIn reports whether an event is told to who sees these namespaces.
func (e *Event) VisibleIn(in Namespaces) bool {
	return in.All() || e.Kind.toAll() && len(e.Namespaces) == 0 || in.ContainsAny(e.Namespaces)
}

// Limited is an event as it is told to who sees these namespaces. Messages can tell of others, and the counts of a result set and of a decision are
// those of all.
func (e Event) Limited(in Namespaces) Event {
	if in.All() {
		return e
	}
	e.Namespaces = slices.DeleteFunc(slices.Clone(e.Namespaces), func(name string) bool { return !in.Contains(name) })
	switch e.Kind {
	case EventImageFailed:
		e.Data = without(e.Data, "message")
	case EventDatabaseUpdated:
		e.Data = without(e.Data, "changes", "omitted")
	case EventDecisionChanged, EventDecisionExpired, EventDecisionExpiring:
		inNamespace := e.Namespace() != ""
		if e.Data = without(e.Data, "findings"); !inNamespace {
			e.Data = without(e.Data, "author", "omitted")
		}
		if !inNamespace && e.Kind != EventDecisionExpiring { // It is told where the object matched until now, too.
			e.Data = without(e.Data, "status", "expiresAt")
		}
	case EventScannerChanged: // A Scanner can cover other namespaces, and its status counts what runs there.
		if !e.ofDeletion() {
			e.Data = without(e.Data, "detail")
		}
	case EventImageMatched:
		if e.forAllNamespaces() {
			e.Data = without(e.Data, "counts", "allNamespaces")
		}
	default:
	}
	return e
}

// forAllNamespaces reports whether the counts are those of who sees all namespaces.
func (e Event) forAllNamespaces() bool {
	var data struct {
		AllNamespaces bool `json:"allNamespaces"`
	}
	return json.Unmarshal(e.Data, &data) != nil || data.AllNamespaces
}

// ofDeletion reports whether the object of an ObjectEvent was deleted.
func (e Event) ofDeletion() bool {
	var data struct {
		Detail struct {
			Deleted bool `json:"deleted"`
		} `json:"detail"`
	}
	return json.Unmarshal(e.Data, &data) == nil && data.Detail.Deleted
}

// without is a JSON object without some fields.
func without(object json.RawMessage, fields ...string) json.RawMessage {
	var content map[string]json.RawMessage
	if json.Unmarshal(object, &content) != nil {
		return json.RawMessage("{}")
	}
	for _, field := range fields {
		delete(content, field)
	}
	left, err := json.Marshal(content)
	if err != nil {
		return json.RawMessage("{}")
	}
	return left
}

// Reader is the part of the store that answers requests. Each method says which namespaces it may see; it answers as a store would that holds
// nothing else, but for what is known of the images: each is scanned once, for all namespaces.
type Reader interface {
	// Image returns one image. With a zero Platform it prefers a scanned one, then linux/amd64, then the first by name.
	Image(ctx context.Context, in Namespaces, key model.ImageKey) (Image, error)
	// ListImages returns a page of images.
	ListImages(ctx context.Context, in Namespaces, query ImageQuery) (ImagePage, error)
	// SBOM returns the stored SBOM. With a zero Platform it is that of the platform that Image would choose.
	SBOM(ctx context.Context, in Namespaces, key model.ImageKey) (SBOM, error)
	// Report returns an uploaded report, or ErrNotFound.
	Report(ctx context.Context, in Namespaces, imageID string) ([]byte, error)
	// Overview sums up all images.
	Overview(ctx context.Context, in Namespaces) (Overview, error)
	// ListPolicies returns the policies that apply, by name, with what is due because of them. Who sees some namespaces does not see the expressions: they
	// can name others.
	ListPolicies(ctx context.Context, in Namespaces) ([]PolicySummary, error)
	// Findings returns a page of the findings of one image: its own packages that are not excluded, joined with what
	// the current result set says of them. An image that was not matched has none.
	Findings(ctx context.Context, in Namespaces, query FindingQuery) (FindingPage, error)
	// Packages calls yield for each package of an image, ordered by name, version and fingerprint, until yield fails, and
	// returns the error of yield as it is. yield may take its time and call the store: it holds no transaction. An image that
	// is cataloged anew meanwhile may give packages of both SBOMs: compare Image before and after.
	Packages(ctx context.Context, in Namespaces, key model.ImageKey, yield func(model.HeldPackage) error) error
	// ImagePackages returns a page of the packages of one image, with the layers that they are in and their open findings. ErrNotFound: the image is not known.
	ImagePackages(ctx context.Context, in Namespaces, query ImagePackageQuery) (ImagePackagePage, error)
	// ImageLayers returns all layers of one image with what packages the query keeps of them, at most model.MaxLayers and UnknownLayer. ErrNotFound: the image
	// is not known.
	ImageLayers(ctx context.Context, in Namespaces, query ImagePackageQuery) ([]ImageLayer, error)
	// NewerTags returns the lookups of newer tags of an image that containers in these namespaces run, by repository and tag, at most MaxTagLookupsOfImage.
	NewerTags(ctx context.Context, in Namespaces, key model.ImageKey) ([]TagLookup, error)
	// Presences returns a page of where and when an image ran, on all platforms or on that of the query, those that still run first,
	// then the latest; ErrNotFound when the image is not known.
	Presences(ctx context.Context, in Namespaces, query PresenceQuery) (PresencePage, error)

	// ListVulnerabilities returns a page of the vulnerabilities that the current result set finds in some image.
	ListVulnerabilities(ctx context.Context, in Namespaces, query VulnerabilityQuery) (VulnerabilityPage, error)
	// VulnerabilityRecords returns all records, of whatever namespace of vulnerabilities, that have this ID or this alias and that a finding names or
	// named, ordered by ID and namespace, at most MaxPageSize; ErrNotFound when there are none. Of a record that was not always the
	// same it returns what a finding names now, or else the latest. The ID may be written in another case.
	VulnerabilityRecords(ctx context.Context, in Namespaces, id string) ([]model.Vulnerability, error)
	// Affected returns a page of what has or had a vulnerability.
	Affected(ctx context.Context, in Namespaces, query AffectedQuery) (AffectedPage, error)
	// Exposures returns a page of the workloads that run or ran images with a vulnerability, and from when to when.
	Exposures(ctx context.Context, in Namespaces, query ExposureQuery) (ExposurePage, error)
	// ListPackages returns a page of the distinct packages that images hold.
	ListPackages(ctx context.Context, in Namespaces, query PackageQuery) (PackagePage, error)
	// ListFixes returns a page of what people can do about the findings of matched images.
	ListFixes(ctx context.Context, in Namespaces, query FixQuery) (FixPage, error)
	// ListWorkloads returns a page of the workloads that run images.
	ListWorkloads(ctx context.Context, in Namespaces, query WorkloadQuery) (WorkloadPage, error)
	// ListBases returns a page of the base images of the images that are chosen. Which images are bases follows from all visible images.
	ListBases(ctx context.Context, in Namespaces, query BaseQuery) (BasePage, error)
	// ListGroups returns a page of the owners, or the namespaces, of workloads that run images.
	ListGroups(ctx context.Context, in Namespaces, query GroupQuery) (GroupPage, error)
	// ListDecisions returns a page of decisions. Those of objects in namespaces are visible there, those of objects of the cluster, without what they stated before, to who sees
	// findings that they match now, and all to who sees all namespaces.
	ListDecisions(ctx context.Context, in Namespaces, query DecisionQuery) (DecisionPage, error)
	// Decision returns one decision, or ErrNotFound.
	Decision(ctx context.Context, in Namespaces, id int64) (DecisionRecord, error)
	// ListCoverage returns a page of containers, by namespace, kind and name of the workload and container. Of a container that several
	// scopes tell of, the first of them by name is listened to. Messages about attempts that were made for other namespaces are "".
	ListCoverage(ctx context.Context, in Namespaces, query CoverageQuery) (CoveragePage, error)
	// ListRollouts returns a page of rollouts, the latest first.
	ListRollouts(ctx context.Context, in Namespaces, query RolloutQuery) (RolloutPage, error)
	// Rollout returns one rollout with its worst findings, or ErrNotFound.
	Rollout(ctx context.Context, in Namespaces, id int64) (RolloutDetail, error)
	// Compare compares what counts in two visible images, or returns ErrNotFound. If neither has a platform, it takes one that both have, ErrNoCommonPlatform if there is
	// none.
	Compare(ctx context.Context, in Namespaces, from, to model.ImageKey) (Comparison, error)
	// Trend returns the sums of each day that has any, oldest first. An image counts once in all namespaces together, and once in each of some.
	Trend(ctx context.Context, in Namespaces, query TrendQuery) ([]TrendDay, error)

	// Summary sums up what the workloads that a query chooses run, and how that has changed.
	Summary(ctx context.Context, in Namespaces, query SummaryQuery) (Summary, error)

	// ChangesSince counts the vulnerabilities that something which runs has now and nothing had at a time, and the other way round.
	ChangesSince(ctx context.Context, in Namespaces, since time.Time) (ChangeSums, error)

	// PreviewDecision computes what SyncDecisions would do with a decision of a source in place of the present one of its object, if there is one.
	// A decision without the name of an object replaces none. It only reads. Of some namespaces, the bounds are held against what is visible.
	PreviewDecision(ctx context.Context, in Namespaces, source string, decision Decision) (DecisionPreview, error)

	// ShownResultSet returns the result set that is visible, false when there is none yet. Of some namespaces, Queued and Matched are 0.
	ShownResultSet(ctx context.Context, in Namespaces) (ResultSet, bool, error)
	// ListResultSets returns up to limit result sets that are known, newest first, as ShownResultSet does.
	ListResultSets(ctx context.Context, in Namespaces, limit int) ([]ResultSet, error)
	// Changes returns a page of what result sets changed in packages that some image held at the switch, newest result set first,
	// then worst first, opened before closed before changed. Of some namespaces it is what images hold now that were visible and matched then.
	Changes(ctx context.Context, in Namespaces, query ChangeQuery) (ChangePage, error)

	// EventsSince returns up to limit events with a sequence number greater than since, in order.
	EventsSince(ctx context.Context, in Namespaces, since int64, limit int) ([]Event, error)
	// EventLog says which events there are, visible or not, and which log it is.
	EventLog(ctx context.Context) (EventLog, error)

	// Namespaces lists all namespaces that something is recorded of, by name.
	Namespaces(ctx context.Context) ([]string, error)
	// ImageNamespaces lists the namespaces that run an image or are said to keep it, on all platforms, by name.
	ImageNamespaces(ctx context.Context, imageID string) ([]string, error)
	// SealKey returns 32 random bytes that all processes share. The first call chooses them.
	SealKey(ctx context.Context) ([]byte, error)

	// RecordDeletion keeps that a user is about to delete the object of a decision that applies, and returns an ID for ForgetDeletion. It counts as the user's
	// deletion if the decision ends because the object is gone within an hour; the last user counts. If the object was changed shortly before, it counts for
	// the decision that replaces the one that applies then. Without such a decision, nothing is kept. When SyncDecisions has an object with another UID under
	// this name, the request is forgotten: who deletes that object is another question.
	RecordDeletion(ctx context.Context, source string, object DecisionObject, uid, author string) (request string, err error)
	// ForgetDeletion takes back RecordDeletion, for a request that did not delete the object.
	ForgetDeletion(ctx context.Context, request string) error
	// RequestScan asks for another scan of an image on all platforms: the next attempt at it is due now, and an SBOM that it has is replaced by that of the
	// attempt; until then, its results stay. A request during an attempt asks for nothing more. ErrNotFound when it is not visible in in, ErrOtherNamespaces when
	// another namespace than those in may is affected, ErrNotScanned when nothing runs it or an external report is all that is known of it.
	RequestScan(ctx context.Context, in, may Namespaces, imageID string) error
	// DeleteImage removes all that is known of an image, on all platforms: ErrNotFound when it is not visible in in, ErrOtherNamespaces when
	// another namespace than those in may runs it or is said to keep it.
	DeleteImage(ctx context.Context, in, may Namespaces, imageID string) error
	// SaveReport keeps a report as it was uploaded and makes the image known. The counts of its vulnerabilities are shown for the
	// image until it is matched. Images without an SBOM of their own take the report's components for their packages, which are
	// matched like others, until SaveSBOM. One that WantImages did not name becomes StateCataloged, and pending as soon as it does.
	// The others stay StatePending or StateFailed: attempts to catalog them go on. ErrOtherNamespaces when another namespace than those in may
	// runs the image or is said to keep it, or none does and not all are.
	SaveReport(ctx context.Context, may Namespaces, imageID string, report Report) error
	// RecordChangeRequest writes an event about a request that no transaction recorded: one that failed, or that changed nothing in the
	// database. Texts that are too long are cut.
	RecordChangeRequest(ctx context.Context, request ChangeRequest) error

	// Ready returns nil when the database can be reached and its schema is the one of this program.
	Ready(ctx context.Context) error
}
