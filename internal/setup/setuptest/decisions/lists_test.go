package decisions

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	scannerv1alpha1 "github.com/scanner-operator/scanner-operator/api/scanner/v1alpha1"
	"github.com/scanner-operator/scanner-operator/internal/controller/controllertest"
	"github.com/scanner-operator/scanner-operator/internal/scanjob"
	"github.com/scanner-operator/scanner-operator/internal/setup"
	"github.com/scanner-operator/scanner-operator/internal/setup/setuptest"
)

// inAllLists is within what time an exception shows in all lists.
const inAllLists = 5 * time.Second

// shows is a list, or another answer of the API, that shows findings.
type shows struct {
	// target is what is requested, count how many findings, or things with a finding, the answer shows.
	target string
	count  func(answer any) int
	// less is how many fewer it shows when one of the vulnerabilities of the image is suppressed.
	less int
}

// field is a value in a document, nil if it is not there.
func field(document any, path ...string) any {
	for _, name := range path {
		fields, _ := document.(map[string]any)
		document = fields[name]
	}
	return document
}

// number counts what is a number, or a list, or counts by severity, at a path in a document.
func number(path ...string) func(any) int {
	return func(answer any) int {
		switch value := field(answer, path...).(type) {
		case float64:
			return int(value)
		case []any:
			return len(value)
		case map[string]any:
			sum := 0
			for _, severity := range []string{"critical", "high", "medium", "low", "negligible", "unknown"} {
				n, _ := value[severity].(float64)
				sum += int(n)
			}
			return sum
		default:
			return 0
		}
	}
}

// inItems adds up what the items of a list have at a path.
func inItems(path ...string) func(any) int {
	return func(answer any) int {
		sum := 0
		items, _ := field(answer, "items").([]any)
		for _, item := range items {
			sum += number(path...)(item)
		}
		return sum
	}
}

// withoutFindings are the answers of the API that no exception changes, by path.
var withoutFindings = map[string]string{
	"/api/v1/images/{imageId}/sbom":          "packages, whatever is found in them",
	"/api/v1/images/{imageId}/newer-tags":    "compared when it is asked for; TestNewerTags has decisions",
	"/api/v1/images/{imageId}/presences":     "what runs the image",
	"/api/v1/vulnerabilities/{id}/exposures": "what is suppressed is included; the store's tests compare what it marks",
	"/api/v1/decisions":                      "the exception itself; the status of the exception has the same numbers",
	"/api/v1/decisions/{decisionId}":         "the exception itself",
	"/api/v1/exceptions/{kind}/{name}":       "the exception itself",
	"/api/v1/policies":                       "no policy exists; its numbers are up to 3 seconds old",
	"/api/v1/notification-rules":             "no rule exists; messages have tests of their own",
	"/api/v1/coverage":                       "containers, and whether they are scanned",
	"/api/v1/rollouts":                       "what rollouts opened and closed when they were evaluated",
	"/api/v1/rollouts/{rolloutId}":           "the same, of one rollout",
	"/api/v1/trends":                         "totals of days, which are recorded every minute",
	"/api/v1/vex":                            "VEX documents",
	"/api/v1/vex/{name}":                     "a VEX document",
	"/api/v1/databases":                      "database builds",
	"/api/v1/databases/{build}/changes":      "what a database build changed",
	"/api/v1/events":                         "what happened",
	"/api/v1/session":                        "the user",
	"/api/v1/session/sign-in":                "a redirect",
	"/api/v1/session/callback":               "a redirect",
}

// listsOf are the answers that show findings, by path, and by path and format where an answer has other formats.
func listsOf(w *figures, other string) map[string]shows {
	const v1 = "/api/v1/"
	image, id := v1+"images/"+url.PathEscape(w.image), url.PathEscape(w.vulnerability)
	preview := "fixes/preview?action=update&packageType=go-module&packageVersion=v0.1.0&packageName=golang.org/x/net&imageId=" + url.QueryEscape(w.image)
	// The image runs in two workloads, which have one owner.
	return map[string]shows{
		v1 + "overview":                       {v1 + "overview", number("counts"), 1},
		v1 + "overview/changes":               {v1 + "overview/changes", number("opened"), 1},
		v1 + "images":                         {v1 + "images", inItems("counts"), 1},
		v1 + "images/{imageId}":               {image, number("counts"), 1},
		v1 + "images/{imageId}/findings":      {image + "/findings", number("total"), 1},
		v1 + "images/{imageId}/packages":      {image + "/packages", inItems("counts"), 1},
		v1 + "images/{imageId}/layers":        {image + "/layers", inItems("counts"), 1},
		v1 + "vulnerabilities":                {v1 + "vulnerabilities", number("total"), 1},
		v1 + "vulnerabilities/{id}":           {v1 + "vulnerabilities/" + id, number("workloads"), 2},
		v1 + "vulnerabilities/{id}/affected":  {v1 + "vulnerabilities/" + id + "/affected", number("total"), 1},
		v1 + "packages":                       {v1 + "packages", inItems("counts"), 1},
		v1 + "workloads":                      {v1 + "workloads", inItems("counts"), 2},
		v1 + "owners":                         {v1 + "owners", inItems("counts"), 1},
		v1 + "namespaces":                     {v1 + "namespaces", inItems("counts"), 1},
		v1 + "bases":                          {v1 + "bases", inItems("counts"), 1},
		v1 + "search":                         {v1 + "search?text=" + id, number("vulnerabilities"), 1},
		v1 + "fixes":                          {v1 + "fixes", inItems("counts"), 1},
		v1 + "fixes/preview":                  {v1 + preview, number("closed"), 1},
		v1 + "compare":                        {v1 + "compare?from=" + url.QueryEscape(w.image) + "&to=" + url.QueryEscape(other), number("evaluation", "closed"), 1},
		v1 + "reports/cluster":                {v1 + "reports/cluster", number("counts"), 1},
		v1 + "reports/namespaces/{namespace}": {v1 + "reports/namespaces/" + w.ns, number("counts"), 1},
		v1 + "reports/owners/{owner}":         {v1 + "reports/owners/shop", number("counts"), 1},
	}
}

// onLayers gives an SBOM layers whose digests repeat these digits.
func onLayers(sbom string, digits ...string) string {
	layers := make([]string, len(digits))
	for i, digit := range digits {
		layers[i] = `{"mediaType":"application/vnd.oci.image.layer.v1.tar+gzip","digest":"sha256:` + strings.Repeat(digit, 64) + `","size":1}`
	}
	return strings.Replace(sbom, `"layers":[]`, `"layers":[`+strings.Join(layers, ",")+`]`, 1)
}

// checkComplete fails the test if the API has an answer that nothing here says anything of.
func checkComplete(t *testing.T, lists map[string]shows) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(controllertest.Root(), "openapi", "openapi.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var described struct{ Paths map[string]map[string]any }
	if err := yaml.Unmarshal(content, &described); err != nil {
		t.Fatal(err)
	}
	found := 0
	for path, methods := range described.Paths {
		if methods["get"] == nil || !strings.HasPrefix(path, "/api/v1/") {
			continue
		}
		_, shown := lists[path]
		if _, without := withoutFindings[path]; shown == without {
			t.Errorf("%s: shows findings: %t, shows none: %t", path, shown, without)
		}
		found++
	}
	if want := len(lists) + len(withoutFindings); found != want {
		t.Errorf("the API describes %d answers, and %d are looked at", found, want)
	}
}

// TestExceptionIsInAllLists applies an exception, and reads everything in the API that shows findings once, as soon as the status says that the exception is
// applied: all of it agrees then. It is the same when the exception is deleted. An answer of the API that is neither in the lists here nor without findings fails
// the test.
//
// An exception shows in all lists within 5 seconds after it is created: that is the bound of the wait for its status, and nothing waits for a list. On two
// processors the status took 0.23 s, and 0.05 s more to read all lists; with six busy loops beside the test, 0.29 s and 0.17 s more. The benchmarks measure the
// same with 10,000 images. The status of the Scanner and the metrics are no lists, and follow later.
func TestExceptionIsInAllLists(t *testing.T) {
	// Not parallel: exceptions concern a whole cluster, and an operator that starts in the same process takes over the metrics.
	config, c := strictCluster(t)
	amd64Node(t, c)
	g := gomega.NewWithT(t)
	w := &figures{t: t, c: c, ns: namespace(t, c), metrics: setuptest.UnusedAddress(t), image: imageID("two", "2")}
	reader := func(name string) string {
		return userOf(t, c, w.ns, name, rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}},
			rbacv1.PolicyRule{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}})
	}
	w.token = reader("reader")
	// A user may not read everything three times in a second.
	readers := []string{reader("reader-1"), reader("reader-2"), reader("reader-3")}
	label := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"team":"shop"}}}`))
	if err := c.Patch(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.ns}}, label); err != nil {
		t.Fatal(err)
	}
	w.api, _ = startOperatorOn(t, config, w.ns, t.TempDir(), func(o *setup.Options) {
		o.MetricsAddress, o.OwnerKeys = w.metrics, []string{"team"}
	})
	w.scanner = sampleScanner(t, w.ns)
	create(t, c, w.scanner)
	// Two images on the same base image; the one with findings runs in two workloads, in one of them since a rollout.
	clean := imageID("one", "1")
	pod := runningPod(t, c, w.ns, "web-0", clean, partOfWeb)
	runningPod(t, c, w.ns, "other", w.image)
	runningPod(t, c, w.ns, "third", clean)
	for image, sbom := range map[string]string{
		clean: onLayers(strings.ReplaceAll(smallSBOM, "v0.1.0", "v99.0.0"), "1", "3"), w.image: onLayers(smallSBOM, "1", "2"),
	} {
		g.Eventually(func() map[string]*batchv1.Job { return jobs(t.Context(), c, w.ns) }, patience, tick).Should(gomega.HaveKey(image))
		job := jobs(t.Context(), c, w.ns)[image]
		if status := deliver(t, w.api, image, podOfJob(t, c, job, scanjob.Audience), []byte(sbom)); status != http.StatusNoContent {
			t.Fatalf("the SBOM was answered with %d", status)
		}
		finish(t, c, job, batchv1.JobComplete)
	}
	g.Eventually(func() string { return ready(t.Context(), c, w.scanner) }, patience, tick).Should(gomega.Equal("True/Reconciled"))
	var page struct{ Items []struct{ ID string } }
	w.get("/api/v1/vulnerabilities", &page)
	if len(page.Items) < 2 {
		t.Fatalf("the package has %d vulnerabilities", len(page.Items))
	}
	w.vulnerability = page.Items[0].ID
	all := w.images()
	replaced(t, c, pod, w.image)
	g.Eventually(w.rollouts, patience, tick).Should(gomega.Equal([]rolloutCounts{{Opened: all}}))
	lists := listsOf(w, clean)
	checkComplete(t, lists)
	read := func() map[string]int {
		w.token, readers = readers[0], readers[1:]
		counts := map[string]int{}
		for path, list := range lists {
			var answer any
			w.get(list.target, &answer)
			counts[path] = list.count(answer)
		}
		return counts
	}
	// Those that follow the lists: the status of the Scanner, and metrics.
	followers := func() string { figures := w.read(); return fmt.Sprint(figures["scanner"], " ", figures["metrics"]) }
	g.Eventually(followers, patience, tick).Should(gomega.Equal(fmt.Sprint(all, " ", all)))
	before, want := read(), map[string]int{}
	for path, list := range lists {
		want[path] = before[path] - list.less
		if want[path] < 0 {
			t.Errorf("%s shows %d", path, before[path])
		}
	}
	exception := &scannerv1alpha1.ClusterVulnerabilityException{
		ObjectMeta: metav1.ObjectMeta{Name: "everywhere"},
		Spec: scannerv1alpha1.ExceptionSpec{
			Match: scannerv1alpha1.ExceptionMatch{Vulnerabilities: []string{w.vulnerability}}, Status: scannerv1alpha1.NotAffected, Justification: "vulnerable_code_not_present",
		},
	}
	begun := time.Now()
	create(t, c, exception)
	g.Eventually(w.status, inAllLists, tick).WithArguments(exception.Name).Should(gomega.Equal("Applied/1/1"))
	applied := time.Now()
	if diff := cmp.Diff(want, read()); diff != "" {
		t.Errorf("the exception is applied (-want +got):\n%s", diff)
	}
	shown := time.Now()
	g.Eventually(followers, patience, tick).Should(gomega.Equal(fmt.Sprint(all-1, " ", all-1)))
	t.Logf("the exception was applied after %s, all lists were read after %s, and the Scanner and the metrics had followed after %s",
		applied.Sub(begun), shown.Sub(begun), time.Since(begun))
	if err := c.Delete(t.Context(), exception); err != nil {
		t.Fatal(err)
	}
	var decisions struct{ Items []any }
	g.Eventually(func() []any {
		w.get("/api/v1/decisions?name=everywhere&state=ended", &decisions)
		return decisions.Items
	}, patience, tick).Should(gomega.HaveLen(1))
	if diff := cmp.Diff(before, read()); diff != "" {
		t.Errorf("the exception is deleted (-want +got):\n%s", diff)
	}
}
