package candidates

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
)

const (
	// maxTag is the most bytes that a tag has by the OCI distribution specification.
	maxTag = 128
	// maxNumbers is the most numbers that a version has.
	maxNumbers = 4
)

// version is a tag that is a version.
type version struct {
	tag string
	// v says that the tag begins with the letter.
	v bool
	// numbers are those of the version, in decimal without leading zeros: they can have more digits than an integer holds.
	numbers []string
	pre     preRelease
	// text is the suffix without the digits of its numbers, suffix its numbers, and starts says which of them begin a version, as 3 in -alpine3.20.
	text   string
	suffix []string
	starts []bool
	// build are numbers that begin again with each version, as 4 in -debian-12-r4.
	build []string
}

// preRelease is the part of a version that says that it is no release; the zero value is that of a release.
type preRelease struct {
	// word is in lower case, and stage orders words: 1 for alpha, 2 for beta, 3 for rc.
	word  string
	stage int
	// channel says that the word names a kind of builds, as dev or nightly, and no stage on the way to a release.
	channel bool
	numbers []string
}

var (
	tagPattern = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$`)
	// hashPattern matches what can be the hash of a commit or a part of it.
	hashPattern = regexp.MustCompile(`^[0-9a-f]{7,64}$`)
	// architecturePattern matches names of architectures, whose numbers are no versions.
	architecturePattern = regexp.MustCompile(`(?i)(?:^|[-_.])(?:amd64(?:v[1-4])?|x86[-_]64(?:[-_]v[1-4])?|x86|x64|i?[3-6]86|arm(?:32|64)?(?:v[5-9](?:hf|l)?)?|armhf|armel|aarch64(?:_be)?|` +
		`ppc64(?:le)?|s390x?|riscv(?:32|64)|mips(?:64)?(?:le|el)?|loong(?:arch)?64|win(?:32|64))(?:$|[-_.])`)
	// prePattern matches pre-releases behind a separator, or behind the last number of a version: 1.2.3-rc.1, 1.2.3rc1.
	prePattern = regexp.MustCompile(`(?i)(?:^|[-_.])(alpha|beta|rc|cr|pre|preview|milestone|ea|dev|devel|snapshot|nightly|canary|edge|unstable|next|experimental|testing|insiders|master|main|(?:a|b|m|c)(?:[0-9]))` +
		`(?:[-_.]?([0-9]+(?:\.[0-9]+)*))?(?:$|[-_.+])`)
	// buildPattern matches the number of a build behind the version, or at the end of the suffix.
	buildPattern = regexp.MustCompile(`^[-_]([0-9]+(?:[-_.][0-9]+)*)(?:$|[-_])|[-_.](?:r|rev|ls|build|p)([0-9]+(?:\.[0-9]+)*)$|[-_.]([0-9]{8,})$`)
)

// parse reads a tag. The problem says why it is no version, "" if it is one.
func parse(tag string) (v *version, problem string) {
	switch {
	case len(tag) > maxTag || !tagPattern.MatchString(tag):
		return nil, "a tag has 1 to 128 letters, digits and the characters _ . -"
	case hashPattern.MatchString(tag) && strings.ContainsAny(tag, "abcdef"):
		return nil, "it looks like the hash of a commit"
	}
	v = &version{tag: tag}
	rest, prefixed := strings.CutPrefix(tag, "v")
	v.v = prefixed
	for {
		end := digits(rest)
		if end == 0 {
			return nil, "it does not begin with a number, or with the letter v and a number"
		}
		v.numbers = append(v.numbers, number(rest[:end]))
		rest = rest[end:]
		if len(rest) < 2 || rest[0] != '.' || digits(rest[1:]) == 0 {
			break
		}
		if len(v.numbers) == maxNumbers {
			return nil, "it has more than four numbers"
		}
		rest = rest[1:]
	}
	if rest = v.readPreRelease(rest); rest != "" && !strings.ContainsRune("-_.", rune(rest[0])) {
		return nil, "letters follow its last number without a separator"
	}
	v.readSuffix(rest)
	return v, ""
}

// digits is the number of digits that a text begins with.
func digits(text string) int {
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return i
		}
	}
	return len(text)
}

// number is a number without leading zeros.
func number(text string) string { return cmp.Or(strings.TrimLeft(text, "0"), "0") }

// numbersOf are the numbers in a text.
func numbersOf(text string) (numbers []string) {
	for field := range strings.FieldsFuncSeq(text, func(r rune) bool { return r < '0' || r > '9' }) {
		numbers = append(numbers, number(field))
	}
	return numbers
}

func compareNumbers(a, b string) int {
	return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
}

// readPreRelease takes the pre-release out of what follows the version.
func (v *version) readPreRelease(rest string) string {
	at := prePattern.FindStringSubmatchIndex(rest)
	if at == nil {
		return rest
	}
	word := strings.ToLower(rest[at[2]:at[3]])
	end := at[3]
	if at[5] > 0 {
		v.pre.numbers, end = numbersOf(rest[at[4]:at[5]]), at[5]
	}
	// "a1" is a word of one letter with its first digit.
	if n := strings.TrimRight(word, "0123456789"); n != word {
		v.pre.numbers = numbersOf(rest[at[2]+1 : end])
		word = n
	}
	v.pre.word = word
	switch word {
	case "alpha", "a", "pre", "preview", "m", "milestone", "ea":
		v.pre.stage = 1
	case "beta", "b":
		v.pre.stage = 2
	case "rc", "cr", "c":
		v.pre.stage = 3
	default:
		v.pre.channel = true
	}
	start := at[2]
	if start > 0 {
		start-- // the separator
	}
	return rest[:start] + rest[end:]
}

// readSuffix takes the numbers out of the suffix.
func (v *version) readSuffix(suffix string) {
	if at := buildPattern.FindStringSubmatchIndex(suffix); at != nil && !architecturePattern.MatchString(suffix[at[0]:at[1]]) {
		for group := 2; group < len(at); group += 2 {
			if at[group] >= 0 {
				v.build = numbersOf(suffix[at[group]:at[group+1]])
				// A character that no tag has stands for the number.
				suffix = suffix[:at[group]] + "#" + suffix[at[group+1]:]
			}
		}
	}
	var architecture []int
	if at := architecturePattern.FindStringIndex(suffix); at != nil {
		architecture = at
	}
	var text strings.Builder
	for i := 0; i < len(suffix); {
		n := digits(suffix[i:])
		if n == 0 || architecture != nil && i >= architecture[0] && i < architecture[1] {
			text.WriteByte(suffix[i])
			i++
			continue
		}
		v.starts = append(v.starts, suffix[i-1] != '.' || i < 2 || digits(suffix[i-2:]) == 0)
		v.suffix = append(v.suffix, number(suffix[i:i+n]))
		text.WriteByte('0')
		i += n
	}
	v.text = text.String()
}

// sameVariant reports whether another tag is of the same variant, and of the same scheme of versions.
func (v *version) sameVariant(other *version) bool {
	if v.v != other.v || len(v.numbers) != len(other.numbers) || v.text != other.text || len(v.build) != len(other.build) {
		return false
	}
	// Behind a higher number of a version, the others of this version do not count: 4.0 follows 3.20.
	for i, higher := 0, false; i < len(v.suffix); i++ {
		n := compareNumbers(v.suffix[i], other.suffix[i])
		higher = higher && !v.starts[i]
		if n > 0 && !higher {
			return false
		}
		higher = higher || n < 0
	}
	for i := range v.numbers {
		if !isDate(v.numbers[i], i) && isDate(other.numbers[i], i) {
			return false
		}
	}
	return true
}

// isDate reports whether a number of a version can be a date or the number of a build: a year or at least five digits at the beginning, a whole date
// anywhere. Such numbers are higher than others, but not newer.
func isDate(number string, position int) bool {
	if position > 0 {
		return len(number) >= 8
	}
	return len(number) >= 5 || len(number) == 4 && number >= "1900" && number < "2200"
}

// reaches reports whether another tag is a release, or a pre-release that can follow: of the same version, which only another pre-release precedes, or of the same
// kind of builds in the same minor line.
func (v *version) reaches(other *version) bool {
	switch {
	case other.pre.word == "":
		return true
	case v.pre.channel:
		line := min(2, len(v.numbers))
		return v.pre.word == other.pre.word && slices.Equal(v.numbers[:line], other.numbers[:line])
	default:
		return slices.Equal(v.numbers, other.numbers)
	}
}

// compare orders versions of one variant: by numbers, pre-release, suffix and build.
func (v *version) compare(other *version) int {
	if n := cmp.Or(slices.CompareFunc(v.numbers, other.numbers, compareNumbers), v.pre.compare(&other.pre)); n != 0 {
		return n
	}
	return cmp.Or(slices.CompareFunc(v.suffix, other.suffix, compareNumbers), slices.CompareFunc(v.build, other.build, compareNumbers))
}

// compare orders a release after the pre-releases of its version, and these by stage and number.
func (p *preRelease) compare(other *preRelease) int {
	switch {
	case p.word == "" && other.word == "":
		return 0
	case p.word == "":
		return 1
	case other.word == "":
		return -1
	}
	return cmp.Or(cmp.Compare(p.stage, other.stage), slices.CompareFunc(p.numbers, other.numbers, compareNumbers))
}

// kind is that of a newer version.
func (v *version) kind(newer *version) Kind {
	if v.numbers[0] != newer.numbers[0] {
		return KindMajor
	}
	for i, start := range v.starts {
		if start && v.suffix[i] != newer.suffix[i] {
			return KindMajor
		}
	}
	if len(v.numbers) > 1 && v.numbers[1] != newer.numbers[1] {
		return KindMinor
	}
	return KindPatch
}
