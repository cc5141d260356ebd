package sbomgen

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// oddVersions are what package managers, people and broken builds write.
var oddVersions = []string{
	"", "unknown", "UNKNOWN", "(devel)", "latest", "0", "v1", "1", "1.0.0-SNAPSHOT", "1..2", "1.2.3.4.5.6", "=1.0", ">= 1.0, < 2", "1.0 || 2.0",
	"v0.0.0-20210921155107-089bfa567519", "v1.2.3+incompatible", "go1.20.9", "1:1.0-1", "0:0-0", "99999999999999999999", "1.0~rc1-1", "2!1.0", "r12", "a.b.c",
	"1.0\n", " 1.0", "1.0.0-alpha.1+build.5", "1.0_p1-r0", "१.२", "-1", "1.0.0.Final", "8u292-b10", "11.0.11+9", "*", "1.x",
}

// version is at or near one of those that matter, or odd.
func (d *draw) version(at []string) string {
	if len(at) == 0 || d.chance(7) {
		return pick(d, oddVersions)
	}
	version := pick(d, at)
	if version == "0" && len(at) > 1 {
		version = pick(d, at)
	}
	switch n := d.IntN(100); {
	case n < 35:
		return version
	case n < 75:
		return d.nudge(version)
	default:
		return version + pick(d, []string{".1", "-r0", "~rc1", "+b1", "-1", "a", "-SNAPSHOT", "_p1", "+incompatible", ".el8", ".0"})
	}
}

// nudge makes the last number of a version one smaller or greater.
func (d *draw) nudge(version string) string {
	digit := func(r rune) bool { return '0' <= r && r <= '9' }
	end := strings.LastIndexFunc(version, digit) + 1
	start := strings.LastIndexFunc(version[:end], func(r rune) bool { return !digit(r) }) + 1
	number, err := strconv.Atoi(version[start:end])
	if err != nil {
		return version
	}
	if number > 0 && d.chance(65) {
		number--
	} else {
		number++
	}
	return version[:start] + strconv.Itoa(number) + version[end:]
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
