package model

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestSeverity(t *testing.T) {
	for _, s := range Severities() {
		text, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var back Severity
		if err := json.Unmarshal(text, &back); err != nil || back != s {
			t.Errorf("%s came back as %s: %v", s, back, err)
		}
		if lower, err := ParseSeverity(strings.ToLower(s.String())); err != nil || lower != s {
			t.Errorf("ParseSeverity(%q) = %s, %v", strings.ToLower(s.String()), lower, err)
		}
	}
	if s, err := ParseSeverity(""); err != nil || s != SeverityUnknown {
		t.Errorf("ParseSeverity of nothing = %s, %v", s, err)
	}
	if _, err := ParseSeverity("awful"); err == nil {
		t.Error(`ParseSeverity("awful") is no error`)
	}
	if SeverityCritical <= SeverityHigh || SeverityNegligible <= SeverityUnknown {
		t.Error("the severities are not ordered")
	}
}

func TestSeverityCounts(t *testing.T) {
	var c SeverityCounts
	for _, s := range append(Severities(), SeverityHigh, Severity(200)) {
		c.Add(s)
	}
	want := SeverityCounts{Critical: 1, High: 2, Medium: 1, Low: 1, Negligible: 1, Unknown: 2}
	if c != want || c.Total() != 8 || c.Plus(c).Total() != 16 {
		t.Errorf("counts = %+v, total %d; want %+v", c, c.Total(), want)
	}
}

func TestPlatform(t *testing.T) {
	for _, s := range []string{"linux/amd64", "linux/arm/v7", "windows/amd64"} {
		p, err := ParsePlatform(s)
		if err != nil || p.String() != s {
			t.Errorf("ParsePlatform(%q) = %v, %v", s, p, err)
		}
	}
	for _, s := range []string{"", "linux", "linux/", "/amd64", "linux/amd64/v1/x", "linux/AMD64", "linux/a b", "linux/" + strings.Repeat("a", 40)} {
		if p, err := ParsePlatform(s); err == nil {
			t.Errorf("ParsePlatform(%q) = %v", s, p)
		}
	}
	if (Platform{}).String() != "" {
		t.Error("no platform has a name")
	}
}

func TestImageKey(t *testing.T) {
	digest := "sha256:" + strings.Repeat("a", 64)
	tests := []struct {
		id, repository, digest string
		pullable               bool
	}{
		{"r.example:5000/team/app@" + digest, "r.example:5000/team/app", digest, true},
		{"docker-pullable://r.example/app@" + digest, "r.example/app", digest, true},
		{digest, "", digest, false},
		{"docker://" + digest, "", digest, false},
		{"r.example/app@sha256:short", "r.example/app", "", false},
		{"r.example/app@sha512:" + strings.Repeat("0f", 64), "r.example/app", "sha512:" + strings.Repeat("0f", 64), true},
		{"r.example/app@sha512:" + strings.Repeat("a", 64), "r.example/app", "", false},
		{"r.example/app@sha256:" + strings.Repeat("A", 64), "r.example/app", "", false},
		{"r.example/app@sha256:" + strings.Repeat("a", 63) + "g", "r.example/app", "", false},
		{"r.example/app@sha384:" + strings.Repeat("a", 64), "r.example/app", "", false},
		{"r.example/app:1", "", "", false},
	}
	for _, tt := range tests {
		k := ImageKey{ImageID: NormalizeImageID(tt.id)}
		if k.Repository() != tt.repository || k.Digest() != tt.digest || k.Pullable() != tt.pullable {
			t.Errorf("%s: repository %q, digest %q, pullable %v", tt.id, k.Repository(), k.Digest(), k.Pullable())
		}
	}
	for _, id := range []string{"", "a b", "a\x00b", "ä", strings.Repeat("a", MaxImageIDLength+1)} {
		if (ImageKey{ImageID: id}).Validate() == nil {
			t.Errorf("the image ID %.20q is valid", id)
		}
	}
	if err := (ImageKey{ImageID: strings.Repeat("a", MaxImageIDLength)}).Validate(); err != nil {
		t.Error(err)
	}
}

func TestReasons(t *testing.T) {
	for _, r := range Reasons() {
		if !r.Valid() {
			t.Errorf("%s is not valid", r)
		}
	}
	if Reason("Gremlins").Valid() || Reason("").Valid() {
		t.Error("an unknown reason is valid")
	}
}

func TestRegistry(t *testing.T) {
	digest := "@sha256:" + strings.Repeat("a", 64)
	for id, want := range map[string]string{
		"r.example:5000/team/app" + digest: "r.example:5000",
		"R.Example/app" + digest:           "r.example",
		"localhost/app" + digest:           "localhost",
		"library/debian" + digest:          "docker.io",
		"debian" + digest:                  "docker.io",
		"index.docker.io/debian" + digest:  "docker.io",
		"10.0.0.1:5000/app" + digest:       "10.0.0.1:5000",
		digest[1:]:                         "",
	} {
		if got := (ImageKey{ImageID: id}).Registry(); got != want {
			t.Errorf("Registry of %s = %q, want %q", id, got, want)
		}
	}
}

func TestSizeClasses(t *testing.T) {
	var class SizeClass
	factors := []int64{class.Factor()}
	for next, more := class.Next(); more; next, more = next.Next() {
		factors = append(factors, next.Factor())
	}
	if !slices.Equal(factors, []int64{1, 2, 4}) {
		t.Errorf("factors: %v", factors)
	}
	if SizeClass("XL").OrSmall() != SizeSmall || SizeLarge.OrSmall() != SizeLarge || class.Valid() {
		t.Error("what is not a class does not count as the smallest")
	}
}

func TestOutcomeJSON(t *testing.T) {
	for name, tt := range map[string]struct {
		outcome Outcome
		text    string
		back    Outcome
	}{
		"success":        {Outcome{}, `{}`, Outcome{}},
		"failure":        {Outcome{Reason: ReasonImageNotFound, Message: "gone"}, `{"reason":"ImageNotFound","message":"gone"}`, Outcome{Reason: ReasonImageNotFound, Message: "gone"}},
		"begun seconds":  {Outcome{RetryAfter: 1500 * time.Millisecond}, `{"retryAfter":2}`, Outcome{RetryAfter: 2 * time.Second}},
		"a day is bound": {Outcome{RetryAfter: 24 * time.Hour}, `{"retryAfter":3600}`, Outcome{RetryAfter: time.Hour}},
	} {
		encoded, err := json.Marshal(tt.outcome)
		if err != nil || string(encoded) != tt.text {
			t.Errorf("%s: %s, %v; want %s", name, encoded, err, tt.text)
		}
		var back Outcome
		if err := json.Unmarshal(encoded, &back); err != nil || back != tt.back {
			t.Errorf("%s: back comes %+v, %v", name, back, err)
		}
	}
	for _, text := range []string{`{"retryAfter":1e9}`, `{"retryAfter":999999999}`, `{"retryAfter":-5}`} {
		var read Outcome
		if err := json.Unmarshal([]byte(text), &read); err == nil && (read.RetryAfter < 0 || read.RetryAfter > MaxRetryAfter) {
			t.Errorf("%s was read as %s", text, read.RetryAfter)
		}
	}
}

func TestRepositoryOf(t *testing.T) {
	digest := "@sha256:" + strings.Repeat("a", 64)
	for reference, want := range map[string]string{
		"debian": "docker.io/library/debian", "debian:12": "docker.io/library/debian", "index.docker.io/library/debian" + digest: "docker.io/library/debian",
		"team/app:1" + digest: "docker.io/team/app", "r.example:5000/a": "r.example:5000/a", "R.example/a/b__c:1": "r.example/a/b__c",
		"localhost/a": "localhost/a", "[::1]:5000/a:b": "[::1]:5000/a",
		"": "", ":1": "", "r.example/": "", "r.example//a": "", "r.example/A": "", "r.example/a b": "", "-r.example/a": "", "r.example/a/../b": "", "https://r.example/a": "",
		"r.example:port/a": "", digest[1:]: "", "r.example/" + strings.Repeat("a", 256): "", "r.example/a\n": "",
	} {
		if got := RepositoryOf(reference); got != want {
			t.Errorf("%q: got %q, want %q", reference, got, want)
		}
	}
	for repository, want := range map[string]bool{
		"docker.io/library/import-2026-11-23": true, "import-2026-11-23": true, "docker.io/library/import-2026-11-23x": false,
		"r.example/library/import-2026-11-23": false, "docker.io/library/debian": false, "": false,
	} {
		if got := (ImageKey{ImageID: repository + digest}).Imported(); got != want {
			t.Errorf("%q is imported: %t, want %t", repository, got, want)
		}
	}
}
