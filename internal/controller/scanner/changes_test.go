package scanner

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"

	scannerv1 "github.com/scanner-operator/scanner-operator/api/scanner/v1"
	"github.com/scanner-operator/scanner-operator/internal/inventory"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// recording is a store that remembers uses and answers with changes.
type recording struct {
	memory
	uses    map[string][]store.Use
	covered map[string][]store.ContainerCoverage
	changes []store.Change
	more    bool
	asked   []store.ChangeQuery
}

func (r *recording) RecordUses(_ context.Context, scope string, uses []store.Use) error {
	r.uses[scope] = uses
	return nil
}

func (r *recording) RecordCoverage(_ context.Context, scope string, containers []store.ContainerCoverage) error {
	r.covered[scope] = containers
	return nil
}

func (r *recording) ForgetScope(_ context.Context, scope string) error {
	r.uses[scope], r.covered[scope] = nil, nil
	return nil
}

func (r *recording) Changes(_ context.Context, _ store.Namespaces, query store.ChangeQuery) (store.ChangePage, error) {
	r.asked = append(r.asked, query)
	page := store.ChangePage{}
	for _, c := range r.changes {
		if c.After == nil || query.KEV && !c.After.KEV || c.After.Severity < query.MinSeverity {
			continue
		}
		page.Changes = append(page.Changes, c)
	}
	if r.more {
		page.NextToken = "more"
	}
	return page, nil
}

func TestUsesAreRecordedAndForgotten(t *testing.T) {
	s := &recording{memory: memory{}, uses: map[string][]store.Use{}, covered: map[string][]store.ContainerCoverage{}}
	scanner := scannerWith(nil)
	r, _ := newReconciler(t, s, &starter{attempts: map[string]Attempt{}}, scanner, podOf("web", imageKey("a").ImageID, 0))
	request := ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "s"}}
	if _, err := r.Reconcile(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	want := map[string][]store.Use{"ns/s": {{
		Image: imageKey("a"), Workload: store.Workload{Namespace: "ns", Kind: "Pod", Name: "web"}, Container: "c",
	}}}
	if diff := cmp.Diff(want, s.uses); diff != "" {
		t.Errorf("uses (-want +got):\n%s", diff)
	}
	covered := []store.ContainerCoverage{{
		Workload: store.Workload{Namespace: "ns", Kind: "Pod", Name: "web"}, Container: "c", Image: imageKey("a"), Reference: s.covered["ns/s"][0].Reference,
		Pods: 1, State: "Pending", Reason: "NotCataloged", Message: "scan is running",
	}}
	if diff := cmp.Diff(covered, s.covered["ns/s"]); diff != "" {
		t.Errorf("coverage (-want +got):\n%s", diff)
	}
	if err := r.Client.Delete(t.Context(), scanner); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Reconcile(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	if got := s.uses["ns/s"]; got != nil {
		t.Errorf("after the Scanner was deleted its scope has %v", got)
	}
	if got := s.covered["ns/s"]; got != nil {
		t.Errorf("after the Scanner was deleted its scope has %v", got)
	}
}

func TestUsesLeaveOutWhatIsNotScanned(t *testing.T) {
	s := &recording{memory: memory{}, uses: map[string][]store.Use{}}
	r, _ := newReconciler(t, s, &starter{})
	err := r.recordUses(t.Context(), types.NamespacedName{Namespace: "ns", Name: "s"}, &observed{containers: []inventory.Container{
		{Namespace: "ns", Pod: "p", Name: "ignored", Key: imageKey("a"), Skip: inventory.SkipIgnoreLabel},
		{Namespace: "ns", Pod: "p", Name: "not pulled"},
		{Namespace: "ns", Pod: "web-1-x", Name: "c", Key: imageKey("a"), Owner: inventory.Owner{Kind: "Deployment", Name: "web"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	want := []store.Use{{Image: imageKey("a"), Workload: store.Workload{Namespace: "ns", Kind: "Deployment", Name: "web"}, Container: "c"}}
	if diff := cmp.Diff(want, s.uses["ns/s"]); diff != "" {
		t.Errorf("uses (-want +got):\n%s", diff)
	}
}

func TestTellChanges(t *testing.T) {
	build := model.DatabaseBuild{ID: "new", Built: now}
	change := func(id string, severity model.Severity, before *store.ChangeSide, kev bool) store.Change {
		c := store.Change{Kind: store.ChangeOpened, VulnerabilityID: id, Before: before, After: &store.ChangeSide{Severity: severity, KEV: kev}}
		c.Package.Name = "openssl"
		if before != nil {
			c.Kind = store.ChangeChanged
		}
		return c
	}
	critical := change("CVE-1", model.SeverityCritical, nil, false)
	tests := map[string]struct {
		before  string
		changes []store.Change
		more    bool
		want    []string
	}{
		"no database before":  {"", []store.Change{critical}, false, nil},
		"the same database":   {"new", []store.Change{critical}, false, nil},
		"nothing bad":         {"old", []store.Change{change("CVE-2", model.SeverityHigh, nil, false)}, false, nil},
		"a critical one":      {"old", []store.Change{critical}, false, []string{"Warning CriticalFindings The vulnerability database of 2026-11-21 12:00 has 1 new finding of severity Critical: CVE-1 in openssl"}},
		"one twice":           {"old", []store.Change{critical, critical}, false, []string{"Warning CriticalFindings The vulnerability database of 2026-11-21 12:00 has 2 new findings of severity Critical: CVE-1 in openssl, …"}},
		"more than a page":    {"old", []store.Change{critical}, true, []string{"Warning CriticalFindings The vulnerability database of 2026-11-21 12:00 has at least 1 new findings of severity Critical: CVE-1 in openssl"}},
		"exploited from now":  {"old", []store.Change{change("CVE-3", model.SeverityHigh, &store.ChangeSide{}, true)}, false, []string{"Warning KnownExploited The vulnerability database of 2026-11-21 12:00 has 1 new finding known to be exploited: CVE-3 in openssl"}},
		"exploited as before": {"old", []store.Change{change("CVE-3", model.SeverityHigh, &store.ChangeSide{KEV: true}, true)}, false, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := &recording{memory: memory{}, changes: tt.changes, more: tt.more}
			r, recorder := newReconciler(t, s, &starter{})
			scanner := scannerWith(func(s *scannerv1.Scanner) { s.Status.DatabaseBuild = tt.before })
			if err := r.reportChanges(t.Context(), scanner, &observed{build: build, hasBuild: true}); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, told(recorder)); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			for _, query := range s.asked {
				if query.Scope != "ns/s" || query.Build != "new" {
					t.Errorf("asked for scope %q and build %q", query.Scope, query.Build)
				}
			}
		})
	}
}

func TestNotesNameNoMoreThanTheBound(t *testing.T) {
	var page store.ChangePage
	for range 3 * maxNamed {
		page.Changes = append(page.Changes, store.Change{VulnerabilityID: strings.Repeat("x", len(page.Changes)+1)})
	}
	note, _ := noteOf(page, model.DatabaseBuild{}, "of severity Critical", false)
	if got := strings.Count(note, " in "); got != maxNamed || !strings.HasSuffix(note, "…") {
		t.Errorf("the note names %d vulnerabilities, want %d and that there are more: %s", got, maxNamed, note)
	}
}

// told takes the events that were recorded.
func told(recorder *events.FakeRecorder) []string {
	var out []string
	for {
		select {
		case event := <-recorder.Events:
			out = append(out, event)
		default:
			return out
		}
	}
}
