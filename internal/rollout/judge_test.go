package rollout_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr/testr"
	"github.com/google/go-cmp/cmp"
	"github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1alpha1 "github.com/scanner-operator/scanner-operator/api/app/v1alpha1"
	stablev444beta989 "github.com/scanner-operator/scanner-operator/api/stable/v444beta989"
	"github.com/scanner-operator/scanner-operator/internal/controller/controllertest"
	"github.com/scanner-operator/scanner-operator/internal/feed"
	"github.com/scanner-operator/scanner-operator/internal/rollout"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqlstore"
	"github.com/scanner-operator/scanner-operator/internal/store/storetest"
	"github.com/scanner-operator/scanner-operator/internal/vuln"
)

// court is an API server with workloads, and a judge with the rights alone that the package asks for.
type court struct {
	client.Client
	*gomega.WithT
	t         *testing.T
	namespace string
	store     *sqlstore.Store
	// start runs a judge until the function that it returns is called.
	start func() (stop func())
}

func newCourt(t *testing.T) *court {
	t.Helper()
	config, scheme := controllertest.Restricted(t), controllertest.Scheme(t, appv1alpha1.AddToScheme, stablev444beta989.AddToScheme)
	admin, err := client.New(controllertest.Config(t), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	db, err := sqlstore.Open(t.Context(), sqlstore.Config{Type: "sqlite", DSN: filepath.Join(t.TempDir(), "test.db")})
	if err != nil {
		t.Fatal(err)
	}
	c := &court{Client: admin, WithT: gomega.NewWithT(t), t: t, namespace: controllertest.Namespace(t, admin), store: db}
	t.Cleanup(func() { c.Expect(db.Close()).To(gomega.Succeed()) })
	c.start = func() func() {
		return controllertest.Start(t, config, scheme, []string{c.namespace}, func(mgr ctrl.Manager) error {
			hub := feed.New(db, feed.Config{Log: testr.New(t)})
			return errors.Join(mgr.Add(hub), mgr.Add(&rollout.Judge{
				Store: db, Hub: hub, Live: mgr.GetAPIReader(), Client: mgr.GetClient(), Instance: "judge-0", Clock: clock.RealClock{}, Log: testr.New(t),
			}))
		})
	}
	return c
}

func key(name string) vuln.ImageKey {
	return vuln.ImageKey{
		ImageID: "registry.example/" + name + "@sha256:" + strings.Repeat("a", 64), Platform: vuln.Platform{OS: "linux", Architecture: "amd64"},
	}
}

// scan makes an image known, with a package of the same name that has findings.
func (c *court) scan(name string, findings ...vuln.PackageFinding) {
	c.t.Helper()
	ctx := c.t.Context()
	held := vuln.HeldPackage{Package: vuln.Package{Fingerprint: fmt.Sprintf("%064x", name), Name: name, Version: "1", Type: "deb"}}
	_, known, err := c.store.CurrentGeneration(ctx)
	if err == nil && !known {
		_, err = c.store.StartGeneration(ctx, vuln.DatabaseBuild{ID: "xxh64:1", SchemaVersion: "v6.1.0"}, "engine", true)
	}
	c.Expect(err).NotTo(gomega.HaveOccurred())
	_, err = c.store.WantImages(ctx, []vuln.ImageKey{key(name)})
	c.Expect(err).NotTo(gomega.HaveOccurred())
	sbom := store.SBOM{MediaType: "m", SHA256: "1", Content: []byte("x")}
	c.Expect(c.store.SaveSBOM(ctx, key(name), sbom, vuln.Catalog{Packages: []vuln.HeldPackage{held}})).To(gomega.Succeed())
	c.Expect(storetest.Match(ctx, c.store, key(name), "1", map[string][]vuln.PackageFinding{name: findings})).To(gomega.Succeed())
}

func found(id string, severity vuln.Severity) vuln.PackageFinding {
	return vuln.PackageFinding{Vulnerability: vuln.Vulnerability{ID: id, Namespace: "n", Severity: severity}}
}

// run says that all workloads run an image.
func (c *court) run(image string, workloads ...store.Workload) {
	c.t.Helper()
	_, err := c.store.WantImages(c.t.Context(), []vuln.ImageKey{key(image)})
	c.Expect(err).NotTo(gomega.HaveOccurred())
	var uses []store.Use
	for _, workload := range workloads {
		uses = append(uses, store.Use{Image: key(image), Workload: workload, Container: "app"})
	}
	c.Expect(c.store.RecordUses(c.t.Context(), "s", uses)).To(gomega.Succeed())
}

func (c *court) create(obj client.Object) client.Object {
	c.t.Helper()
	c.Expect(c.Create(c.t.Context(), obj)).To(gomega.Succeed())
	return obj
}

// workloads makes one of each kind. The StatefulSet belongs to a shero.
func (c *court) workloads() (all []store.Workload, objects map[string]client.Object) {
	c.t.Helper()
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: c.namespace, Name: name} }
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: selector.MatchLabels}}
	template.Spec.Containers = []corev1.Container{{Name: "app", Image: "x:1"}}
	shero := c.create(&stablev444beta989.BellerophonSimple{
		ObjectMeta: meta("bellerophon"), Spec: stablev444beta989.BellerophonSimpleSpec{Image: "x:1"},
	})
	owned := meta("pegasus")
	owned.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(shero, stablev444beta989.GroupVersion.WithKind("BellerophonSimple"))}
	objects = map[string]client.Object{
		"Deployment":        c.create(&appsv1.Deployment{ObjectMeta: meta("web"), Spec: appsv1.DeploymentSpec{Selector: selector, Template: template}}),
		"StatefulSet":       c.create(&appsv1.StatefulSet{ObjectMeta: owned, Spec: appsv1.StatefulSetSpec{Selector: selector, Template: template}}),
		"DaemonSet":         c.create(&appsv1.DaemonSet{ObjectMeta: meta("agent"), Spec: appsv1.DaemonSetSpec{Selector: selector, Template: template}}),
		"PodSet":            c.create(&appv1alpha1.PodSet{ObjectMeta: meta("set"), Spec: appv1alpha1.PodSetSpec{}}),
		"BellerophonSimple": shero,
	}
	for kind, object := range objects {
		if kind != "BellerophonSimple" {
			all = append(all, store.Workload{Namespace: c.namespace, Kind: kind, Name: object.GetName()})
		}
	}
	return append(all, store.Workload{Namespace: c.namespace, Kind: "Deployment", Name: "gone"}), objects
}

// told lists "type reason note" of the Events that kubectl describe shows of an object.
func (c *court) told(object client.Object) []string {
	var events corev1.EventList
	c.Expect(c.List(c.t.Context(), &events, client.InNamespace(c.namespace), client.MatchingFields{
		"involvedObject.uid": string(object.GetUID()), "involvedObject.name": object.GetName(),
	})).To(gomega.Succeed())
	var told []string
	for i := range events.Items {
		e := &events.Items[i]
		told = append(told, e.Type+" "+e.Reason+" "+e.Message)
	}
	slices.Sort(told)
	return told
}

// events counts the events of a kind in the log.
func (c *court) events(kind store.EventKind) (count int, last store.RolloutJudgedEvent) {
	c.t.Helper()
	events, err := c.store.EventsSince(c.t.Context(), 0, store.MaxKeys)
	c.Expect(err).NotTo(gomega.HaveOccurred())
	for _, event := range events {
		if event.Kind == kind {
			count++
			c.Expect(json.Unmarshal(event.Data, &last)).To(gomega.Succeed())
		}
	}
	return count, last
}

func TestRolloutsAreJudged(t *testing.T) {
	c := newCourt(t)
	workloads, objects := c.workloads()
	stop := c.start()
	c.scan("old", found("CVE-1", vuln.SeverityHigh), found("CVE-2", vuln.SeverityLow))
	c.run("old", workloads...)
	c.run("new", workloads...)
	c.scan("new", found("CVE-3", vuln.SeverityCritical))

	worse := "Warning RolloutJudged rollout closed 2 findings, opened 1 critical: CVE-3 (container app)"
	for kind, object := range objects {
		c.Eventually(func() []string { return c.told(object) }, patience, tick).Should(gomega.Equal([]string{worse}), kind)
	}
	count, last := c.events(store.EventRolloutJudged)
	if count != len(workloads) || last.State != store.RolloutJudged || last.Opened.Critical != 1 || last.Closed.Total() != 2 || last.WorstOpened[0].VulnerabilityID != "CVE-3" {
		t.Errorf("%d events about %d workloads, the last one %+v", count, len(workloads), last)
	}

	// What is judged while nobody looks is told by the next one, and nothing again.
	stop()
	c.run("newest", workloads...)
	c.scan("newest")
	c.start()
	better := "Normal RolloutJudged rollout closed 1 finding (container app)"
	for kind, object := range objects {
		c.Eventually(func() []string { return c.told(object) }, patience, tick).Should(gomega.Equal([]string{better, worse}), kind)
	}
	c.Eventually(func() ([]store.RolloutDetail, error) { return c.store.UntoldRollouts(t.Context(), 0, 1) }, patience, tick).Should(gomega.BeEmpty())
	if count, _ := c.events(store.EventRolloutJudged); count != 2*len(workloads) {
		t.Errorf("%d events about two rollouts of %d workloads", count, len(workloads))
	}
	page, err := c.store.ListRollouts(t.Context(), store.RolloutQuery{})
	c.Expect(err).NotTo(gomega.HaveOccurred())
	states := map[store.RolloutState]int{}
	for i := range page.Rollouts {
		states[page.Rollouts[i].Verdict.State]++
	}
	if diff := cmp.Diff(map[store.RolloutState]int{store.RolloutJudged: 2 * len(workloads)}, states); diff != "" {
		t.Errorf("states (-want +got):\n%s", diff)
	}
}
