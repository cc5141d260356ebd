package sqlstore

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/storetest"
	"github.com/scanner-operator/scanner-operator/internal/vex"
	"github.com/scanner-operator/scanner-operator/internal/vexdecisions"
)

// exported are the images of the tests of exported decisions, each with all packages of exportedCatalog.
var exported = []model.ImageKey{
	{ImageID: "registry.example/a@sha256:" + strings.Repeat("a", 64), Platform: model.Platform{OS: "linux", Architecture: "amd64"}},
	{ImageID: "registry.example/b@sha256:" + strings.Repeat("b", 64), Platform: model.Platform{OS: "linux", Architecture: "arm64"}},
	{ImageID: "registry.example/c@sha256:" + strings.Repeat("c", 64), Platform: model.Platform{OS: "linux", Architecture: "amd64"}},
}

func exportedCatalog() model.Catalog {
	catalog := decidedCatalog(2)
	for i := range catalog.Packages {
		p := &catalog.Packages[i].Package
		p.Type, p.PURL = "npm", "pkg:npm/"+p.Name+"@1"
	}
	return catalog
}

// holdExported stores the images, and matches them.
func holdExported(t *testing.T, s *Store) {
	t.Helper()
	_, err := s.StartResultSet(t.Context(), model.DatabaseBuild{ID: "1"}, "", true)
	if err == nil {
		_, err = s.WantImages(t.Context(), exported)
	}
	for _, namespace := range []string{"a", "b"} {
		var uses []store.Use
		for _, key := range exported {
			uses = append(uses, store.Use{Image: key, Workload: store.Workload{Namespace: namespace, Kind: "Deployment", Name: "web"}, Container: key.ImageID[17:18]})
		}
		if err == nil {
			err = s.RecordUses(t.Context(), namespace+"/scanner", uses)
		}
	}
	for _, key := range exported {
		if err == nil {
			err = s.SaveSBOM(t.Context(), key, store.SBOM{SHA256: "d", Size: 1}, exportedCatalog())
		}
		if err == nil {
			err = storetest.Match(t.Context(), s, key, "d", decidedFindings(4))
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// limitedPrefix begins the names of decisions that apply in some namespaces, or until there is a fix, which no statement can say.
const limitedPrefix = "limited-"

// randomExceptions are decisions about some images or all, about one package or all, in which nothing of what an end can be is missing.
func randomExceptions(r *rand.Rand, now time.Time) []store.Decision {
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	all := make([]store.Decision, 1+r.IntN(8))
	for i := range all {
		d := store.Decision{
			Object:          store.DecisionObject{Kind: "ClusterVulnerabilityException", Name: fmt.Sprint("e", i)},
			Vulnerabilities: []string{fmt.Sprint("CVE-", r.IntN(4))},
			Status: []model.DecisionStatus{
				model.DecisionNotAffected, model.DecisionFixed, model.DecisionFalsePositive, model.DecisionAcceptedRisk, model.DecisionAcceptedRisk, model.DecisionUnderInvestigation,
			}[r.IntN(6)],
			Comment: pick("", "Not used.", "Decision: Fixed. Not.", "two\nlines “é” \u2028<b>", strings.Repeat("é", 1900), "Decision: AcceptedRisk until 2030-01-01T00:00:00Z."),
		}
		if d.Unfixed = r.IntN(5) == 0; d.Unfixed {
			d.Object.Name = limitedPrefix + d.Object.Name
		}
		if d.Status == model.DecisionNotAffected {
			d.Justification = pick("component_not_present", "vulnerable_code_not_present", "vulnerable_code_not_in_execute_path",
				"vulnerable_code_cannot_be_controlled_by_adversary", "inline_mitigations_already_exist", "")
		}
		for _, key := range exported {
			if r.IntN(3) == 0 {
				d.Images = append(d.Images, key.Digest())
			}
		}
		if r.IntN(2) == 0 {
			d.Packages = []string{pick("pkg:npm/package-0@*", "pkg:npm/package-1@*", "pkg:npm/package-2@*")}
		}
		if r.IntN(3) == 0 {
			// The images run in the namespaces a and b, so that two decisions together can be about an image wherever it runs.
			namespace := pick("a", "b")
			d.Object.Name = limitedPrefix + d.Object.Name
			d.Places = &store.DecisionPlaces{Selector: namespace, Namespaces: []string{namespace}}
		}
		if r.IntN(3) > 0 {
			d.ExpiresAt = []time.Time{
				now.Add(time.Hour), now.Add(2*time.Hour + 345678*time.Microsecond), now.AddDate(0, 1, 0), time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC),
			}[r.IntN(4)]
		}
		all[i] = d
	}
	return all
}

// outcome is what is compared of a finding.
type outcome struct {
	Suppressed                     bool
	Status                         model.DecisionStatus
	Justification, Comment, Expiry string
}

// open is the outcome about a finding that nothing is stated about.
func (v outcome) open() bool { return v == outcome{} }

// allExported are the findings of an image.
func allExported(t *testing.T, s *Store, image model.ImageKey) []model.Finding {
	t.Helper()
	page, err := s.Findings(t.Context(), store.AllNamespaces(), store.FindingQuery{Image: image, Suppressed: true, Page: store.Page{Size: store.MaxPageSize}})
	if err != nil {
		t.Fatal(err)
	}
	return page.Findings
}

// outcomes are those about the findings of all images, each with the first decision that is stated of it: of those that apply wherever the image runs
// and whether there is a fix or not.
func outcomes(t *testing.T, s *Store) map[string]outcome {
	t.Helper()
	all := map[string]outcome{}
	for _, image := range exported {
		for _, f := range allExported(t, s, image) {
			decisions := slices.DeleteFunc(slices.Clone(f.Decisions), func(d model.Decision) bool {
				return strings.HasPrefix(d.Name, limitedPrefix) || !d.Suppresses && d.Status != model.DecisionUnderInvestigation
			})
			var v outcome
			if len(decisions) > 0 {
				d := decisions[0]
				v.Suppressed, v.Status, v.Justification, v.Comment = d.Suppresses, d.Status, d.Justification, d.Comment
				if !d.ExpiresAt.IsZero() {
					v.Expiry = d.ExpiresAt.UTC().Format(time.RFC3339Nano)
				}
			}
			all[image.ImageID[:18]+" "+f.Package.Name+" "+f.Vulnerability.ID] = v
		}
	}
	return all
}

// exportAll is a document about the decisions about all images, nil if there are none.
func exportAll(t *testing.T, s *Store, format vex.Format) []byte {
	t.Helper()
	var written bytes.Buffer
	err := vex.Write(&written, format, vex.Export{Author: "scanner-operator of the cluster x", Images: func(yield func(vex.Image) error) error {
		for _, key := range exported {
			findings := allExported(t, s, key)
			if err := yield(vex.Image{Key: key, Findings: func(yield func(model.Finding) error) error {
				for i := range findings {
					if err := yield(findings[i]); err != nil {
						return err
					}
				}
				return nil
			}}); err != nil {
				return err
			}
		}
		return nil
	}})
	if err != nil && !errors.Is(err, vex.ErrNoDecision) {
		t.Fatal(err)
	}
	return written.Bytes()
}

// scanSuppresses are the findings that "scan --exported-decisions" suppresses.
func scanSuppresses(t *testing.T, s *Store, content []byte, now time.Time) map[string]model.DecisionStatus {
	t.Helper()
	document, err := vex.Read("x", bytes.NewReader(content), vex.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	document.ExportedDecisions = true
	set, err := vex.NewSet([]*vex.Document{document})
	if err != nil {
		t.Fatal(err)
	}
	suppressed := map[string]model.DecisionStatus{}
	for _, key := range exported {
		names := model.ImageNames{References: []string{key.ImageID}, Digests: []string{key.Digest()}, Architecture: key.Platform.Architecture}
		result, err := set.Apply(t.Context(), names, allExported(t, s, key), noVersions{}, now)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range result.Suppressed {
			suppressed[key.ImageID[:18]+" "+f.Package.Name+" "+f.Vulnerability.ID] = f.Suppression.Decision
		}
	}
	return suppressed
}

// noVersions fails for each comparison: documents of exports need none.
type noVersions struct{}

func (noVersions) Satisfies(_, _, constraint string) (bool, error) {
	return false, fmt.Errorf("%s is compared", constraint)
}

// TestExportedDecisions writes random decisions of one store in both formats, and reads them in another one that has the same images, with exported decisions
// in full: the same findings are suppressed with the same status, justification, comment and end, each counts again when its decision ends, neither earlier
// nor later, of which one event tells, and nothing begins again afterwards. A scan agrees at each of these times. Without the option, accepted risks count
// and nothing ends.
func TestExportedDecisions(t *testing.T) {
	eachDatabase(t, func(t *testing.T, config Config) {
		clk := clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
		config.Clock, config.Rules = clk, &vex.Evaluator{Versions: noVersions{}}
		from, to := openWith(t, Config{DSN: migrated(t), Clock: clk}), openWith(t, config)
		holdExported(t, from)
		holdExported(t, to)
		accepted, ended, kept := 0, 0, 0
		for seed := range uint64(12) {
			r := rand.New(rand.NewPCG(seed, 105))
			for _, format := range []vex.Format{vex.FormatOpenVEX, vex.FormatCycloneDX} {
				if problems, err := from.SyncDecisions(t.Context(), store.DecisionSourceKubernetes, randomExceptions(r, clk.Now())); err != nil || len(problems) > 0 {
					t.Fatal(problems, err)
				}
				want, content := outcomes(t, from), exportAll(t, from, format)
				if len(content) == 0 {
					continue
				}
				apply := func(full bool) vexdecisions.Applied {
					t.Helper()
					applied, err := vexdecisions.NewApplier(to, clk, nil).Upload(t.Context(), vexdecisions.Upload{Name: "x", Author: "jane", Content: content, ExportedDecisions: full})
					if err != nil || applied.Problem != nil {
						t.Fatal(applied.Problem, err)
					}
					return applied
				}
				expect := func(what string) {
					t.Helper()
					if diff := cmp.Diff(want, outcomes(t, to)); diff != "" {
						t.Fatalf("seed %d, %s, %s (-exported +read): %s\n%s", seed, format, what, diff, content)
					}
					scanned := scanSuppresses(t, to, content, clk.Now())
					for name, v := range want {
						if status := scanned[name]; v.Suppressed && status != v.Status || !v.Suppressed && status != "" {
							t.Fatalf("seed %d, %s, %s: a scan says %q of %s, want %+v\n%s", seed, format, what, status, name, v, content)
						}
					}
				}
				if applied := apply(true); applied.Matched != applied.Statements {
					t.Errorf("seed %d, %s: %+v", seed, format, applied)
				}
				expect("in full")
				ends := map[string]map[model.DecisionStatus]bool{}
				for _, v := range want {
					if v.Expiry != "" && v.Expiry < "9999" {
						if ends[v.Expiry] == nil {
							ends[v.Expiry] = map[model.DecisionStatus]bool{}
						}
						ends[v.Expiry][v.Status] = true
					}
					if v.Status == model.DecisionAcceptedRisk {
						accepted++
					}
				}
				before := maps.Clone(want)
				for _, end := range slices.Sorted(maps.Keys(ends)) {
					at, err := time.Parse(time.RFC3339Nano, end)
					if err != nil {
						t.Fatal(err)
					}
					expire := func() int {
						t.Helper()
						count := func() []string { return texts(t, to, "SELECT seq FROM events WHERE kind = 'decision.expired'") }
						before := count()
						if next, err := to.ExpireDecisions(t.Context()); err != nil || next.IsZero() && clk.Now().Before(at) {
							t.Fatalf("the next one ends at %s, %v", next, err)
						}
						return len(count()) - len(before)
					}
					clk.SetTime(at.Add(-time.Microsecond))
					if told := expire(); told != 0 {
						t.Fatalf("%d ended before their time", told)
					}
					expect("just before an end")
					clk.SetTime(at)
					if told := expire(); told != len(ends[end]) {
						t.Fatalf("%d events about %d statuses with this end", told, len(ends[end]))
					}
					for name, v := range want {
						if v.Expiry == end {
							want[name] = outcome{}
							ended++
						}
					}
					expect("at an end")
					checkHeld(t, to)
					if err := vexdecisions.NewApplier(to, clk, nil).Sync(t.Context()); err != nil {
						t.Fatal(err)
					}
					if told := expire(); told != 0 {
						t.Fatalf("%d ended again", told)
					}
					expect("after an end and a restart")
				}
				for _, v := range want {
					if !v.open() {
						kept++
					}
				}
				apply(false)
				for name, v := range outcomes(t, to) {
					status := before[name].Status
					if suppressed := status.Suppresses() && status != model.DecisionAcceptedRisk; suppressed != v.Suppressed {
						t.Errorf("seed %d, %s, status only: %s has %+v, was exported as %+v", seed, format, name, v, before[name])
					}
				}
				checkHeld(t, to)
			}
		}
		if accepted < 50 || ended < 50 || kept < 50 {
			t.Errorf("the test covers too little: %d accepted risks, %d that ended, %d that did not", accepted, ended, kept)
		}
	})
}

// TestIndependentRules: decisions with rules that are independent of others apply to each finding that they are about, whether it is there before or comes later,
// beside the one of the others that decides; they end once, at their time, and leave no rule.
func TestIndependentRules(t *testing.T) {
	eachDatabase(t, func(t *testing.T, config Config) {
		clk := clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
		config.Clock, config.Rules = clk, ranked{}
		s := openWith(t, config)
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		sync := func(decisions ...store.Decision) {
			t.Helper()
			_, revision, err := s.VEX(t.Context())
			must(err)
			must(s.SyncVEX(t.Context(), revision, decisions))
		}
		expect := func(what string, suppressed int, want ...string) {
			t.Helper()
			if diff := cmp.Diff(want, texts(t, s, decisionRows)); diff != "" {
				t.Errorf("%s: %s", what, diff)
			}
			if got := texts(t, s, "SELECT COUNT(DISTINCT finding_id) FROM finding_suppressions"); got[0] != fmt.Sprint(suppressed) {
				t.Errorf("%s: %v findings are suppressed, want %d", what, got, suppressed)
			}
			checkHeld(t, s)
		}
		independent := func(name, rule string, status model.DecisionStatus, end time.Duration) store.Decision {
			d := statement("cluster", name, "CVE-0", rule, status)
			d.ExpiresAt = clk.Now().Add(end)
			return d
		}
		vendor := statement("vendor", "one", "CVE-0", "9 *", model.DecisionAffected)
		accepted := independent("accepted", "+1 package-1", model.DecisionAcceptedRisk, time.Hour)
		both := independent("both", "+2 *", model.DecisionUnderInvestigation, 2*time.Hour)
		over := independent("over", "+3 *", model.DecisionFixed, 0)
		all := []store.Decision{vendor, accepted, both, over}
		_, err := s.StartResultSet(t.Context(), model.DatabaseBuild{ID: "1"}, "", true)
		must(err)
		sync(all...)
		expect("before there are findings", 0)
		key := model.ImageKey{ImageID: "image", Platform: model.Platform{OS: "linux", Architecture: "amd64"}}
		_, err = s.WantImages(t.Context(), []model.ImageKey{key})
		must(err)
		must(s.SaveSBOM(t.Context(), key, store.SBOM{SHA256: "d", Size: 1}, decidedCatalog(1)))
		must(storetest.Match(t.Context(), s, key, "d", decidedFindings(1)))
		first := []string{
			"package-0|CVE-0|cluster|both", "package-0|CVE-0|vendor|one", "package-1|CVE-0|cluster|accepted", "package-1|CVE-0|cluster|both", "package-1|CVE-0|vendor|one",
		}
		expect("findings that come later", 1, first...)
		sync(vendor)
		expect("without them", 0, "package-0|CVE-0|vendor|one", "package-1|CVE-0|vendor|one")
		sync(all...)
		expect("findings that were there", 1, first...)
		last := texts(t, s, "SELECT MAX(seq) FROM events")
		sync(over, both, accepted, vendor)
		if now := texts(t, s, "SELECT MAX(seq) FROM events"); now[0] != last[0] {
			t.Error("the same decisions in another order are a change")
		}
		for _, c := range []struct {
			end        time.Duration
			suppressed int
			want       []string
		}{
			{time.Hour, 0, []string{"package-0|CVE-0|cluster|both", "package-0|CVE-0|vendor|one", "package-1|CVE-0|cluster|both", "package-1|CVE-0|vendor|one"}},
			{time.Hour, 0, []string{"package-0|CVE-0|vendor|one", "package-1|CVE-0|vendor|one"}},
		} {
			clk.Step(c.end)
			// What is over and has not ended yet is not told to have been removed.
			sync(all...)
			for range 2 {
				_, err := s.ExpireDecisions(t.Context())
				must(err)
				sync(all...)
				expect(fmt.Sprintf("at %s", clk.Now()), c.suppressed, c.want...)
			}
		}
		if ended := texts(t, s, "SELECT d.name FROM decisions d WHERE d.ended_by = 'Expired'"); len(ended) != 2 {
			t.Errorf("%d decisions have expired, want 2", len(ended))
		}
		if told := texts(t, s, "SELECT seq FROM events WHERE kind = 'decision.expired'"); len(told) != 2 {
			t.Errorf("%d events, want 2", len(told))
		}
		if rules := texts(t, s, "SELECT COUNT(*) FROM decision_rules"); rules[0] != "1" {
			t.Errorf("%v rules are left", rules)
		}
	})
}

// TestVEXExportedDecisions: whether decisions apply in full belongs to the documents of a source, and a change of it is a change of the documents.
func TestVEXExportedDecisions(t *testing.T) {
	eachDatabase(t, func(t *testing.T, config Config) {
		s := openWith(t, config)
		revisions := map[string]bool{}
		for _, c := range []struct {
			full, changed bool
		}{{false, true}, {false, false}, {true, true}, {true, false}, {false, true}} {
			source := store.VEXSource{Kind: store.VEXKindUpload, Name: "a", ExportedDecisions: c.full}
			if err := s.SaveVEX(t.Context(), source, documentsOf("{}", "[]")); err != nil {
				t.Fatal(err)
			}
			sources, revision, err := s.VEX(t.Context())
			if err != nil || len(sources) != 1 || sources[0].Documents != 2 || sources[0].ExportedDecisions != c.full || revisions[revision] == c.changed {
				t.Errorf("%+v: %+v, the revision is known: %v, %v", c, sources, revisions[revision], err)
			}
			revisions[revision] = true
		}
		if _, err := s.DeleteVEX(t.Context(), store.VEXKindUpload, "a", ""); err != nil {
			t.Fatal(err)
		}
		if left := texts(t, s, "SELECT COUNT(*) FROM vex_exported_decisions"); left[0] != "0" {
			t.Errorf("%v rows are left", left)
		}
	})
}
