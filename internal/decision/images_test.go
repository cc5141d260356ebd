package decision

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

var (
	digestA = fmt.Sprintf("sha256:%064x", 10)
	digestB = fmt.Sprintf("sha512:%0128x", 11)
)

func TestImagePatterns(t *testing.T) {
	nginx, app := "docker.io/library/nginx@"+digestA, "registry.example.com:5000/team-a/sub/app@"+digestB
	short, bare, odd := "nginx@"+digestA, digestA, "registry.example.com/team-a/app:1"
	for pattern, c := range map[string]struct{ yes, no []string }{
		"docker.io/library/nginx":                {[]string{nginx, short}, []string{app, bare, odd}},
		"docker.io/library/*":                    {[]string{nginx, short}, []string{app, bare}},
		"docker.io/*":                            {[]string{nginx}, []string{app, bare}},
		"docker.io/library/ngin*":                {[]string{nginx}, []string{app}},
		"docker.io/library/nginx/*":              {nil, []string{nginx}},
		"docker.io/library":                      {nil, []string{nginx}},
		"docker.io/library/nginx@" + digestA:     {[]string{nginx}, []string{app, bare}},
		"docker.io/library/nginx@" + digestB:     {nil, []string{nginx}},
		"*@" + digestA:                           {[]string{nginx, bare}, []string{app}},
		digestA:                                  {[]string{nginx, bare, short}, []string{app}},
		digestB:                                  {[]string{app}, []string{nginx}},
		"*":                                      {[]string{nginx, app, bare, odd}, nil},
		"*/library/nginx":                        {[]string{nginx}, []string{app, bare}},
		"*/*":                                    {[]string{nginx, app}, []string{bare}},
		"registry.example.com:5000/team-a/*":     {[]string{app}, []string{nginx, odd}},
		"registry.example.com:5000/team-a/*/app": {[]string{app}, nil},
		"registry.example.com:5000/team-*/sub/app":      {[]string{app}, nil},
		"registry.example.com:5000/team-a/*@" + digestB: {[]string{app}, []string{nginx}},
		"Registry.Example.com:5000/team-a/sub/app":      {[]string{app}, nil},
		"registry.example.com/team-a/*":                 {nil, []string{app, nginx}},
	} {
		m, err := NewImageMatcher([]string{"localhost/never", pattern})
		if err != nil {
			t.Fatal(err)
		}
		index := NewImageIndex([]*ImageMatcher{m, {}, m})
		for want, ids := range map[bool][]string{true: c.yes, false: c.no} {
			for _, id := range ids {
				image := ImageOf(id)
				if got := m.Matches(&image); got != want {
					t.Errorf("%s matches %s: %t", pattern, id, got)
				}
				for range 2 { // The second answer is remembered.
					if got := index.Matching(id); want != slices.Equal(got, []int{0, 2}) || !want && len(got) > 0 {
						t.Errorf("%s matches %s in an index: %v", pattern, id, got)
					}
				}
			}
		}
	}
}

func TestImagePatternsThatAreNone(t *testing.T) {
	for text, want := range map[string]string{
		"nginx":                                "does not begin with a registry",
		"library/nginx":                        "does not begin with a registry",
		"":                                     "does not begin with a registry",
		"nginx:1.27":                           "has a tag",
		"docker.io/library/nginx:1.27":         "has a tag",
		"docker.io/library/nginx:*":            "has a tag",
		"docker.io/library/nginx:1@" + digestA: "has a tag",
		"localhost:5000":                       "has a tag",
		"docker.io/library/nginx@latest":       "no digest after @",
		"docker.io/library/nginx@sha256:*":     "no digest after @",
		"@" + digestA:                          "does not begin with a registry",
		"docker.io//nginx":                     "a segment that is empty",
		"docker.io/library/*ginx":              "at another place than the end",
		"docker.io/library/NGINX":              "a character that repositories do not have",
		"docker.io/library/ng inx":             "a character that repositories do not have",
		"docker.io/" + strings.Repeat("a", maxImagePattern): "the maximum is 512",
		"docker.io" + strings.Repeat("/a", maxSegments):     "the maximum is 16",
	} {
		if p, err := ParseImagePattern(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is %+v, %v; want %q", text, p, err, want)
		}
	}
	if _, err := NewImageMatcher([]string{digestA, "x"}); err == nil {
		t.Error("a pattern that is none is accepted")
	}
}

// FuzzImagePattern expects that no pattern and no image ID makes the matching fail, and that the pattern of an image matches it.
func FuzzImagePattern(f *testing.F) {
	f.Add("docker.io/library/*@"+digestA, "docker.io/library/nginx@"+digestA)
	f.Add("*", "sha256:x")
	f.Fuzz(func(t *testing.T, pattern, imageID string) {
		image := ImageOf(imageID)
		if repository := strings.Join(image.path, "/"); repository != "" {
			own, err := ParseImagePattern(repository)
			if err == nil && !own.Matches(&image) {
				t.Errorf("%q does not match %+v", repository, image)
			}
		}
		p, err := ParseImagePattern(pattern)
		if err != nil {
			return
		}
		matched := p.Matches(&image)
		if got := NewImageIndex([]*ImageMatcher{{digests: map[string][]ImagePattern{p.digest: {p}}, others: nil}}).Matching(imageID); p.digest != "" && matched != (len(got) == 1) {
			t.Errorf("%q matches %q: %t, and in an index %v", pattern, imageID, matched, got)
		}
	})
}
