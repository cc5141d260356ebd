package advice_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/advice"
	"github.com/scanner-operator/scanner-operator/internal/model"
)

// found is a finding; kev is "kev" for one that is known to be exploited.
func found(id, name, version string, severity model.Severity, risk float64, kev string, fix ...string) model.Finding {
	f := model.Finding{Package: model.Package{Name: name, Version: version}}
	f.Vulnerability = model.Vulnerability{ID: id, Severity: severity, Risk: risk}
	if kev != "" {
		f.Vulnerability.KEV = []model.KnownExploited{{CVE: id}}
	}
	if len(fix) > 0 {
		f.Fix = model.Fix{State: model.FixStateFixed, Versions: fix}
	}
	return f
}

func TestCompare(t *testing.T) {
	from := []model.Finding{
		found("CVE-1", "openssl", "3.0.1", model.SeverityHigh, 1, ""),
		found("CVE-2", "openssl", "3.0.1", model.SeverityLow, 1, "", "3.0.2"),
		found("CVE-3", "zlib", "1", model.SeverityMedium, 2, ""),
	}
	to := []model.Finding{
		found("CVE-1", "openssl", "3.0.2", model.SeverityHigh, 1, ""), // another version
		found("CVE-3", "minizip", "1", model.SeverityMedium, 2, ""),   // another package
		found("CVE-4", "curl", "8", model.SeverityMedium, 1, ""),
		found("CVE-4", "curl", "7", model.SeverityHigh, 0.5, "", "8"), // the same twice
		found("CVE-5", "curl", "8", model.SeverityHigh, 9, ""),
		found("CVE-6", "curl", "8", model.SeverityHigh, 0.1, "kev"),
		found("CVE-7", "curl", "8", model.SeverityHigh, 9, ""),
	}
	want := advice.Comparison{
		Opened: []advice.Change{
			{VulnerabilityID: "CVE-6", Package: "curl", Severity: model.SeverityHigh, KEV: true},
			{VulnerabilityID: "CVE-5", Package: "curl", Severity: model.SeverityHigh},
			{VulnerabilityID: "CVE-7", Package: "curl", Severity: model.SeverityHigh},
			{VulnerabilityID: "CVE-4", Package: "curl", Severity: model.SeverityHigh, Fixable: true},
			{VulnerabilityID: "CVE-3", Package: "minizip", Severity: model.SeverityMedium},
		},
		Closed: []advice.Change{
			{VulnerabilityID: "CVE-3", Package: "zlib", Severity: model.SeverityMedium},
			{VulnerabilityID: "CVE-2", Package: "openssl", Severity: model.SeverityLow, Fixable: true},
		},
	}
	got := advice.Compare(from, to)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(model.SeverityCounts{High: 4, Medium: 1}, advice.Count(got.Opened)); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
	if same := advice.Compare(from, from); len(same.Opened)+len(same.Closed) > 0 {
		t.Errorf("an image compared with itself: %+v", same)
	}
}
