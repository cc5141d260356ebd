package vexsources

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	scannerv1alpha1 "github.com/scanner-operator/scanner-operator/api/scanner/v1alpha1"
	"github.com/scanner-operator/scanner-operator/internal/controller/controllertest"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqlstore"
	"github.com/scanner-operator/scanner-operator/internal/store/storetest"
	"github.com/scanner-operator/scanner-operator/internal/vex"
	"github.com/scanner-operator/scanner-operator/internal/vexdecisions"
)

// equal compares versions that are the same text.
type equal struct{}

func (equal) Satisfies(_, version, constraint string) (bool, error) {
	return strings.TrimPrefix(constraint, "=") == version, nil
}

// server is a Fetcher that answers what it was told.
type server struct {
	content, version string
	err              error
	asked            []string
}

func (s *server) Fetch(_ context.Context, spec *scannerv1alpha1.VEXSourceSpec, version string) ([]store.VEXContent, string, error) {
	s.asked = append(s.asked, spec.HTTP.URL+" "+version)
	switch {
	case s.err != nil:
		return nil, "", s.err
	case version != "" && version == s.version:
		return nil, "", ErrNotModified
	}
	return []store.VEXContent{{Name: "document", Content: []byte(s.content)}}, s.version, nil
}

// world is a controller with a store and a server.
type world struct {
	t *testing.T
	client.Client
	store  *sqlstore.Store
	server *server
	clock  *clocktesting.FakeClock
	*Reconciler
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(scannerv1alpha1.AddToScheme(scheme), corev1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	clk := clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	s, err := sqlstore.Open(t.Context(), sqlstore.Config{DSN: filepath.Join(t.TempDir(), "test.db"), Clock: clk, Rules: &vex.Evaluator{Versions: equal{}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	w := &world{
		t: t, store: s, server: &server{}, clock: clk,
		Client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&scannerv1alpha1.VEXSource{}).Build(),
	}
	w.restart()
	w.match()
	return w
}

// restart is what a new process does.
func (w *world) restart() {
	w.Reconciler = NewReconciler(w.Client, w.Client, w.store, vexdecisions.NewApplier(w.store, w.clock, nil), w.server, "operator", w.clock)
}

// match stores an image with one finding.
func (w *world) match() {
	w.t.Helper()
	key := model.ImageKey{ImageID: "image", Platform: model.Platform{OS: "linux", Architecture: "amd64"}}
	p := model.Package{Fingerprint: "a", Name: "a", Version: "1", Type: "npm"}
	_, err := w.store.StartResultSet(w.t.Context(), model.DatabaseBuild{ID: "1"}, "", true)
	if err == nil {
		_, err = w.store.WantImages(w.t.Context(), []model.ImageKey{key})
	}
	if err == nil {
		err = w.store.SaveSBOM(w.t.Context(), key, store.SBOM{SHA256: "d", Size: 1}, model.Catalog{Packages: []model.HeldPackage{{Package: p}}})
	}
	if err == nil {
		finding := model.PackageFinding{Vulnerability: model.Vulnerability{ID: "CVE-1", Severity: model.SeverityHigh}}
		err = storetest.Match(w.t.Context(), w.store, key, "d", map[string][]model.PackageFinding{"a": {finding}})
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) reconcile(name string) ctrl.Result {
	w.t.Helper()
	result, err := w.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: name}})
	if err != nil {
		w.t.Fatal(err)
	}
	return result
}

func (w *world) get(name string) *scannerv1alpha1.VEXSource {
	w.t.Helper()
	var s scannerv1alpha1.VEXSource
	if err := w.Client.Get(w.t.Context(), types.NamespacedName{Name: name}, &s); err != nil {
		w.t.Fatal(err)
	}
	return &s
}

// expect compares the reasons of the conditions Fetched, Valid and Applied, and the number of findings that are suppressed.
func (w *world) expect(what, name, reasons string, suppressed int) {
	w.t.Helper()
	s := w.get(name)
	var got []string
	for _, kind := range []string{scannerv1alpha1.ConditionFetched, scannerv1alpha1.ConditionValid, scannerv1alpha1.ConditionApplied} {
		c := meta.FindStatusCondition(s.Status.Conditions, kind)
		if c == nil {
			c = &metav1.Condition{Reason: "absent"}
		} else if c.ObservedGeneration != s.Generation {
			w.t.Errorf("%s: the condition %s is about generation %d", what, kind, c.ObservedGeneration)
		}
		got = append(got, c.Reason)
	}
	if all := strings.Join(got, " "); all != reasons {
		w.t.Errorf("%s: %s, want %s: %+v", what, all, reasons, s.Status.Conditions)
	}
	list, err := w.store.Findings(w.t.Context(), store.AllNamespaces(), store.FindingQuery{
		Image: model.ImageKey{ImageID: "image", Platform: model.Platform{OS: "linux", Architecture: "amd64"}}, Suppressed: true, Page: store.Page{Size: 10},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	count := 0
	for _, f := range list.Findings {
		if f.Suppressed {
			count++
		}
	}
	if count != suppressed {
		w.t.Errorf("%s: %d findings are suppressed, want %d", what, count, suppressed)
	}
}

func document(status, product string) string {
	return fmt.Sprintf(`{"@context": "https://openvex.dev/ns/v0.2.0", "@id": "x", "author": "a", "timestamp": "2026-01-01T00:00:00Z", "version": 1,
		"statements": [{"vulnerability": {"name": "CVE-1"}, "status": %q, "products": [{"@id": %q}], "impact_statement": "x", "action_statement": "x"},
		{"vulnerability": {"name": "CVE-2"}, "status": "fixed", "products": [{"@id": "pkg:npm/b"}]}]}`, status, product)
}

func vendorSource(name string) *scannerv1alpha1.VEXSource {
	return &scannerv1alpha1.VEXSource{
		ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 1, UID: types.UID(name)},
		Spec:       scannerv1alpha1.VEXSourceSpec{HTTP: &scannerv1alpha1.VEXSourceHTTP{URL: "https://example.com"}, Interval: &metav1.Duration{Duration: time.Hour}},
	}
}

const good = "Fetched DocumentsValid Applied"

// TestSource follows a source: what is fetched applies, what is refused or cannot be fetched changes nothing, and deletion ends it.
func TestSource(t *testing.T) {
	w := newWorld(t, vendorSource("vendor"))
	w.server.content, w.server.version = document("not_affected", "pkg:npm/a"), "1"
	if result := w.reconcile("vendor"); result.RequeueAfter != time.Minute {
		t.Errorf("reconciled again after %s", result.RequeueAfter)
	}
	w.expect("at first", "vendor", good, 1)
	status := w.get("vendor").Status
	if status.Documents != 1 || status.Statements != 2 || *status.Matched != 1 || *status.Unmatched != 1 || *status.SuppressedFindings != 1 || !strings.HasPrefix(status.Digest, "sha256:") ||
		status.LastFetchTime == nil || len(status.UnmatchedStatements) != 1 || status.UnmatchedStatements[0].Position != "statements[1]" || status.UnmatchedStatements[0].Reason != "NoFinding" {
		t.Errorf("%+v", status)
	}
	w.reconcile("vendor")
	w.restart()
	w.reconcile("vendor")
	if len(w.server.asked) != 1 {
		t.Errorf("fetched before the interval: %q", w.server.asked)
	}

	w.clock.Step(time.Hour)
	w.server.content = "{}"
	w.reconcile("vendor")
	if last := w.server.asked[len(w.server.asked)-1]; last != "https://example.com 1" {
		t.Errorf("asked %q, want the version that is known", last)
	}
	w.expect("not modified", "vendor", good, 1)

	w.clock.Step(time.Hour)
	w.server.version = "2"
	w.reconcile("vendor")
	w.expect("an empty object", "vendor", "Fetched DocumentsInvalid Applied", 1)
	if message := meta.FindStatusCondition(w.get("vendor").Status.Conditions, scannerv1alpha1.ConditionValid).Message; !strings.Contains(message, "its format is unknown") {
		t.Errorf("the message is %q", message)
	}

	w.clock.Step(time.Hour)
	w.server.err = errors.New("no route to host")
	w.reconcile("vendor")
	w.expect("a server that is away", "vendor", "FetchFailed DocumentsInvalid Applied", 1)
	asked := len(w.server.asked)
	w.clock.Step(retryAfter)
	w.server.err = fmt.Errorf("%w: x", ErrSignature)
	w.reconcile("vendor")
	w.expect("a wrong signature", "vendor", "SignatureInvalid SignatureInvalid Applied", 1)
	if len(w.server.asked) != asked+1 {
		t.Error("a failed fetch is not repeated")
	}

	w.clock.Step(time.Hour)
	w.server.err, w.server.content, w.server.version = nil, document("affected", "pkg:npm/a"), "3"
	w.reconcile("vendor")
	w.expect("affected now", "vendor", good, 0)
	w.clock.Step(time.Hour)
	w.server.content, w.server.version = document("fixed", "pkg:npm/a@1"), "4"
	w.reconcile("vendor")
	w.expect("fixed now", "vendor", good, 1)

	if err := w.Client.Delete(t.Context(), w.get("vendor")); err != nil {
		t.Fatal(err)
	}
	w.reconcile("vendor")
	if sources, _, err := w.store.VEX(t.Context()); err != nil || len(sources) != 0 {
		t.Errorf("%v, %v", sources, err)
	}
	counts, err := w.store.DecisionCounts(t.Context(), store.AllNamespaces(), store.DecisionSourceVEX)
	if err != nil || len(counts) != 0 {
		t.Errorf("%v, %v", counts, err)
	}
}

// TestOrphans: a source that was deleted while nothing ran is forgotten at the start, and what users have uploaded is not.
func TestOrphans(t *testing.T) {
	w := newWorld(t)
	for _, kind := range []string{store.VEXKindSource, store.VEXKindUpload} {
		content := []store.VEXContent{{Name: "document", Content: []byte(document("fixed", "pkg:npm/a"))}}
		if err := w.store.SaveVEX(t.Context(), store.VEXSource{Kind: kind, Name: "gone"}, content); err != nil {
			t.Fatal(err)
		}
	}
	if result := w.reconcile(""); result.RequeueAfter != syncEvery {
		t.Errorf("uploads are looked for after %s", result.RequeueAfter)
	}
	sources, _, err := w.store.VEX(t.Context())
	if err != nil || len(sources) != 1 || sources[0].Kind != store.VEXKindUpload {
		t.Errorf("%v, %v", sources, err)
	}
	counts, err := w.store.DecisionCounts(t.Context(), store.AllNamespaces(), store.DecisionSourceVEX)
	if err != nil || len(counts) != 2 {
		t.Errorf("%v, %v", counts, err)
	}
}

// decided is a document as scanner-operator exports it.
func decided(notes string) string {
	return strings.Replace(document("affected", "pkg:npm/a"), `"products"`, `"status_notes": "`+notes+`", "products"`, 1)
}

// TestExportedDecisions: decisions apply in full as long as the spec says so. That ends without a fetch, and begins with one: the documents that the store has
// may be others than those that the spec is about.
func TestExportedDecisions(t *testing.T) {
	w := newWorld(t, vendorSource("cluster"))
	w.server.content, w.server.version = decided("Decision: AcceptedRisk until 2026-01-01T12:00:00Z."), "1"
	change := func(value scannerv1alpha1.ExportedDecisions) {
		t.Helper()
		source := w.get("cluster")
		source.Generation++
		source.Spec.ExportedDecisions = value
		if err := w.Client.Update(t.Context(), source); err != nil {
			t.Fatal(err)
		}
		w.reconcile("cluster")
	}
	w.reconcile("cluster")
	w.expect("by default", "cluster", good, 0)
	w.server.err = errors.New("away")
	change(scannerv1alpha1.ExportedDecisionsFull)
	w.expect("not fetched", "cluster", "FetchFailed NotFetched Applied", 0)
	w.server.err = nil
	w.clock.Step(retryAfter)
	w.reconcile("cluster")
	w.expect("in full", "cluster", good, 1)
	w.restart()
	w.clock.Step(time.Hour)
	w.reconcile("cluster")
	w.expect("not modified", "cluster", good, 1)
	if last := w.server.asked[len(w.server.asked)-1]; last != "https://example.com 1" {
		t.Errorf("asked %q, want the version that is known", last)
	}
	w.server.err = errors.New("away")
	change(scannerv1alpha1.ExportedDecisionsStatusOnly)
	w.expect("status only, not fetched", "cluster", "FetchFailed NotFetched Applied", 0)
	w.server.err = nil
	change(scannerv1alpha1.ExportedDecisionsFull)
	w.expect("in full again", "cluster", good, 1)

	// The end comes at its time, also without the controller of exceptions.
	end := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	w.clock.SetTime(end.Add(-time.Second))
	if result := w.reconcile(""); result.RequeueAfter != time.Second {
		t.Errorf("decisions end after %s", result.RequeueAfter)
	}
	w.expect("before the end", "cluster", good, 1)
	w.clock.SetTime(end)
	if result := w.reconcile(""); result.RequeueAfter != syncEvery {
		t.Errorf("the next decisions end after %s", result.RequeueAfter)
	}
	w.reconcile("cluster")
	w.expect("after the end", "cluster", good, 0)
	status := w.get("cluster").Status
	if status.Statements != 2 || *status.Matched != 0 || *status.Unmatched != 2 || *status.SuppressedFindings != 0 || status.UnmatchedStatements[0].Reason != "Expired" ||
		status.UnmatchedStatements[1].Reason != "NoFinding" {
		t.Errorf("%+v", status)
	}
}

func TestConfigMaps(t *testing.T) {
	one := vendorSource("ours")
	one.Spec.HTTP, one.Spec.ConfigMap = nil, &scannerv1alpha1.VEXSourceConfigMap{Name: "vex", Key: "ours.json"}
	elsewhere := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "vex", Namespace: "tenant"}, Data: map[string]string{"ours.json": document("fixed", "pkg:npm/a")}}
	w := newWorld(t, one, elsewhere)
	w.reconcile("ours")
	w.expect("in another namespace", "ours", "FetchFailed NotFetched NotFetched", 0)
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "vex", Namespace: "operator"}, Data: map[string]string{"a": ""}}
	if err := w.Client.Create(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	w.clock.Step(retryAfter)
	w.reconcile("ours")
	w.expect("without the key", "ours", "FetchFailed NotFetched NotFetched", 0)
	config.BinaryData = map[string][]byte{"ours.json": []byte(document("fixed", "pkg:npm/a"))}
	if err := w.Client.Update(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	w.clock.Step(retryAfter)
	w.reconcile("ours")
	w.expect("with the key", "ours", good, 1)
	w.clock.Step(time.Hour)
	w.reconcile("ours")
	w.expect("unchanged", "ours", good, 1)
}

func TestFormats(t *testing.T) {
	one := vendorSource("vendor")
	one.Spec.Formats = []scannerv1alpha1.VEXFormat{scannerv1alpha1.VEXFormatCSAF}
	w := newWorld(t, one)
	w.server.content = document("fixed", "pkg:npm/a")
	w.reconcile("vendor")
	w.expect("another format", "vendor", "Fetched DocumentsInvalid NotFetched", 0)
}

// TestStatusIsWrittenOnce: a status that has not changed is not written, and a source that is gone is no error.
func TestStatusIsWrittenOnce(t *testing.T) {
	w := newWorld(t, vendorSource("vendor"))
	w.server.content, w.server.version = document("fixed", "pkg:npm/a"), "1"
	w.reconcile("vendor")
	version := w.get("vendor").ResourceVersion
	w.clock.Step(time.Minute)
	w.reconcile("vendor")
	if now := w.get("vendor").ResourceVersion; now != version {
		t.Error("a status is written that has not changed")
	}
	if _, err := w.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "absent"}}); err != nil {
		t.Error(err)
	}
}

// TestLogs checks that the log tells at level info how the conditions of a source change and that its documents are deleted, and nothing once all is settled.
func TestLogs(t *testing.T) {
	w := newWorld(t, vendorSource("vendor"))
	logs := &controllertest.Logs{}
	expect := func(step string, want ...string) {
		t.Helper()
		if _, err := w.Reconcile(logs.Context(t.Context()), ctrl.Request{NamespacedName: types.NamespacedName{Name: "vendor"}}); err != nil {
			t.Fatal(err)
		}
		for i, line := range want {
			want[i] = `"level"=0 "msg"=` + line
		}
		if got := logs.Take(); !slices.Equal(got, want) {
			t.Errorf("%s: logs %q, want %q", step, got, want)
		}
	}
	condition := func(kind, from, to string) string {
		return fmt.Sprintf(`"Condition changed" "object"="vendor" "condition"=%q "from"=%q "to"=%q`, kind, from, to)
	}
	w.server.content, w.server.version = document("fixed", "pkg:npm/a"), "1"
	expect("fetched", condition("Valid", "", "True/DocumentsValid"), condition("Applied", "", "True/Applied"))
	expect("settled")
	w.clock.Step(time.Hour)
	w.server.content, w.server.version = document("fixed", "pkg:npm/b"), "2"
	expect("other documents, and other numbers")
	w.clock.Step(time.Hour)
	w.server.content, w.server.version = "{}", "3"
	expect("documents that cannot be read", condition("Valid", "True/DocumentsValid", "False/DocumentsInvalid"))
	changed := w.get("vendor")
	changed.Generation++
	changed.Spec.HTTP.URL = "https://other.example"
	if err := w.Client.Update(t.Context(), changed); err != nil {
		t.Fatal(err)
	}
	expect("another URL", `"Deleted the documents of an earlier spec of a VEXSource" "object"="vendor"`, condition("Applied", "True/Applied", "False/NotFetched"))
	w.clock.Step(time.Hour)
	w.server.content, w.server.version = document("fixed", "pkg:npm/a"), "4"
	expect("fetched again", condition("Valid", "False/DocumentsInvalid", "True/DocumentsValid"), condition("Applied", "False/NotFetched", "True/Applied"))
	if err := w.Client.Delete(t.Context(), w.get("vendor")); err != nil {
		t.Fatal(err)
	}
	expect("deleted", `"Deleted the documents of a VEXSource that does not exist" "object"="vendor"`)
	expect("settled without it")
}
