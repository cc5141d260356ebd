package candidates_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/candidates"
)

func goodReport() candidates.Report {
	digest := "sha256:" + strings.Repeat("a", 64)
	return candidates.Report{Source: "mirror.example/app", Listed: 12, Incomplete: "cut", Tags: []candidates.ReportedTag{
		{Candidate: candidates.Candidate{Tag: "1.2", Kind: candidates.KindPatch}, Digest: digest, SBOM: []byte("\x00zstd")},
		{Candidate: candidates.Candidate{Tag: "1.3", Kind: candidates.KindMinor}, Digest: digest},
		{Candidate: candidates.Candidate{Tag: "2.0", Kind: candidates.KindMajor}, Problem: "not pulled"},
	}}
}

func encode(t *testing.T, report any) []byte {
	t.Helper()
	content, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func TestReadReport(t *testing.T) {
	for name, want := range map[string]candidates.Report{
		"newer tags":    goodReport(),
		"no newer tags": {Listed: 3, Reason: candidates.ReasonNewest, Message: "none is newer"},
	} {
		got, err := candidates.ReadReport(encode(t, want))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if diff := cmp.Diff(want, *got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestHostileReports(t *testing.T) {
	for name, spoil := range map[string]func(*candidates.Report){
		"an invalid tag":           func(r *candidates.Report) { r.Tags[0].Tag = "../1" },
		"a tag twice":              func(r *candidates.Report) { r.Tags[1].Tag = r.Tags[0].Tag },
		"an unknown kind":          func(r *candidates.Report) { r.Tags[0].Kind = "huge" },
		"an invalid digest":        func(r *candidates.Report) { r.Tags[0].Digest = "sha256:x" },
		"neither digest nor cause": func(r *candidates.Report) { r.Tags[1].Digest = "" },
		"an SBOM and a problem":    func(r *candidates.Report) { r.Tags[0].Problem = "not pulled" },
		"no tags":                  func(r *candidates.Report) { r.Tags = nil },
		"tags and a reason":        func(r *candidates.Report) { r.Reason = candidates.ReasonNewest },
		"an unknown reason":        func(r *candidates.Report) { r.Tags, r.Reason = nil, "Because" },
		"a negative number":        func(r *candidates.Report) { r.Listed = -1 },
		"too many listed":          func(r *candidates.Report) { r.Listed = 1_000_000 },
		"too many tags":            func(r *candidates.Report) { r.Tags = make([]candidates.ReportedTag, 11) },
		"large SBOMs": func(r *candidates.Report) {
			r.Tags[0].SBOM, r.Tags[1].SBOM = make([]byte, candidates.MaxReportedSBOMs), []byte{1}
		},
	} {
		report := goodReport()
		spoil(&report)
		if got, err := candidates.ReadReport(encode(t, report)); err == nil {
			t.Errorf("%s is accepted: %+v", name, got)
		}
	}
	for _, content := range []string{"", "null x", "[]", `{"tags":{}}`, `{"tags":[{"sbom":"%"}]}`, strings.Repeat(`{"tags":[`, 20_000)} {
		if _, err := candidates.ReadReport([]byte(content)); err == nil {
			t.Errorf("%.40q is accepted", content)
		}
	}
}

// FuzzReadReport: what is accepted has the bounds that the store relies on.
func FuzzReadReport(f *testing.F) {
	good, _ := json.Marshal(goodReport())
	f.Add(good)
	f.Add([]byte(`{"listed":1,"reason":"Newest","tags":null}`))
	f.Fuzz(func(t *testing.T, content []byte) {
		report, err := candidates.ReadReport(content)
		if err != nil {
			return
		}
		if len(report.Tags) > candidates.MaxLimit || report.Listed < 0 {
			t.Errorf("%+v", report)
		}
		for _, tag := range report.Tags {
			if tag.Tag == "" || len(tag.Tag) > 128 || tag.Digest == "" && (tag.Problem == "" || tag.SBOM != nil) {
				t.Errorf("%+v", tag)
			}
		}
	})
}
