// Package coverage says of a container whether what it runs has been scanned, and if not, why. It does no I/O.
package coverage

import (
	"strconv"
	"strings"

	"github.com/scanner-operator/scanner-operator/internal/vuln"
)

// State is the coverage of one container.
type State string

// The states.
const (
	// Scanned: there is a result of the database build in use.
	Scanned State = "Scanned"
	// Stale: there is a result, but of an earlier database build.
	Stale State = "Stale"
	// Pending: the work is not done yet.
	Pending State = "Pending"
	// Failed: the last attempt failed.
	Failed State = "Failed"
	// Skipped: left out on purpose.
	Skipped State = "Skipped"
)

// The reasons of Pending; those of Failed are vuln.Reason, those of Skipped come with the container.
const (
	// ReasonNotPulled: the kubelet has not pulled the image yet.
	ReasonNotPulled = "NotPulled"
	// ReasonNotCatalogued: there is no SBOM of the image yet.
	ReasonNotCatalogued = "NotCatalogued"
	// ReasonNotMatched: there is an SBOM, and it was not matched yet.
	ReasonNotMatched = "NotMatched"
	// ReasonNoDatabase: there is an SBOM, but no vulnerability database.
	ReasonNoDatabase = "NoDatabase"
)

// Container is what coverage reads of a container.
type Container struct {
	// Skip is why the container is left out on purpose, empty when it is not.
	Skip string
	Key  vuln.ImageKey
	// WaitingReason and WaitingMessage are the kubelet's account of why the container does not run.
	WaitingReason  string
	WaitingMessage string
}

// Image is what coverage reads of an image.
type Image struct {
	// Catalogued: there is an SBOM.
	Catalogued bool
	// Build is the database build of the result, empty without one.
	Build string
	// Reason is set when the last attempt to catalogue or to match failed.
	Reason vuln.Reason
}

// Result is the coverage of a container and, unless it is Scanned, the reason.
type Result struct {
	State  State
	Reason string
}

// Of computes the coverage of a container from what is known of its image. build is the database build in use,
// empty when there is none.
func Of(c Container, image Image, build string) Result {
	switch {
	case c.Skip != "":
		return Result{Skipped, c.Skip}
	case c.Key.ImageID == "":
		if reason := PullFailure(c.WaitingReason, c.WaitingMessage); reason != "" {
			return Result{Failed, string(reason)}
		}
		return Result{Pending, ReasonNotPulled}
	case image.Build != "" && image.Build == build:
		return Result{State: Scanned}
	case image.Build != "":
		return Result{Stale, ReasonNotMatched}
	case image.Reason != "":
		return Result{Failed, string(image.Reason)}
	case image.Catalogued && build == "":
		return Result{Pending, ReasonNoDatabase}
	case image.Catalogued:
		return Result{Pending, ReasonNotMatched}
	case !c.Key.Pullable() || c.Key.Validate() != nil:
		return Result{Failed, string(vuln.ReasonNotPullable)}
	default:
		return Result{Pending, ReasonNotCatalogued}
	}
}

// PullFailure gives the typed reason of a container that waits because the kubelet cannot pull its image, "" when it
// waits for another reason. The kubelet tells the cause only in words, which differ from runtime to runtime.
func PullFailure(reason, message string) vuln.Reason {
	switch reason {
	case "InvalidImageName", "ErrImageNeverPull":
		return vuln.ReasonNotPullable
	case "RegistryUnavailable":
		return vuln.ReasonRegistryUnavailable
	case "ErrImagePull", "ImagePullBackOff":
	default:
		return ""
	}
	lower := strings.ToLower(message)
	has := func(words ...string) bool {
		for _, w := range words {
			if strings.Contains(lower, w) {
				return true
			}
		}
		return false
	}
	switch {
	case has("toomanyrequests", "too many requests", "429"):
		return vuln.ReasonRegistryRateLimited
	case has("no match for platform", "no matching manifest"):
		return vuln.ReasonPlatformMismatch
	case has("unauthorized", "401", "403", "forbidden", "denied", "no basic auth", "authorization failed", "authentication required"):
		return vuln.ReasonImagePullDenied
	case has("not found", "manifest unknown", "name unknown", "404"):
		return vuln.ReasonImageNotFound
	case has("no space left"):
		return vuln.ReasonOutOfDisk
	default:
		return vuln.ReasonRegistryUnavailable
	}
}

// Summary counts containers by state.
type Summary struct {
	Total, Scanned, Pending, Failed, Skipped, Stale int
	// Reasons counts the reasons of Pending, Failed and Stale containers.
	Reasons map[string]int
}

// Add counts one more container.
func (s *Summary) Add(r Result) {
	s.Total++
	switch r.State {
	case Scanned:
		s.Scanned++
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

// Complete reports whether every container that is not skipped has a current result.
func (s *Summary) Complete() bool { return s.Scanned+s.Skipped == s.Total }

// Ratio is the share of containers, without the skipped ones, that have a current result, from 0 to 1. Nothing to cover is complete.
func (s *Summary) Ratio() float64 {
	wanted := s.Total - s.Skipped
	if wanted <= 0 {
		return 1
	}
	return float64(s.Scanned) / float64(wanted)
}

// Percent is the share of containers, without the skipped ones, that have a current result, rounded down: "100%" is
// shown for complete coverage only. Nothing to cover is complete.
func (s *Summary) Percent() string {
	wanted := s.Total - s.Skipped
	if wanted <= 0 {
		return "100%"
	}
	return strconv.Itoa(s.Scanned*100/wanted) + "%"
}
