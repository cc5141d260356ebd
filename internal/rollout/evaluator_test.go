package rollout_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
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
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/rollout"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqlstore"
	"github.com/scanner-operator/scanner-operator/internal/store/storetest"
)

func TestMain(m *testing.M) { os.Exit(controllertest.Main(m)) }

const (
	patience = controllertest.Patience
	tick     = controllertest.Tick
)

// world is an API server with workloads, and an evaluator with only the rights that the package asks for.
type world struct {
	client.Client
	*gomega.WithT
	t         *testing.T
	namespace string
	store     *sqlstore.Store
	// start runs an evaluator until the function that it returns is called.
	start func() (stop func())
}

func newWorld(t *testing.T) *world {
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
	w := &world{Client: admin, WithT: gomega.NewWithT(t), t: t, namespace: controllertest.Namespace(t, admin), store: db}
	t.Cleanup(func() { w.Expect(db.Close()).To(gomega.Succeed()) })
	w.start = func() func() {
		return controllertest.Start(t, config, scheme, []string{w.namespace}, func(mgr ctrl.Manager) error {
			hub := feed.New(db, feed.Config{Log: testr.New(t)})
			return errors.Join(mgr.Add(hub), mgr.Add(&rollout.Evaluator{
				Store: db, Hub: hub, Live: mgr.GetAPIReader(), Client: mgr.GetClient(), Instance: "evaluator-0", Clock: clock.RealClock{}, Log: testr.New(t),
			}))
		})
	}
	return w
}

func key(name string) model.ImageKey {
	return model.ImageKey{
		ImageID: "registry.example/" + name + "@sha256:" + strings.Repeat("a", 64), Platform: model.Platform{OS: "linux", Architecture: "amd64"},
	}
}

// scan makes an image known, with a package of the same name that has findings.
func (w *world) scan(name string, findings ...model.PackageFinding) {
	w.t.Helper()
	ctx := w.t.Context()
	held := model.HeldPackage{Package: model.Package{Fingerprint: fmt.Sprintf("%064x", name), Name: name, Version: "1", Type: "deb"}}
	_, known, err := w.store.CurrentResultSet(ctx)
	if err == nil && !known {
		_, err = w.store.StartResultSet(ctx, model.DatabaseBuild{ID: "xxh64:1", SchemaVersion: "v6.1.0"}, "engine", true)
	}
	w.Expect(err).NotTo(gomega.HaveOccurred())
	_, err = w.store.WantImages(ctx, []model.ImageKey{key(name)})
	w.Expect(err).NotTo(gomega.HaveOccurred())
	sbom := store.SBOM{MediaType: "m", SHA256: "1", Content: []byte("x")}
	w.Expect(w.store.SaveSBOM(ctx, key(name), sbom, model.Catalog{Packages: []model.HeldPackage{held}})).To(gomega.Succeed())
	w.Expect(storetest.Match(ctx, w.store, key(name), "1", map[string][]model.PackageFinding{name: findings})).To(gomega.Succeed())
}

func found(id string, severity model.Severity) model.PackageFinding {
	return model.PackageFinding{Vulnerability: model.Vulnerability{ID: id, Namespace: "n", Severity: severity}}
}

// run says that all workloads run an image.
func (w *world) run(image string, workloads ...store.Workload) {
	w.t.Helper()
	_, err := w.store.WantImages(w.t.Context(), []model.ImageKey{key(image)})
	w.Expect(err).NotTo(gomega.HaveOccurred())
	var uses []store.Use
	for _, workload := range workloads {
		uses = append(uses, store.Use{Image: key(image), Workload: workload, Container: "app"})
	}
	w.Expect(w.store.RecordUses(w.t.Context(), "s", uses)).To(gomega.Succeed())
}

func (w *world) create(obj client.Object) client.Object {
	w.t.Helper()
	w.Expect(w.Create(w.t.Context(), obj)).To(gomega.Succeed())
	return obj
}

// workloads makes one of each kind. The StatefulSet belongs to a shero.
func (w *world) workloads() (all []store.Workload, objects map[string]client.Object) {
	w.t.Helper()
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: w.namespace, Name: name} }
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: selector.MatchLabels}}
	template.Spec.Containers = []corev1.Container{{Name: "app", Image: "x:1"}}
	shero := w.create(&stablev444beta989.BellerophonSimple{
		ObjectMeta: meta("bellerophon"), Spec: stablev444beta989.BellerophonSimpleSpec{Image: "x:1"},
	})
	owned := meta("pegasus")
	owned.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(shero, stablev444beta989.GroupVersion.WithKind("BellerophonSimple"))}
	objects = map[string]client.Object{
		"Deployment":        w.create(&appsv1.Deployment{ObjectMeta: meta("web"), Spec: appsv1.DeploymentSpec{Selector: selector, Template: template}}),
		"StatefulSet":       w.create(&appsv1.StatefulSet{ObjectMeta: owned, Spec: appsv1.StatefulSetSpec{Selector: selector, Template: template}}),
		"DaemonSet":         w.create(&appsv1.DaemonSet{ObjectMeta: meta("agent"), Spec: appsv1.DaemonSetSpec{Selector: selector, Template: template}}),
		"PodSet":            w.create(&appv1alpha1.PodSet{ObjectMeta: meta("set"), Spec: appv1alpha1.PodSetSpec{}}),
		"BellerophonSimple": shero,
	}
	for kind, object := range objects {
		if kind != "BellerophonSimple" {
			all = append(all, store.Workload{Namespace: w.namespace, Kind: kind, Name: object.GetName()})
		}
	}
	return append(all, store.Workload{Namespace: w.namespace, Kind: "Deployment", Name: "gone"}), objects
}

// reported lists "type reason note" of the Events that kubectl describe shows of an object.
func (w *world) reported(object client.Object) []string {
	var events corev1.EventList
	w.Expect(w.List(w.t.Context(), &events, client.InNamespace(w.namespace), client.MatchingFields{
		"involvedObject.uid": string(object.GetUID()), "involvedObject.name": object.GetName(),
	})).To(gomega.Succeed())
	var reported []string
	for i := range events.Items {
		e := &events.Items[i]
		reported = append(reported, e.Type+" "+e.Reason+" "+e.Message)
	}
	slices.Sort(reported)
	return reported
}

// events counts the events of a kind in the log.
func (w *world) events(kind store.EventKind) (count int, last store.RolloutEvaluatedEvent) {
	w.t.Helper()
	events, err := w.store.EventsSince(w.t.Context(), store.AllNamespaces(), 0, store.MaxKeys)
	w.Expect(err).NotTo(gomega.HaveOccurred())
	for _, event := range events {
		if event.Kind == kind {
			count++
			w.Expect(json.Unmarshal(event.Data, &last)).To(gomega.Succeed())
		}
	}
	return count, last
}

func TestRolloutsAreEvaluated(t *testing.T) {
	w := newWorld(t)
	workloads, objects := w.workloads()
	stop := w.start()
	w.scan("old", found("CVE-1", model.SeverityHigh), found("CVE-2", model.SeverityLow))
	w.run("old", workloads...)
	w.run("new", workloads...)
	w.scan("new", found("CVE-3", model.SeverityCritical))

	worse := "Warning RolloutEvaluated rollout closed 2 findings, opened 1 critical: CVE-3 (container app)"
	for kind, object := range objects {
		w.Eventually(func() []string { return w.reported(object) }, patience, tick).Should(gomega.Equal([]string{worse}), kind)
	}
	count, last := w.events(store.EventRolloutEvaluated)
	if count != len(workloads) || last.State != store.RolloutEvaluated || last.Opened.Critical != 1 || last.Closed.Total() != 2 || last.WorstOpened[0].VulnerabilityID != "CVE-3" {
		t.Errorf("%d events about %d workloads, the last one %+v", count, len(workloads), last)
	}

	// What is evaluated while no evaluator runs is reported by the next one, once.
	stop()
	w.run("newest", workloads...)
	w.scan("newest")
	w.start()
	better := "Normal RolloutEvaluated rollout closed 1 finding (container app)"
	for kind, object := range objects {
		w.Eventually(func() []string { return w.reported(object) }, patience, tick).Should(gomega.Equal([]string{better, worse}), kind)
	}
	w.Eventually(func() ([]store.RolloutDetail, error) { return w.store.UnreportedRollouts(t.Context(), 0, 1) }, patience, tick).Should(gomega.BeEmpty())
	if count, _ := w.events(store.EventRolloutEvaluated); count != 2*len(workloads) {
		t.Errorf("%d events about two rollouts of %d workloads", count, len(workloads))
	}
	page, err := w.store.ListRollouts(t.Context(), store.AllNamespaces(), store.RolloutQuery{})
	w.Expect(err).NotTo(gomega.HaveOccurred())
	states := map[store.RolloutState]int{}
	for i := range page.Rollouts {
		states[page.Rollouts[i].Evaluation.State]++
	}
	if diff := cmp.Diff(map[store.RolloutState]int{store.RolloutEvaluated: 2 * len(workloads)}, states); diff != "" {
		t.Errorf("states (-want +got):\n%s", diff)
	}
}
