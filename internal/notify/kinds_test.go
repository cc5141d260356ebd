package notify

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/onsi/gomega"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// score makes a database build current that says this of all vulnerabilities, and has the same findings.
func (f *fixture) score(t *testing.T, epss float64, exploited bool) {
	t.Helper()
	f.builds++
	next, err := f.StartResultSet(t.Context(), model.DatabaseBuild{ID: fmt.Sprint("build ", f.builds), Built: time.Unix(1000, 0)}, "engine", true)
	must(t, err)
	must(t, f.StartMatching(t.Context(), next.Number))
	all, err := f.Vulnerabilities(t.Context(), 0, store.MaxKeys)
	must(t, err)
	for i := range all {
		all[i].EPSS, all[i].KEV = &model.EPSS{CVE: all[i].Vulnerability.ID, Score: epss}, nil
		if exploited {
			all[i].KEV = []model.KnownExploited{{CVE: all[i].Vulnerability.ID, DateAdded: "2026-01-01"}}
		}
	}
	must(t, f.StageScores(t.Context(), next.Number, all))
	_, err = f.Switch(t.Context(), next.Number)
	must(t, err)
}

// except makes a decision about CVE-1 that ends in 8 days: of a namespace, or of the cluster.
func (f *fixture) except(t *testing.T, namespace string) {
	t.Helper()
	object := store.DecisionObject{Kind: "ClusterVulnerabilityException", Name: "e"}
	if namespace != "" {
		object.Kind, object.Namespace = "VulnerabilityException", namespace
	}
	_, err := f.SyncDecisions(t.Context(), store.DecisionSourceKubernetes, []store.Decision{{
		Object: object, Vulnerabilities: []string{"CVE-1"}, Status: model.DecisionNotAffected, Comment: "why", ExpiresAt: f.clock.Now().Add(8 * 24 * time.Hour),
	}})
	must(t, err)
}

// cover says whether the workload in a namespace is scanned.
func (f *fixture) cover(t *testing.T, namespace, state, reason string) {
	t.Helper()
	must(t, f.RecordCoverage(t.Context(), "scope of "+namespace, []store.ContainerCoverage{{
		Workload: workload(namespace, "web", ""), Container: "c", Image: image("a"), Pods: 1, State: state, Reason: reason,
	}}))
}

// low are findings of package p with severity Low.
func low(ids ...string) findings {
	var all []model.PackageFinding
	for _, id := range ids {
		all = append(all, finding(id, model.SeverityLow))
	}
	return findings{"p": all}
}

// kindOfChange is a change as the store records it.
type kindOfChange struct {
	kind Kind
	// before is what there is when the rules begin, nil for nothing more; change happens then.
	before, change func(*testing.T, *fixture)
	// said is what messages say beside their kind, "" if there is none. in are the namespaces whose rules are told, besides those of the cluster; places says
	// that messages name the workloads there.
	said   string
	in     []string
	places bool
}

var kindsOfChanges = map[string]kindOfChange{
	"a finding is opened": {
		kind: FindingOpened, said: "CVE-2", in: both, places: true,
		change: func(t *testing.T, f *fixture) { f.update(t, low("CVE-1", "CVE-2")) },
	},
	"a finding is closed": {
		kind: FindingClosed, said: "CVE-1", in: both, places: true,
		change: func(t *testing.T, f *fixture) { f.update(t, nil) },
	},
	"a finding is closed that is suppressed in a namespace": {
		kind: FindingClosed, said: "CVE-1", in: []string{"two"}, places: true,
		before: func(t *testing.T, f *fixture) { f.suppress(t, map[string][]string{"one": {"CVE-1"}}) },
		change: func(t *testing.T, f *fixture) { f.update(t, nil) },
	},
	"a finding is closed that is suppressed everywhere": {
		kind:   FindingClosed,
		before: func(t *testing.T, f *fixture) { f.suppress(t, map[string][]string{"": {"CVE-1"}}) },
		change: func(t *testing.T, f *fixture) { f.update(t, nil) },
	},
	"a severity changes": {
		kind: FindingChanged, said: "CVE-1", in: both, places: true,
		change: func(t *testing.T, f *fixture) { f.update(t, findings{"p": {finding("CVE-1", model.SeverityHigh)}}) },
	},
	"there is another fix": {
		kind: FindingChanged, said: "CVE-1", in: both, places: true,
		change: func(t *testing.T, f *fixture) {
			other := low("CVE-1")
			other["p"][0].Fix.Versions = []string{"3.0"}
			f.update(t, other)
		},
	},
	"nothing changes": {
		kind:   FindingChanged,
		change: func(t *testing.T, f *fixture) { f.update(t, low("CVE-1")) },
	},
	"it is added to the KEV catalog": {
		kind: KEVAdded, said: "CVE-1", in: both, places: true,
		change: func(t *testing.T, f *fixture) { f.score(t, 0.05, true) },
	},
	"it is taken out of the KEV catalog": {
		kind:   KEVAdded,
		before: func(t *testing.T, f *fixture) { f.score(t, 0.05, true) },
		change: func(t *testing.T, f *fixture) { f.score(t, 0.05, false) },
	},
	"its EPSS rises to the threshold": {
		kind: EPSSCrossed, said: "CVE-1", in: both, places: true,
		change: func(t *testing.T, f *fixture) { f.score(t, store.EPSSThreshold, false) },
	},
	"its EPSS rises below the threshold": {
		kind:   EPSSCrossed,
		change: func(t *testing.T, f *fixture) { f.score(t, store.EPSSThreshold-0.001, false) },
	},
	"its EPSS rises above the threshold": {
		kind:   EPSSCrossed,
		before: func(t *testing.T, f *fixture) { f.score(t, 0.5, false) },
		change: func(t *testing.T, f *fixture) { f.score(t, 0.9, false) },
	},
	"its EPSS falls below the threshold": {
		kind:   EPSSCrossed,
		before: func(t *testing.T, f *fixture) { f.score(t, 0.5, false) },
		change: func(t *testing.T, f *fixture) { f.score(t, 0.05, false) },
	},
	"a scan fails": {
		kind: ScanFailed, said: shownImage + "b@sha256:" + zeros + "1: ImageNotFound", in: []string{"two"}, places: true,
		before: runUnscanned,
		change: func(t *testing.T, f *fixture) {
			// The message names another namespace.
			recorded, err := f.RecordFailure(t.Context(), unscanned, 0, model.Outcome{Reason: model.ReasonImageNotFound, Message: "secret of three"}, f.clock.Now().Add(time.Hour))
			if err != nil || !recorded {
				t.Fatal(recorded, err)
			}
		},
	},
	"a package cannot be matched": {
		kind: ScanFailed, said: shownImage + "b@sha256:" + zeros + "1: MatchFailed", in: []string{"two"}, places: true,
		before: func(t *testing.T, f *fixture) {
			runUnscanned(t, f)
			catalog := model.Catalog{Packages: []model.HeldPackage{{Package: model.Package{Fingerprint: strings.Repeat("f", 64), Name: "q", Type: "deb"}}}}
			must(t, f.SaveSBOM(t.Context(), unscanned, store.SBOM{MediaType: "application/vnd.syft+json", Content: []byte("x"), SHA256: digestOfUnscanned, Size: 1}, catalog))
		},
		change: func(t *testing.T, f *fixture) {
			current, _, err := f.CurrentResultSet(t.Context())
			must(t, err)
			_, packages, err := f.UnansweredPackages(t.Context(), unscanned)
			must(t, err)
			must(t, f.SaveAnswers(t.Context(), current.Number, map[int64]model.PackageAnswer{packages[0].ID: {Failure: "the database cannot be read"}}))
			must(t, f.FinishImage(t.Context(), unscanned, digestOfUnscanned))
		},
	},
	"a rollout is evaluated": {
		kind: RolloutEvaluated, said: "rollout of Deployment one/web, container c: opens 0 findings (0 Critical, 0 High), closes 1", in: []string{"one"}, places: true,
		before: func(t *testing.T, f *fixture) { f.run(t, image("bb"), []string{"q"}) },
		change: func(t *testing.T, f *fixture) {
			must(t, f.RecordUses(t.Context(), scopeOf(image("a")), []store.Use{
				{Image: image("bb"), Workload: workload("one", "web", ""), Container: "c"}, {Image: image("a"), Workload: workload("two", "web", ""), Container: "c"},
			}))
			if taken, err := f.EvaluateRollouts(t.Context(), time.Time{}, store.MaxEvaluated); err != nil || taken != 1 {
				t.Fatalf("%d rollouts were evaluated: %v", taken, err)
			}
		},
	},
	"an image is new in a namespace": {
		kind: ImageIntroduced, said: shownImage + "a@sha256:" + zeros + "1 is new in three: 1 Low", in: []string{"three"}, places: true,
		before: func(t *testing.T, f *fixture) {
			if taken, err := f.ReportIntroductions(t.Context(), time.Time{}, store.MaxIntroduced); err != nil || taken != 2 {
				t.Fatalf("%d images were new: %v", taken, err)
			}
		},
		change: func(t *testing.T, f *fixture) {
			must(t, f.RecordUses(t.Context(), "new", []store.Use{{Image: image("a"), Workload: workload("three", "web", ""), Container: "c"}}))
			if taken, err := f.ReportIntroductions(t.Context(), time.Time{}, store.MaxIntroduced); err != nil || taken != 1 {
				t.Fatalf("%d images were new: %v", taken, err)
			}
		},
	},
	"a due date passes": {
		kind: FindingOverdue, said: "1 finding is overdue in " + shownImage + "a@sha256:" + zeros + "1", in: both, places: true,
		before: func(t *testing.T, f *fixture) {
			_, err := f.SyncPolicies(t.Context(), []store.Policy{{Name: "p", From: model.DueFromFirstSeen, DueIn: model.DueIn{Low: new(1)}}})
			must(t, err)
		},
		change: func(t *testing.T, f *fixture) {
			f.clock.move(25 * time.Hour)
			_, err := f.RecordOverdue(t.Context())
			must(t, err)
		},
	},
	"a container is not scanned any more": {
		kind: CoverageLost, said: "two/Deployment/web, container c: Failed, ImageNotFound", in: []string{"two"}, places: true,
		before: func(t *testing.T, f *fixture) { f.cover(t, "two", "Scanned", "") },
		change: func(t *testing.T, f *fixture) { f.cover(t, "two", "Failed", "ImageNotFound") },
	},
	"a container is scanned": {
		kind:   CoverageLost,
		before: func(t *testing.T, f *fixture) { f.cover(t, "two", "Failed", "ImageNotFound") },
		change: func(t *testing.T, f *fixture) { f.cover(t, "two", "Scanned", "") },
	},
	"an exception expires soon": {
		kind: ExceptionExpiring, said: "VulnerabilityException one/e expires on DATE: 1 finding counts again then", in: []string{"one"},
		before: func(t *testing.T, f *fixture) { f.except(t, "one") },
		change: func(t *testing.T, f *fixture) {
			f.clock.move(5 * 24 * time.Hour)
			must(t, f.RecordExpiring(t.Context()))
		},
	},
	"an exception of the cluster expired": {
		kind: ExceptionExpired, said: "ClusterVulnerabilityException e expired: 1 finding counts again",
		before: func(t *testing.T, f *fixture) { f.except(t, "") },
		change: func(t *testing.T, f *fixture) {
			f.clock.move(9 * 24 * time.Hour)
			_, err := f.ExpireDecisions(t.Context())
			must(t, err)
		},
	},
	"an exception is deleted": {
		kind: ExceptionRemoved, said: "VulnerabilityException one/e was deleted or cannot be applied any more: 1 finding does not match it any more", in: []string{"one"},
		before: func(t *testing.T, f *fixture) { f.except(t, "one") },
		change: func(t *testing.T, f *fixture) {
			_, err := f.SyncDecisions(t.Context(), store.DecisionSourceKubernetes, nil)
			must(t, err)
		},
	},
	"an exception begins to apply": {
		kind:   ExceptionRemoved,
		change: func(t *testing.T, f *fixture) { f.except(t, "one") },
	},
	"another database build is in use": {
		kind: DatabaseUpdated, said: "the vulnerability database of 1970-01-01 00:16:40 is in use: it opens 0 findings, closes 0 and changes 0 in 0 images",
		change: func(t *testing.T, f *fixture) { f.update(t, low("CVE-1")) },
	},
	"no database build came into use": {
		kind: DatabaseStale, said: "no vulnerability database that is newer than that of 1970-01-01 00:16:40 came into use: findings that were published since are missing",
		change: func(t *testing.T, f *fixture) { must(t, f.RecordStaleDatabase(t.Context(), time.Hour)) },
	},
}

const (
	shownImage = "registry.example/"
	zeros      = "000000000000000000000000000000000000000000000000000000000000000"
)

var (
	both = []string{"one", "two"}
	// unscanned is an image that the namespace two runs alone.
	// dates are those at which exceptions expire.
	dates             = regexp.MustCompile(`on [0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2} UTC`)
	unscanned         = image("b")
	digestOfUnscanned = strings.Repeat("b", 64)
)

func runUnscanned(t *testing.T, f *fixture) {
	t.Helper()
	_, err := f.WantImages(t.Context(), []model.ImageKey{unscanned})
	must(t, err)
	must(t, f.RecordUses(t.Context(), "unscanned", []store.Use{{Image: unscanned, Workload: workload("two", "job", ""), Container: "c"}}))
}

// A change is a message to each rule that sees it, of its kind and no other one. CVE-1 is in package p of an image that runs in the namespaces one and two,
// and its EPSS is 0.05.
func TestEachKindOfChange(t *testing.T) {
	told := map[Kind]bool{}
	for _, c := range kindsOfChanges {
		told[c.kind] = told[c.kind] || c.said != ""
	}
	for _, kind := range Kinds() {
		if !told[kind] {
			t.Errorf("nothing is told of %s here", kind)
		}
	}
	for name, c := range kindsOfChanges {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, g := newFixture(t), gomega.NewWithT(t)
			f.run(t, image("a"), []string{"p"}, workload("one", "web", ""), workload("two", "web", ""))
			f.update(t, low("CVE-1"))
			f.score(t, 0.05, false)
			if c.before != nil {
				c.before(t, f)
			}
			r := &recorder{}
			e, _ := f.engine(t, f.Store, r)
			rules := []*Rule{
				rule(t, Definition{Name: "about", By: ByRule, When: fmt.Sprintf(`change.kind == %q`, c.kind)}),
				rule(t, Definition{Name: "others", By: ByRule, When: fmt.Sprintf(`change.kind != %q && change.kind != %q`, c.kind, DatabaseUpdated)}),
				rule(t, Definition{Namespace: "one", Name: "own"}), rule(t, Definition{Namespace: "two", Name: "own"}),
				rule(t, Definition{Namespace: "three", Name: "own"}),
			}
			f.rules(t, e, rules...)
			c.change(t, f)
			f.start(t, e, rules...)
			last, err := f.LastSequence(t.Context())
			must(t, err)
			g.Eventually(func() (left int) {
				cursors, err := f.NotificationCursors(t.Context())
				must(t, err)
				for _, cursor := range cursors {
					if cursor.Sequence < last {
						left++
					}
				}
				queues, err := f.NotificationQueues(t.Context())
				must(t, err)
				for _, queue := range queues {
					left += queue.Pending
				}
				return left
			}, patience, tick).Should(gomega.BeZero())
			if diff := cmp.Diff(c.messages(), messagesOf(r.all())); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// messages are those that the change is told with.
func (c *kindOfChange) messages() []string {
	if c.said == "" {
		return nil
	}
	told := map[string][]string{"about": c.in}
	for _, namespace := range c.in {
		told[namespace+"/own"] = []string{namespace}
	}
	var all []string
	for rule, namespaces := range told {
		text := fmt.Sprintf("%s: %v %s", rule, map[Kind]int{c.kind: 1}, c.said)
		if c.places {
			text += " in " + strings.Join(namespaces, " ")
		}
		all = append(all, text)
	}
	slices.Sort(all)
	return all
}

// messagesOf says what messages say, with the namespaces of their workloads.
func messagesOf(sent []sent) []string {
	var all []string
	for _, one := range sent {
		m := &one.message
		text := fmt.Sprintf("%s: %v %s", m.Rule, m.Counts, vulnerabilities(m))
		for _, other := range m.Others {
			text += dates.ReplaceAllString(other.Text, "on DATE")
		}
		for i, name := range m.Workloads {
			namespace, _, _ := strings.Cut(name, "/")
			text += map[bool]string{true: " in ", false: " "}[i == 0] + namespace
		}
		all = append(all, text)
	}
	slices.Sort(all)
	return all
}
