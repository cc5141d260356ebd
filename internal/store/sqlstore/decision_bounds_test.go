package sqlstore

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/storetest"
)

// TestTooBroad goes to the bounds of what decisions match, and replaces and deletes decisions there.
func TestTooBroad(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, config Config) {
		s := openWith(t, config)
		if s.matchBounds != (matchBounds{
			store.MaxDecisionMatches, store.MaxAllDecisionMatches, store.MaxNamespaceMatches, store.MaxNamespacedMatches, store.AlwaysNamespaceMatches, store.AlwaysClusterMatches,
			store.MaxJoinedReaches, store.MaxNamespacedJoinedReaches, store.MaxNamespaceJoinedReaches, store.MaxDecisions, store.MaxReachedImages,
		}) {
			t.Errorf("the bounds are %+v", s.matchBounds)
		}
		s.matchBounds.one, s.matchBounds.all, s.matchBounds.namespace, s.matchBounds.namespaced = 6, 10, 6, 8
		// Three packages, each with four vulnerabilities.
		hold(t, s, 3, 4)
		decide := func(one ...store.Decision) map[string]store.DecisionReason {
			t.Helper()
			problems, err := s.SyncDecisions(t.Context(), "test", one)
			if err != nil {
				t.Fatal(err)
			}
			reasons := map[string]store.DecisionReason{}
			for object, problem := range problems {
				reasons[object.Name] = problem.Reason
			}
			return reasons
		}
		broad := func(name string, packages []string, ids ...string) store.Decision {
			return store.Decision{
				Object: store.DecisionObject{Kind: "ClusterVulnerabilityException", Name: name}, Vulnerabilities: ids, Packages: packages, Status: model.DecisionFixed,
			}
		}
		first, second, third := []string{"pkg:generic/package-0"}, []string{"pkg:generic/package-1"}, []string{"pkg:generic/package-2"}
		edited := broad("b", second)
		edited.Comment = "edited"
		for _, step := range []struct {
			name      string
			decisions []store.Decision
			want      map[string]store.DecisionReason
		}{
			{"one matches 8", []store.Decision{broad("a", append(first, second...))}, map[string]store.DecisionReason{"a": store.DecisionTooBroad}},
			{"all match 8", []store.Decision{broad("a", first), broad("b", second)}, nil},
			{"all would match 12", []store.Decision{broad("a", first), broad("b", second), broad("c", third)}, map[string]store.DecisionReason{"c": store.DecisionTooBroad}},
			{"all match 10", []store.Decision{broad("a", first), broad("b", second), broad("c", third, "CVE-0", "CVE-1")}, nil},
			{"an edit matches the same", []store.Decision{broad("a", first), edited, broad("c", third, "CVE-0", "CVE-1")}, nil},
			{"another takes the place of one", []store.Decision{broad("a", first), edited, broad("d", third, "CVE-2", "CVE-3")}, nil},
			{"an edit matches more", []store.Decision{broad("a", first), edited, broad("d", third, "CVE-1", "CVE-2", "CVE-3")}, map[string]store.DecisionReason{"d": store.DecisionTooBroad}},
		} {
			want := step.want
			if want == nil {
				want = map[string]store.DecisionReason{}
			}
			if diff := cmp.Diff(want, decide(step.decisions...)); diff != "" {
				t.Errorf("%s: %s", step.name, diff)
			}
		}
		checkHeld(t, s)
	})
}

// TestNamespacesShareMatches has exceptions of namespaces leave room for others.
func TestNamespacesShareMatches(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, config Config) {
		s := openWith(t, config)
		s.matchBounds.one, s.matchBounds.all, s.matchBounds.namespace, s.matchBounds.namespaced, s.matchBounds.alwaysNamespace = 100, 13, 4, 8, 1
		// Three packages, each with four vulnerabilities.
		hold(t, s, 3, 4)
		messages := map[string]bool{}
		broad := func(namespace, name, pkg string) store.Decision {
			d := store.Decision{
				Object: store.DecisionObject{Kind: "VulnerabilityException", Namespace: namespace, Name: name}, Packages: []string{"pkg:generic/package-" + pkg},
				Status: model.DecisionFixed,
			}
			if namespace == "" {
				d.Object.Kind = "ClusterVulnerabilityException"
				return d
			}
			d.Places = &store.DecisionPlaces{Selector: namespace, Namespaces: []string{namespace}}
			return d
		}
		own, second, third, cluster := broad("a", "own", "0"), broad("b", "second", "0"), broad("c", "third", "0"), broad("", "cluster", "1")
		few := broad("d", "few", "2")
		few.Vulnerabilities = []string{"CVE-0"}
		for _, step := range []struct {
			decisions []store.Decision
			refused   []string
		}{
			{[]store.Decision{own, broad("a", "more", "1"), second, third, cluster}, []string{"more", "third"}},
			{[]store.Decision{broad("a", "more", "1"), second, third, cluster}, []string{"third"}},
			// What matches no more than a namespace always has room for takes none from others.
			{[]store.Decision{own, second, third, few, cluster}, []string{"third"}},
			{[]store.Decision{second, third, cluster}, nil},
		} {
			problems, err := s.SyncDecisions(t.Context(), "test", step.decisions)
			if err != nil {
				t.Fatal(err)
			}
			var refused []string
			for object, problem := range problems {
				if problem.Reason != store.DecisionTooBroad {
					t.Errorf("%+v: %+v", object, problem)
				}
				messages[problem.Message] = true
				refused = append(refused, object.Name)
			}
			slices.Sort(refused)
			if diff := cmp.Diff(step.refused, refused); diff != "" {
				t.Error(diff)
			}
		}
		// Users of a namespace read the message: it does not say how many findings there are, most of which others may have.
		wide := broad("a", "wide", "0")
		wide.Packages = append(wide.Packages, "pkg:generic/package-1", "pkg:generic/package-2")
		problems, err := s.SyncDecisions(t.Context(), "test", []store.Decision{wide})
		if err != nil {
			t.Fatal(err)
		}
		if messages[problems[wide.Object].Message] = true; len(messages) != 1 {
			t.Errorf("messages: %q", slices.Collect(maps.Keys(messages)))
		}
	})
}

// hold has one image with so many packages, each with so many vulnerabilities.
func hold(t *testing.T, s *Store, packages, vulnerabilities int) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := s.StartResultSet(t.Context(), model.DatabaseBuild{ID: "1"}, "", true)
	must(err)
	key := model.ImageKey{ImageID: "image", Platform: model.Platform{OS: "linux", Architecture: "amd64"}}
	_, err = s.WantImages(t.Context(), []model.ImageKey{key})
	must(err)
	must(s.SaveSBOM(t.Context(), key, store.SBOM{SHA256: "d", Size: 1}, decidedCatalog(packages-1)))
	must(storetest.Match(t.Context(), s, key, "d", decidedFindings(vulnerabilities)))
}
