package store

import (
	"context"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

// Bounds of decisions.
const (
	// MaxDecisions is the most decisions that apply at a time, of all sources.
	MaxDecisions = 20_000
	// MaxDecisionMatches is the most findings that one decision matches, MaxAllDecisionMatches the most that all match together. They count
	// distinct packages, not images.
	MaxDecisionMatches    = 200_000
	MaxAllDecisionMatches = 1_000_000
	// MaxNamespaceMatches is the most findings that the decisions of the objects of one namespace match together, MaxNamespacedMatches the most that
	// those of all namespaces match: they leave room for decisions of the cluster, and for each other.
	MaxNamespaceMatches  = 50_000
	MaxNamespacedMatches = 500_000
	// MaxDecisionVulnerabilities, MaxDecisionPackages and MaxDecisionImages are the most entries of the lists of a Decision.
	MaxDecisionVulnerabilities = 100
	MaxDecisionPackages        = 50
	MaxDecisionImages          = 100
	// MaxDecisionNamespaces and MaxDecisionWorkloads are the most places of a Decision.
	MaxDecisionNamespaces = MaxNamespaces
	MaxDecisionWorkloads  = 10_000
	// MaxDecisionPlaces is the most namespaces and workloads that all decisions of a source name together. Those of decisions with the same Selector
	// and the same Images count once.
	MaxDecisionPlaces = 1_000_000
	// MaxReachedImages is the most images that the image patterns of all decisions match together when one begins to apply; patterns that several
	// decisions have count once. Of decisions with places, an image counts once in each namespace, and in each workload if not all that run it there are meant.
	MaxReachedImages = 1_000_000
	// MaxJoinedReaches is the most different sets of decisions with places that suppress the same finding when a decision of an object of the cluster begins to
	// apply, MaxNamespacedJoinedReaches when one of a namespace does: the others are reserved for those of the cluster. MaxNamespaceJoinedReaches is the most of
	// the decisions of the objects of one namespace alone.
	MaxJoinedReaches           = 4000
	MaxNamespacedJoinedReaches = 2000
	MaxNamespaceJoinedReaches  = 200
	// AlwaysNamespaceMatches is how many findings the decisions of the objects of one namespace match together without being refused because of what others have, and
	// AlwaysClusterMatches how many those of the cluster with places do. What they join does not count against the bounds above, so there are at most
	// MaxJoinedReaches + AlwaysClusterMatches + AlwaysNamespaceMatches for each namespace when a decision begins to apply.
	AlwaysNamespaceMatches = 100
	AlwaysClusterMatches   = 2000
	// MaxDecisionEvents is the most events that one call of SyncDecisions or ExpireDecisions writes about single decisions. The others are counted by action, kind
	// and namespace.
	MaxDecisionEvents = 100
)

// DecisionSourceKubernetes is the source of decisions that are objects of the cluster.
const DecisionSourceKubernetes = "kubernetes"

// Events about decisions. Who sees some namespaces is told of those of objects of the cluster that match findings of visible images, or matched until then, without the
// author and the numbers, and of those of objects in these namespaces, without the number of findings.
const (
	// EventDecisionChanged says that a decision began to apply, changed or ended with its object. Its data is a DecisionEvent.
	EventDecisionChanged EventKind = "decision.changed"
	// EventDecisionExpired says that a decision ended because its time is over. Its data is a DecisionEvent.
	EventDecisionExpired EventKind = "decision.expired"
)

// Decisions is the part of the store about decisions that suppress findings. A finding that one suppresses is in no list and no count, unless
// a query asks for it.
type Decisions interface {
	// SyncDecisions makes these the decisions of a source that apply; the list is complete. One that applies unchanged is left alone, and one that
	// expired unchanged stays ended. If there are more than the bounds allow, the first new ones apply. Of two with the same Object the first
	// counts. It returns why decisions do not apply, by object. When nothing differs it only reads.
	SyncDecisions(ctx context.Context, source string, decisions []Decision) (map[DecisionObject]DecisionProblem, error)
	// ExpireDecisions ends the decisions of all sources whose time is over, and returns when the next one ends, zero when none has an end.
	ExpireDecisions(ctx context.Context) (time.Time, error)
	// DecisionCounts counts, for each decision of a source that applies, what it matches in visible images.
	DecisionCounts(ctx context.Context, in Namespaces, source string) (map[DecisionObject]DecisionCount, error)
}

// DecisionObject names the object that a decision comes from. Namespace is "" for objects of the cluster. Statement tells the decisions of one
// object apart, "" if it has one only.
type DecisionObject struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	Statement string `json:"-"`
}

// Decision says that some findings do not count, or why they are looked at. It applies to a finding that its lists match: each list that is
// not empty has to, and Vulnerabilities or Packages is not empty.
type Decision struct {
	Object DecisionObject
	// UID is that of the object, "" if it is not known. It does not belong to what the decision says: an object that was deleted and created again without a
	// difference has the same decision.
	UID string
	// Vulnerabilities are IDs or aliases, maybe written in another case, at most MaxDecisionVulnerabilities.
	Vulnerabilities []string
	// Packages are patterns as of decision.ParsePattern, at most MaxDecisionPackages.
	Packages []string
	// Images are patterns as of decision.ParseImagePattern, such as digests, at most MaxDecisionImages. The decision applies to findings in images
	// that one of them matches, or in all images if there are none.
	Images []string
	// Places limits it to some namespaces or workloads, nil for none of these limits.
	Places *DecisionPlaces
	// Rule says in place of Packages which packages are meant, for the decision.Rules of the store. Only SyncVEX takes decisions with one; they have
	// no bound of vulnerabilities and no Unfixed, and an end only if the rule is independent of others.
	Rule   string
	Status model.DecisionStatus
	// Justification, Comment and Author are those of model.Decision.
	Justification, Comment, Author string
	// ExpiresAt is when it ends, zero when it has no end. After the year 9999 is cut to its end.
	ExpiresAt time.Time
	// Unfixed leaves out findings for which a fixed version is known. DryRun matches and counts like others, and suppresses nothing.
	Unfixed, DryRun bool
	// StatedAuthor is who a VEX document says its author is, which nobody has verified; Author is not taken from a document.
	StatedAuthor string
	// Full says that a decision with a Rule counts as those of exceptions do, so that it stays in the history as long as theirs.
	Full bool
	// Refused says that the object exists, and cannot be applied: its decision ends as changed, not as deleted. Nothing else of the decision is read.
	Refused bool
}

// DecisionPlaces says where a Decision applies: an image in one of its places is covered, and the same image elsewhere is not. The places of a Policy
// are of the same kind.
type DecisionPlaces struct {
	// Selector describes how the places were selected, such as the namespace of the object and its selectors, in one canonical text. It belongs to
	// what the decision says: with another Selector it is another decision. With the same Selector, other Namespaces and Workloads only change where
	// the decision applies, and add nothing to its history.
	Selector string
	// Namespaces are covered as a whole: all workloads, and images that no workload runs there any more. At most MaxDecisionNamespaces.
	Namespaces []string
	// Workloads are covered besides. At most MaxDecisionWorkloads.
	Workloads []Workload
}

// DecisionReason says why a decision does not apply.
type DecisionReason string

// The reasons.
const (
	// DecisionExpired: its time is over.
	DecisionExpired DecisionReason = "Expired"
	// DecisionInvalid: it cannot be read, such as a pattern that is none.
	DecisionInvalid DecisionReason = "Invalid"
	// DecisionTooBroad: it matches more findings than the bounds allow.
	DecisionTooBroad DecisionReason = "TooBroad"
	// DecisionTooMany: there are more decisions than MaxDecisions.
	DecisionTooMany DecisionReason = "TooMany"
)

// DecisionProblem says why a decision does not apply.
type DecisionProblem struct {
	Reason DecisionReason
	// Message says what is wrong and which bound was exceeded. It has nothing from other decisions.
	Message string
}

// DecisionCount is what a decision that applies does.
type DecisionCount struct {
	// Matched counts the findings that it matches in images that were matched, each once in each image; with Places, in images of which it has a visible
	// place. Suppressed is the same if it suppresses them, or else 0.
	Matched, Suppressed int
	// Since is when it began to apply.
	Since time.Time
}

// DecisionAction says what became of a decision.
type DecisionAction string

// The actions.
const (
	DecisionApplied DecisionAction = "applied"
	DecisionChanged DecisionAction = "changed"
	DecisionRemoved DecisionAction = "removed"
)

// DecisionEvent is the data of EventDecisionChanged, EventDecisionExpiring and EventDecisionExpired.
type DecisionEvent struct {
	// Action is "" when the decision expired or expires soon.
	Action DecisionAction `json:"action,omitempty"`
	// Object, Status and ExpiresAt are those of the decision, after a change. An event with Omitted has none of them.
	Object    *DecisionObject      `json:"object,omitempty"`
	Status    model.DecisionStatus `json:"status,omitempty"`
	ExpiresAt *time.Time           `json:"expiresAt,omitempty"`
	Author    string               `json:"author,omitempty"`
	// Findings counts what the decision matches or matched, each package once.
	Findings int `json:"findings"`
	// Omitted is the number of decisions that changed or expired as well and have no event of their own. Their objects are of one kind and, if that is one of
	// objects in namespaces, of one namespace; previous versions counted all of them together, with neither.
	Omitted   int    `json:"omitted,omitempty"`
	Kind      string `json:"kind,omitempty"`
	Namespace string `json:"namespace,omitempty"`
}
