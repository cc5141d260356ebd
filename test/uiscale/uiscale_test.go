//go:build uiscale

// Package uiscale shows the UI in Chromium with thousands of images: the real pages, API, store and PostgreSQL, while images and workloads come and go.
// The specs are in web/e2e-scale. What pages show is compared with what was seeded; how long they take is measured and printed, and fails the test with -bounds only.
package uiscale

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/scanner-operator/scanner-operator/internal/feed"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/server"
	"github.com/scanner-operator/scanner-operator/internal/server/auth"
	"github.com/scanner-operator/scanner-operator/internal/server/live"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
	"github.com/scanner-operator/scanner-operator/internal/store/sqlstore"
	"github.com/scanner-operator/scanner-operator/internal/store/storetest/dbserver"
	"github.com/scanner-operator/scanner-operator/internal/store/storetest/fleet"
	"github.com/scanner-operator/scanner-operator/web"
)

// root is the root of the repository.
const root = "../.."

// patience bounds the wait for the server, and pace is the time between two changes.
const (
	patience = time.Minute
	pace     = 400 * time.Millisecond
)

var (
	images = flag.Int("images", 300, "how many images there are, a multiple of 100")
	report = flag.String("report", "", "the file that the results are written to")
	bounds = flag.Bool("bounds", false, "fail if a page misses a bound of frames, interactions or layout shifts")
	grep   = flag.String("grep", "", "the names of the specs that run, as a regular expression")
)

func TestMain(m *testing.M) {
	os.Exit(dbserver.Main{M: m}.Run()) //nolint:forbidigo // this is main
}

func TestUI(t *testing.T) {
	playwright := needBrowser(t)
	described := fleet.Fleet{Images: *images}
	dsn := dbserver.PostgreSQL(t)
	seed(t, dsn, described)
	s, err := sqlstore.Open(t.Context(), sqlstore.Config{Type: sqldb.TypePostgres, DSN: dsn})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	decide(t, s, described)
	url := serve(t, s)
	changes := newChanges(s, described)
	go changes.run(t.Context())
	control := httptest.NewServer(changes)
	t.Cleanup(control.Close)
	results := filepath.Join(t.TempDir(), "results")
	setup, err := json.Marshal(map[string]any{
		"url": url, "token": token, "control": control.URL, "results": results, "watched": watchedChanges(), "expected": expectedOf(described),
	})
	if err != nil {
		t.Fatal(err)
	}
	arguments := []string{"test", "--config=playwright.scale.config.ts"}
	if *grep != "" {
		arguments = append(arguments, "--grep="+*grep)
	}
	command := exec.CommandContext(t.Context(), playwright, arguments...)
	command.Dir, command.Env = filepath.Join(root, "web"), append(os.Environ(), "SCALE_SETUP="+string(setup))
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	if err := command.Run(); err != nil {
		t.Errorf("the specs: %v", err)
	}
	if err := changes.failure(); err != nil {
		t.Errorf("change the store meanwhile: %v", err)
	}
	writeReport(t, results)
}

// watchedChanges is how many changes there are while nobody touches a page.
func watchedChanges() int { return min(12, max(4, *images/500)) }

// needBrowser returns the program that runs the specs, or skips the test where the UI or its tests were not built.
func needBrowser(t *testing.T) string {
	t.Helper()
	program, err := filepath.Abs(filepath.Join(root, "web", "node_modules", ".bin", "playwright"))
	if err == nil {
		_, err = os.Stat(program)
	}
	if _, built := web.Assets(); built && err == nil {
		return program
	}
	const message = "the UI or its tests were not built; run make ui"
	if os.Getenv("CI") == "true" {
		t.Fatal(message)
	}
	t.Skip(message)
	return ""
}

// seed fills a database past the methods of the store, as only tests of the store can: with them, it would take an hour.
func seed(t *testing.T, dsn string, described fleet.Fleet) {
	t.Helper()
	start := time.Now()
	command := exec.CommandContext(t.Context(), "go", "test", "-tags=uiscale", "-count=1", "-timeout=20m", "-run=^TestSeedFleet$", "./internal/store/sqlstore")
	command.Dir, command.Env = root, append(os.Environ(), "FLEET_DSN="+dsn, "FLEET_IMAGES="+strconv.Itoa(described.Images))
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
	t.Logf("%d images were seeded in %s", described.Images, time.Since(start).Round(time.Second))
}

// decisionsOf is how many decisions there are, each about one vulnerability.
func decisionsOf(f fleet.Fleet) int { return min(1000, f.CVEs()) }

// decide adds decisions that suppress nothing, so that all counts stay.
func decide(t *testing.T, s store.Store, f fleet.Fleet) {
	t.Helper()
	decisions := make([]store.Decision, decisionsOf(f))
	for n := range decisions {
		decisions[n] = store.Decision{
			Object:          store.DecisionObject{Kind: "ClusterVulnerabilityException", Name: fmt.Sprintf("exception-%d", n)},
			Vulnerabilities: []string{fleet.CVE(n)}, Status: model.DecisionUnderInvestigation, Comment: "It is looked at.", Author: "jane@example.com",
		}
	}
	problems, err := s.SyncDecisions(t.Context(), "specs", decisions)
	if err != nil || len(problems) > 0 {
		t.Fatalf("decide: %v, %v", problems, err)
	}
}

// serve starts the API and the UI, with authentication and the limits of the program, and returns their address.
func serve(t *testing.T, s *sqlstore.Store) string {
	t.Helper()
	assets, _ := web.Assets()
	hub := feed.New(s, feed.Config{Log: logr.Discard()})
	api, err := server.New(server.Config{
		BindAddress: "127.0.0.1:0", Auth: auth.Kubernetes, Reviews: auth.Reviews{Tokens: reviews{}, Access: accessReviews{}}, Uploads: noUploads{}, Assets: assets, Store: s,
		Feed:   func(ctx context.Context) live.Subscription { return hub.Subscribe(ctx, feed.Filter{}) },
		Ingest: noUploads{}, Previews: previews{}, Version: "scale", Registerer: prometheus.NewRegistry(), Log: logr.Discard(),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 2)
	go func() { ended <- hub.Run(ctx) }()
	<-hub.Started()
	go func() { ended <- api.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		for range cap(ended) {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	})
	select {
	case <-api.Ready():
	case err := <-ended:
		ended <- err
		ended <- nil
		t.Fatal(err)
	case <-time.After(patience):
		t.Fatal("the server did not start")
	}
	return "http://" + api.Addr()
}

// expected is what follows from the description alone. web/e2e-scale/setup.ts reads it.
type expected struct {
	Images          int          `json:"images"`
	Workloads       int          `json:"workloads"`
	Owners          int          `json:"owners"`
	Bases           int          `json:"bases"`
	Packages        int          `json:"packages"`
	Vulnerabilities int          `json:"vulnerabilities"`
	Containers      int          `json:"containers"`
	Findings        store.Counts `json:"findings"`
	KEVImages       int          `json:"kevImages"`
	// Text is in the IDs of TextImages images. Namespace runs NamespaceImages images of NamespaceWorkloads workloads.
	Text               string        `json:"text"`
	TextImages         int           `json:"textImages"`
	Namespace          string        `json:"namespace"`
	NamespaceImages    int           `json:"namespaceImages"`
	NamespaceWorkloads int           `json:"namespaceWorkloads"`
	Namespaces         int           `json:"namespaces"`
	Rollouts           int           `json:"rollouts"`
	NamespaceRollouts  int           `json:"namespaceRollouts"`
	Decisions          int           `json:"decisions"`
	Image              expectedImage `json:"image"`
	Wide               expectedCVE   `json:"wide"`
	Narrow             expectedCVE   `json:"narrow"`
	Compare            comparison    `json:"compare"`
}

// comparison is of two images. Opened and Closed count pairs of a vulnerability and the name of a package that only one of them has.
type comparison struct {
	From   string `json:"from"`
	To     string `json:"to"`
	Opened int    `json:"opened"`
	Closed int    `json:"closed"`
}

type expectedImage struct {
	ID        string       `json:"id"`
	Counts    store.Counts `json:"counts"`
	Packages  int          `json:"packages"`
	Namespace string       `json:"namespace"`
	Workload  string       `json:"workload"`
	Owner     string       `json:"owner"`
	CVE       string       `json:"cve"`
}

type expectedCVE struct {
	ID       string `json:"id"`
	Images   int    `json:"images"`
	Findings int    `json:"findings"`
}

func expectedOf(f fleet.Fleet) expected {
	const image, text = 7, "team-7/"
	packages := f.PackagesOf(image)
	cve := func(n int) expectedCVE {
		affected, rows := f.With(func(finding fleet.Finding) bool { return finding.CVE == n })
		return expectedCVE{ID: fleet.CVE(n), Images: len(affected), Findings: rows}
	}
	kev, _ := f.With(func(finding fleet.Finding) bool { return fleet.KEV(finding.CVE) })
	e := expected{
		Images: f.Images, Workloads: f.Workloads(), Owners: fleet.Owners + 1, Bases: f.Bases(), Packages: len(f.Held()), Vulnerabilities: len(f.Found()), Containers: f.Images, Findings: f.All(), KEVImages: len(kev),
		Text: text, Namespace: fleet.Namespace(image), NamespaceImages: f.Images / fleet.Namespaces, NamespaceWorkloads: f.Workloads() / fleet.Namespaces,
		Image: expectedImage{
			ID: fleet.Image(image).ImageID, Counts: f.Counts(image), Packages: len(packages), Namespace: fleet.Namespace(image), Workload: f.Workload(image), Owner: f.Owner(image),
			CVE: fleet.CVE(f.FindingsOf(packages[2])[0].CVE),
		},
		Wide: cve(f.WideCVE()), Narrow: cve(narrow(f)), Namespaces: fleet.Namespaces,
		Rollouts: f.Rollouts(), NamespaceRollouts: f.Rollouts() / fleet.Namespaces, Decisions: decisionsOf(f), Compare: compare(f, image, image+1),
	}
	for n := range f.Images {
		if strings.Contains(fleet.Image(n).ImageID, text) {
			e.TextImages++
		}
	}
	return e
}

func compare(f fleet.Fleet, from, to int) comparison {
	type pair struct {
		cve int
		pkg string
	}
	pairs := func(image int) map[pair]bool {
		all := map[pair]bool{}
		for _, n := range f.PackagesOf(image) {
			name, _, _ := f.Package(n)
			for _, finding := range f.FindingsOf(n) {
				all[pair{finding.CVE, name}] = true
			}
		}
		return all
	}
	// only counts what one has and the other does not have.
	only := func(one, other map[pair]bool) int {
		count := 0
		for finding := range one {
			if !other[finding] {
				count++
			}
		}
		return count
	}
	before, after := pairs(from), pairs(to)
	return comparison{From: fleet.Image(from).ImageID, To: fleet.Image(to).ImageID, Opened: only(after, before), Closed: only(before, after)}
}

// narrow is a vulnerability of a package that few images have.
func narrow(f fleet.Fleet) int { return f.FindingsOf(f.Packages())[0].CVE }

// write answers with JSON.
func write(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(value); err != nil {
		http.Error(w, fmt.Sprint(err), http.StatusInternalServerError)
	}
}
