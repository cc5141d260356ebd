package candidates_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/candidates"
)

// choice writes candidates as "tag kind, …".
func choice(c candidates.Choice) string {
	var all []string
	for _, one := range c.Candidates {
		all = append(all, one.Tag+" "+string(one.Kind))
	}
	return strings.Join(all, ", ")
}

// Tags as repositories have them.
const (
	nginx = `latest stable mainline alpine 1 1.27 1.28 1.29 1.25.5 1.26.3 1.27.0 1.27.1 1.27.4 1.27.5 1.28.0 1.29.3 1.27.1-alpine 1.27.4-alpine 1.29.3-alpine
		1.27.1-alpine3.20 1.27.4-alpine3.20 1.27.4-alpine3.21 1.29.3-alpine3.22 1.27.4-alpine-slim 1.27.4-alpine3.21-perl 1.27.5-bookworm 1.29.3-trixie-otel`
	postgres = `latest alpine 9.6 9.6.24 15 15.8 16 16.3 16.4 16.10 17 17.5 18 18.0 17rc1 17beta1 18rc1-alpine3.22 18beta3 16.3-alpine 16.4-alpine 17-alpine 18-alpine
		16.3-alpine3.19 16.4-alpine3.20 17.5-alpine3.22 16.4-bookworm 16-bullseye`
	golang = `latest tip tip-20241101 1 1.22 1.23 1.22.3 1.22.5 1.22.12 1.23.0 1.23.12 1.24rc2 1.25rc1-alpine3.21 1.22.5-alpine3.19 1.22.6-alpine3.20 1.23.1-alpine3.20 1.22.6-bookworm
		1.22.6-windowsservercore-ltsc2022 1.22.6-nanoserver-1809`
	redis   = `latest 7 7.2 7.2.4 7.2.5 7.2.10 7.4.0 7.4-rc1 7.4-rc2 8.0-M02 8.0-M03 8.0-rc1 8.0 8.2.1 8.0-M03-alpine 7.2.5-alpine 7.2.5-bookworm`
	python  = `3 3.12 3.12.3 3.12.3-slim 3.12.11-slim 3.13.0a1-slim 3.13.0rc1-slim 3.13.0rc3-slim 3.13.0-slim 3.13.7-slim 3.14.0b2-slim 3.14.0rc2-slim 3.14-rc-slim 3.14-rc 3.12.3-slim-bookworm 3.12.11-slim-bookworm 3.13.7-slim-trixie 3.13.7-slim-bookworm`
	bitnami = `latest 1.2.3-debian-12-r4 1.2.3-debian-12-r10 1.2.4-debian-12-r0 1.3.0-debian-12-r1 1.3.0-debian-11-r99 1.4.0-debian-13-r0 2.0.0-debian-12-r3 2.1.0-debian-12
		sha256-1111111111111111111111111111111111111111111111111111111111111111.sig 1.2.3-debian-12-r4-arm64`
	chainguard = `latest latest-dev 1.27.1 1.27.1-dev 1.27.3 1.27.3-dev 1.28.0-dev 1.28 next`
	kubernetes = `v1.34.2 v1.34.3 v1.34.10 v1.35.0-alpha.1 v1.35.0-beta.0 v1.35.0-beta.1 v1.35.0-rc.1 v1.35.0 v1.35.1 v1.36.0-alpha.0 v2.0.0-alpha.1 1.99.0 v1.34.2-amd64 v1.35.1-amd64 v1.35.1-arm64
		sha256-2222222222222222222222222222222222222222222222222222222222222222.att v20240101-deadbee`
	architectures = `1.0-arm32v6 1.0-arm64v8 1.1-arm32v7 1.1-arm32v6 1.2-arm64v8 1.0-amd64 1.0-386 1.1-686 1.1-amd64v3 1.1-x86_64 1.0-s390x 1.1-s390x`
	runtimes      = `3.9.6-eclipse-temurin-17 3.9.9-eclipse-temurin-17 3.9.9-eclipse-temurin-21 3.9.9-amazoncorretto-17 4.0.0-eclipse-temurin-21
		21.0.5_11-jre 21.0.6_7-jre 21.0.6_7-jdk 21.0.5_12-jre 8u402-b06-jre 22_36-jre`
	schemes = `1.27 1.26 1.28 2024.1 2024.1.1 20240101 105512 9999 2.0 1.20240101 27.1 30000.1`
	dates   = `20240101 20240215 20231231 20241301 2024-01-15 2024-02-01 2023-12-31 2025-01-01 1.0`
	others  = `main master sha-1a2b3c4 1a2b3c4 0123abc 1234567 v release-1.2.3 1.2.3.4.5.6 1.2.3.4 1.2.3.5 1.2.4.0 1.2.3.Final 1.2.4.Final 1.2.3-ls45 1.2.3-ls110 1.2.4-ls7 1x 01.02.004 1.2.03`
)

func TestChoose(t *testing.T) {
	for _, c := range []struct{ current, tags, want string }{
		{"1.27.1", nginx, "1.27.5 patch, 1.29.3 minor"},
		{"1.27.1-alpine", nginx, "1.27.4-alpine patch, 1.29.3-alpine minor"},
		{"1.27.1-alpine3.20", nginx, "1.27.4-alpine3.21 patch, 1.29.3-alpine3.22 minor"},
		{"1.27.1-alpine3.20", "1.27.5-alpine3.19 1.27.5-alpine2.21 1.27.4-alpine4.0", "1.27.4-alpine4.0 major"},
		{"1.0-jre17-alpine3.20", "1.1-jre21-alpine3.19 1.1-jre16-alpine3.20 1.0-jre17-alpine3.21", "1.0-jre17-alpine3.21 patch"},
		{"1.27", nginx, "1.29 minor"},
		{"1", nginx, ""},
		{"1.25.5", nginx, "1.29.3 minor"},
		{"16.3", postgres, "16.10 minor, 18.0 major"},
		{"16", postgres, "18 major"},
		{"9.6.24", postgres, ""},
		{"16.3-alpine3.19", postgres, "16.4-alpine3.20 minor, 17.5-alpine3.22 major"},
		{"16-alpine", postgres, "18-alpine major"},
		{"17beta1", postgres, "17 patch, 18 major"},
		{"18beta3", postgres, "18 patch"},
		{"17rc1", "17rc1 17rc3 17beta2 17rc2 18beta1", "17rc3 patch"},
		{"1.22.3", golang, "1.22.12 patch, 1.23.12 minor"},
		{"1.22.5-alpine3.19", golang, "1.22.6-alpine3.20 patch, 1.23.1-alpine3.20 minor"},
		{"7.2.4", redis, "7.2.10 patch, 7.4.0 minor, 8.2.1 major"},
		{"8.0-M02", redis, "8.0 patch"},
		{"8.0-M02", "8.0-M02 8.0-M03 8.2-M09", "8.0-M03 patch"},
		{"3.12.3-slim", python, "3.12.11-slim patch, 3.13.7-slim minor"},
		{"3.12.3-slim-bookworm", python, "3.12.11-slim-bookworm patch, 3.13.7-slim-bookworm minor"},
		{"3.13.0a1-slim", python, "3.13.7-slim patch"},
		{"3.14.0b2-slim", python, "3.14.0rc2-slim patch"},
		{"3.12", python, ""},
		// The revision begins again with each version. Another release of the distribution is a major change.
		{"1.2.3-debian-12-r4", bitnami, "1.2.4-debian-12-r0 patch, 1.3.0-debian-12-r1 minor, 2.0.0-debian-12-r3 major"},
		{"1.2.4-debian-12-r0", bitnami, "1.3.0-debian-12-r1 minor, 2.0.0-debian-12-r3 major"},
		{"1.2.3-debian-12-r4", "1.2.3-debian-12-r3 1.2.3-debian-12-r10", "1.2.3-debian-12-r10 patch"},
		{"1.27.1", chainguard, "1.27.3 patch"},
		{"1.27.1-dev", chainguard, "1.27.3 patch"},
		{"1.27.1-dev", "1.27.2-nightly 1.28.0-dev 1.27.2-rc1", ""},
		{"1.27.1-nightly.20240101", "1.27.1-nightly.20240215 1.27.1-nightly.20231231", "1.27.1-nightly.20240215 patch"},
		{"v1.34.2", kubernetes, "v1.34.10 patch, v1.35.1 minor"},
		{"v1.35.0-alpha.1", kubernetes, "v1.35.1 patch"},
		{"v1.35.0-alpha.1", "v1.35.0-beta.0 v1.35.0-rc.1 v1.35.1-rc.0 v1.36.0-rc.9", "v1.35.0-rc.1 patch"},
		{"v1.34.2-amd64", kubernetes, "v1.35.1-amd64 minor"},
		{"1.0-arm32v6", architectures, "1.1-arm32v6 minor"},
		{"1.0-arm64v8", architectures, "1.2-arm64v8 minor"},
		{"1.0-amd64", architectures, ""},
		{"1.0-386", architectures, ""},
		{"1.0-s390x", architectures, "1.1-s390x minor"},
		{"3.9.6-eclipse-temurin-17", runtimes, "3.9.9-eclipse-temurin-17 patch, 4.0.0-eclipse-temurin-21 major"},
		{"21.0.5_11-jre", runtimes, "21.0.6_7-jre patch"},
		{"1.27", schemes, "1.28 minor, 27.1 major"},
		{"2024.1", schemes + " 2024.2 2025.1", "2024.2 minor, 30000.1 major"},
		{"20240101", dates, "20241301 major"},
		{"2023-12-31", dates, "2025-01-01 major"},
		{"9.4-1194", "9.4-1194.17 9.5-1204 9.5-1214.1725849298", "9.5-1204 minor"},
		{"1.2.3.4", others, "1.2.4.0 patch"},
		{"1.2.3.Final", others, "1.2.4.Final patch"},
		{"1.2.3-ls45", others, "1.2.4-ls7 patch"},
		{"1.2.3", others, "01.02.004 patch"},
		{"1.2.3", "1.2.3 1.2.03 v1.2.4 1.2.4-alpine 1.3 1.2", ""},
		{"1.0", "1.02 1.2", "1.02 minor"},
		{"1.0", "1.2 1.02", "1.02 minor"},
	} {
		if got := choice(candidates.Choose(c.current, strings.Fields(c.tags), 0)); got != c.want {
			t.Errorf("%s: got %q, want %q", c.current, got, c.want)
		}
	}
}

// With a higher limit, the newest tag of each other line follows.
func TestLimit(t *testing.T) {
	tags := strings.Fields("1.1.0 1.1.1 1.1.2 1.2.0 1.2.1 1.3.0 1.3.9 2.0.0 2.0.5 2.1.0 3.0.0 3.0.1")
	for limit, want := range map[int]string{
		1: "1.1.2 patch", 2: "1.1.2 patch, 1.3.9 minor", 3: "1.1.2 patch, 1.3.9 minor, 3.0.1 major",
		5:  "1.1.2 patch, 1.3.9 minor, 3.0.1 major, 1.2.1 minor, 2.1.0 major",
		10: "1.1.2 patch, 1.3.9 minor, 3.0.1 major, 1.2.1 minor, 2.1.0 major, 2.0.5 major",
		0:  "1.1.2 patch, 1.3.9 minor, 3.0.1 major", -1: "1.1.2 patch, 1.3.9 minor, 3.0.1 major", 11: "1.1.2 patch, 1.3.9 minor, 3.0.1 major",
	} {
		if got := choice(candidates.Choose("1.1.0", tags, limit)); got != want {
			t.Errorf("%d: got %q, want %q", limit, got, want)
		}
	}
	got := choice(candidates.Choose("1.27.1-dev", strings.Fields(chainguard), 10))
	if want := "1.27.3 patch, 1.27.3-dev patch"; got != want {
		t.Errorf("builds of a channel: %q, want %q", got, want)
	}
	got = choice(candidates.Choose("3.9.6-eclipse-temurin-17", strings.Fields(runtimes), 10))
	if want := "3.9.9-eclipse-temurin-17 patch, 4.0.0-eclipse-temurin-21 major, 3.9.9-eclipse-temurin-21 major"; got != want {
		t.Errorf("runtimes: %q, want %q", got, want)
	}
}

func TestReasons(t *testing.T) {
	for current, want := range map[string]candidates.Choice{
		"latest":                 {Reason: candidates.ReasonNoVersion, Message: `the tag "latest" is no version: it does not begin with a number, or with the letter v and a number`},
		"latest-dev":             {Reason: candidates.ReasonNoVersion, Message: `the tag "latest-dev" is no version: it does not begin with a number, or with the letter v and a number`},
		"v":                      {Reason: candidates.ReasonNoVersion, Message: `the tag "v" is no version: it does not begin with a number, or with the letter v and a number`},
		"1a2b3c4":                {Reason: candidates.ReasonNoVersion, Message: `the tag "1a2b3c4" is no version: it looks like the hash of a commit`},
		"1.2.3.4.5":              {Reason: candidates.ReasonNoVersion, Message: `the tag "1.2.3.4.5" is no version: it has more than four numbers`},
		"2x":                     {Reason: candidates.ReasonNoVersion, Message: `the tag "2x" is no version: letters follow its last number without a separator`},
		"":                       {Reason: candidates.ReasonNoVersion, Message: `the tag "" is no version: a tag has 1 to 128 letters, digits and the characters _ . -`},
		"1.0\n":                  {Reason: candidates.ReasonNoVersion, Message: `the tag "1.0\n" is no version: a tag has 1 to 128 letters, digits and the characters _ . -`},
		strings.Repeat("1", 200): {Reason: candidates.ReasonNoVersion, Message: `the tag "` + strings.Repeat("1", 128) + `" is no version: a tag has 1 to 128 letters, digits and the characters _ . -`},
		"9.9":                    {Reason: candidates.ReasonNewest, Message: "no tag of the same variant as 9.9 has a higher version"},
	} {
		if diff := cmp.Diff(want, candidates.Choose(current, strings.Fields(nginx), 3)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", current, diff)
		}
	}
}

// Numbers that no integer holds are compared, and very many tags cost one look at each.
func TestHostileTags(t *testing.T) {
	nines := strings.Repeat("9", 120)
	if got := choice(candidates.Choose("1.1", []string{"1." + nines, "1.1" + nines, "1.2", nines, strings.Repeat("9", 127) + ".1"}, 3)); got != "1.2 minor" {
		t.Errorf("numbers with very many digits: %q", got)
	}
	if got := choice(candidates.Choose("1."+nines+"8", []string{"1." + nines + "9", "1." + nines, "1.2"}, 3)); got != "1."+nines+"9 minor" {
		t.Errorf("from a number with very many digits: %q", got)
	}
	tags := make([]string, 0, 100_000)
	for i := range cap(tags) {
		tags = append(tags, fmt.Sprintf("1.%d.%d-%s", i%1000, i, strings.Repeat("x1.", 5)))
	}
	if got := candidates.Choose(tags[0], tags, 10).Candidates; len(got) != 10 || got[0].Kind != candidates.KindPatch || !strings.HasPrefix(got[0].Tag, "1.0.99000-") || !strings.HasPrefix(got[1].Tag, "1.999.99999-") {
		t.Errorf("of very many tags: %v", got)
	}
}

// FuzzChoose: whatever the tags are, a candidate is one of them and newer, so that from it there is no way back.
func FuzzChoose(f *testing.F) {
	for _, seed := range [][2]string{
		{"1.27.1", nginx}, {"17beta1", postgres}, {"8.0-M02", redis}, {"3.13.0a1-slim", python}, {"1.2.3-debian-12-r4", bitnami}, {"1.27.1-dev", chainguard},
		{"v1.35.0-alpha.1", kubernetes}, {"1.0-arm32v6", architectures}, {"21.0.5_11-jre", runtimes}, {"2023-12-31", dates}, {"1.2.3", others},
		{"1-.1", "1-.2 1_-r1 1-#1 1.0- 1-0"}, {"0", "00 1"}, {"1a1", "1a2 1-a3 1b"},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, current, list string) {
		tags := strings.Fields(list)
		tags = tags[:min(len(tags), 100)]
		got := candidates.Choose(current, tags, candidates.MaxLimit)
		if (len(got.Candidates) == 0) != (got.Reason != "") || (got.Reason == "") != (got.Message == "") || len(got.Candidates) > candidates.MaxLimit {
			t.Fatalf("%q: %+v", current, got)
		}
		seen := map[string]bool{current: true}
		for _, c := range got.Candidates {
			if seen[c.Tag] || !strings.Contains(" "+strings.Join(tags, " ")+" ", " "+c.Tag+" ") || len(c.Tag) > 128 {
				t.Errorf("%q: chose %q", current, c.Tag)
			}
			seen[c.Tag] = true
			if back := candidates.Choose(c.Tag, []string{current}, 1); len(back.Candidates) > 0 {
				t.Errorf("%q is newer than %q, and the other way round", c.Tag, current)
			}
			if again := candidates.Choose(current, []string{c.Tag}, 1); len(again.Candidates) != 1 {
				t.Errorf("%q is newer than %q only among others", c.Tag, current)
			}
		}
	})
}
