package decisions

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scannerv1alpha1 "github.com/scanner-operator/scanner-operator/api/scanner/v1alpha1"
	"github.com/scanner-operator/scanner-operator/internal/scanjob"
	"github.com/scanner-operator/scanner-operator/internal/setup"
	"github.com/scanner-operator/scanner-operator/internal/setup/setuptest"
)

// TestExceptionsInPlaces runs one image in two namespaces. An exception in one of them changes what this namespace shows, and nothing of the other one
// or of the whole cluster, until the other one has an exception, too.
func TestExceptionsInPlaces(t *testing.T) {
	// Not parallel: an operator that starts in the same process takes over the metrics.
	config, c := strictCluster(t)
	amd64Node(t, c)
	g := gomega.NewWithT(t)
	shop, bank := namespace(t, c), namespace(t, c)
	metrics, image := setuptest.UnusedAddress(t), imageID("shared", "1")
	api, _ := startOperatorOn(t, config, shop, t.TempDir(), func(o *setup.Options) {
		o.MetricsAddress, o.WatchNamespaces = metrics, []string{shop, bank}
	})
	// Readers of one namespace, and one of the whole cluster.
	seen := map[string]*figures{}
	for _, in := range []string{shop, bank} {
		scanner := sampleScanner(t, in)
		create(t, c, scanner)
		create(t, c, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: in, Name: "tenant"}})
		create(t, c, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: in, Name: "tenant"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: in, Name: "tenant"}},
		})
		seen[in] = &figures{t: t, c: c, ns: in, api: api, token: tokenOf(t, c, in, "tenant"), metrics: metrics, image: image, scanner: scanner}
	}
	create(t, c, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: "admin"}})
	create(t, c, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "all"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: shop, Name: "admin"}},
	})
	whole := &figures{t: t, c: c, ns: shop, api: api, token: tokenOf(t, c, shop, "admin"), metrics: metrics, image: image}
	labelled := func(app string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) { pod.Labels = map[string]string{"app": app} }
	}
	runningPod(t, c, shop, "web", image, labelled("web"))
	web := runningPod(t, c, bank, "web", image, labelled("web"))
	scanned := func() *batchv1.Job {
		for _, in := range []string{shop, bank} {
			if job := jobs(t.Context(), c, in)[image]; job != nil {
				return job
			}
		}
		return nil
	}
	g.Eventually(scanned, patience, tick).ShouldNot(gomega.BeNil())
	job := scanned()
	if status := deliver(t, api, image, podOfJob(t, c, job, scanjob.Audience), []byte(smallSBOM)); status != http.StatusNoContent {
		t.Fatalf("the SBOM was answered with %d", status)
	}
	finish(t, c, job, batchv1.JobComplete)
	for _, in := range []string{shop, bank} {
		g.Eventually(func() string { return ready(t.Context(), c, seen[in].scanner) }, patience, tick).Should(gomega.Equal("True/Reconciled"))
	}

	// state is what a reader sees: findings of images, of workloads and of the overview, and those of the metric of the Scanner.
	state := func(f *figures) func() string {
		return func() string {
			var images, workloads struct{ Items []struct{ Counts severities } }
			var overview struct{ Counts severities }
			f.get("/api/v1/images", &images)
			f.get("/api/v1/workloads", &workloads)
			f.get("/api/v1/overview", &overview)
			sum := func(items []struct{ Counts severities }) (all int) {
				for _, item := range items {
					all += item.Counts.sum()
				}
				return all
			}
			said := fmt.Sprint(sum(images.Items), " ", sum(workloads.Items), " ", overview.Counts.sum())
			if f == whole {
				return said
			}
			return fmt.Sprint(said, " ", whole.metric(f.ns))
		}
	}
	all := func() int {
		var images struct{ Items []struct{ Counts severities } }
		whole.get("/api/v1/images", &images)
		return images.Items[0].Counts.sum()
	}()
	if all == 0 {
		t.Fatal("the image has no findings")
	}
	become := func(when string, ofShop, ofBank, ofAll string) {
		t.Helper()
		for _, one := range []struct {
			f    *figures
			want string
		}{{seen[shop], ofShop}, {seen[bank], ofBank}, {whole, ofAll}} {
			g.Eventually(state(one.f), patience, tick).Should(gomega.Equal(one.want), when)
		}
	}
	open, none := fmt.Sprint(all, " ", all, " ", all, " ", all), "0 0 0 0"
	become("without an exception", open, open, fmt.Sprint(all, " ", 2*all, " ", all))

	exceptionIn := func(in string, workloads *metav1.LabelSelector) *scannerv1alpha1.VulnerabilityException {
		return &scannerv1alpha1.VulnerabilityException{
			ObjectMeta: metav1.ObjectMeta{Namespace: in, Name: "internal"},
			Spec: scannerv1alpha1.ExceptionSpec{
				Match:  scannerv1alpha1.ExceptionMatch{Packages: []string{"pkg:golang/*"}, WorkloadSelector: workloads},
				Status: scannerv1alpha1.AcceptedRisk, Comment: "internal",
			},
		}
	}
	create(t, c, exceptionIn(shop, nil))
	become("with one in the first namespace", none, open, fmt.Sprint(all, " ", all, " ", all))
	create(t, c, exceptionIn(bank, &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}))
	become("with one in each namespace", none, none, "0 0 0")
	relabel := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"app":"api"}}}`))
	if err := c.Patch(t.Context(), web, relabel); err != nil {
		t.Fatal(err)
	}
	become("when the workload has other labels", none, open, fmt.Sprint(all, " ", all, " ", all))
	if err := c.Delete(t.Context(), exceptionIn(shop, nil)); err != nil {
		t.Fatal(err)
	}
	become("when the first one is deleted", open, open, fmt.Sprint(all, " ", 2*all, " ", all))
}
