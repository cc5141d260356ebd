//go:build uiscale

package uiscale

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/coverage"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/storetest/fleet"
)

const (
	// slots is how many workloads the changes are about at most. They have a namespace and an owner of their own.
	slots         = 8
	liveScope     = "live"
	liveNamespace = "live"
	liveOwner     = "live-team"
)

// changes changes a store at a steady rate, as an operator does: images appear, are cataloged and matched, take the place of others, and go. Specs start and
// stop it with requests, and ask what there is now.
type changes struct {
	store store.Store
	fleet fleet.Fleet

	mu      sync.Mutex
	running bool
	steps   int
	err     error
	// runs has the image of each workload.
	runs [slots]*liveImage
}

// liveImage is an image, and the step that brought it.
type liveImage struct {
	model.ImageKey
	step int
}

// situation is what there is beside the fleet.
type situation struct {
	// Steps is how many changes there were.
	Steps int `json:"steps"`
	// Images is how many images there are; each runs in a workload of its own, and has a package and a vulnerability of its own.
	Images int `json:"images"`
	// Findings are those of these images.
	Findings store.Counts `json:"findings"`
}

func newChanges(s store.Store, f fleet.Fleet) *changes {
	return &changes{store: s, fleet: f}
}

// run makes a change at each tick while it is asked to, until the context ends.
func (c *changes) run(ctx context.Context) {
	ticker := time.NewTicker(pace)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		c.tick(ctx)
	}
}

// tick holds the lock during a change: nobody sees half of one.
func (c *changes) tick(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.running || c.err != nil {
		return
	}
	if c.err = c.change(ctx); ctx.Err() != nil {
		c.err = nil
	}
	c.steps++
}

func (c *changes) failure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// ServeHTTP answers POST /start and /stop, and GET /, with the situation.
func (c *changes) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch r.Method + " " + r.URL.Path {
	case "POST /start":
		c.running = true
	case "POST /stop":
		c.running = false
	}
	if c.err != nil {
		http.Error(w, c.err.Error(), http.StatusInternalServerError)
		return
	}
	now := situation{Steps: c.steps}
	for _, image := range c.runs {
		if image != nil {
			now.Images++
			now.Findings = fleet.Sum(now.Findings, c.counts(image.step))
		}
	}
	write(w, now)
}

// change replaces the image of a workload, or ends the workload.
func (c *changes) change(ctx context.Context) error {
	slot := c.steps % slots
	before := c.runs[slot]
	if c.runs[slot] = nil; before == nil || c.steps%3 > 0 {
		c.runs[slot] = newLiveImage(c.steps)
		if err := c.scan(ctx, c.runs[slot].ImageKey); err != nil {
			return err
		}
	}
	if err := c.place(ctx); err != nil || before == nil {
		return err
	}
	return c.store.DeleteImage(ctx, store.AllNamespaces(), store.AllNamespaces(), before.ImageID)
}

func newLiveImage(step int) *liveImage {
	image := &liveImage{fleet.Image(step), step}
	image.ImageID = fmt.Sprintf("registry.example/live/image-%d@sha256:%064x", step%slots, 1<<40+step)
	return image
}

// held are packages of the fleet in an image, without those whose findings the specs count in the whole cluster.
func (c *changes) held(step int) []int {
	held := slices.DeleteFunc(c.fleet.PackagesOf(step%c.fleet.Images), func(n int) bool {
		return slices.ContainsFunc(c.fleet.FindingsOf(n), func(finding fleet.Finding) bool {
			return fleet.KEV(finding.CVE) || finding.CVE == c.fleet.WideCVE() || finding.CVE == narrow(c.fleet)
		})
	})
	return held[:20]
}

// counts are those of an image: the findings of the packages of the fleet, and its own one.
func (c *changes) counts(step int) store.Counts {
	counts := c.fleet.CountsOf(c.held(step)...)
	counts.Add(ownSeverity)
	counts.Fixable++
	return counts
}

// ownSeverity is that of the vulnerability that only one image has.
const ownSeverity = model.SeverityHigh

// place records what runs where.
func (c *changes) place(ctx context.Context) error {
	var uses []store.Use
	var covered []store.ContainerCoverage
	for slot, image := range c.runs {
		if image == nil {
			continue
		}
		workload := store.Workload{Namespace: liveNamespace, Kind: fleet.Kind, Name: fmt.Sprintf("live-%d", slot), Owner: liveOwner}
		uses = append(uses, store.Use{Image: image.ImageKey, Workload: workload, Container: fleet.Container})
		covered = append(covered, store.ContainerCoverage{
			Workload: workload, Container: fleet.Container, Image: image.ImageKey, Reference: image.ImageID, Pods: 1, State: string(coverage.Scanned),
		})
	}
	if err := c.store.RecordUses(ctx, liveScope, uses); err != nil {
		return err
	}
	return c.store.RecordCoverage(ctx, liveScope, covered)
}

// scan adds an image with some packages of the fleet and a new one, which has a new vulnerability.
func (c *changes) scan(ctx context.Context, key model.ImageKey) error {
	if _, err := c.store.WantImages(ctx, []model.ImageKey{key}); err != nil {
		return err
	}
	if err := c.place(ctx); err != nil {
		return err
	}
	digest := fmt.Sprintf("%064x", c.steps)
	own := c.fleet.HeldPackages(1)[0]
	own.Package.Fingerprint, own.Package.Name = "live-"+digest[5:], fmt.Sprintf("live-%d", c.steps)
	catalog := model.Catalog{Packages: append(c.fleet.HeldPackages(c.held(c.steps)...), own), Distro: fleet.Distro, Layers: c.fleet.Layers(c.steps), Created: time.Now()}
	sbom := store.SBOM{MediaType: "application/vnd.syft+json", Content: []byte("none"), SHA256: digest, Size: 4}
	if err := c.store.SaveSBOM(ctx, key, sbom, catalog); err != nil {
		return err
	}
	current, _, err := c.store.CurrentResultSet(ctx)
	if err != nil {
		return err
	}
	_, packages, err := c.store.UnansweredPackages(ctx, key)
	if err != nil {
		return err
	}
	if len(packages) != 1 {
		return fmt.Errorf("%d packages of %s are to be matched, want the new one only", len(packages), key)
	}
	answer := model.PackageAnswer{Findings: []model.PackageFinding{{
		Vulnerability: model.Vulnerability{
			ID: fmt.Sprintf("CVE-2027-%05d", c.steps), Namespace: "debian:distro:debian:12", Severity: ownSeverity, Description: "It was found while the page was open.", Risk: 50,
		},
		Fix:     model.Fix{State: model.FixStateFixed, Versions: []string{"9.9"}},
		Details: []model.MatchDetail{{Type: "exact-direct-match", Matcher: "dpkg-matcher"}},
	}}}
	if err := c.store.SaveAnswers(ctx, current.Number, map[int64]model.PackageAnswer{packages[0].ID: answer}); err != nil {
		return err
	}
	return c.store.FinishImage(ctx, key, digest)
}
