package decisions

import (
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	scannerv1alpha1 "github.com/scanner-operator/scanner-operator/api/scanner/v1alpha1"
)

// vexEverywhere follows a document from a server through every list and count.
func vexEverywhere(t *testing.T, w *figures, before map[string]int) {
	t.Helper()
	g := gomega.NewWithT(t)
	w.t = t
	var status atomic.Value
	status.Store("not_affected")
	server := httptest.NewTLSServer(http.HandlerFunc(func(response http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(response, `{"@context": "https://openvex.dev/ns/v0.2.0", "@id": "x", "author": "Vendor", "timestamp": "2026-01-01T00:00:00Z", "version": 1,
			"statements": [{"vulnerability": {"name": %q}, "status": %q, "products": [{"@id": "pkg:golang/golang.org/x/net"}], "impact_statement": "It is not called.",
			"action_statement": "Upgrade."}, {"vulnerability": {"name": "CVE-1900-1"}, "status": "fixed", "products": [{"@id": "pkg:npm/absent"}]}]}`,
			strings.ToLower(w.vulnerability), status.Load())
	}))
	defer server.Close()
	source := &scannerv1alpha1.VEXSource{
		ObjectMeta: metav1.ObjectMeta{Name: "vendor"},
		Spec: scannerv1alpha1.VEXSourceSpec{HTTP: &scannerv1alpha1.VEXSourceHTTP{
			URL: server.URL + "/vex.json", CABundle: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})),
		}},
	}
	create(t, w.c, source)
	want := maps.Clone(before)
	for name, fewer := range map[string]int{
		"images": 2, "findings": 1, "packages": 1, "vulnerabilities": 1, "affected": 2, "overview": 2, "workloads": 2, "scanner": 2, "metrics": 2,
	} {
		want[name] -= fewer
	}
	g.Eventually(w.read, patience, tick).Should(gomega.Equal(want))
	said := func() string {
		var now scannerv1alpha1.VEXSource
		if err := w.c.Get(t.Context(), types.NamespacedName{Name: "vendor"}, &now); err != nil {
			return err.Error()
		}
		s := now.Status
		if s.Matched == nil || s.Unmatched == nil || s.SuppressedFindings == nil || !meta.IsStatusConditionTrue(s.Conditions, scannerv1alpha1.ConditionApplied) {
			return fmt.Sprint(s.Conditions)
		}
		return fmt.Sprint(s.Statements, *s.Matched, *s.Unmatched, *s.SuppressedFindings, len(s.UnmatchedStatements))
	}
	g.Eventually(said, patience, tick).Should(gomega.Equal("2 1 1 2 1"))
	if csv := w.body(w.findings() + "?suppressed=true&format=csv"); !strings.Contains(csv, ",yes,NotAffected (VEXSource vendor),") {
		t.Errorf("the findings are\n%s", csv)
	}

	// A changed spec is fetched at once.
	status.Store("affected")
	var now scannerv1alpha1.VEXSource
	if err := w.c.Get(t.Context(), types.NamespacedName{Name: "vendor"}, &now); err != nil {
		t.Fatal(err)
	}
	now.Spec.Interval = &metav1.Duration{Duration: 2 * time.Hour}
	if err := w.c.Update(t.Context(), &now); err != nil {
		t.Fatal(err)
	}
	g.Eventually(w.read, patience, tick).Should(gomega.Equal(before))
	g.Eventually(said, patience, tick).Should(gomega.Equal("2 1 1 0 1"))
	if err := w.c.Delete(t.Context(), &now); err != nil {
		t.Fatal(err)
	}
	g.Eventually(func() string {
		var findings struct {
			Items []struct{ Decisions []struct{ Status string } }
		}
		w.get(w.findings()+"?suppressed=true", &findings)
		for _, f := range findings.Items {
			for _, d := range f.Decisions {
				if d.Status == "Affected" {
					return "shown"
				}
			}
		}
		return ""
	}, patience, tick).Should(gomega.BeEmpty())
}
