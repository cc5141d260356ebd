package sinks

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// objects keeps what would be in the API server. The tests of policyreports have a real one.
type objects struct {
	mu   sync.Mutex
	kept map[string]policyContent
	size int
}

func (o *objects) Put(_ context.Context, r *PolicyObject) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	var content policyContent
	if err := json.Unmarshal(r.Content, &content); err != nil {
		return err
	}
	o.kept[r.Namespace+"/"+r.Name], o.size = content, max(o.size, len(r.Content))
	return nil
}

func (o *objects) Delete(_ context.Context, _ Owner, namespace, name string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.kept, namespace+"/"+name)
	return nil
}

// state lists "namespace kind/name: fail, warn, skip; worst" of all objects.
func (o *objects) state() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := []string{}
	for _, c := range o.kept {
		var worst []string
		for _, r := range c.Results {
			worst = append(worst, r.Policy+" "+r.Severity)
		}
		all = append(all, fmt.Sprintf("%s %s/%s: %d, %d, %d; %s", c.Scope.Namespace, c.Scope.Kind, c.Scope.Name, c.Summary.Fail, c.Summary.Warn, c.Summary.Skip,
			strings.Join(worst, ", ")))
	}
	slices.Sort(all)
	return all
}

// Objects have counts and the worst findings alone, there are never more of them than the bound, and those of workloads that are gone are deleted.
func TestPolicyReports(t *testing.T) {
	f := newFixture(t, nil)
	kept := &objects{kept: map[string]policyContent{}}
	f.factory.PolicyObjects = kept
	web, cart := image("web"), image("cart")
	f.catalog(t, web, "1", "openssl", "zlib")
	f.catalog(t, cart, "1", "zlib")
	f.run(t, web, workload("shop", "web", ""))
	f.run(t, cart, workload("shop", "cart", ""), workload("bank", "cart", ""))
	long := finding("CVE-5", model.SeverityMedium)
	long.Vulnerability.ID = strings.Repeat("x", 255)
	f.update(t, map[string][]model.PackageFinding{
		"openssl": {finding("CVE-1", model.SeverityLow), finding("CVE-2", model.SeverityCritical)},
		"zlib":    {finding("CVE-3", model.SeverityHigh), finding("CVE-4", model.SeverityNegligible), long},
	})
	f.decide(t, "CVE-4")
	e, results := f.engine(t, f.Store)
	definition := Definition{PolicyReport: &PolicyReport{MaxResults: 2, MaxObjects: 2}}
	use(t, e, f.sink(t, definition))
	f.settle(t, e)
	state := kept.state()
	if len(state) != 2 || !slices.Contains(state, "shop Deployment/web: 2, 2, 1; CVE-2 critical, CVE-3 high") || kept.size > 4000 {
		t.Errorf("objects of up to %d bytes: %v", kept.size, state)
	}
	if s := e.States()["uid-"]; s.Items != 2 || s.Omitted != 1 {
		t.Errorf("state %+v", s)
	}
	results.expect(t, "policyReport delivered 2")
	// A lower bound removes objects, and a workload that ends makes room.
	definition.PolicyReport = &PolicyReport{MaxResults: 2, MaxObjects: 1}
	use(t, e, f.sink(t, definition))
	f.settle(t, e)
	expectState(t, "lower bound", kept.state(), "shop Deployment/web: 2, 2, 1; CVE-2 critical, CVE-3 high")
	f.run(t, web)
	f.settle(t, e)
	f.settle(t, e)
	if state := kept.state(); len(state) != 1 || !strings.Contains(state[0], "Deployment/cart: 1, 1, 1; CVE-3 high, ") {
		t.Errorf("with room: %v", state)
	}
	names := slices.Collect(maps.Keys(kept.kept))
	if len(names) != 1 || len(names[0]) > 100 {
		t.Errorf("names %v", names)
	}
	f.factory.PolicyObjects = nil
	if _, err := f.factory.NewSink(definition); err == nil || !strings.Contains(err.Error(), "reportSinks.policyReports") {
		t.Errorf("without permission: %v", err)
	}
}

// What an exception suppresses in some workloads is skipped in the reports of these alone, also after its selector selects others.
func TestReportsOfWorkloads(t *testing.T) {
	f := newFixture(t, nil)
	kept := &objects{kept: map[string]policyContent{}}
	f.factory.PolicyObjects = kept
	web := image("web")
	f.catalog(t, web, "1", "openssl")
	a, b, c := workload("shop", "a", ""), workload("shop", "b", ""), workload("bank", "c", "")
	f.run(t, web, a, b, c)
	f.update(t, map[string][]model.PackageFinding{"openssl": {finding("CVE-1", model.SeverityCritical), finding("CVE-2", model.SeverityHigh)}})
	choose := func(workloads ...store.Workload) {
		t.Helper()
		problems, err := f.SyncDecisions(t.Context(), store.DecisionSourceKubernetes, []store.Decision{{
			Object: store.DecisionObject{Kind: "ClusterVulnerabilityException", Name: "d"}, Vulnerabilities: []string{"CVE-1"}, Status: model.DecisionNotAffected,
			Comment: "not used", Places: &store.DecisionPlaces{Selector: "selected", Workloads: workloads},
		}})
		if err != nil || len(problems) > 0 {
			t.Fatal(problems, err)
		}
	}
	e, results := f.engine(t, f.Store)
	use(t, e, f.sink(t, Definition{PolicyReport: &PolicyReport{MaxResults: 2, MaxObjects: 10}}))
	f.settle(t, e)
	open, skipped := ": 2, 0, 0; CVE-1 critical, CVE-2 high", ": 1, 0, 1; CVE-2 high"
	expectState(t, "without", kept.state(), "bank Deployment/c"+open, "shop Deployment/a"+open, "shop Deployment/b"+open)
	results.expect(t, "policyReport delivered 3")
	choose(a)
	f.settle(t, e)
	expectState(t, "one workload", kept.state(), "bank Deployment/c"+open, "shop Deployment/a"+skipped, "shop Deployment/b"+open)
	// Other labels are no event.
	log, err := f.EventLog(t.Context())
	must(t, err)
	results.expect(t, "policyReport delivered 1", "policyReport unchanged 2")
	choose(b, c)
	if after, err := f.EventLog(t.Context()); err != nil || after.Last != log.Last {
		t.Fatalf("%d events, %v", after.Last-log.Last, err)
	}
	f.settle(t, e)
	expectState(t, "others", kept.state(), "bank Deployment/c"+skipped, "shop Deployment/a"+open, "shop Deployment/b"+skipped)
	results.expect(t, "policyReport delivered 3")
	choose(b)
	f.settle(t, e)
	expectState(t, "fewer", kept.state(), "bank Deployment/c"+open, "shop Deployment/a"+open, "shop Deployment/b"+skipped)
	results.expect(t, "policyReport delivered 1")
	// Nothing differs.
	f.settle(t, e)
	results.expect(t)
}

// An object with as many and as long results as there can be has less than 100 KiB, whatever the names in them are.
func TestPolicyObjectsAreSmall(t *testing.T) {
	for name, text := range map[string]string{
		"letters": "x", "markup": "<", "quotes": `"`, "backslashes": `\`, "characters of four bytes": "\U0001f600", "markup at the end": strings.Repeat("x", 150) + "<&>",
		"line separators": "\u2028", "control characters": "\x01", "no UTF-8": "a\xff",
	} {
		long := strings.Repeat(text, 500)
		found := model.Finding{PackageFinding: finding(long, model.SeverityCritical)}
		found.Package.Name, found.Package.Version, found.Fix.Versions = long, long, []string{long}
		found.Vulnerability.KEV = []model.KnownExploited{{CVE: long}}
		content := policyContent{Source: "scanner-operator", Scope: policyScope{Kind: strings.Repeat("K", 63), Namespace: strings.Repeat("n", 63), Name: strings.Repeat("w", 253)}}
		image := &store.Image{}
		image.Key.ImageID = long
		for range MaxPolicyResults + 1 {
			content.add(image, &found, MaxPolicyResults)
		}
		content.cut(MaxPolicyResults)
		body, err := json.Marshal(content)
		must(t, err)
		if len(content.Results) != MaxPolicyResults || len(body) >= 100<<10 {
			t.Errorf("%s: %d results have %d bytes", name, len(content.Results), len(body))
		}
		if first := content.Results[0]; name == "letters" && len(first.Policy) != maxPolicyText || len(first.Policy) < 30 {
			t.Errorf("%s: the ID is cut to %q", name, first.Policy)
		}
	}
}
