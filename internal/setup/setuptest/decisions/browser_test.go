package decisions

import (
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scannerv1alpha1 "github.com/scanner-operator/scanner-operator/api/scanner/v1alpha1"
	"github.com/scanner-operator/scanner-operator/internal/controller/controllertest"
	"github.com/scanner-operator/scanner-operator/internal/scanjob"
	"github.com/scanner-operator/scanner-operator/internal/setup"
	"github.com/scanner-operator/scanner-operator/internal/setup/setuptest"
	"github.com/scanner-operator/scanner-operator/web"
)

// TestDecideInABrowser lets a user decide about a finding in Chromium, with an operator and a real API server: the exception is the user's, and lists,
// counts, metrics, the status of the Scanner and the evaluation of a rollout follow it, and its end.
func TestDecideInABrowser(t *testing.T) {
	// Not parallel: exceptions concern a whole cluster, and an operator that starts in the same process takes over the metrics.
	needBrowser(t)
	config, c := strictCluster(t)
	amd64Node(t, c)
	g := gomega.NewWithT(t)
	w := &figures{t: t, c: c, ns: namespace(t, c), metrics: setuptest.UnusedAddress(t), image: imageID("two", "2")}
	w.token = userOf(t, c, w.ns, "reader", rbacv1.PolicyRule{APIGroups: []string{"scanner.zoltankerezsi.xyz"}, Resources: []string{"*"}, Verbs: []string{"*"}},
		rbacv1.PolicyRule{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}})
	w.api, _ = startOperatorOn(t, config, w.ns, t.TempDir(), func(o *setup.Options) {
		o.MetricsAddress, o.WriteExceptions = w.metrics, true
	})
	w.scanner = sampleScanner(t, w.ns)
	create(t, c, w.scanner)
	// A pod of a workload runs an image without findings, another one an image with some.
	clean := imageID("one", "1")
	pod := runningPod(t, c, w.ns, "web-0", clean, partOfWeb)
	runningPod(t, c, w.ns, "other", w.image)
	for image, sbom := range map[string]string{clean: strings.ReplaceAll(smallSBOM, "v0.1.0", "v99.0.0"), w.image: smallSBOM} {
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
	if len(page.Items) == 0 {
		t.Fatal("the package has no vulnerability")
	}
	w.vulnerability = page.Items[0].ID
	all := w.images()
	g.Eventually(w.read, patience, tick).Should(gomega.And(gomega.HaveKeyWithValue("metrics", all), gomega.HaveKeyWithValue("scanner", all)))
	before := w.read()

	verbs := []string{"get", "create", "update", "delete"}
	decider := userOf(t, c, w.ns, "decider",
		rbacv1.PolicyRule{APIGroups: []string{"scanner.zoltankerezsi.xyz"}, Resources: []string{"scanresults"}, Verbs: []string{"get", "list"}},
		rbacv1.PolicyRule{APIGroups: []string{"scanner.zoltankerezsi.xyz"}, Resources: []string{"clustervulnerabilityexceptions"}, Verbs: verbs})
	inBrowser := func(test string) {
		t.Helper()
		runBrowser(t, test, map[string]string{"url": w.api, "token": decider, "image": w.image, "vulnerability": w.vulnerability})
	}
	inBrowser("decides about a finding")
	var exceptions scannerv1alpha1.ClusterVulnerabilityExceptionList
	if err := c.List(t.Context(), &exceptions); err != nil || len(exceptions.Items) != 1 {
		t.Fatalf("%d exceptions, %v", len(exceptions.Items), err)
	}
	written := exceptions.Items[0]
	g.Expect(written.Annotations).To(gomega.HaveKeyWithValue(scannerv1alpha1.AnnotationAuthor, "system:serviceaccount:"+w.ns+":decider"))
	g.Expect(written.Spec.Status).To(gomega.Equal(scannerv1alpha1.AcceptedRisk))
	g.Expect(written.Spec.Comment).To(gomega.Equal("Not reachable."))
	g.Expect(written.Spec.Match.Vulnerabilities).To(gomega.ConsistOf(w.vulnerability))
	without := func(figures map[string]int, workloads int) map[string]int {
		fewer := maps.Clone(figures)
		for _, name := range []string{"images", "findings", "packages", "vulnerabilities", "affected", "overview", "scanner", "metrics"} {
			fewer[name]--
		}
		fewer["workloads"] -= workloads
		return fewer
	}
	g.Eventually(w.read, patience, tick).Should(gomega.Equal(without(before, 1)))
	g.Eventually(w.status, patience, tick).WithArguments(written.Name).Should(gomega.Equal("Applied/1/1"))

	// What is suppressed does not count in the evaluation of a rollout.
	pod = replaced(t, c, pod, w.image)
	g.Eventually(w.rollouts, patience, tick).Should(gomega.Equal([]rolloutCounts{{Opened: all - 1}}))
	after := maps.Clone(before)
	after["workloads"] += all
	g.Eventually(w.read, patience, tick).Should(gomega.Equal(without(after, 2)))

	// The requests of each caller are limited.
	w.token = userOf(t, c, w.ns, "another-reader", rbacv1.PolicyRule{APIGroups: []string{"scanner.zoltankerezsi.xyz"}, Resources: []string{"*"}, Verbs: []string{"*"}},
		rbacv1.PolicyRule{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}})
	inBrowser("ends the decision")
	if err := c.List(t.Context(), &exceptions); err != nil || len(exceptions.Items) != 0 {
		t.Errorf("%d exceptions are left, %v", len(exceptions.Items), err)
	}
	g.Eventually(w.read, patience, tick).Should(gomega.Equal(after))
	replaced(t, c, pod, clean)
	g.Eventually(w.rollouts, patience, tick).Should(gomega.Equal([]rolloutCounts{{Closed: all}, {Opened: all - 1}}))
}

// partOfWeb makes a pod one of a workload.
func partOfWeb(p *corev1.Pod) {
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "web", UID: "web", Controller: new(true)}}
}

// replaced deletes a pod of the workload, and creates it again with another image.
func replaced(t *testing.T, c client.Client, pod *corev1.Pod, image string) *corev1.Pod {
	t.Helper()
	if err := c.Delete(t.Context(), pod, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	return runningPod(t, c, pod.Namespace, pod.Name, image, partOfWeb)
}

// rolloutCounts are the findings that a rollout opened and closed.
type rolloutCounts struct{ Opened, Closed int }

// rollouts lists the rollouts that are evaluated, the latest first.
func (f *figures) rollouts() []rolloutCounts {
	f.t.Helper()
	var page struct {
		Items []struct {
			Evaluation struct {
				State          string
				Opened, Closed severities
			}
		}
	}
	f.get("/api/v1/rollouts", &page)
	var all []rolloutCounts
	for _, item := range page.Items {
		if item.Evaluation.State == "evaluated" {
			all = append(all, rolloutCounts{item.Evaluation.Opened.sum(), item.Evaluation.Closed.sum()})
		}
	}
	return all
}

// userOf makes a service account with rights in the whole cluster, and returns a token of it.
func userOf(t *testing.T, c client.Client, ns, name string, rules ...rbacv1.PolicyRule) string {
	t.Helper()
	create(t, c, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}})
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: ns + "-" + name}, Rules: rules}
	create(t, c, role)
	create(t, c, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: ns, Name: name}},
	})
	return tokenOf(t, c, ns, name)
}

// playwright is the program that runs the tests of the UI.
func playwright() string {
	return filepath.Join(controllertest.Root(), "web", "node_modules", ".bin", "playwright")
}

// needBrowser skips the test where the UI or its tests were not built.
func needBrowser(t *testing.T) {
	t.Helper()
	_, err := os.Stat(playwright())
	if _, built := web.Assets(); built && err == nil {
		return
	}
	if os.Getenv("CI") == "true" {
		t.Fatal("the UI or its tests were not built; run make ui")
	}
	t.Skip("the UI or its tests were not built; run make ui")
}

// runBrowser runs a test of web/e2e-operator.
func runBrowser(t *testing.T, test string, values map[string]string) {
	t.Helper()
	if out, err := browser(t, test, values).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", test, err, out)
	}
}

// browser is the command that runs a test of web/e2e-operator.
func browser(t *testing.T, test string, values map[string]string) *exec.Cmd {
	t.Helper()
	content, err := json.Marshal(values)
	if err != nil {
		t.Fatal(err)
	}
	program, err := filepath.Abs(playwright())
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), program, "test", "--config=playwright.operator.config.ts", "--grep="+test, "--output="+t.TempDir())
	command.Dir, command.Env = filepath.Join(controllertest.Root(), "web"), append(os.Environ(), "OPERATOR_SETUP="+string(content))
	return command
}
