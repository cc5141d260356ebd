package vexdecisions_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqlstore"
	"github.com/scanner-operator/scanner-operator/internal/store/storetest"
	"github.com/scanner-operator/scanner-operator/internal/vex"
	"github.com/scanner-operator/scanner-operator/internal/vexdecisions"
)

// about is an OpenVEX document with statements about lodash, and one about what nobody has.
func about(status string, vulnerabilities ...string) []byte {
	statements := []string{`{"vulnerability": {"name": "CVE-1900-1"}, "status": "fixed", "products": [{"@id": "pkg:npm/absent"}]}`}
	for _, id := range vulnerabilities {
		statements = append(statements, fmt.Sprintf(
			`{"vulnerability": {"name": %q}, "status": %q, "impact_statement": "why", "action_statement": "what", "products": [{"@id": "pkg:npm/lodash"}]}`, id, status))
	}
	return []byte(`{"@context": "https://openvex.dev/ns/v0.2.0", "@id": "x", "author": "a", "timestamp": "2026-01-01T00:00:00Z", "version": 1, "statements": [` +
		strings.Join(statements, ",") + `]}`)
}

// matched stores an image with the packages and findings of the tests.
func matched(t *testing.T, s *sqlstore.Store) model.ImageKey {
	t.Helper()
	key := model.ImageKey{ImageID: "registry.example/shop@sha256:" + strings.Repeat("a", 64), Platform: model.Platform{OS: "linux", Architecture: "amd64"}}
	_, err := s.StartResultSet(t.Context(), model.DatabaseBuild{ID: "1"}, "", true)
	must(t, err)
	_, err = s.WantImages(t.Context(), []model.ImageKey{key})
	must(t, err)
	var catalog model.Catalog
	for i := range packages {
		catalog.Packages = append(catalog.Packages, model.HeldPackage{Package: packages[i]})
	}
	must(t, s.SaveSBOM(t.Context(), key, store.SBOM{SHA256: "d", Size: 1}, catalog))
	must(t, storetest.Match(t.Context(), s, key, "d", findings()))
	return key
}

func suppressedIn(statuses map[string]string) []string {
	var names []string
	for name, status := range statuses {
		if status != "open" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// TestUploads uploads, replaces and deletes documents on one replica, and looks at them on another one that starts later.
func TestUploads(t *testing.T) {
	t.Parallel()
	s, clk := open(t), clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	key := matched(t, s)
	problems := map[store.DecisionReason]int{}
	applier := vexdecisions.NewApplier(s, clk, func(now map[store.DecisionReason]int) { problems = now })
	for name, content := range map[string]string{"empty": "{}", "no JSON": "x", "no statement": strings.Split(string(about("fixed")), `"statements"`)[0] + `"statements": []}`} {
		_, err := applier.Upload(t.Context(), vexdecisions.Upload{Name: "bad", Author: "jane", Content: []byte(content)})
		if !errors.Is(err, vex.ErrFormat) || !strings.Contains(err.Error(), "bad") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := applier.Content(t.Context(), "bad"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("what was refused is stored: %v", err)
	}

	applied, err := applier.Upload(t.Context(), vexdecisions.Upload{Name: "shop", Author: "jane", Content: about("not_affected", "CVE-2026-3")})
	must(t, err)
	want := []vexdecisions.Unmatched{{Document: "document", Position: "statements[0]", Vulnerability: "CVE-1900-1", Reason: vexdecisions.NoFinding}}
	if applied.Kind != store.VEXKindUpload || applied.Name != "shop" || applied.Author != "jane" || applied.Statements != 2 || applied.Matched != 1 || applied.Unmatched != 1 ||
		applied.Suppressed != 1 || applied.Problem != nil || !cmp.Equal(applied.Examples, want) {
		t.Errorf("%+v", applied)
	}
	expect := func(what string, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, suppressedIn(stored(t, s, key))); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
	}
	expect("after the upload", "CVE-2026-3 lodash")
	other := vexdecisions.NewApplier(s, clk, nil)
	all, err := other.Apply(t.Context())
	if err != nil || len(all) != 1 || all[0].Suppressed != 1 {
		t.Errorf("another replica: %+v, %v", all, err)
	}
	replaced := about("affected", "CVE-2026-3")
	if applied, err = other.Upload(t.Context(), vexdecisions.Upload{Name: "shop", Author: "john", Content: replaced}); err != nil || applied.Author != "john" || applied.Suppressed != 0 || applied.Matched != 1 {
		t.Errorf("replaced: %+v, %v", applied, err)
	}
	expect("replaced on another replica")
	if content, err := applier.Content(t.Context(), "shop"); err != nil || string(content) != string(replaced) {
		t.Errorf("%s, %v", content, err)
	}
	// A replica that ended between storing and applying.
	must(t, s.SaveVEX(t.Context(), store.VEXSource{Kind: store.VEXKindUpload, Name: "late"}, []store.VEXContent{{Name: "document", Content: about("fixed", "GHSA-2")}}))
	must(t, applier.Sync(t.Context()))
	expect("what another replica has stored", "GHSA-2 lodash")
	for _, deleted := range []bool{true, false} {
		if found, err := applier.Delete(t.Context(), "late", "jim"); err != nil || found != deleted {
			t.Errorf("deleted %v, %v", found, err)
		}
	}
	expect("deleted")
	if len(problems) > 0 {
		t.Errorf("problems: %v", problems)
	}
}

// TestChangesAreLogged checks that the log tells at level info which documents apply and which do not any more, and nothing when nothing changed.
func TestChangesAreLogged(t *testing.T) {
	t.Parallel()
	s, clk := open(t), clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	matched(t, s)
	var logged []string
	applier := vexdecisions.NewApplier(s, clk, nil)
	applier.Log = funcr.New(func(_, args string) { logged = append(logged, args) }, funcr.Options{})
	expect := func(what string, want ...string) {
		t.Helper()
		must(t, applier.Sync(t.Context()))
		if diff := cmp.Diff(want, logged); diff != "" {
			t.Errorf("%s: (-want +got):\n%s", what, diff)
		}
		logged = nil
	}
	line := func(from, to string) string {
		return fmt.Sprintf(`"level"=0 "msg"="VEX documents changed" "kind"="VEXDocument" "object"="shop" "from"=%q "to"=%q`, from, to)
	}
	upload := func(content []byte) string {
		t.Helper()
		applied, err := applier.Upload(t.Context(), vexdecisions.Upload{Name: "shop", Author: "jane", Content: content})
		must(t, err)
		return "sha256:" + applied.SHA256
	}
	expect("at first")
	first := upload(about("fixed", "CVE-2026-3"))
	expect("uploaded", line("", first))
	upload(about("fixed", "CVE-2026-3"))
	clk.Step(time.Hour)
	expect("the same once more")
	second := upload(about("affected", "CVE-2026-3"))
	expect("replaced", line(first, second))
	must(t, s.SaveVEX(t.Context(), store.VEXSource{Kind: store.VEXKindUpload, Name: "shop"}, []store.VEXContent{{Name: "document", Content: []byte("x")}}))
	expect("not readable", line(second, "Invalid"))
	_, err := applier.Delete(t.Context(), "shop", "jane")
	must(t, err)
	expect("deleted", line("Invalid", ""))
}

// TestSourceBeyondBounds: a source with which there are too many statements does not apply, whether all statements or all rules exceed their bound, and
// the others do, in whatever order they change.
func TestSourceBeyondBounds(t *testing.T) {
	t.Parallel()
	statements := func(n int, product string) []byte {
		one := `{"vulnerability": {"name": "CVE-2026-3"}, "status": "fixed", "products": [{"@id": "` + product + `"}]}`
		list := make([]string, n)
		for i := range list {
			list[i] = strings.ReplaceAll(one, "%d", fmt.Sprint(i))
		}
		return []byte(`{"@context": "https://openvex.dev/ns/v0.2.0", "@id": "x", "author": "a", "timestamp": "2026-01-01T00:00:00Z", "version": 1, "statements": [` + strings.Join(list, ",") + `]}`)
	}
	for name, c := range map[string]struct {
		content []byte
		sources int
		message string
	}{
		"statements": {statements(19_000, "pkg:npm/many"), 6, "statements in total, more than the limit of 100000"},
		"rules":      {statements(store.MaxVEXDecisions/2, "pkg:npm/many@%d"), 2, "all sources together may have"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, problems := open(t), map[store.DecisionReason]int{}
			key := matched(t, s)
			applier := vexdecisions.NewApplier(s, clocktesting.NewFakeClock(time.Now()), func(now map[store.DecisionReason]int) { problems = now })
			if _, err := applier.Upload(t.Context(), vexdecisions.Upload{Name: "ours", Author: "jane", Content: about("fixed", "CVE-2026-3")}); err != nil {
				t.Fatal(err)
			}
			// Each has another author, whose statements do not override the others.
			for i := range c.sources {
				content := []byte(strings.Replace(string(c.content), `"author": "a"`, fmt.Sprintf(`"author": "a%d"`, i), 1))
				must(t, s.SaveVEX(t.Context(), store.VEXSource{Kind: store.VEXKindSource, Name: fmt.Sprint("feed-", i)}, []store.VEXContent{{Name: "document", Content: content}}))
			}
			all, err := applier.Apply(t.Context())
			must(t, err)
			for i, one := range all {
				newest := i == c.sources
				if newest != (one.Problem != nil) || newest && (one.Problem.Reason != store.DecisionTooMany || !strings.Contains(one.Problem.Message, c.message)) {
					t.Errorf("%s %s: %+v", one.Kind, one.Name, one.Problem)
				}
			}
			if diff := cmp.Diff([]string{"CVE-2026-3 lodash"}, suppressedIn(stored(t, s, key))); diff != "" || problems[store.DecisionTooMany] != 1 {
				t.Errorf("%v, problems %v", diff, problems)
			}
			_, err = s.DeleteVEX(t.Context(), store.VEXKindSource, "feed-0", "")
			must(t, err)
			if all, err = applier.Apply(t.Context()); err != nil || all[len(all)-1].Problem != nil || problems[store.DecisionTooMany] != 0 {
				t.Errorf("with room: %+v, %v, problems %v", all[len(all)-1].Problem, err, problems)
			}
		})
	}
}

// laborious is a store in which the statements of some sources take too much work.
type laborious struct {
	vexdecisions.Store
	sources []string
	syncs   int
}

func (l *laborious) SyncVEX(ctx context.Context, revision string, decisions []store.Decision) error {
	l.syncs++
	for _, name := range l.sources {
		if slices.ContainsFunc(decisions, func(d store.Decision) bool { return d.Object.Name == name }) {
			return fmt.Errorf("apply: %w", &store.VEXWorkError{Kind: store.VEXKindSource, Name: name, Limit: 1})
		}
	}
	return l.Store.SyncVEX(ctx, revision, decisions)
}

// TestHostileFeed: sources whose statements take too much work are left out, one after the other, and the others apply.
func TestHostileFeed(t *testing.T) {
	t.Parallel()
	s := open(t)
	key := matched(t, s)
	slow := &laborious{Store: s, sources: []string{"hostile-1", "hostile-2"}}
	applier := vexdecisions.NewApplier(slow, clocktesting.NewFakeClock(time.Now()), nil)
	for name, vulnerability := range map[string]string{"hostile-1": "CVE-2026-1", "vendor": "CVE-2026-3", "hostile-2": "GHSA-2"} {
		must(t, s.SaveVEX(t.Context(), store.VEXSource{Kind: store.VEXKindSource, Name: name}, []store.VEXContent{{Name: "document", Content: about("fixed", vulnerability)}}))
	}
	all, err := applier.Apply(t.Context())
	must(t, err)
	for _, one := range all {
		if hostile := one.Name != "vendor"; hostile != (one.Problem != nil) || hostile && (one.Problem.Reason != store.DecisionTooMany || !strings.Contains(one.Problem.Message, one.Name)) {
			t.Errorf("%s: %+v", one.Name, one.Problem)
		}
	}
	if diff := cmp.Diff([]string{"CVE-2026-3 lodash"}, suppressedIn(stored(t, s, key))); diff != "" || slow.syncs != 3 {
		t.Errorf("after %d attempts: %s", slow.syncs, diff)
	}
	if _, err := applier.Apply(t.Context()); err != nil || slow.syncs != 3 {
		t.Errorf("what is known is tried again: %d attempts, %v", slow.syncs, err)
	}
}

// crowded is a store with room for some statements.
type crowded struct {
	vexdecisions.Store
	room, attempts int
}

func (c *crowded) SyncVEX(ctx context.Context, revision string, decisions []store.Decision) error {
	c.attempts++
	if len(decisions) > c.room {
		return fmt.Errorf("apply: %w", &store.VEXRoomError{Bound: "there would be too many statements", Limit: c.room})
	}
	return c.Store.SyncVEX(ctx, revision, decisions)
}

// TestNoRoom: of the sources that the store has no room for, the newest do not apply, so that what others withdraw and what is deleted takes effect. They
// apply when there is room.
func TestNoRoom(t *testing.T) {
	t.Parallel()
	s, clk, problems := open(t), clocktesting.NewFakeClock(time.Now()), map[store.DecisionReason]int{}
	key := matched(t, s)
	full := &crowded{Store: s, room: 6}
	applier := vexdecisions.NewApplier(full, clk, func(now map[store.DecisionReason]int) { problems = now })
	save := func(name string, content []byte) {
		t.Helper()
		must(t, s.SaveVEX(t.Context(), store.VEXSource{Kind: store.VEXKindSource, Name: name}, []store.VEXContent{{Name: "document", Content: content}}))
	}
	author := func(name string, content []byte) []byte {
		return []byte(strings.Replace(string(content), `"author": "a"`, fmt.Sprintf(`"author": %q`, name), 1))
	}
	expect := func(what string, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, suppressedIn(stored(t, s, key))); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
	}
	// Each has one more statement.
	save("vendor", author("vendor", about("not_affected", "CVE-2026-3")))
	_, err := applier.Upload(t.Context(), vexdecisions.Upload{Name: "wrong", Author: "jane", Content: author("wrong", about("fixed", "GHSA-2"))})
	must(t, err)
	save("feed", author("feed", about("fixed", "CVE-2026-1")))
	must(t, applier.Sync(t.Context()))
	expect("with room", "CVE-2026-1 lodash", "CVE-2026-3 lodash", "GHSA-2 lodash")

	// The feed grows, and the vendor withdraws.
	save("feed", author("feed", about("fixed", "CVE-2026-1", "CVE-2026-9")))
	save("vendor", author("vendor", about("affected", "CVE-2026-3")))
	all, err := applier.Apply(t.Context())
	must(t, err)
	for _, one := range all {
		if left := one.Name == "feed"; left != (one.Problem != nil) || left && (one.Problem.Reason != store.DecisionTooMany || !strings.Contains(one.Problem.Message, "the maximum is 6")) {
			t.Errorf("%s: %+v", one.Name, one.Problem)
		}
	}
	expect("without the feed", "GHSA-2 lodash")
	if problems[store.DecisionTooMany] != 1 {
		t.Errorf("problems %v", problems)
	}

	// There is no room for the document either.
	full.room = 3
	if deleted, err := applier.Delete(t.Context(), "wrong", "jim"); err != nil || !deleted {
		t.Errorf("deleted %v, %v", deleted, err)
	}
	expect("without the document")

	// With room, the feed is tried again, and not before it is time.
	full.room, full.attempts = 10, 0
	must(t, applier.Sync(t.Context()))
	if full.attempts != 0 {
		t.Errorf("%d attempts at once", full.attempts)
	}
	clk.Step(10 * time.Minute)
	must(t, applier.Sync(t.Context()))
	expect("with room again", "CVE-2026-1 lodash")
	if full.attempts != 1 || len(problems) > 0 {
		t.Errorf("%d attempts, problems %v", full.attempts, problems)
	}
}

// TestManySourcesWithoutRoom: few attempts find out which sources have room.
func TestManySourcesWithoutRoom(t *testing.T) {
	t.Parallel()
	s := open(t)
	full := &crowded{Store: s}
	for i := range store.MaxVEXUploads {
		must(t, s.SaveVEX(t.Context(), store.VEXSource{Kind: store.VEXKindUpload, Name: fmt.Sprint("one-", i)}, []store.VEXContent{{Name: "document", Content: about("fixed", "CVE-2026-3")}}))
	}
	all, err := vexdecisions.NewApplier(full, clocktesting.NewFakeClock(time.Now()), nil).Apply(t.Context())
	must(t, err)
	if len(all) != store.MaxVEXUploads || slices.ContainsFunc(all, func(one vexdecisions.Applied) bool { return one.Problem == nil }) || full.attempts > 8 {
		t.Errorf("%d sources after %d attempts", len(all), full.attempts)
	}
}
