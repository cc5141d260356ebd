package matching

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
	"k8s.io/utils/clock"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqlstore"
	"github.com/scanner-operator/scanner-operator/internal/store/storetest/storefile"
	"github.com/scanner-operator/scanner-operator/internal/vulndb"
)

// goModules is a syft-json document with Go modules, given as name and version.
func goModules(modules ...string) string {
	var artifacts []string
	for i := 0; i < len(modules); i += 2 {
		artifacts = append(artifacts, fmt.Sprintf(`{"id":"%d","name":%q,"version":%q,"type":"go-module","foundBy":"test",
			"locations":[{"path":"/app","accessPath":"/app"}],"licenses":[],"language":"go","cpes":[],"purl":"pkg:golang/%s@%s"}`,
			i, modules[i], modules[i+1], modules[i], modules[i+1]))
	}
	return `{"artifacts":[` + strings.Join(artifacts, ",") + `],
		"artifactRelationships":[],"source":{"id":"s","name":"s","version":"","type":"image","metadata":{"userInput":"s","layers":[]}},
		"distro":{},"descriptor":{"name":"syft","version":"1.49.0"},
		"schema":{"version":"16.1.10","url":"https://raw.githubusercontent.com/anchore/syft/main/schema/json/schema-16.1.10.json"}}`
}

// module is a Go module that the sample database knows.
const module = "golang.org/x/net"

var document = goModules(module, "v0.1.0")

func key(digit string) model.ImageKey {
	return model.ImageKey{
		ImageID:  "r.example/app@sha256:" + strings.Repeat(digit, 64),
		Platform: model.Platform{OS: "linux", Architecture: "amd64"},
	}
}

func compress(t *testing.T, content string) []byte {
	t.Helper()
	encoder, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return encoder.EncodeAll([]byte(content), nil)
}

func newStore(t *testing.T, keys ...model.ImageKey) *sqlstore.Store {
	t.Helper()
	s := openStore(t, storefile.New(t))
	if _, err := s.WantImages(t.Context(), keys); err != nil {
		t.Fatal(err)
	}
	return s
}

func openStore(t *testing.T, path string) *sqlstore.Store {
	t.Helper()
	s, err := sqlstore.Open(t.Context(), sqlstore.Config{DSN: path, Log: testr.NewWithInterface(t, testr.Options{}), Clock: clock.RealClock{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// shelf is a library whose databases the test exchanges.
type shelf struct {
	mu            sync.Mutex
	builds        []vulndb.Installed // the last one is current
	full, pending bool
	changed       chan struct{}
}

func newShelf(builds ...vulndb.Installed) *shelf {
	return &shelf{builds: builds, changed: make(chan struct{}, 1)}
}

func (s *shelf) Current() (vulndb.Installed, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.builds) == 0 {
		return vulndb.Installed{}, false
	}
	return s.builds[len(s.builds)-1], true
}

func (s *shelf) Installed(buildID string) (vulndb.Installed, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, build := range s.builds {
		if build.Build.ID == buildID {
			return build, true
		}
	}
	return vulndb.Installed{}, false
}

func (s *shelf) Changed() <-chan struct{} { return s.changed }

func (s *shelf) RematchRequest() (full, pending bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.full, s.pending
}

func (s *shelf) ClearRematchRequest() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.full, s.pending = false, false
	return nil
}

func (s *shelf) put(installed vulndb.Installed) {
	s.mu.Lock()
	s.builds = append(s.builds, installed)
	s.mu.Unlock()
	s.signal()
}

func (s *shelf) request(full bool) {
	s.mu.Lock()
	s.full, s.pending = full, true
	s.mu.Unlock()
	s.signal()
}

func (s *shelf) signal() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// counter counts what a Matcher did.
type counter struct {
	mu         sync.Mutex
	packages   int
	resultSets []store.ResultSet
}

func (c *counter) PackagesMatched(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.packages += n
}

func (c *counter) Rematched(resultSet store.ResultSet, _ time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.resultSets = append(c.resultSets, resultSet)
}

// matched returns the number of packages that were matched since the last call.
func (c *counter) matched() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.packages
	c.packages = 0
	return n
}

func newMatcher(t *testing.T, s Store, library Library) (*Matcher, *counter) {
	t.Helper()
	c := &counter{}
	return New(s, library, c, clock.RealClock{}, testr.NewWithInterface(t, testr.Options{})), c
}

// settle does what Run does until there is nothing left to do.
func settle(t *testing.T, a *Matcher) {
	t.Helper()
	r := &runner{Matcher: a}
	defer r.close()
	for more := true; more; {
		if err := r.pass(t.Context()); err != nil {
			t.Fatal(err)
		}
		select {
		case <-a.wake:
		default:
			more = false
		}
	}
}

// afterPasses passes until nothing is left, and returns the image numbered(0).
func afterPasses(t *testing.T, r *runner, s *sqlstore.Store) store.Image {
	t.Helper()
	for range 3 {
		if err := r.pass(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	image, err := s.Image(t.Context(), store.AllNamespaces(), numbered(0))
	if err != nil {
		t.Fatal(err)
	}
	return image
}

// ingest makes an image wanted and takes in its SBOM.
func ingest(t *testing.T, a *Matcher, s *sqlstore.Store, image model.ImageKey, sbom string) {
	t.Helper()
	if _, err := s.WantImages(t.Context(), []model.ImageKey{image}); err != nil {
		t.Fatal(err)
	}
	if err := a.IngestSBOM(t.Context(), image, store.Delivery{}, bytes.NewReader(compress(t, sbom))); err != nil {
		t.Fatal(err)
	}
}

// picture is all that people see of an image, but for when things happened.
type picture struct {
	State    store.State
	Counts   store.Counts
	Database string
	Findings []model.Finding
}

// pictures reads all images of a store.
func pictures(t *testing.T, s *sqlstore.Store) map[model.ImageKey]picture {
	t.Helper()
	out := map[model.ImageKey]picture{}
	query := store.ImageQuery{Page: store.Page{Size: store.MaxPageSize}}
	for {
		page, err := s.ListImages(t.Context(), store.AllNamespaces(), query)
		if err != nil {
			t.Fatal(err)
		}
		for _, image := range page.Images {
			p := picture{State: image.State, Counts: image.Counts, Findings: findingsOf(t.Context(), t, s, image.Key)}
			if image.Database != nil {
				p.Database = image.Database.ID
			}
			out[image.Key] = p
		}
		if query.Token = page.NextToken; query.Token == "" {
			return out
		}
	}
}

func findingsOf(ctx context.Context, t *testing.T, s *sqlstore.Store, image model.ImageKey) []model.Finding {
	t.Helper()
	query := store.FindingQuery{Image: image, Sort: store.SortFindingPackage, Page: store.Page{Size: store.MaxPageSize}}
	var out []model.Finding
	for {
		page, err := s.Findings(ctx, store.AllNamespaces(), query)
		if err != nil {
			t.Fatal(err)
		}
		for _, finding := range page.Findings {
			finding.FirstSeen = time.Time{}
			out = append(out, finding)
		}
		if query.Token = page.NextToken; query.Token == "" {
			return out
		}
	}
}

// same fails when two stores show different things.
func same(t *testing.T, want, got map[model.ImageKey]picture) {
	t.Helper()
	if len(want) == 0 {
		t.Fatal("there are no images to compare")
	}
	if diff := cmp.Diff(want, got); diff != "" {
		if len(diff) > 8000 {
			diff = diff[:8000] + "…"
		}
		t.Errorf("the stores differ (-want +got):\n%s", diff)
	}
}
