// Package coverage computes whether the image of a container is scanned and, if not, the reason. It does no I/O.
package coverage

import (
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

// State is the coverage of one container.
type State string

// The states.
const (
	// Scanned: there is a result of the current database build.
	Scanned State = "Scanned"
	// Partial: there is a result of the current database build, but of a part of the image: some of its files could not be read.
	Partial State = "Partial"
	// Stale: there is a result, but of an earlier database build.
	Stale State = "Stale"
	// Pending: the scan or the matching has not happened yet.
	Pending State = "Pending"
	// Failed: the last attempt failed.
	Failed State = "Failed"
	// Skipped: excluded by configuration.
	Skipped State = "Skipped"
)

// The reasons of Pending and Partial; those of Failed are model.Reason, those of Skipped come with the container.
const (
	// ReasonNotPulled: the kubelet has not pulled the image yet.
	ReasonNotPulled = "NotPulled"
	// ReasonNotCataloged: there is no SBOM of the image yet.
	ReasonNotCataloged = "NotCataloged"
	// ReasonNotMatched: there is an SBOM that was not matched yet.
	ReasonNotMatched = "NotMatched"
	// ReasonNoDatabase: there is an SBOM, but no vulnerability database.
	ReasonNoDatabase = "NoDatabase"
	// ReasonFilesUnreadable is that of Partial: the scan could not read some files of the image.
	ReasonFilesUnreadable = "FilesUnreadable"
)

// Container is the input about a container.
type Container struct {
	// Skip is the reason for which the container is excluded, empty if it is not.
	Skip string
	Key  model.ImageKey
	// OnNode: an image that has no repository can be read from its node.
	OnNode bool
	// WaitingReason and WaitingMessage are those of state.waiting in the container status.
	WaitingReason  string
	WaitingMessage string
}

// Image is the input about an image.
type Image struct {
	// Cataloged: there is an SBOM.
	Cataloged bool
	// Build is the database build of the result, empty without one.
	Build string
	// Partial: the SBOM lacks files that could not be read.
	Partial bool
	// Reason is the reason for which the last scan or the last matching failed, empty if it succeeded.
	Reason model.Reason
}

// Result is the coverage of a container. Reason is empty if the container is Scanned.
type Result struct {
	State  State
	Reason string
}

// Of computes the coverage of a container. build is the current database build, empty if there is none.
func Of(c Container, image Image, build string) Result {
	switch {
	case c.Skip != "":
		return Result{Skipped, c.Skip}
	case c.Key.ImageID == "":
		if reason := PullFailure(c.WaitingReason, c.WaitingMessage); reason != "" {
			return Result{Failed, string(reason)}
		}
		return Result{Pending, ReasonNotPulled}
	case image.Build != "" && image.Build == build && image.Partial:
		return Result{Partial, ReasonFilesUnreadable}
	case image.Build != "" && image.Build == build:
		return Result{State: Scanned}
	case image.Build != "":
		return Result{Stale, ReasonNotMatched}
	case image.Reason != "":
		return Result{Failed, string(image.Reason)}
	case image.Cataloged && build == "":
		return Result{Pending, ReasonNoDatabase}
	case image.Cataloged:
		return Result{Pending, ReasonNotMatched}
	case !c.Key.Pullable() && !c.OnNode || c.Key.Validate() != nil:
		return Result{Failed, string(model.ReasonNotPullable)}
	default:
		return Result{Pending, ReasonNotCataloged}
	}
}

// PullFailure returns the typed reason of a container that waits because the kubelet cannot pull its image, "" if it waits for
// another reason. The cause is only in the text of the message, which differs between container runtimes.
func PullFailure(reason, message string) model.Reason {
	switch reason {
	case "InvalidImageName", "ErrImageNeverPull":
		return model.ReasonNotPullable
	case "RegistryUnavailable":
		return model.ReasonRegistryUnavailable
	case "ErrImagePull", "ImagePullBackOff":
	default:
		return ""
	}
	// Registries write an error code as MANIFEST_UNKNOWN. A status code is a word: its digits may also be part of a digest.
	text := strings.ReplaceAll(strings.ToLower(message), "_", " ")
	words := strings.FieldsFunc(text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	status := func(codes ...string) bool {
		return slices.ContainsFunc(codes, func(code string) bool { return slices.Contains(words, code) })
	}
	has := func(phrases ...string) bool {
		return slices.ContainsFunc(phrases, func(phrase string) bool { return strings.Contains(text, phrase) })
	}
	switch {
	case status("429") || has("toomanyrequests", "too many requests"):
		return model.ReasonRegistryRateLimited
	case has("no match for platform", "no matching manifest"):
		return model.ReasonPlatformMismatch
	case status("401", "403") || has("unauthorized", "forbidden", "denied", "no basic auth", "authorization failed", "authentication required"):
		return model.ReasonImagePullDenied
	case status("404") || has("not found", "manifest unknown", "name unknown"):
		return model.ReasonImageNotFound
	case has("no space left"):
		return model.ReasonOutOfDisk
	default:
		return model.ReasonRegistryUnavailable
	}
}

// Summary counts containers by state.
type Summary struct {
	Total, Scanned, Partial, Pending, Failed, Skipped, Stale int
	// Reasons counts the reasons of Partial, Pending, Failed and Stale containers.
	Reasons map[string]int
}

// SummaryOf is the summary of containers that are counted by state.
func SummaryOf(counts map[string]int) Summary {
	count := func(state State) int { return counts[string(state)] }
	s := Summary{
		Scanned: count(Scanned), Partial: count(Partial), Stale: count(Stale), Pending: count(Pending), Failed: count(Failed), Skipped: count(Skipped),
	}
	s.Total = s.Scanned + s.Partial + s.Stale + s.Pending + s.Failed + s.Skipped
	return s
}

// Add counts one more container.
func (s *Summary) Add(r Result) {
	s.Total++
	switch r.State {
	case Scanned:
		s.Scanned++
	case Partial:
		s.Partial++
	case Stale:
		s.Stale++
	case Pending:
		s.Pending++
	case Failed:
		s.Failed++
	case Skipped:
		s.Skipped++
		return
	}
	if r.Reason == "" {
		return
	}
	if s.Reasons == nil {
		s.Reasons = map[string]int{}
	}
	s.Reasons[r.Reason]++
}

// Complete reports whether every container that is not skipped has a complete and current result.
func (s *Summary) Complete() bool { return s.Scanned+s.Skipped == s.Total }

// Ratio is the fraction of containers, excluding the skipped ones, that have a complete and current result, from 0 to 1. It is 1 without containers.
func (s *Summary) Ratio() float64 {
	wanted := s.Total - s.Skipped
	if wanted <= 0 {
		return 1
	}
	return float64(s.Scanned) / float64(wanted)
}

// Percent is Ratio as a percentage, rounded down, so that "100%" means complete coverage.
func (s *Summary) Percent() string {
	wanted := s.Total - s.Skipped
	if wanted <= 0 {
		return "100%"
	}
	return strconv.Itoa(s.Scanned*100/wanted) + "%"
}
