package setup_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	appv1alpha1 "github.com/scanner-operator/scanner-operator/api/app/v1alpha1"
	pocv1 "github.com/scanner-operator/scanner-operator/api/poc/v1"
	scannerv1alpha1 "github.com/scanner-operator/scanner-operator/api/scanner/v1alpha1"
	stablev444beta989 "github.com/scanner-operator/scanner-operator/api/stable/v444beta989"
	"github.com/scanner-operator/scanner-operator/internal/metrics"
	"github.com/scanner-operator/scanner-operator/internal/scanjob"
	"github.com/scanner-operator/scanner-operator/internal/setup"
	"github.com/scanner-operator/scanner-operator/internal/setup/setuptest"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

var (
	chart     = filepath.Join("..", "..", "charts", "scanner-operator")
	dashboard = filepath.Join(chart, "files", "dashboards", "scanner-operator.json")
)

// TestDashboardsAndAlertsNameMetrics looks for every metric that a dashboard or an alert names among those that an operator shows, and for all of these on
// the page about metrics, with the right type.
func TestDashboardsAndAlertsNameMetrics(t *testing.T) {
	c := needCluster(t)
	operator(t, namespace(t, c), func(o *setup.Options) { o.OwnerKeys = []string{"team"} })
	registry, ok := ctrlmetrics.Registry.(*prometheus.Registry)
	if !ok {
		t.Fatalf("the registry is a %T", ctrlmetrics.Registry)
	}
	described := make(chan *prometheus.Desc)
	go func() {
		registry.Describe(described)
		close(described)
	}()
	known := map[string]bool{}
	fqName := regexp.MustCompile(`fqName: "([^"]+)"`)
	for desc := range described {
		if match := fqName.FindStringSubmatch(desc.String()); match != nil {
			known[match[1]] = true
		}
	}
	named := regexp.MustCompile(`\b((?:scanner_operator|workqueue|controller_runtime)_[a-z_]+)`)
	for file, least := range map[string]int{dashboard: 20, filepath.Join(chart, "templates", "prometheusrule.yaml"): 4} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		names := map[string]bool{}
		for _, match := range named.FindAllStringSubmatch(string(text), -1) {
			names[match[1]] = true
		}
		if len(names) < least {
			t.Errorf("%s names %d metrics, want %d or more", file, len(names), least)
		}
		for name := range names {
			// A histogram has its name and three that are made of it.
			base := regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(name, "")
			if !slices.ContainsFunc([]string{name, base}, func(n string) bool { return known[n] }) {
				t.Errorf("%s names %s, which the operator does not show", file, name)
			}
		}
	}
	comparePage(t, registry, known)
}

// comparePage compares the page about metrics with what an operator shows.
func comparePage(t *testing.T, registry *prometheus.Registry, known map[string]bool) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "reference", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	types := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| ([a-z]+) \\|").FindAllStringSubmatch(string(page), -1) {
		types[row[1]] = row[2]
		if !known[row[1]] {
			t.Errorf("the page describes %s, which the operator does not show", row[1])
		}
	}
	for name := range known {
		if strings.HasPrefix(name, "scanner_operator_") && types[name] == "" {
			t.Errorf("the page lacks %s: run make generate", name)
		}
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if want := types[family.GetName()]; want != "" && want != strings.ToLower(family.GetType().String()) {
			t.Errorf("%s is a %s, the page says %s", family.GetName(), family.GetType(), want)
		}
	}
}

// oldImages is a store with an image of a distribution that has reached its end of life.
type oldImages struct{}

func (oldImages) RunningAges(context.Context, int, []int) (store.RunningAges, error) {
	return store.RunningAges{Ended: []store.DistroImages{{Distro: "debian:10", Images: 1}}, Older: map[int]int{90: 1}}, nil
}

// panel is a panel of a dashboard of Grafana.
type panel struct {
	ID      int    `json:"id"`
	Type    string `json:"type"`
	Title   string `json:"title"`
	GridPos struct{ H, W, X, Y int }
	Targets []struct {
		Expr         string `json:"expr"`
		LegendFormat string `json:"legendFormat"`
	} `json:"targets"`
}

// prometheusServer is a server that scrapes an operator.
type prometheusServer struct{ url string }

// startPrometheus starts Prometheus, which scrapes an address each second.
func startPrometheus(t *testing.T, target, token string) prometheusServer {
	t.Helper()
	program, err := exec.LookPath("prometheus")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("prometheus is not installed; run make setup")
		}
		t.Skip("prometheus is not installed; run make setup")
	}
	dir, address := t.TempDir(), setuptest.UnusedAddress(t)
	for name, content := range map[string]string{
		"token": token,
		"prometheus.yml": fmt.Sprintf(`global: {scrape_interval: 1s}
scrape_configs:
- {job_name: operator, scheme: https, tls_config: {insecure_skip_verify: true}, authorization: {credentials_file: token}, static_configs: [{targets: [%q]}]}
`, target),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	command := exec.CommandContext(t.Context(), program, "--config.file=prometheus.yml", "--storage.tsdb.path=data", "--web.listen-address="+address, "--log.level=error")
	command.Dir, command.Stdout, command.Stderr = dir, t.Output(), t.Output()
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	return prometheusServer{"http://" + address}
}

// ask reads the data of an answer of Prometheus.
func (p prometheusServer) ask(ctx context.Context, path string, query url.Values, data any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+path+"?"+query.Encode(), nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	answer := struct {
		Status, Error string
		Data          any
	}{Data: data}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return err
	}
	if answer.Status != "success" {
		return fmt.Errorf("%s: %s", query, answer.Error)
	}
	return nil
}

// series returns the labels of what a query returns.
func (p prometheusServer) series(ctx context.Context, query string) ([]map[string]string, error) {
	var data struct {
		Result []struct{ Metric map[string]string }
	}
	err := p.ask(ctx, "/api/v1/query", url.Values{"query": {query}}, &data)
	all := make([]map[string]string, len(data.Result))
	for i, one := range data.Result {
		all[i] = one.Metric
	}
	return all, err
}

// TestDashboard lets a real Prometheus scrape an operator and answer the queries of all panels of the dashboard. It is not parallel: all operators of
// this process show the same metrics.
func TestDashboard(t *testing.T) {
	c, g := needCluster(t), gomega.NewWithT(t)
	amd64Node(t, c)
	ns, address := namespace(t, c), setuptest.UnusedAddress(t)
	api := operator(t, ns, func(o *setup.Options) {
		o.MetricsAddress, o.AddressConnections, o.OwnerKeys = address, 1, []string{"team"}
	})
	server := startPrometheus(t, address, metricsToken(t, c, ns))
	// What a sound cluster does not have.
	if err := metrics.NewAges(ctrlmetrics.Registry, oldImages{}, logr.Discard()); err != nil {
		t.Fatal(err)
	}
	sent, err := metrics.NewNotifications(ctrlmetrics.Registry, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	sent.Sent("slack", "delivered")

	image := imageID("web", "7")
	runningPod(t, c, ns, "web", image, func(pod *corev1.Pod) { pod.Labels = map[string]string{"team": "red"} })
	meta := metav1.ObjectMeta{Namespace: ns, Name: "one"}
	for _, object := range []client.Object{
		sampleScanner(t, ns), &appv1alpha1.PodSet{ObjectMeta: meta, Spec: appv1alpha1.PodSetSpec{Replicas: 1}},
		&pocv1.MyCustomResource{ObjectMeta: meta, Spec: pocv1.MyCustomResourceSpec{Name: "friend"}},
		&stablev444beta989.BellerophonSimple{ObjectMeta: meta, Spec: stablev444beta989.BellerophonSimpleSpec{Image: "app:1", Replicas: new(int32(1))}},
		&scannerv1alpha1.VulnerabilityPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: ns}, Spec: scannerv1alpha1.VulnerabilityPolicySpec{DueIn: scannerv1alpha1.DueIn{Critical: new(int32(1))}},
		},
	} {
		create(t, c, object)
	}
	var job *batchv1.Job
	g.Eventually(func(g gomega.Gomega) {
		job = jobs(t.Context(), c, ns)[image]
		g.Expect(job).NotTo(gomega.BeNil())
		g.Expect(server.series(t.Context(), `scanner_operator_scan_attempts_total{outcome="Succeeded"}`)).NotTo(gomega.BeEmpty())
	}, patience, tick).Should(gomega.Succeed())
	if status := deliver(t, api, image, podOfJob(t, c, job, scanjob.Audience), []byte(smallSBOM)); status != http.StatusNoContent {
		t.Fatalf("the upload has the status %d", status)
	}
	finish(t, c, job, batchv1.JobComplete)

	var board struct {
		Panels     []panel `json:"panels"`
		Templating struct {
			List []struct {
				Name, Type string
				Query      any
			}
		} `json:"templating"`
	}
	content, err := os.ReadFile(dashboard)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(content, &board); err != nil {
		t.Fatal(err)
	}
	checkGrid(t, board.Panels)
	var namespaces []string
	g.Eventually(func() ([]string, error) {
		return namespaces, server.ask(t.Context(), "/api/v1/label/scanner_namespace/values", url.Values{"match[]": {"scanner_operator_coverage_ratio"}}, &namespaces)
	}, patience, tick).Should(gomega.ContainElement(ns))

	variables := strings.NewReplacer("$namespace", ".*", "$__rate_interval", "1m")
	legend := regexp.MustCompile(`{{\s*(\w+)\s*}}`)
	queries := 0
	for _, p := range board.Panels {
		for _, target := range p.Targets {
			queries++
			query := variables.Replace(target.Expr)
			if p.Title == "Rebuilt caches" { // None was.
				if _, err := server.series(t.Context(), query); err != nil {
					t.Error(err)
				}
				continue
			}
			g.Eventually(func(g gomega.Gomega) {
				disturb(t, api)
				series, err := server.series(t.Context(), query)
				g.Expect(err).NotTo(gomega.HaveOccurred())
				g.Expect(series).NotTo(gomega.BeEmpty())
				for _, label := range legend.FindAllStringSubmatch(target.LegendFormat, -1) {
					g.Expect(slices.ContainsFunc(series, func(s map[string]string) bool { return s[label[1]] != "" })).To(gomega.BeTrue(), "label %s", label[1])
				}
			}, patience, tick).Should(gomega.Succeed(), "panel %q: %s", p.Title, query)
		}
	}
	if queries < 40 {
		t.Errorf("the dashboard has %d queries", queries)
	}
}

// disturb makes a request without a token, and two connections where one is allowed.
func disturb(t *testing.T, api string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, api+"/api/v1/images", nil)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	if response, err := transport.RoundTrip(request); err == nil { // It may be the connection that is dropped.
		_ = response.Body.Close()
	}
	for range 2 {
		connection, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(api, "http://"))
		if err != nil {
			t.Error(err)
			continue
		}
		defer func() { _ = connection.Close() }()
	}
	transport.CloseIdleConnections()
}

// checkGrid expects panels with different IDs, that do not overlap and fit in the width of a dashboard.
func checkGrid(t *testing.T, panels []panel) {
	t.Helper()
	ids, cells := map[int]string{}, map[[2]int]string{}
	for _, p := range panels {
		if other, found := ids[p.ID]; found {
			t.Errorf("the panels %q and %q have the ID %d", other, p.Title, p.ID)
		}
		ids[p.ID] = p.Title
		if p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("the panel %q is too wide", p.Title)
		}
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other, found := cells[[2]int{x, y}]; found {
					t.Fatalf("the panels %q and %q overlap", other, p.Title)
				}
				cells[[2]int{x, y}] = p.Title
			}
		}
	}
}
