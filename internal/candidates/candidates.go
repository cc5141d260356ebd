package candidates

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/scanner-operator/scanner-operator/internal/truncate"
)

// Bounds of a choice: DefaultLimit is how many tags are chosen if the caller does not say, MaxLimit the most that can be chosen.
const (
	DefaultLimit = 3
	MaxLimit     = 10
)

// Kind is how far a newer tag is from the current one.
type Kind string

// The kinds. They follow from the position of the number that is higher: 16.4 is a minor version after 16.3.
const (
	// KindPatch is a newer tag of the same minor line: the first two numbers are the same. It can be another build of the same version.
	KindPatch Kind = "patch"
	// KindMinor is a newer tag of the same major line: the first number is the same.
	KindMinor Kind = "minor"
	// KindMajor is any other newer tag, also one for which the first number of a version in the suffix is higher, as from -debian-12 to -debian-13.
	KindMajor Kind = "major"
)

// Candidate is a newer tag.
type Candidate struct {
	Tag  string `json:"tag"`
	Kind Kind   `json:"kind"`
}

// Reason says why there is no candidate.
type Reason string

// The reasons.
const (
	// ReasonNoVersion says that the current tag is no version, so none is newer.
	ReasonNoVersion Reason = "NoVersion"
	// ReasonNewest says that no tag of the same variant has a higher version.
	ReasonNewest Reason = "Newest"
)

// Choice is what Choose chose.
type Choice struct {
	// Candidates are in the order of preference: the newest tag of the same minor line, of the same major line, and of all. With a limit above
	// DefaultLimit, the newest tag of each other minor line follows, of the same major line first.
	Candidates []Candidate
	// Reason and Message say why there are no candidates; both are "" if there are some.
	Reason  Reason
	Message string
}

// line is what tags have in common of which only the newest is chosen.
type line struct {
	major, minor string
	// kind separates tags for which a version in the suffix is of another line.
	kind Kind
	// channel separates versions such as 1.2.3-dev, which a repository can have beside 1.2.3.
	channel bool
}

// Choose chooses at most limit newer tags of the same variant as the current tag: 1 to MaxLimit, DefaultLimit for any other value. What is no version, or of
// another variant, is ignored.
func Choose(current string, tags []string, limit int) Choice {
	from, problem := parse(current)
	if problem != "" {
		return Choice{Reason: ReasonNoVersion, Message: fmt.Sprintf("the tag %s is no version: %s", strconv.Quote(truncate.Text(current, maxTag)), problem)}
	}
	if limit < 1 || limit > MaxLimit {
		limit = DefaultLimit
	}
	newest := map[line]*version{}
	for _, tag := range tags {
		to, problem := parse(tag)
		if problem != "" || !from.sameVariant(to) || !from.reaches(to) || from.compare(to) >= 0 {
			continue
		}
		key := line{kind: from.kind(to), channel: to.pre.channel, major: to.numbers[0]}
		if len(to.numbers) > 1 {
			key.minor = to.numbers[1]
		}
		// Of two spellings of one version, such as 1.02 and 1.2, always the same is chosen.
		if best := newest[key]; best == nil || cmp.Or(best.compare(to), cmp.Compare(to.tag, best.tag)) < 0 {
			newest[key] = to
		}
	}
	chosen := order(newest, limit)
	if len(chosen) == 0 {
		return Choice{Reason: ReasonNewest, Message: fmt.Sprintf("no tag of the same variant as %s has a higher version", current)}
	}
	return Choice{Candidates: chosen}
}

// order puts the newest tags of lines in the order of preference.
func order(newest map[line]*version, limit int) []Candidate {
	kinds := make(map[*version]Kind, len(newest))
	var all []*version
	for key, v := range newest {
		kinds[v] = key.kind
		all = append(all, v)
	}
	// The newest first; two that only differ in what compare ignores are ordered by their text.
	slices.SortFunc(all, func(a, b *version) int { return cmp.Or(b.compare(a), cmp.Compare(a.tag, b.tag)) })
	var chosen []*version
	choose := func(v *version) {
		if !slices.Contains(chosen, v) && len(chosen) < limit {
			chosen = append(chosen, v)
		}
	}
	of := func(wanted ...Kind) (some []*version) {
		for _, v := range all {
			if slices.Contains(wanted, kinds[v]) {
				some = append(some, v)
			}
		}
		return some
	}
	for _, wanted := range []Kind{KindPatch, KindMinor, KindMajor} {
		if some := of(wanted); len(some) > 0 {
			choose(some[0])
		}
	}
	if limit > DefaultLimit {
		for _, v := range slices.Concat(of(KindPatch, KindMinor), of(KindMajor)) {
			choose(v)
		}
	}
	candidates := make([]Candidate, len(chosen))
	for i, v := range chosen {
		candidates[i] = Candidate{Tag: v.tag, Kind: kinds[v]}
	}
	return candidates
}
