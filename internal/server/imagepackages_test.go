package server_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// A severity keeps packages with a finding that counts, also if it is the lowest one.
func TestPackagesBySeverity(t *testing.T) {
	f := newFixture(t, nil)
	f.seed()
	packages := "/api/v1/images/" + escape(scannedID) + "/packages"
	expect := func(target, want string) {
		t.Helper()
		if a := f.do(http.MethodGet, target, ""); a.status != http.StatusOK || !strings.Contains(a.body, want) {
			t.Errorf("%s: %d %s", target, a.status, a.body)
		}
	}
	expect(packages+"?severity=Unknown", `"total":2`)
	_, err := f.store.SyncDecisions(t.Context(), store.DecisionSourceKubernetes, []store.Decision{{
		Object: store.DecisionObject{Kind: "ClusterVulnerabilityException", Name: "a"}, Packages: []string{"pkg:apk/*"}, Vulnerabilities: []string{"CVE-2024-0000"}, Status: model.DecisionFixed,
	}})
	f.must(err)
	expect(packages, `"total":2`)
	expect(packages+"?severity=Unknown", `"total":1`)
}
