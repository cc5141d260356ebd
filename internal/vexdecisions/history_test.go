package vexdecisions_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/vexdecisions"
)

// TestHistoryOfDecisions: decisions that apply in full stay in the history, with or without an end, and statements beside them are deleted after the retention.
func TestHistoryOfDecisions(t *testing.T) {
	t.Parallel()
	clk := clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	s := openAt(t, clk)
	applier := vexdecisions.NewApplier(s, clk, nil)
	for _, full := range []bool{true, false} {
		document := noted("cluster",
			[3]string{"CVE-2026-3", "affected", "Decision: AcceptedRisk."},
			[3]string{"CVE-2026-1", "not_affected", "Decision: NotAffected."},
			[3]string{"GHSA-2", "fixed", "Decision: Fixed until 2027-01-01T00:00:00Z."},
			[3]string{"ALAS-1", "affected", ""})
		name := map[bool]string{true: "full", false: "status"}[full]
		_, err := applier.Upload(t.Context(), vexdecisions.Upload{Name: name, Author: "jane", Content: document, ExportedDecisions: full})
		must(t, err)
		_, err = applier.Delete(t.Context(), name, "jim")
		must(t, err)
	}
	clk.Step(time.Hour)
	must(t, s.Prune(t.Context(), clk.Now()))
	page, err := s.ListDecisions(t.Context(), store.AllNamespaces(), store.DecisionQuery{Sort: store.SortDecisionName, State: store.DecisionEnded})
	must(t, err)
	got := map[string]string{}
	for _, d := range page.Decisions {
		got[d.Vulnerabilities[0]] = d.Object.Name + " " + string(d.Status)
	}
	if diff := cmp.Diff(map[string]string{"CVE-2026-3": "full AcceptedRisk", "CVE-2026-1": "full NotAffected", "GHSA-2": "full Fixed"}, got); diff != "" {
		t.Errorf("decisions after the retention: %s", diff)
	}
}

// TestAuthorsOfSources: the name of an author overrides nothing that another source states, neither in a newer document nor in a newer version of the same
// one. Within a source, and among uploads, it does.
func TestAuthorsOfSources(t *testing.T) {
	t.Parallel()
	clk := clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	s := openAt(t, clk)
	key := matched(t, s)
	applier := vexdecisions.NewApplier(s, clk, nil)
	old := noted("vendor", [3]string{"CVE-2026-3", "affected", ""})
	newer := []byte(strings.NewReplacer("2026-01-01T", "2026-01-02T", `"affected"`, `"fixed"`).Replace(string(old)))
	revised := []byte(strings.Replace(string(newer), `"version": 1`, `"version": 2`, 1))
	other := []byte(strings.Replace(string(newer), `"@id": "vendor"`, `"@id": "another"`, 1))
	save := func(name string, contents ...[]byte) {
		t.Helper()
		var all []store.VEXContent
		for i, content := range contents {
			all = append(all, store.VEXContent{Name: string(rune('a' + i)), Content: content})
		}
		must(t, s.SaveVEX(t.Context(), store.VEXSource{Kind: store.VEXKindSource, Name: name}, all))
	}
	expect := func(what string, want int) {
		t.Helper()
		_, err := applier.Apply(t.Context())
		must(t, err)
		if got := storedImage(t, s, key); len(got) != want {
			t.Errorf("%s: %v is suppressed, want %d", what, got, want)
		}
	}
	upload := func(name string, content []byte) {
		t.Helper()
		_, err := applier.Upload(t.Context(), vexdecisions.Upload{Name: name, Author: "jane", Content: content})
		must(t, err)
	}
	save("vendor", old)
	for name, content := range map[string][]byte{"another document": other, "a newer version": revised} {
		upload("x", content)
		expect(name+" of an upload", 0)
		_, err := applier.Delete(t.Context(), "x", "jane")
		must(t, err)
		save("other", content)
		expect(name+" of another source", 0)
		_, err = s.DeleteVEX(t.Context(), store.VEXKindSource, "other", "")
		must(t, err)
		save("vendor", old, content)
		expect(name+" of the source", 1)
		save("vendor", old)
	}
	_, err := s.DeleteVEX(t.Context(), store.VEXKindSource, "vendor", "")
	must(t, err)
	upload("x", old)
	upload("y", other)
	expect("two uploads", 1)
}

// TestAuthorsOfDecisions: of an upload, the user who uploaded it has decided and the one who deleted it has deleted, whatever the document states. Of a source,
// neither is known. Who deletes a document that another one replaces before its statements end has deleted nothing.
func TestAuthorsOfDecisions(t *testing.T) {
	t.Parallel()
	clk := clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	s := openAt(t, clk)
	applier := vexdecisions.NewApplier(s, clk, nil)
	// Statements of one author override each other.
	documentOf := func(author string) []byte {
		return noted(author, [3]string{"CVE-2026-3", "fixed", ""}, [3]string{"CVE-2026-1", "affected", "Decision: AcceptedRisk."})
	}
	upload := func(name string) {
		t.Helper()
		_, err := applier.Upload(t.Context(), vexdecisions.Upload{Name: name, Author: "jane", Content: documentOf("CVE-" + name), ExportedDecisions: true})
		must(t, err)
	}
	contents := []store.VEXContent{{Name: "document", Content: documentOf("CVE-source")}}
	upload("standing")
	upload("deleted")
	upload("replaced")
	must(t, s.SaveVEX(t.Context(), store.VEXSource{Kind: store.VEXKindSource, Name: "source"}, contents))
	must(t, applier.Sync(t.Context()))
	_, err := applier.Delete(t.Context(), "deleted", "jim")
	must(t, err)
	// Two replicas: the one that was to end its statements was too late.
	_, err = s.DeleteVEX(t.Context(), store.VEXKindUpload, "replaced", "jim")
	must(t, err)
	upload("replaced")
	_, err = s.DeleteVEX(t.Context(), store.VEXKindUpload, "replaced", "")
	must(t, err)
	must(t, applier.Sync(t.Context()))
	list := func(in store.Namespaces, vulnerability string) map[string]string {
		t.Helper()
		page, err := s.ListDecisions(t.Context(), in, store.DecisionQuery{Vulnerability: vulnerability})
		must(t, err)
		got := map[string]string{}
		for _, d := range page.Decisions {
			got[d.Object.Name+" "+d.Vulnerabilities[0]] = strings.Join([]string{d.Author, d.StatedAuthor, d.DeletedBy}, "|")
		}
		return got
	}
	want := map[string]string{}
	for name, who := range map[string]string{
		"standing": "jane|CVE-standing|", "deleted": "jane|CVE-deleted|jim", "replaced": "jane|CVE-replaced|", "source": "|CVE-source|",
	} {
		want[name+" CVE-2026-3"], want[name+" CVE-2026-1"] = who, who
	}
	if diff := cmp.Diff(want, list(store.AllNamespaces(), "")); diff != "" {
		t.Errorf("author, stated author and who deleted: %s", diff)
	}
	for name, who := range list(store.OnlyNamespaces("n"), "") {
		if who != "||" {
			t.Errorf("who sees one namespace is shown %s of %s", who, name)
		}
	}
	if named := list(store.AllNamespaces(), "CVE-standing"); len(named) > 0 {
		t.Errorf("a stated author is taken for a vulnerability: %v", named)
	}
}
