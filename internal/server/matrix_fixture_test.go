package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"github.com/scanner-operator/scanner-operator/internal/feed"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/server"
	"github.com/scanner-operator/scanner-operator/internal/server/auth/oidc"
	"github.com/scanner-operator/scanner-operator/internal/server/live"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqlstore"
)

// The images of the matrix, by the namespaces that run them.
const (
	shopImage   = "registry.example/shop"
	bankImage   = "registry.example/bank"
	sharedImage = "registry.example/shared"
	brokenImage = "registry.example/broken"
	darkImage   = "registry.example/dark"
	looseImage  = "registry.example/loose"
)

// runners are the namespaces that run each image. Nothing runs looseImage: there is a report about it.
var runners = map[string][]string{
	shopImage: {"shop"}, bankImage: {"bank"}, sharedImage: {"shop", "bank", "dark"}, brokenImage: {"shop", "dark"}, darkImage: {"dark"}, looseImage: nil,
}

// laterBuild is the ID of the database build that the matrix is matched with last.
const laterBuild = "xxh64:0100010001000100"

// matrixUsers are the users of the matrix, by the namespaces that they see, in which they may do anything; nil is the whole cluster. They have tokens, except
// for signedIn, who has a session with a provider and its permissions by a group, and anonymous, who has nothing. The user "none" has no permission, and sees
// what everybody sees.
var matrixUsers = map[string][]string{"none": {"shop"}, "one": {"shop"}, "two": {"shop", "bank"}, "all": nil, signedIn: {"shop"}, anonymous: {"shop"}}

const (
	signedIn  = "signed in"
	anonymous = "anonymous"
)

// subjects are those that the permissions of users without a token of their own are granted to.
var subjects = map[string]string{signedIn: "oidc:readers", anonymous: "system:anonymous"}

// as is the header with which a user of the matrix proves who it is.
func (f *fixture) as(user string) string {
	switch user {
	case signedIn:
		return "Cookie: " + sessionCookie + "=" + f.session
	case anonymous:
		return "Accept: */*"
	default:
		return bearer(user)
	}
}

// matrixClock is a clock that stands until it is set.
type matrixClock struct {
	clock.RealClock
	mu  sync.Mutex
	now time.Time
}

// Now is when it was set to.
func (c *matrixClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *matrixClock) hour(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = time.Date(2026, 3, 1, n, 0, 0, 0, time.UTC)
}

// newMatrixFixture starts a server of a store that holds some namespaces, nil for all, and what happened there.
func newMatrixFixture(t *testing.T, names []string, change func(*server.Config)) *fixture {
	t.Helper()
	clk := &matrixClock{}
	clk.hour(0)
	rights := newCluster()
	for user, granted := range matrixUsers {
		subject, found := subjects[user]
		if !found {
			subject, rights.audiences[user] = user, []string{"scanner-operator"}
		}
		if granted == nil {
			rights.verbs[user] = []string{"get", "list", "update", "delete"}
		}
		rights.grants[subject] = map[string][]string{}
		if user == "none" {
			continue
		}
		for _, namespace := range granted {
			rights.grants[subject][namespace] = []string{"get", "list", "update", "delete"}
		}
	}
	st, err := sqlstore.Open(t.Context(), sqlstore.Config{Type: "sqlite", DSN: newDatabase(t), Clock: clk, BaseImages: baseImages})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	hub := feed.New(st, feed.Config{PollInterval: 50 * time.Millisecond, Log: logr.Discard()})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- hub.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	<-hub.Started()
	signIn := newHostileProvider(t).config()
	signIn.GroupsPrefix, signIn.RedirectURL, signIn.PostLogoutURL = "oidc:", external+callbackPath, external+"/"
	provider, err := oidc.New(signIn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(provider.CloseIdleConnections)
	f := newGuardedFixture(t, rights, func(c *server.Config) {
		c.Store, c.Rematcher, c.Provider, c.AnonymousRead = st, &rematcher{}, provider, true
		c.Feed = func(ctx context.Context) live.Subscription { return hub.Subscribe(ctx, feed.Filter{}) }
		if change != nil {
			change(c)
		}
	})
	f.store = st
	b := newBrowser(t, "")
	b.finish(&signInFixture{fixture: f})
	if f.session = b.cookies[sessionCookie]; f.session == "" {
		t.Fatal("nobody is signed in")
	}
	f.happen(clk, func(namespace string) bool { return names == nil || slices.Contains(names, namespace) })
	return f
}

// matrixWorkload is the workload of a namespace. That of shop has an owner of its own, the others have one together.
func matrixWorkload(namespace string) store.Workload {
	owner := "common"
	if namespace == "shop" {
		owner = "team-shop"
	}
	return store.Workload{Namespace: namespace, Kind: "Deployment", Name: "web-" + namespace, Owner: owner}
}

// happen lets everything happen that happens in the namespaces which the store holds, at the same times in each store.
func (f *fixture) happen(clk *matrixClock, holds func(namespace string) bool) {
	f.t.Helper()
	ctx := f.t.Context()
	known := map[string]bool{looseImage: holds("")}
	for image, namespaces := range runners {
		known[image] = known[image] || slices.ContainsFunc(namespaces, holds)
	}
	key := func(image string) model.ImageKey { return model.ImageKey{ImageID: image, Platform: linux} }
	run := func(images ...string) {
		for _, namespace := range []string{"bank", "dark", "shop"} {
			if !holds(namespace) {
				continue
			}
			var uses []store.Use
			for _, image := range images {
				if !slices.Contains(runners[image], namespace) {
					continue
				}
				_, err := f.store.WantImages(ctx, []model.ImageKey{key(image)})
				f.must(err)
				container := "app"
				if image == brokenImage {
					container = "side"
				}
				uses = append(uses, store.Use{Image: key(image), Workload: matrixWorkload(namespace), Container: container})
			}
			f.must(f.store.RecordUses(ctx, namespace+"/scanner", uses))
		}
	}
	clk.hour(1)
	// Dates depend on where images run, and on since when.
	var zero, one int
	one = 1
	problems, err := f.store.SyncPolicies(ctx, []store.Policy{
		{Name: "all", From: model.DueFromFirstSeen, DueIn: model.DueIn{Critical: &zero, High: &one}},
		{Name: "placed", Select: `workload.namespace == "dark" || workload.namespace == "bank"`, From: model.DueFromFixAvailable, DueIn: model.DueIn{Critical: &zero, High: &zero, Medium: &one, Low: &one}},
		{
			Name: "selected", Places: &store.DecisionPlaces{Selector: "namespaces with secret=dark", Namespaces: []string{"dark"}}, From: model.DueFromFirstSeen,
			DueIn: model.DueIn{Medium: &zero, Low: &zero},
		},
	})
	f.must(err)
	if len(problems) > 0 {
		f.t.Fatalf("policies: %v", problems)
	}
	run(sharedImage, brokenImage)
	clk.hour(2)
	if known[brokenImage] {
		job := store.ScanJob{Name: "scan-1", Namespace: "dark", Key: key(brokenImage), ScannerUID: "u", For: "dark", SizeClass: model.SizeSmall, Spec: json.RawMessage("{}")}
		_, _, err := f.store.ReserveScanJob(ctx, job)
		f.must(err)
		_, err = f.store.RecordQueued(ctx, key(brokenImage), 0)
		f.must(err)
		_, err = f.store.RecordFailure(ctx, key(brokenImage), 0, model.Outcome{Reason: model.ReasonImageNotFound, Message: "the Secret dark-secret is wrong"}, time.Unix(4e9, 0))
		f.must(err)
	}
	_, err = f.store.StartResultSet(ctx, build, "test", true)
	f.must(err)
	scan := func(image string, packages ...model.Package) {
		if known[image] {
			f.scan(key(image), packages...)
		}
	}
	scan(sharedImage, packageOf("openssl", "3.0.1"), packageOf("zlib", "1.2.13"))
	clk.hour(3)
	run(shopImage, bankImage, darkImage, brokenImage, sharedImage)
	clk.hour(4)
	scan(shopImage, packageOf("openssl", "3.0.1"), packageOf("shop-only", "1"))
	clk.hour(5)
	scan(bankImage, packageOf("bank-only", "1"), packageOf("zlib", "1.2.13"))
	clk.hour(6)
	scan(darkImage, packageOf("openssl", "3.0.1"), packageOf("dark-only", "1"))
	clk.hour(7)
	if holds("") {
		f.must(f.store.SaveReport(ctx, store.AllNamespaces(), looseImage, store.Report{Content: []byte(`{"loose":1}`), Counts: store.Counts{KEV: 7}}))
	}
	if known[shopImage] {
		f.must(f.store.SaveReport(ctx, store.AllNamespaces(), shopImage, store.Report{Content: []byte(`{"shop":1}`)}))
	}
	_, err = f.store.ReportIntroductions(ctx, time.Time{}, store.MaxIntroduced)
	f.must(err)
	clk.hour(8)
	run(shopImage, bankImage, darkImage, brokenImage) // sharedImage ran: rollouts.
	for {
		n, err := f.store.EvaluateRollouts(ctx, time.Time{}, store.MaxEvaluated)
		if f.must(err); n == 0 {
			break
		}
	}
	clk.hour(9)
	later := model.DatabaseBuild{ID: laterBuild, SchemaVersion: "v6.1.0", Built: build.Built.Add(24 * time.Hour), Source: model.DatabaseSourceOfficial}
	next, err := f.store.StartResultSet(ctx, later, "test", false)
	f.must(err)
	answered, err := f.store.AnsweredPackages(ctx, 0, 100)
	f.must(err)
	var ids []int64
	for _, p := range answered {
		ids = append(ids, p.ID)
	}
	f.must(f.store.QueuePackages(ctx, next.Number, ids))
	f.must(f.store.StartMatching(ctx, next.Number))
	queued, err := f.store.QueuedPackages(ctx, next.Number, 100)
	f.must(err)
	answers := map[int64]model.PackageAnswer{}
	for _, p := range queued {
		// What is only in one image keeps its finding, openssl loses its own, zlib gets another one.
		switch p.Name {
		case "openssl":
			answers[p.ID] = model.PackageAnswer{}
		case "zlib":
			answers[p.ID] = model.PackageAnswer{Findings: []model.PackageFinding{findingOf("CVE-2024-0001", model.SeverityCritical, 50), findingOf("CVE-2024-0009", model.SeverityHigh, 9)}}
		default:
			answers[p.ID] = model.PackageAnswer{Findings: []model.PackageFinding{findingOf("CVE-2024-0000", model.SeverityCritical, 90), findingOf("CVE-2024-"+p.Name, model.SeverityLow, 1)}}
		}
	}
	f.must(f.store.SaveAnswers(ctx, next.Number, answers))
	_, err = f.store.Switch(ctx, next.Number)
	f.must(err)
	clk.hour(10)
	held := 0
	for _, namespace := range []string{"bank", "dark", "shop"} {
		if holds(namespace) {
			held++
		}
	}
	for _, namespace := range []string{"bank", "dark", "shop"} {
		if !holds(namespace) {
			continue
		}
		workload := matrixWorkload(namespace)
		f.must(f.store.RecordCoverage(ctx, namespace+"/scanner", []store.ContainerCoverage{{Workload: workload, Container: "side", State: "Pending", Reason: "NotPulled"}}))
		f.must(f.store.RecordCoverage(ctx, namespace+"/scanner", []store.ContainerCoverage{
			{Workload: workload, Container: "app", Image: key(sharedImage), Reference: "shared:1", Pods: 2, State: "Scanned"},
			{Workload: workload, Container: "side", Image: key(brokenImage), Reference: "broken:1", Pods: 1, State: "Failed", Reason: "ImageNotFound", Message: "the Secret dark-secret is wrong"},
		}))
		for _, kind := range []store.EventKind{store.EventScannerChanged, store.EventPodSetChanged, store.EventSheroChanged} {
			object := store.ObjectEvent{Object: store.ObjectName{Namespace: namespace, Name: "object-" + namespace}}
			if kind == store.EventScannerChanged { // It can cover all namespaces.
				object.Detail = fmt.Appendf(nil, `{"containers":{"total":%d}}`, held)
			}
			f.must(f.store.RecordChange(ctx, store.ObjectChange{Kind: kind, ObjectEvent: object}))
		}
	}
	if holds("") {
		f.must(f.store.RecordChangeRequest(ctx, store.ChangeRequest{User: "somebody", Verb: "update", Object: store.ChangeObject{Resource: "databases"}, Outcome: store.ChangeFailed}))
	}
	f.must(f.store.RecordDay(ctx))
	decision := store.Decision{
		Object: store.DecisionObject{Kind: "ClusterVulnerabilityException", Name: "accepted"}, Vulnerabilities: []string{"CVE-2024-0000"},
		Status: model.DecisionAcceptedRisk, Author: "dark-admin", ExpiresAt: clk.Now().Add(90 * time.Minute),
	}
	decisions := []store.Decision{decision}
	// That of what only dark runs is told there only.
	decision.Object.Name, decision.Vulnerabilities = "of-the-dark", []string{"CVE-2024-dark-only"}
	decisions = append(decisions, decision)
	for _, tried := range []string{"tried", "tried-again"} {
		decision.Object.Name, decision.Vulnerabilities, decision.DryRun, decision.ExpiresAt = tried, []string{"CVE-2024-0001"}, true, time.Time{}
		decisions = append(decisions, decision)
	}
	_, err = f.store.SyncDecisions(ctx, store.DecisionSourceKubernetes, decisions)
	f.must(err)
	clk.hour(11)
	f.must(f.store.RecordExpiring(ctx))
	f.must(f.store.RecordStaleDatabase(ctx, time.Minute))
	clk.hour(12)
	_, err = f.store.ExpireDecisions(ctx)
	f.must(err)
	// What namespaces decide for themselves, and what VEX documents state. The latter suppresses nothing.
	for _, namespace := range []string{"bank", "dark"} {
		if holds(namespace) {
			decisions = append(decisions, store.Decision{
				Object: store.DecisionObject{Kind: "VulnerabilityException", Namespace: namespace, Name: "here"}, Vulnerabilities: []string{"CVE-2024-0001"},
				Places: &store.DecisionPlaces{Selector: namespace, Namespaces: []string{namespace}}, Status: model.DecisionNotAffected, Author: namespace + "-admin",
			})
		}
	}
	_, err = f.store.SyncDecisions(ctx, store.DecisionSourceKubernetes, append(decisions, store.Decision{
		Object: store.DecisionObject{Kind: "ClusterVulnerabilityException", Name: "examined"}, Vulnerabilities: []string{"CVE-2024-0000"},
		Status: model.DecisionUnderInvestigation, Comment: "Who calls it?", Author: "dark-admin",
	}))
	f.must(err)
	_, err = f.store.RecordOverdue(ctx)
	f.must(err)
	f.lookUpTags(holds)
}
