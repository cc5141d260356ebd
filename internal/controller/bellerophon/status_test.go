package bellerophon

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	stablev444beta989 "github.com/scanner-operator/scanner-operator/api/stable/v444beta989"
)

func TestStatus(t *testing.T) {
	status := func(replicas, ready, updated int32, current, update string) appsv1.StatefulSetStatus {
		return appsv1.StatefulSetStatus{
			ObservedGeneration: 4, Replicas: replicas, ReadyReplicas: ready, UpdatedReplicas: updated, CurrentRevision: current, UpdateRevision: update,
		}
	}
	unseen := status(3, 3, 3, "r1", "r1")
	unseen.ObservedGeneration = 3
	blocked := &blockedError{"NameTaken", "Service x exists."}
	tests := map[string]struct {
		want   int32
		status appsv1.StatefulSetStatus
		err    error
		// ready and image are the condition and the current image afterwards; it was "old" before.
		ready, image string
	}{
		"nothing is there yet":      {3, status(0, 0, 0, "r1", "r1"), nil, "False/Progressing: 0 of 3 replicas are ready.", "old"},
		"not seen by the cluster":   {3, unseen, nil, "False/Progressing: The StatefulSet controller has not observed the last change yet.", "old"},
		"some are ready":            {3, status(3, 1, 3, "r1", "r1"), nil, "False/Progressing: 1 of 3 replicas are ready.", "new"},
		"all are ready":             {3, status(3, 3, 3, "r1", "r1"), nil, "True/AllReady: All replicas run new and are ready.", "new"},
		"an update has begun":       {3, status(3, 3, 0, "r1", "r2"), nil, "False/Updating: 0 of 3 replicas use the current pod template, 3 are ready.", "old"},
		"an update is stuck":        {3, status(3, 2, 1, "r1", "r2"), nil, "False/Updating: 1 of 3 replicas use the current pod template, 2 are ready.", "old"},
		"an update was taken back":  {3, status(3, 3, 2, "r1", "r1"), nil, "False/Updating: 2 of 3 replicas use the current pod template, 3 are ready.", "old"},
		"too many are there":        {1, status(3, 3, 3, "r1", "r1"), nil, "False/Progressing: 3 replicas exist, 1 are desired.", "old"},
		"none is wanted, some left": {0, status(1, 1, 1, "r1", "r1"), nil, "False/Progressing: 1 replicas exist, 0 are desired.", "old"},
		"none is wanted":            {0, status(0, 0, 0, "r1", "r1"), nil, "True/AtRest: The desired number of replicas is 0.", "new"},
		"something is in the way":   {3, status(3, 3, 3, "r1", "r1"), blocked, "False/NameTaken: Service x exists.", "new"},
		"something went wrong":      {3, status(3, 3, 3, "r1", "r1"), errors.New("no route to host"), "False/Failed: Failed to reconcile the BellerophonSimple; the log of the operator has the error. The operator retries.", "new"},
	}
	for label, test := range tests {
		t.Run(label, func(t *testing.T) {
			shero := sample(t)
			shero.Generation, shero.Spec.Replicas, shero.Spec.Image, shero.Status.CurrentImage = 9, &test.want, "new", "old"
			set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Generation: 4}, Status: test.status}
			set.Spec.Replicas = &test.want
			set.Spec.Template.Spec.Containers = []corev1.Container{{Name: "sidecar", Image: "x"}, {Name: "app", Image: "new"}}
			setStatus(shero, set, nil, test.err)
			if got := shown(shero); got != test.ready {
				t.Errorf("ready:\n%s, want\n%s", got, test.ready)
			}
			got := shero.Status
			if got.CurrentImage != test.image || got.Replicas != test.status.Replicas || got.ReadyReplicas != test.status.ReadyReplicas || got.ObservedGeneration != 9 {
				t.Errorf("status %+v, want the image %s", got, test.image)
			}
		})
	}
}

// A StatefulSet that is gone or goes has no instances to speak of; of one that could not be asked for, the last numbers stay.
func TestStatusWithoutAStatefulSet(t *testing.T) {
	shero := sample(t)
	shero.Status.Replicas, shero.Status.ReadyReplicas = 3, 3
	setStatus(shero, nil, nil, errors.New("no route to host"))
	if got := shown(shero); !strings.HasPrefix(got, "False/Failed") || shero.Status.Replicas != 3 || shero.Status.ReadyReplicas != 3 {
		t.Errorf("%s, %+v", got, shero.Status)
	}
	setStatus(shero, nil, nil, &blockedError{"Refused", "StatefulSet x is refused."})
	if got := shown(shero); got != "False/Refused: StatefulSet x is refused." || shero.Status.Replicas != 0 || shero.Status.ReadyReplicas != 0 {
		t.Errorf("%s, %+v", got, shero.Status)
	}
	setStatus(shero, &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{Time: time.Unix(1, 0)}}}, nil, nil)
	if got := shown(shero); got != "False/Progressing: The StatefulSet is being deleted; it is created again after that." {
		t.Error(got)
	}
}

func shown(shero *stablev444beta989.BellerophonSimple) string {
	c := shero.Status.Conditions[0]
	return fmt.Sprintf("%s/%s: %s", c.Status, c.Reason, c.Message)
}
