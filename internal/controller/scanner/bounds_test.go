package scanner

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scannerv1 "github.com/scanner-operator/scanner-operator/api/scanner/v1"
	"github.com/scanner-operator/scanner-operator/internal/inventory"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// rowCounts is a Store that counts the rows of the last coverage.
type rowCounts struct {
	memory
	rows map[string]int
}

func (c *rowCounts) RecordCoverage(_ context.Context, _ string, containers []store.ContainerCoverage) error {
	clear(c.rows)
	for i := range containers {
		c.rows[containers[i].Workload.Namespace]++
	}
	return nil
}

// row is a row of a namespace, of an image that runs or not.
type row struct {
	namespace string
	runs      bool
	at        int
}

func TestBounded(t *testing.T) {
	rowsOf := func(namespace string, count, running int) []row {
		rows := make([]row, count)
		for i := range rows {
			rows[i] = row{namespace, i >= count-running, i}
		}
		return rows
	}
	for name, tt := range map[string]struct {
		maximum int
		rows    [][]row
		want    map[string]int
	}{
		"few":                    {100, [][]row{rowsOf("a", 30, 0), rowsOf("b", 70, 0)}, map[string]int{"a": 30, "b": 70}},
		"one has too many":       {100, [][]row{rowsOf("a", 30, 0), rowsOf("b", 71, 0)}, map[string]int{"a": 30, "b": 70}},
		"two have too many":      {100, [][]row{rowsOf("a", 30, 0), rowsOf("b", 71, 0), rowsOf("c", 1000, 0)}, map[string]int{"a": 30, "b": 35, "c": 35}},
		"all have too many":      {100, [][]row{rowsOf("a", 60, 0), rowsOf("b", 60, 0)}, map[string]int{"a": 50, "b": 50}},
		"the maximum of one":     {1_000_000, [][]row{rowsOf("a", 30, 0), rowsOf("b", maxRows+1, 0)}, map[string]int{"a": 30, "b": maxRows}},
		"what runs is first":     {40, [][]row{rowsOf("a", 100, 30)}, map[string]int{"a": 40}},
		"what runs is too much":  {40, [][]row{rowsOf("a", 100, 60)}, map[string]int{"a": 40}},
		"nothing":                {40, nil, map[string]int{}},
		"more namespaces than 1": {3, [][]row{rowsOf("a", 2, 0), rowsOf("b", 2, 0), rowsOf("c", 2, 0)}, map[string]int{"a": 1, "b": 1, "c": 1}},
	} {
		t.Run(name, func(t *testing.T) {
			var rows []row
			running := 0
			for _, more := range tt.rows {
				rows = append(rows, more...)
			}
			kept, left := bounded(rows, tt.maximum, func(r *row) string { return r.namespace }, func(r *row) bool { return r.runs })
			counts, waitingLast := map[string]int{}, -1
			for _, r := range kept {
				counts[r.namespace]++
				if r.runs {
					running++
				} else if r.namespace == "a" {
					waitingLast = r.at
				}
			}
			if fmt.Sprint(counts) != fmt.Sprint(tt.want) || len(kept)+len(left) != len(rows) {
				t.Errorf("kept %v and left %d of %d, want %v", counts, len(left), len(rows), tt.want)
			}
			if name == "what runs is first" && (running != 30 || waitingLast != 9) {
				t.Errorf("%d rows that run, the last that does not at %d; want all 30, and the first 10 of the others", running, waitingLast)
			}
			if name == "what runs is too much" && running != 40 {
				t.Errorf("%d rows that run, want only such", running)
			}
		})
	}
}

// TestPodsThatDoNotRunFailNoScanner: a tenant creates many pods with many containers each, for which no node has room.
func TestPodsThatDoNotRunFailNoScanner(t *testing.T) {
	const pods, containers = 601, inventory.MaxWaiting
	w := newWorld()
	w.images = map[model.ImageKey]store.Image{imageKey("a"): {}}
	for pod := range pods {
		for i := range containers {
			w.containers = append(w.containers, inventory.Container{Namespace: "tenant", Pod: fmt.Sprint("p", pod), Name: fmt.Sprint("c", i), Image: "x"})
		}
	}
	w.containers = append(w.containers, inventory.Container{Namespace: "other", Pod: "app", Name: "c", Image: "a:1", Key: imageKey("a")})
	known := &rowCounts{memory{}, map[string]int{}}
	r := &Reconciler{Store: known}
	if err := r.recordCoverage(t.Context(), scannerName, w.observed, plan{}); err != nil || known.rows["tenant"] != maxRows || known.rows["other"] != 1 {
		t.Errorf("%v, rows %v; want %d, and that of the other namespace", err, known.rows, maxRows)
	}
	if w.omitted["tenant"] != pods*containers-maxRows || len(w.omitted) != 1 {
		t.Errorf("omitted %v", w.omitted)
	}
	uses := make([]store.Use, 0, maxRows+1)
	for i := range maxRows + 1 {
		uses = append(uses, store.Use{Image: imageKey("a"), Workload: store.Workload{Namespace: "tenant", Name: fmt.Sprint(i)}})
	}
	if got := len(boundedUses(uses)); got != maxRows {
		t.Errorf("%d uses, want %d", got, maxRows)
	}
}

// TestOmittedContainersAreCounted in the condition of the Scanner.
func TestOmittedContainersAreCounted(t *testing.T) {
	hostile := podOf("hostile", "", time.Hour)
	hostile.Spec.NodeName, hostile.Spec.Containers, hostile.Status = "", nil, corev1.PodStatus{Phase: corev1.PodPending}
	for i := range 2500 {
		hostile.Spec.Containers = append(hostile.Spec.Containers, corev1.Container{Name: fmt.Sprint("c", i)})
	}
	known := &rowCounts{memory{}, map[string]int{}}
	r, _ := newReconciler(t, known, &starter{attempts: map[string]Attempt{}}, scannerWith(nil), hostile, podOf("fine", imageKey("a").ImageID, time.Minute))
	_, shown := reconcileOnce(t, r)
	if known.rows["ns"] != inventory.MaxWaiting+1 {
		t.Errorf("%d rows, want %d of the pod and the other one", known.rows["ns"], inventory.MaxWaiting)
	}
	condition := meta.FindStatusCondition(shown.Status.Conditions, scannerv1.ConditionCoverageComplete)
	if condition == nil || condition.Status != metav1.ConditionFalse || !strings.Contains(condition.Message, "2400 containers are left out, in ns: ") {
		t.Errorf("CoverageComplete is %+v, want the containers that are left out", condition)
	}
}
