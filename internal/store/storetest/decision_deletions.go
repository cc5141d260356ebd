package storetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// askToDelete records that somebody asks to delete an exception, and returns the request.
func (f *fixture) askToDelete(t *testing.T, name, author string) string {
	t.Helper()
	request, err := f.RecordDeletion(t.Context(), store.DecisionSourceKubernetes, exception(name, "", nil, nil).Object, "", author)
	must(t, err)
	return request
}

var decisionDeletionTests = map[string]func(*testing.T, *fixture){
	"Decisions tell who deleted their object": func(t *testing.T, f *fixture) {
		start := oldBuild.Built
		f.clock.set(start)
		names := []string{"deleted", "kept", "late", "taken over", "unknown"}
		all := make([]store.Decision, len(names))
		for i, name := range names {
			all[i] = exception(name, model.DecisionFixed, []string{"CVE-1"}, nil)
		}
		f.decide(t, all...)
		for _, name := range names[:4] {
			f.askToDelete(t, name, "jane")
		}
		f.askToDelete(t, "absent", "jane")
		f.clock.set(start.Add(time.Minute))
		// Another one deletes what jane did not; and requests are refused after jane has succeeded, one of her own among them.
		f.askToDelete(t, "taken over", "joe")
		for _, author := range []string{"joe", "jane"} {
			must(t, f.ForgetDeletion(t.Context(), f.askToDelete(t, "deleted", author)))
		}
		f.decide(t, all[1], all[2])
		f.clock.set(start.Add(time.Hour + time.Microsecond))
		f.decide(t, all[1])
		f.askToDelete(t, "deleted", "jim") // It does not exist any more.
		for _, in := range []store.Namespaces{store.AllNamespaces(), store.OnlyNamespaces("n")} {
			page, err := f.ListDecisions(t.Context(), in, store.DecisionQuery{Sort: store.SortDecisionName})
			must(t, err)
			got := map[string]string{}
			for _, d := range page.Decisions {
				got[d.Object.Name] = d.DeletedBy
			}
			want := map[string]string{"deleted": "jane", "kept": "", "late": "", "taken over": "joe", "unknown": ""}
			if !in.All() {
				clear(want) // They match nothing there.
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("deleted by, of %v: %s", in, diff)
			}
		}
	},
	"Decisions of objects that are created again do not tell who deleted those before": func(t *testing.T, f *fixture) {
		start := oldBuild.Built
		f.clock.set(start)
		names := []string{"again", "again and changed", "same"}
		all := make([]store.Decision, len(names))
		for i, name := range names {
			all[i] = exception(name, model.DecisionFixed, []string{"CVE-1"}, nil)
			all[i].UID = "00000000-0000-0000-0000-00000000000" + fmt.Sprint(i)
		}
		f.decide(t, all...)
		f.clock.set(start.Add(time.Second))
		for _, d := range all {
			_, err := f.RecordDeletion(t.Context(), store.DecisionSourceKubernetes, d.Object, d.UID, "jane")
			must(t, err)
		}
		f.clock.set(start.Add(2 * time.Second))
		all[0].UID, all[1].UID, all[1].Comment = strings.Repeat("a", 36), strings.Repeat("b", 36), "changed"
		f.decide(t, all...)
		f.clock.set(start.Add(40 * time.Minute))
		f.decide(t)
		page, err := f.ListDecisions(t.Context(), store.AllNamespaces(), store.DecisionQuery{Sort: store.SortDecisionName})
		must(t, err)
		var got []string
		for _, d := range page.Decisions {
			got = append(got, strings.TrimSpace(fmt.Sprint(d.Object.Name, ": ", d.EndedBy, " ", d.DeletedBy)))
		}
		if diff := cmp.Diff([]string{"again: Deleted", "again and changed: Deleted", "again and changed: Changed", "same: Deleted jane"}, got); diff != "" {
			t.Errorf("decisions (-want +got):\n%s", diff)
		}
	},
	"Decisions that replace another one tell who deleted their object": func(t *testing.T, f *fixture) {
		begun := oldBuild.Built
		start := begun.Add(2 * time.Minute)
		f.clock.set(begun)
		// The exceptions are changed, then a user asks to delete them, and both is applied later. The end of the last one is over when it is changed.
		names := []string{"changed", "changed twice", "late", "refused", "kept", "over"}
		all := make([]store.Decision, len(names))
		for i, name := range names {
			all[i] = exception(name, model.DecisionFixed, []string{"CVE-1"}, nil)
		}
		f.decide(t, all...)
		f.askToDelete(t, "refused", "joe") // Who had no success, and did not learn that.
		f.clock.set(start)
		requests := map[string]string{}
		for _, name := range names {
			requests[name] = f.askToDelete(t, name, "jane")
		}
		change := func(comment string, indices ...int) {
			t.Helper()
			for _, i := range indices {
				all[i].Comment = comment
			}
		}
		f.clock.set(start.Add(time.Second))
		change("changed", 0, 1)
		all[5].ExpiresAt = start
		f.decide(t, all...)
		change("changed again", 1)
		f.clock.set(start.Add(2 * time.Second))
		f.decide(t, all...)
		change("changed", 3)
		f.decide(t, all...)
		must(t, f.ForgetDeletion(t.Context(), requests["refused"]))
		// What is changed so long after a request was not deleted by it.
		f.clock.set(start.Add(time.Minute + time.Microsecond))
		change("changed", 2)
		f.decide(t, all...)
		f.clock.set(start.Add(2 * time.Minute))
		f.decide(t, all[4])
		page, err := f.ListDecisions(t.Context(), store.AllNamespaces(), store.DecisionQuery{Sort: store.SortDecisionName})
		must(t, err)
		var got []string
		for _, d := range page.Decisions {
			got = append(got, strings.TrimSpace(fmt.Sprint(d.Object.Name, ": ", d.Comment, " ", d.EndedBy, " ", d.DeletedBy)))
		}
		slices.Sort(got)
		if diff := cmp.Diff([]string{
			"changed twice: changed Changed", "changed twice: changed again Deleted jane", "changed twice: why Changed", "changed: changed Deleted jane", "changed: why Changed",
			"kept: why", "late: changed Deleted", "late: why Changed", "over: why Changed", "over: why Expired", "refused: changed Deleted", "refused: why Changed",
		}, got); diff != "" {
			t.Errorf("decisions (-want +got):\n%s", diff)
		}
	},
}
