package advice_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/advice"
	"github.com/scanner-operator/scanner-operator/internal/model"
)

func TestOutcomeOf(t *testing.T) {
	suppressed := func(f model.Finding) model.Finding {
		f.Suppressed = true
		return f
	}
	present := []model.Finding{
		found("CVE-1", "openssl", "1", model.SeverityHigh, 1, "", "2"),
		found("CVE-2", "openssl", "1", model.SeverityLow, 1, ""),
		found("CVE-3", "openssl", "1", model.SeverityMedium, 1, "kev"),
		suppressed(found("CVE-4", "openssl", "1", model.SeverityCritical, 1, "")),
		suppressed(found("CVE-5", "openssl", "1", model.SeverityCritical, 1, "")),
	}
	other := []model.Finding{
		found("CVE-2", "openssl", "1", model.SeverityLow, 1, ""),
		found("CVE-4", "openssl", "1", model.SeverityCritical, 1, ""), // still suppressed
		found("CVE-6", "openssl", "1", model.SeverityHigh, 1, ""),
	}
	want := advice.Outcome{
		Opened:    []advice.Change{{VulnerabilityID: "CVE-6", Package: "openssl", Severity: model.SeverityHigh}},
		Closed:    []advice.Change{{VulnerabilityID: "CVE-1", Package: "openssl", Severity: model.SeverityHigh, Fixable: true}, {VulnerabilityID: "CVE-3", Package: "openssl", Severity: model.SeverityMedium, KEV: true}},
		Remaining: []advice.Change{{VulnerabilityID: "CVE-2", Package: "openssl", Severity: model.SeverityLow}},
	}
	if diff := cmp.Diff(want, advice.OutcomeOf(present, other)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
