package rights

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
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
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scannerv1 "github.com/scanner-operator/scanner-operator/api/scanner/v1"
	"github.com/scanner-operator/scanner-operator/internal/controller/controllertest"
	"github.com/scanner-operator/scanner-operator/internal/scanjob"
	"github.com/scanner-operator/scanner-operator/internal/setup"
	"github.com/scanner-operator/scanner-operator/internal/setup/setuptest"
)

// seldom are rights that no run of this test is sure to use, and what shows that they are needed.
var seldom = map[setuptest.Right]string{
	{Group: "scanner.zoltankerezsi.xyz", Resource: "scanners/finalizers", Verb: "update"}: "the API server asks itself whether a Job may have an owner that blocks its deletion",
	{Group: "events.k8s.io", Resource: "events", Verb: "patch"}:                           "the same event is counted when it comes again before the Scanner has changed",
}

// TestScopeAndRights runs the operator as the account that the chart makes, with the rights that the chart gives it.
func TestScopeAndRights(t *testing.T) {
	admin, c := controllertest.Config(t), setuptest.Cluster(t)
	setuptest.Node(t, c)
	run := func(limited bool) func(*testing.T) {
		return func(t *testing.T) {
			s := &scope{c: c, own: setuptest.Namespace(t, c), first: setuptest.Namespace(t, c), second: setuptest.Namespace(t, c), other: setuptest.Namespace(t, c)}
			if limited {
				s.listed = []string{s.first, s.second}
			}
			s.start(t, admin)
			s.scan(t)
			s.checkOther(t)
			s.checkRights(t)
		}
	}
	// First, as it would find what the other leaves behind.
	t.Run("the whole cluster", run(false))
	t.Run("listed namespaces", run(true))
}

// scope is a run of an operator that looks at some namespaces or all of them.
type scope struct {
	c client.Client
	// own is the operator's namespace; other is none of those that are listed.
	own, first, second, other string
	listed                    []string
	usage                     setuptest.Usage
	granted                   map[string]map[setuptest.Right]bool
	api                       string
	stop                      func()
	scanners                  map[string]*scannerv1.Scanner
}

func (s *scope) start(t *testing.T, admin *rest.Config) {
	t.Helper()
	// TestUploadOverTLS shows the rights that TLS needs.
	values := "tls: {enabled: false}\nwatchNamespaces: [" + strings.Join(s.listed, ", ") + "]\ncontrollers:\n"
	for _, controller := range setup.ControllerNames() {
		values += fmt.Sprintf("  %s: %t\n", controller, controller == setup.ControllerScanner)
	}
	config, granted := setuptest.InstallRights(t, admin, s.c, s.own, values)
	s.granted = granted
	config.Wrap(s.usage.Wrap)
	// Whatever else fails: this may be why.
	t.Cleanup(func() { s.usage.CheckRefused(t) })
	s.api, s.stop = setuptest.StartOperatorOn(t, config, s.own, t.TempDir(), func(o *setup.Options) {
		o.WatchNamespaces, o.Controllers = s.listed, []string{setup.ControllerScanner}
		o.LeaderElection, o.Scans.AuditInterval = true, time.Second
		o.OwnerKeys = []string{"team"} // It needs no other rights.
	})
	s.scanners = map[string]*scannerv1.Scanner{}
	for name, in := range map[string]string{"a": s.first, "b": s.first, "c": s.second, "d": s.other} {
		scanner := setuptest.SampleScanner(t, in)
		scanner.Name = name
		setuptest.Create(t, s.c, scanner)
		s.scanners[name] = scanner
	}
	for i, in := range []string{s.first, s.second, s.other} {
		setuptest.RunningPod(t, s.c, in, "app", setuptest.ImageID("app", fmt.Sprint(i)))
	}
}

// scan plays the scans of the first two namespaces: one delivers, and one fails.
func (s *scope) scan(t *testing.T) {
	t.Helper()
	g := gomega.NewWithT(t)
	job := s.job(t, s.first, setuptest.ImageID("app", "0"))
	if status := setuptest.Deliver(t, s.api, setuptest.ImageID("app", "0"), setuptest.PodOfJob(t, s.c, job, scanjob.Audience), []byte(setuptest.SBOM)); status != http.StatusNoContent {
		t.Fatalf("the SBOM was answered with %d", status)
	}
	setuptest.Finish(t, s.c, job, batchv1.JobComplete)
	for _, name := range []string{"a", "b"} {
		g.Eventually(func() string { return setuptest.Ready(t.Context(), s.c, s.scanners[name]) }, patience, tick).Should(gomega.Equal("True/Reconciled"), name)
	}
	job = s.job(t, s.second, setuptest.ImageID("app", "1"))
	setuptest.ScanPod(t, s.c, job, setuptest.ScanEnded(1, "Error", `{"reason":"ImageTooLarge","message":"9 GiB"}`))
	g.Eventually(func() string { return setuptest.Ready(t.Context(), s.c, s.scanners["c"]) }, patience, tick).Should(gomega.Equal("False/Failed"))
	g.Eventually(func() map[string]string { return setuptest.ScanFailures(t, s.c, s.scanners["c"]) }, patience, tick).Should(gomega.HaveLen(1))
	// The Job controller, which does not run here, never ends the Job: the operator deletes it. Nor does the garbage collector run.
	g.Eventually(func() (*metav1.Time, error) {
		err := s.c.Get(t.Context(), client.ObjectKeyFromObject(job), job)
		return job.DeletionTimestamp, err
	}, patience, tick).ShouldNot(gomega.BeNil())
	job.Finalizers = nil
	g.Expect(s.c.Update(t.Context(), job)).To(gomega.Succeed())
	// What becomes of a Job that the cache does not show any more, only the API server says.
	g.Eventually(func() bool {
		return s.usage.In(job.Namespace)[setuptest.Right{Group: "batch", Resource: "jobs", Verb: "get"}]
	}, patience, tick).Should(gomega.BeTrue())
}

// job waits for the scan Job of an image that runs in a namespace. An operator that looks at its own namespace scans there.
func (s *scope) job(t *testing.T, in, image string) *batchv1.Job {
	t.Helper()
	if s.listed == nil {
		in = s.own
	}
	gomega.NewWithT(t).Eventually(func() map[string]*batchv1.Job { return setuptest.Jobs(t.Context(), s.c, in) }, patience, tick).Should(gomega.HaveKey(image))
	return setuptest.Jobs(t.Context(), s.c, in)[image]
}

// checkOther looks at the namespace that is not listed, after caches were compared with the API server twice: it is served where there is no
// list, and not even asked about where there is one.
func (s *scope) checkOther(t *testing.T) {
	t.Helper()
	g := gomega.NewWithT(t)
	image := setuptest.ImageID("app", "2")
	if s.listed == nil {
		s.job(t, s.other, image)
		g.Eventually(func() string { return setuptest.Ready(t.Context(), s.c, s.scanners["d"]) }, patience, tick).Should(gomega.Equal("False/Scanning"))
	}
	before := s.usage.Audits()
	g.Eventually(s.usage.Audits, patience, tick).Should(gomega.BeNumerically(">=", before+2*max(1, len(s.listed))))
	want := map[string]bool{s.first: true, s.second: true}
	if s.listed == nil {
		want[s.other] = true
	} else {
		if found := setuptest.Jobs(t.Context(), s.c, s.other); len(found) > 0 {
			t.Errorf("%d scans in a namespace that is not listed", len(found))
		}
		if said := setuptest.Ready(t.Context(), s.c, s.scanners["d"]); said != "" {
			t.Errorf("a Scanner in a namespace that is not listed was told %s", said)
		}
		if used := s.usage.In(s.other); len(used) > 0 {
			t.Errorf("the operator asked about a namespace that is not listed: %v", used)
		}
	}
	if diff := cmp.Diff(want, s.covered(t)); diff != "" {
		t.Errorf("namespaces in /api/v1/coverage (-want +got):\n%s", diff)
	}
}

// covered asks the API, as somebody who may, of which namespaces it has containers.
func (s *scope) covered(t *testing.T) map[string]bool {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: s.own, Name: "reader"}}
	setuptest.Create(t, s.c, account)
	setuptest.Create(t, s.c, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "reader-"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: s.own, Name: account.Name}},
	})
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.api+"/api/v1/coverage", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+setuptest.Token(t, s.c, s.own, account.Name))
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var page struct {
		Items []struct{ Workload struct{ Namespace string } }
	}
	if err := json.NewDecoder(response.Body).Decode(&page); err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("/api/v1/coverage was answered with %s: %v", response.Status, err)
	}
	found := map[string]bool{}
	for _, item := range page.Items {
		found[item.Workload.Namespace] = true
	}
	return found
}

// checkRights wants no right that was not used.
func (s *scope) checkRights(t *testing.T) {
	t.Helper()
	s.stop()
	for in, rights := range s.granted {
		used := s.used(in)
		for right := range rights {
			if !used[right] && seldom[right] == "" {
				t.Errorf("in namespace %q the operator has a right that nothing showed to be needed: %s", in, right)
			}
		}
	}
}

// used returns the rights that requests needed where a role of a namespace, "" for the whole cluster, holds. All listed namespaces have the
// same role: it is needed if one of them shows it.
func (s *scope) used(in string) map[setuptest.Right]bool {
	used := map[setuptest.Right]bool{}
	for _, namespace := range s.usage.Namespaces() {
		if in == "" || in == namespace || slices.Contains(s.listed, in) && slices.Contains(s.listed, namespace) {
			maps.Copy(used, s.usage.In(namespace))
		}
	}
	return used
}

// TestSelectedNamespacesThatAreNotListed has a Scanner that selects more than the operator may look at: it says so.
func TestSelectedNamespacesThatAreNotListed(t *testing.T) {
	t.Parallel()
	c, g := setuptest.Cluster(t), gomega.NewWithT(t)
	setuptest.Node(t, c)
	own, listed, other := setuptest.Namespace(t, c), setuptest.Namespace(t, c), setuptest.Namespace(t, c)
	for _, in := range []string{own, listed, other} {
		patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{"take":%q}}}`, own))
		if err := c.Patch(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: in}}, patch); err != nil {
			t.Fatal(err)
		}
	}
	setuptest.Operator(t, own, func(o *setup.Options) { o.WatchNamespaces = []string{own, listed} })
	setuptest.RunningPod(t, c, listed, "app", setuptest.ImageID("listed", "1"))
	setuptest.RunningPod(t, c, other, "app", setuptest.ImageID("other", "2"))
	scanner := setuptest.SampleScanner(t, own)
	scanner.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"take": own}}
	setuptest.Create(t, c, scanner)
	g.Eventually(func(g gomega.Gomega) {
		g.Expect(setuptest.Jobs(t.Context(), c, own)).To(gomega.HaveKey(setuptest.ImageID("listed", "1")))
		var now scannerv1.Scanner
		g.Expect(c.Get(t.Context(), client.ObjectKeyFromObject(scanner), &now)).To(gomega.Succeed())
		complete := meta.FindStatusCondition(now.Status.Conditions, scannerv1.ConditionCoverageComplete)
		g.Expect(complete).NotTo(gomega.BeNil())
		g.Expect(complete.Message).To(gomega.ContainSubstring("1 selected namespace is not watched: --watch-namespaces excludes " + other))
		g.Expect(now.Status.Containers.Total).To(gomega.Equal(int32(1)))
	}, patience, tick).Should(gomega.Succeed())
}
