//go:build faults

package faults

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1alpha1 "github.com/scanner-operator/scanner-operator/api/app/v1alpha1"
	pocv1 "github.com/scanner-operator/scanner-operator/api/poc/v1"
	scannerv1 "github.com/scanner-operator/scanner-operator/api/scanner/v1"
	stablev444beta989 "github.com/scanner-operator/scanner-operator/api/stable/v444beta989"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/vulndb"
	"github.com/scanner-operator/scanner-operator/internal/vulndb/dbtest"
)

// scenario is something that happens to a settled operator.
type scenario struct {
	name string
	// args are flags of the operator.
	args []string
	// replicas is the number of operators, 1 for 0. They must not share an SQLite file, so each has its own.
	replicas int
	// scans says that the API shows images, rollouts that there are Events about rollouts.
	scans, rollouts bool
	// database is the kind of SQL database, "" for SQLite. With one, faults happen in its transactions instead of at requests.
	database string
	// mayExit says that the operator may end by itself, as it does when it has lost its Lease.
	mayExit bool
	// requestsOnly says that faults happen at requests and watch events only, cluster that objects of the whole cluster belong to it: it has a
	// control plane of its own.
	requestsOnly, cluster bool
	// installs says that the operator installs the sample database, which otherwise is there.
	installs bool
	// patience is how much longer than recovery the operator may take, by its documentation.
	patience time.Duration
	// fails says of images how their scans fail.
	fails map[string]model.Outcome
	// build is the vulnerability database that prepare has made, which is called once.
	build   vulndb.Installed
	prepare func(*testing.T, *scenario)
	// arrange brings about what the scenario begins with, act lets it happen, and settled says when an undisturbed run has ended.
	arrange, act func(*testing.T, *world)
	settled      condition
}

// program is the operator that is tested in a scenario.
func (s *scenario) program() string {
	if s.database != "" {
		return forTransactions
	}
	return forRequests
}

// The images that run.
const (
	firstImage  = "r.example/first:1"
	secondImage = "r.example/second:1"
)

func only(controllers string) []string { return []string{"--controllers=" + controllers} }

var scenarios = []scenario{
	{
		// The leader is killed at its requests; a PodSet needs no SQL database that the operators share.
		name: "failover", args: append(only("podset"), "--leader-elect"), replicas: 2, mayExit: true,
		arrange: newPodSet(2),
		act:     func(t *testing.T, w *world) { w.patch(t, &appv1alpha1.PodSet{}, "podset", `{"spec":{"replicas":4}}`) },
		settled: all(is("PodSet", "podset", "True/AllReady"), pods(4)),
	},
	{
		name: "new-image", args: only("scanner"), scans: true,
		arrange: newScanner,
		act:     func(t *testing.T, w *world) { w.create(t, podOf("first", firstImage)) },
		settled: all(is("Scanner", "scanner", "True/Reconciled"), counted(1)),
	},
	{
		name: "failing-image", args: only("scanner"), scans: true,
		fails: map[string]model.Outcome{imageID(firstImage): {
			Reason: model.ReasonRegistryRateLimited, Message: "too many requests", RetryAfter: time.Hour,
		}},
		arrange: newScanner,
		act:     func(t *testing.T, w *world) { w.create(t, podOf("first", firstImage)) },
		settled: is("Scanner", "scanner", "False/Failed"),
	},
	{
		name: "scanner-spec", args: only("scanner"), scans: true,
		arrange: func(t *testing.T, w *world) {
			w.create(t, podOf("ignored", secondImage, "ignore"))
			scanned(t, w)
		},
		act: func(t *testing.T, w *world) {
			w.patch(t, &scannerv1.Scanner{}, "scanner", `{"spec":{"ignoreLabel":"other"}}`)
		},
		settled: all(is("Scanner", "scanner", "True/Reconciled"), counted(2)),
	},
	{
		name: "database-update", args: only("scanner"), scans: true,
		prepare: func(t *testing.T, s *scenario) {
			s.build = dbtest.Mutate(t, dbtest.Sample(t), 1, dbtest.Fraction(1)...)
		},
		arrange: scanned,
		act:     importBuild,
		settled: all(is("Scanner", "scanner", "True/Reconciled"), usesBuild),
	},
	{
		name: "rollout", args: only("scanner,rollout"), scans: true, rollouts: true,
		arrange: func(t *testing.T, w *world) {
			w.create(t, deployment(firstImage))
			newScanner(t, w)
			w.settle(t, all(is("Scanner", "scanner", "True/Reconciled"), counted(1)))
		},
		act: func(t *testing.T, w *world) {
			w.patch(t, &appsv1.Deployment{}, "app", `{"spec":{"template":{"spec":{"containers":[{"name":"app","image":"`+secondImage+`"}]}}}}`)
		},
		settled: all(is("Scanner", "scanner", "True/Reconciled"), counted(1), rolloutReported),
	},
	{
		name: "podset-scaled-up", args: only("podset"),
		arrange: newPodSet(2),
		act:     func(t *testing.T, w *world) { w.patch(t, &appv1alpha1.PodSet{}, "podset", `{"spec":{"replicas":4}}`) },
		settled: all(is("PodSet", "podset", "True/AllReady"), pods(4)),
	},
	{
		name: "podset-scaled-down", args: only("podset"),
		arrange: newPodSet(4),
		act:     func(t *testing.T, w *world) { w.patch(t, &appv1alpha1.PodSet{}, "podset", `{"spec":{"replicas":1}}`) },
		settled: all(is("PodSet", "podset", "True/AllReady"), pods(1)),
	},
	{
		name: "podset-template", args: only("podset"),
		arrange: newPodSet(3),
		act: func(t *testing.T, w *world) {
			w.patch(t, &appv1alpha1.PodSet{}, "podset", `{"spec":{"template":{"spec":{"containers":[{"name":"app","image":"`+secondImage+`"}]}}}}`)
		},
		settled: all(is("PodSet", "podset", "True/AllReady"), pods(3)),
	},
	{
		name: "podset-pod-deleted", args: only("podset"),
		arrange: newPodSet(2),
		act: func(t *testing.T, w *world) {
			first := client.MatchingLabels{appsv1.PodIndexLabel: "0"}
			if err := w.c.DeleteAllOf(t.Context(), &corev1.Pod{}, client.InNamespace(w.namespace), first); err != nil {
				t.Fatal(err)
			}
		},
		settled: all(is("PodSet", "podset", "True/AllReady"), pods(2)),
	},
	{
		name: "shero-created", args: only("bellerophonsimple"),
		arrange: func(*testing.T, *world) {},
		act:     func(t *testing.T, w *world) { w.create(t, shero()) },
		settled: is("BellerophonSimple", "shero", "True/AllReady"),
	},
	{
		name: "shero-image", args: only("bellerophonsimple"),
		arrange: func(t *testing.T, w *world) {
			w.create(t, shero())
			w.settle(t, is("BellerophonSimple", "shero", "True/AllReady"))
		},
		act: func(t *testing.T, w *world) {
			w.patch(t, &stablev444beta989.BellerophonSimple{}, "shero", `{"spec":{"image":"`+secondImage+`"}}`)
		},
		settled: is("BellerophonSimple", "shero", "True/AllReady"),
	},
	{
		name: "friend-found", args: only("mycustomresource"),
		arrange: func(t *testing.T, w *world) {
			w.create(t, &pocv1.MyCustomResource{ObjectMeta: metav1.ObjectMeta{Name: "custom"}, Spec: pocv1.MyCustomResourceSpec{Name: "friend"}})
			w.settle(t, is("MyCustomResource", "custom", "False/FriendNotFound"))
		},
		act:     func(t *testing.T, w *world) { w.create(t, podOf("friend", firstImage)) },
		settled: is("MyCustomResource", "custom", "True/FriendFound"),
	},
	{
		name: "scanner-deleted", args: only("scanner"), scans: true,
		arrange: scanned,
		act:     func(t *testing.T, w *world) { w.remove(t, &scannerv1.Scanner{}, "scanner") },
		settled: none("Scanner", "Job"),
	},
}

// newScanner makes a Scanner and waits until it has seen that there is nothing to do, and the sample database is installed.
func newScanner(t *testing.T, w *world) {
	t.Helper()
	w.create(t, &scannerv1.Scanner{ObjectMeta: metav1.ObjectMeta{Name: "scanner"}, Spec: scannerv1.ScannerSpec{IgnoreLabel: "ignore"}})
	w.settle(t, all(is("Scanner", "scanner", "True/Reconciled"), databaseReady))
}

// databaseReady is the condition that the Scanner has a vulnerability database.
func databaseReady(_ context.Context, _ *world, s snapshot) error {
	for _, object := range s.of("Scanner") {
		return playAs(object, func(scanner *scannerv1.Scanner) error {
			if !meta.IsStatusConditionTrue(scanner.Status.Conditions, scannerv1.ConditionDatabaseReady) {
				return errors.New("the Scanner has no vulnerability database")
			}
			return nil
		})
	}
	return errors.New("there is no Scanner")
}

// scanned makes a Scanner and an image, and waits for the result.
func scanned(t *testing.T, w *world) {
	t.Helper()
	w.create(t, podOf("first", firstImage))
	w.create(t, &scannerv1.Scanner{ObjectMeta: metav1.ObjectMeta{Name: "scanner"}, Spec: scannerv1.ScannerSpec{IgnoreLabel: "ignore"}})
	w.settle(t, all(is("Scanner", "scanner", "True/Reconciled"), counted(1)))
}

// podOf returns a pod that runs an image. The labels are "true".
func podOf(name, image string, labels ...string) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: image}}},
	}
	for _, label := range labels {
		pod.Labels[label] = "true"
	}
	return pod
}

// newPodSet returns a function that makes a PodSet and waits until its pods are ready.
func newPodSet(replicas int32) func(*testing.T, *world) {
	return func(t *testing.T, w *world) {
		t.Helper()
		w.create(t, &appv1alpha1.PodSet{ObjectMeta: metav1.ObjectMeta{Name: "podset"}, Spec: appv1alpha1.PodSetSpec{Replicas: replicas}})
		w.settle(t, is("PodSet", "podset", "True/AllReady"))
	}
}

func shero() *stablev444beta989.BellerophonSimple {
	return &stablev444beta989.BellerophonSimple{
		ObjectMeta: metav1.ObjectMeta{Name: "shero"}, Spec: stablev444beta989.BellerophonSimpleSpec{Image: firstImage, Replicas: new(int32(2))},
	}
}

func deployment(image string) *appsv1.Deployment {
	labels := map[string]string{"app": "app"}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "app"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: podOf("", image).Spec},
		},
	}
}

// importBuild imports the vulnerability database of the scenario, as a user does.
func importBuild(t *testing.T, w *world) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), w.scenario.program(), "db", "import", w.scenario.build.Dir, "--data-dir="+w.managers[0].dir)
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("import a vulnerability database: %v: %s", err, output)
	}
}

// usesBuild is the condition that the status of the Scanner is about the imported vulnerability database.
func usesBuild(_ context.Context, w *world, s snapshot) error {
	for _, object := range s.of("Scanner") {
		if build, _, _ := unstructured.NestedString(object.Object, "status", "databaseBuild"); build != w.scenario.build.Build.ID {
			return fmt.Errorf("the Scanner uses database build %s", build)
		}
	}
	return nil
}

// rolloutReported is the condition that there is an Event about the rollout.
func rolloutReported(ctx context.Context, w *world, s snapshot) error {
	lines, err := w.state(ctx, s)
	if err == nil && !slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, "Event ") }) {
		err = errors.New("there is no Event about the rollout")
	}
	return err
}

// counted is the condition that the Scanner counts so many scanned containers, and has findings.
func counted(containers int32) condition {
	return func(_ context.Context, _ *world, s snapshot) error {
		for _, object := range s.of("Scanner") {
			return playAs(object, func(scanner *scannerv1.Scanner) error {
				status := &scanner.Status
				if status.Containers == nil || status.Containers.Scanned != containers || status.Findings == nil {
					return fmt.Errorf("the Scanner counts %+v with %+v", status.Containers, status.Findings)
				}
				return nil
			})
		}
		return errors.New("there is no Scanner")
	}
}

// pods is the condition that there are so many pods.
func pods(n int) condition {
	return func(_ context.Context, _ *world, s snapshot) error {
		got := 0
		for _, pod := range s.of("Pod") {
			if pod.GetDeletionTimestamp().IsZero() {
				got++
			}
		}
		if got != n {
			return fmt.Errorf("there are %d pods, want %d", got, n)
		}
		return nil
	}
}

// none is the condition that there are no objects of some kinds.
func none(kinds ...string) condition {
	return func(_ context.Context, _ *world, s snapshot) error {
		for _, kind := range kinds {
			if n := len(s.of(kind)); n > 0 {
				return fmt.Errorf("there are %d objects of kind %s", n, kind)
			}
		}
		return nil
	}
}
