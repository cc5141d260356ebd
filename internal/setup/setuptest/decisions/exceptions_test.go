package decisions

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scannerv1 "github.com/scanner-operator/scanner-operator/api/scanner/v1"
	scannerv1alpha1 "github.com/scanner-operator/scanner-operator/api/scanner/v1alpha1"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/scanjob"
	"github.com/scanner-operator/scanner-operator/internal/setup"
	"github.com/scanner-operator/scanner-operator/internal/setup/setuptest"
)

// TestExceptionsEverywhere follows an exception through every list and count, and one that expires. Exceptions concern a whole cluster, so that it has
// its own one.
func TestExceptionsEverywhere(t *testing.T) {
	// Not parallel: an operator that starts in the same process takes over the metrics.
	config, c := strictCluster(t)
	amd64Node(t, c)
	g := gomega.NewWithT(t)
	w := &figures{t: t, c: c, ns: namespace(t, c), metrics: setuptest.UnusedAddress(t)}
	reader := func(name string) string {
		create(t, c, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: name}})
		create(t, c, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "reader-"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: w.ns, Name: name}},
		})
		return tokenOf(t, c, w.ns, name)
	}
	w.token = reader("reader")
	w.api, _ = startOperatorOn(t, config, w.ns, t.TempDir(), func(o *setup.Options) { o.MetricsAddress = w.metrics })
	w.scanner = sampleScanner(t, w.ns)
	create(t, c, w.scanner)
	// Two images with the same package.
	for name, digit := range map[string]string{"one": "1", "two": "2"} {
		runningPod(t, c, w.ns, name, imageID(name, digit))
	}
	for _, image := range []string{imageID("one", "1"), imageID("two", "2")} {
		g.Eventually(func() map[string]*batchv1.Job { return jobs(t.Context(), c, w.ns) }, patience, tick).Should(gomega.HaveKey(image))
		job := jobs(t.Context(), c, w.ns)[image]
		if status := deliver(t, w.api, image, podOfJob(t, c, job, scanjob.Audience), []byte(smallSBOM)); status != http.StatusNoContent {
			t.Fatalf("the SBOM was answered with %d", status)
		}
		finish(t, c, job, batchv1.JobComplete)
	}
	g.Eventually(func() string { return ready(t.Context(), c, w.scanner) }, patience, tick).Should(gomega.Equal("True/Reconciled"))
	var page struct{ Items []struct{ ID string } }
	w.get("/api/v1/vulnerabilities", &page)
	if len(page.Items) == 0 {
		t.Fatal("the package has no vulnerability")
	}
	w.image, w.vulnerability = imageID("one", "1"), page.Items[0].ID
	before := w.read()
	g.Eventually(w.read, patience, tick).Should(gomega.HaveKeyWithValue("metrics", before["images"]))
	before = w.read()

	exception := &scannerv1alpha1.ClusterVulnerabilityException{
		ObjectMeta: metav1.ObjectMeta{Name: "not-reachable"},
		Spec: scannerv1alpha1.ExceptionSpec{
			Match: scannerv1alpha1.ExceptionMatch{
				Vulnerabilities: []string{strings.ToLower(w.vulnerability)}, Packages: []string{"pkg:golang/golang.org/x/net@v0.1*"},
			},
			Status: scannerv1alpha1.NotAffected, Justification: "vulnerable_code_not_present", Comment: "Built without HTTP/2.",
		},
	}
	// An update is matched by the operator with the database that it has.
	t.Run("an update is previewed", func(t *testing.T) {
		var preview struct {
			Packages                  []struct{ FixVersion, Failure string }
			Closed, Remaining, Opened model.SeverityCounts
		}
		w.get("/api/v1/fixes/preview?action=update&packageType=go-module&packageVersion=v0.1.0&packageName=golang.org/x/net&imageId="+url.QueryEscape(w.image), &preview)
		if len(preview.Packages) != 1 || preview.Packages[0].FixVersion == "" || preview.Packages[0].Failure != "" || preview.Closed.Total() == 0 || preview.Remaining.Total()+preview.Opened.Total() != 0 {
			t.Errorf("the preview is %+v", preview)
		}
	})
	t.Run("applied", func(t *testing.T) {
		g := gomega.NewWithT(t)
		w.t = t
		create(t, c, exception)
		want := maps.Clone(before)
		for name, fewer := range map[string]int{
			"images": 2, "findings": 1, "packages": 1, "vulnerabilities": 1, "affected": 2, "overview": 2, "workloads": 2, "scanner": 2, "metrics": 2,
		} {
			want[name] -= fewer
		}
		g.Eventually(w.read, patience, tick).Should(gomega.Equal(want))
		g.Eventually(w.status, patience, tick).WithArguments("not-reachable").Should(gomega.Equal("Applied/2/2"))
		var findings struct {
			Items []struct {
				Vulnerability struct{ ID string }
				Suppressed    bool
				Decisions     []struct {
					Status, Justification, Comment string
					Suppresses                     bool
					Object                         struct{ Kind, Name string }
				}
			}
		}
		w.get(w.findings()+"?suppressed=true", &findings)
		said := ""
		for _, finding := range findings.Items {
			if finding.Suppressed {
				said += fmt.Sprint(finding.Vulnerability.ID, finding.Decisions)
			}
		}
		if want := w.vulnerability + "[{NotAffected vulnerable_code_not_present Built without HTTP/2. true {ClusterVulnerabilityException not-reachable}}]"; said != want {
			t.Errorf("suppressed are %s, want %s", said, want)
		}
		if csv := w.body(w.findings() + "?suppressed=true&format=csv"); !strings.Contains(csv, ",yes,NotAffected (ClusterVulnerabilityException not-reachable),") {
			t.Errorf("as CSV: %s", csv)
		}
		if csv := w.body(w.findings() + "?format=csv"); strings.Contains(csv, w.vulnerability) {
			t.Errorf("as CSV: %s", csv)
		}
	})
	t.Run("in one image", func(t *testing.T) {
		g := gomega.NewWithT(t)
		// The requests of each caller are limited.
		first := w.token
		w.t, w.token = t, reader("another-reader")
		defer func() { w.token = first }()
		patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"match":{"images":["r.example/two"]}}}`))
		if err := c.Patch(t.Context(), exception.DeepCopy(), patch); err != nil {
			t.Fatal(err)
		}
		want := maps.Clone(before)
		for _, name := range []string{"images", "affected", "overview", "workloads", "scanner", "metrics"} {
			want[name]--
		}
		g.Eventually(w.status, patience, tick).WithArguments("not-reachable").Should(gomega.Equal("Applied/1/1"))
		g.Eventually(w.read, patience, tick).Should(gomega.Equal(want))
	})
	t.Run("deleted", func(t *testing.T) {
		w.t = t
		if err := c.Delete(t.Context(), exception); err != nil {
			t.Fatal(err)
		}
		gomega.NewWithT(t).Eventually(w.read, patience, tick).Should(gomega.Equal(before))
	})
	t.Run("dry run", func(t *testing.T) {
		g := gomega.NewWithT(t)
		w.t = t
		dry := exception.DeepCopy()
		dry.ObjectMeta, dry.Spec.Mode = metav1.ObjectMeta{Name: "dry-run"}, scannerv1alpha1.ModeDryRun
		create(t, c, dry)
		g.Eventually(w.status, patience, tick).WithArguments("dry-run").Should(gomega.Equal("DryRun/2/0"))
		if diff := cmp.Diff(before, w.read()); diff != "" {
			t.Errorf("a dry run changed figures (-want +got):\n%s", diff)
		}
	})
	t.Run("expired", func(t *testing.T) {
		g := gomega.NewWithT(t)
		w.t = t
		end := time.Now().Add(15 * time.Second).Truncate(time.Second)
		create(t, c, &scannerv1alpha1.ClusterVulnerabilityException{
			ObjectMeta: metav1.ObjectMeta{Name: "for-a-while"},
			Spec: scannerv1alpha1.ExceptionSpec{
				Match:  scannerv1alpha1.ExceptionMatch{Packages: []string{"pkg:golang/*"}},
				Status: scannerv1alpha1.AcceptedRisk, Comment: "Fixed with the next release.", ExpiresAt: scannerv1alpha1.Timestamp(end.Format(time.RFC3339)),
			},
		})
		all := func() map[string]int { return w.read() }
		g.Eventually(all, patience, tick).Should(gomega.And(gomega.HaveKeyWithValue("images", 0), gomega.HaveKeyWithValue("vulnerabilities", 0), gomega.HaveKeyWithValue("scanner", 0)))
		// One request at a time: reading all until the end would exceed the limit of requests.
		g.Eventually(w.images, patience, tick).Should(gomega.Equal(before["images"]))
		if now := time.Now(); now.Before(end) {
			t.Errorf("it ended at %s, before its end at %s", now, end)
		}
		g.Eventually(w.read, patience, tick).Should(gomega.Equal(before))
		g.Eventually(w.status, patience, tick).WithArguments("for-a-while").Should(gomega.Equal("Expired/-/-"))
		// A change that leaves it in the past reopens and tells nothing again.
		patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"comment":"Fixed with the last release."}}`))
		if err := c.Patch(t.Context(), &scannerv1alpha1.ClusterVulnerabilityException{ObjectMeta: metav1.ObjectMeta{Name: "for-a-while"}}, patch); err != nil {
			t.Fatal(err)
		}
		g.Eventually(w.observed, patience, tick).WithArguments("for-a-while").Should(gomega.BeTrue())
		var events struct {
			Items []struct{ Data json.RawMessage }
		}
		w.get("/api/v1/events?since=0&limit=1000&kind=decision.expired", &events)
		if len(events.Items) != 1 || !strings.Contains(string(events.Items[0].Data), "for-a-while") {
			t.Errorf("%d events of expiry, want 1: %+v", len(events.Items), events.Items)
		}
	})
	t.Run("VEX documents", func(t *testing.T) { vexEverywhere(t, w, before) })
}

// figures reads everything that counts findings.
type figures struct {
	t                                             *testing.T
	c                                             client.Client
	ns, api, token, metrics, image, vulnerability string
	scanner                                       *scannerv1.Scanner
}

func (f *figures) findings() string { return "/api/v1/images/" + url.PathEscape(f.image) + "/findings" }

func (f *figures) body(target string) string {
	f.t.Helper()
	if !strings.HasPrefix(target, "https:") {
		target = f.api + target
	}
	request, err := http.NewRequestWithContext(f.t.Context(), http.MethodGet, target, http.NoBody)
	if err != nil {
		f.t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+f.token)
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	response, err := transport.RoundTrip(request)
	if err != nil {
		f.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		f.t.Fatalf("%s was answered with %s: %v: %s", target, response.Status, err, body)
	}
	return string(body)
}

func (f *figures) get(target string, into any) {
	f.t.Helper()
	if err := json.Unmarshal([]byte(f.body(target)), into); err != nil {
		f.t.Fatal(err)
	}
}

// severities are counts by severity.
type severities struct{ Critical, High, Medium, Low, Negligible, Unknown int }

func (s severities) sum() int {
	return s.Critical + s.High + s.Medium + s.Low + s.Negligible + s.Unknown
}

// read returns the number of findings, or of vulnerabilities, that each place shows.
func (f *figures) read() map[string]int {
	f.t.Helper()
	read := map[string]int{}
	for name, target := range map[string]string{
		"images": "/api/v1/images", "packages": "/api/v1/packages", "workloads": "/api/v1/workloads", "overview": "/api/v1/overview",
		"findings": f.findings(), "vulnerabilities": "/api/v1/vulnerabilities", "affected": "/api/v1/vulnerabilities/" + f.vulnerability + "/affected",
		"findings with suppressed": f.findings() + "?suppressed=true",
		"affected with suppressed": "/api/v1/vulnerabilities/" + f.vulnerability + "/affected?suppressed=true",
	} {
		var page struct {
			Total  int
			Counts severities
			Items  []struct{ Counts severities }
		}
		f.get(target, &page)
		switch name {
		case "images", "packages", "workloads":
			for _, item := range page.Items {
				read[name] += item.Counts.sum()
			}
		case "overview":
			read[name] = page.Counts.sum()
		default:
			read[name] = page.Total
		}
	}
	var now scannerv1.Scanner
	if err := f.c.Get(f.t.Context(), client.ObjectKeyFromObject(f.scanner), &now); err != nil {
		f.t.Fatal(err)
	}
	if n := now.Status.Findings; n != nil {
		read["scanner"] = int(n.Critical + n.High + n.Medium + n.Low + n.Negligible + n.Unknown)
	}
	read["metrics"] = f.metric(f.ns)
	return read
}

// metric returns the number of findings that the metrics have of the Scanners in a namespace.
func (f *figures) metric(namespace string) int {
	f.t.Helper()
	sum := 0
	for line := range strings.Lines(f.body("https://" + f.metrics + "/metrics")) {
		if strings.HasPrefix(line, "scanner_operator_findings{") && strings.Contains(line, `"`+namespace+`"`) {
			number, err := strconv.ParseFloat(strings.TrimSpace(line[strings.LastIndex(line, " "):]), 64)
			if err != nil {
				f.t.Fatal(err)
			}
			sum += int(number)
		}
	}
	return sum
}

// images returns the number of findings that the list of images shows.
func (f *figures) images() int {
	f.t.Helper()
	var page struct{ Items []struct{ Counts severities } }
	f.get("/api/v1/images", &page)
	sum := 0
	for _, item := range page.Items {
		sum += item.Counts.sum()
	}
	return sum
}

// exception returns an exception as it is now.
func (f *figures) exception(name string) *scannerv1alpha1.ClusterVulnerabilityException {
	f.t.Helper()
	var now scannerv1alpha1.ClusterVulnerabilityException
	if err := f.c.Get(f.t.Context(), types.NamespacedName{Name: name}, &now); err != nil {
		f.t.Fatal(err)
	}
	return &now
}

// status is why an exception applies or not, what it matches and what it suppresses.
func (f *figures) status(name string) string {
	f.t.Helper()
	status := f.exception(name).Status
	applied := meta.FindStatusCondition(status.Conditions, scannerv1alpha1.ConditionApplied)
	if applied == nil {
		return ""
	}
	said := applied.Reason
	for _, number := range []*int64{status.MatchedFindings, status.SuppressedFindings} {
		if number == nil {
			said += "/-"
		} else {
			said += fmt.Sprint("/", *number)
		}
	}
	return said
}

// observed says whether the status of an exception is about its spec.
func (f *figures) observed(name string) bool {
	f.t.Helper()
	e := f.exception(name)
	return e.Status.ObservedGeneration == e.Generation
}
