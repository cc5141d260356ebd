package store

import (
	"context"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

// Bounds of newer tags.
const (
	// MaxTagLookups is the most lookups of a scope.
	MaxTagLookups = 1000
	// MaxNewerTags is the most newer tags that one lookup has.
	MaxNewerTags = 10
	// MaxTag is the longest tag, in bytes, by the OCI distribution specification.
	MaxTag = 128
	// MaxTagFindings is the most findings that are kept of the image of a newer tag.
	MaxTagFindings = 20_000
	// MaxTagLookupsOfImage is the most lookups that NewerTags returns, and MaxTagFindingsRead the most findings in all of their tags: the tags behind them have a
	// Problem instead.
	MaxTagLookupsOfImage = 50
	MaxTagFindingsRead   = 200_000
	// MaxTagText is the longest text about a lookup or a newer tag, in bytes; more is cut.
	MaxTagText = 1024
	// TagLookupGrace is how long a lookup is kept that is not wanted any more: an image that stops and starts again is not looked up each time.
	TagLookupGrace = 24 * time.Hour
)

// TagLookups is the part of the store about newer tags of images that run. A lookup lists the tags of a repository and catalogs the images of those that were
// chosen. These images are none of Images: nothing runs them, and no list has them.
type TagLookups interface {
	// WantTagLookups makes these the lookups that a scope wants; the list is complete. It returns them as they are, in the same order. Others of the scope
	// become invisible, and are deleted after TagLookupGrace. When nothing differs it only reads. More than MaxTagLookups are an error.
	WantTagLookups(ctx context.Context, scope string, wanted []WantedTags) ([]TagLookup, error)
	// KnownTagDigests returns digests of images of a repository and platform that Jobs in a namespace have cataloged for the lookups of a scope with a
	// cataloger, the newest first, at most limit.
	KnownTagDigests(ctx context.Context, scope, namespace, repository string, platform model.Platform, cataloger string, limit int) ([]string, error)
	// FailTagLookup ends attempt number attempt of a lookup without a result. next is when the following one may begin, and namespace that of the
	// workload that it was made for. An outcome without a reason is no failure: what is known of the lookup stays. It returns false, and changes nothing, if that
	// attempt is not the current one.
	FailTagLookup(ctx context.Context, id string, attempt int, outcome model.Outcome, namespace string, next time.Time) (bool, error)
	// SaveTagLookup keeps the result of a lookup that the Job with a UID delivers, and ends the attempt. The same result of the same Job again changes
	// nothing. ErrAttemptClosed if the Job may not deliver it (any more).
	SaveTagLookup(ctx context.Context, job string, result TagResult) error
	// UnmatchedTagImages returns images of newer tags, by ID, that were not matched for a result set, at most limit.
	UnmatchedTagImages(ctx context.Context, resultSet int64, limit int) ([]string, error)
	// TagImageSBOM returns the SBOM of the image of a newer tag, or ErrNotFound.
	TagImageSBOM(ctx context.Context, id string) (SBOM, error)
	// SaveTagFindings keeps what was found in the image of a newer tag for a result set, or the problem that kept it from being matched. ErrNotFound if the
	// image is gone, or has another SBOM than the one with a digest.
	SaveTagFindings(ctx context.Context, id, sbomSHA256 string, resultSet int64, found TagFindings) error
	// CompareNewerTags compares what transactions left out that changed too many fixes with a newer tag; Reader.ListFixes lists these afterwards. It compares a
	// few at a time: more says that there may be others.
	CompareNewerTags(ctx context.Context) (more bool, err error)
}

// WantedTags is what a lookup is about.
type WantedTags struct {
	// Key is the image that runs, and Repository and Tag what its containers name it: HOST/PATH, and a tag that is a version.
	Key             model.ImageKey
	Repository, Tag string
	// Namespaces are those of the containers: who sees one of them sees the lookup.
	Namespaces []string
}

// TagLookup is a lookup of newer tags.
type TagLookup struct {
	// ID is made of the scope and what the lookup is about.
	ID string
	WantedTags
	// Nonce is that of the names of its Jobs: no other lookup and no image has it.
	Nonce string
	// Attempts counts those that have ended, Failures those that failed since the last result. NextAttempt is when the next one may begin after one without
	// a result, zero for at once.
	Attempts, Failures int
	NextAttempt        time.Time
	// LookedUpAt is when the last result was delivered, zero if none was.
	LookedUpAt time.Time
	// Source is the repository whose tags were listed, "" for Repository; Listed counts these tags, and Incomplete says why some can be missing.
	Source     string
	Listed     int
	Incomplete string
	// Reason and Message say why there are no newer tags, "" if there are some.
	Reason, Message string
	// Failure is that of the last attempt, without a reason if it did not fail.
	Failure model.Outcome
	// For is the namespace of the workload that the last attempt was made for, "" before the first one: Incomplete, the message of Failure and problems of tags
	// can name Secrets there.
	For string
	// Tags are in the order of preference. WantTagLookups leaves them out, and NewerTags leaves out Namespaces.
	Tags []NewerTag
}

// NewerTag is a newer tag that a lookup chose.
type NewerTag struct {
	// Tag and Kind are those of candidates.Candidate. Digest is that of the image, "" if it is not known.
	Tag, Kind, Digest string
	// Problem says why the image could not be cataloged, "" if it was.
	Problem string
	// Matched says that Findings are there.
	Matched  bool
	Findings TagFindings
}

// TagFindings is what was found in the image of a newer tag.
type TagFindings struct {
	// Build is the ID of the database build.
	Build string
	// Findings has each vulnerability of a package, at most MaxTagFindings.
	Findings []TagFinding
	// Problem says why the image was not matched, "" if it was.
	Problem string
}

// TagFinding is a finding in the image of a newer tag.
type TagFinding struct {
	VulnerabilityID string         `json:"id"`
	Package         string         `json:"package"`
	Severity        model.Severity `json:"severity"`
	Risk            float64        `json:"risk,omitempty"`
	KEV             bool           `json:"kev,omitempty"`
	Fixable         bool           `json:"fixable,omitempty"`
}

// Finding makes a finding that can be compared with those of an image.
func (f *TagFinding) Finding() model.Finding {
	found := model.Finding{Package: model.Package{Name: f.Package}}
	found.Vulnerability = model.Vulnerability{ID: f.VulnerabilityID, Severity: f.Severity, Risk: f.Risk}
	if f.KEV {
		found.Vulnerability.KEV = []model.KnownExploited{{}}
	}
	if f.Fixable {
		found.Fix.State = model.FixStateFixed
	}
	return found
}

// TagResult is what a lookup found.
type TagResult struct {
	// SHA256 is the digest of the result as it was delivered.
	SHA256 string
	Source string
	Listed int
	// Incomplete, Reason and Message are those of TagLookup.
	Incomplete, Reason, Message string
	// Tags are at most MaxNewerTags.
	Tags []TagOfResult
}

// TagOfResult is a newer tag of a result.
type TagOfResult struct {
	Tag, Kind, Digest, Problem string
	// SBOM is that of the image, nil if it was cataloged before or could not be. Cataloger is that of the model.Catalog.
	SBOM      *SBOM
	Cataloger string
}
