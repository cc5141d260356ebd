package vuln

import (
	"encoding/json"
	"strings"
	"testing"
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
