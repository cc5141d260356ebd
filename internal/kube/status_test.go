package kube

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// namingClient notes the names of the objects whose status it writes, and fails for some of them.
type namingClient struct {
	client.SubResourceWriter
	names []string
	fails map[string]error
}

func (c *namingClient) Status() client.SubResourceWriter { return c }

func (c *namingClient) Patch(_ context.Context, obj client.Object, _ client.Patch, _ ...client.SubResourcePatchOption) error {
	c.names = append(c.names, obj.GetName())
	if err := c.fails[obj.GetName()]; err != nil {
		return err
	}
	obj.SetResourceVersion("8")
	return nil
}

// lines is what is logged at level info.
type lines struct{ all []string }

func (l *lines) context(ctx context.Context) context.Context {
	return logr.NewContext(ctx, funcr.New(func(_, args string) { l.all = append(l.all, args) }, funcr.Options{}))
}

// changesOf returns changes of objects with these names. Those whose name begins with = keep their status.
func changesOf(t *testing.T, names ...string) []StatusChange {
	t.Helper()
	var changes []StatusChange
	for _, name := range names {
		before := &corev1.Pod{}
		before.Name, before.UID, before.ResourceVersion = name, types.UID(t.Name()+name), "7"
		after := before.DeepCopy()
		if name[0] != '=' {
			after.Status.Phase = corev1.PodFailed
		}
		changes = append(changes, StatusChange{Before: before, After: after, From: nil, To: []metav1.Condition{{Type: "Valid", Status: "True", Reason: "Good"}}})
	}
	return changes
}

func TestStatusWriter(t *testing.T) {
	failure := errors.New("failure")
	pods := schema.GroupResource{Resource: "pods"}
	for name, test := range map[string]struct {
		fails        map[string]error
		permitted    int
		names        []string
		wantDone     int
		wantComplete bool
		wantErr      error
		want         []string
	}{
		"nothing":                    {wantComplete: true},
		"in order":                   {permitted: 2, names: []string{"b", "a"}, wantDone: 2, wantComplete: true, want: []string{"b", "a"}},
		"equal ones take no permits": {permitted: 1, names: []string{"=x", "a", "=y"}, wantDone: 3, wantComplete: true, want: []string{"a"}},
		"the bound":                  {permitted: 1, names: []string{"a", "=x", "b", "c"}, wantDone: 2, want: []string{"a"}},
		"a conflict": {
			permitted: 3, names: []string{"a", "b"}, fails: map[string]error{"a": apierrors.NewConflict(pods, "a", failure)},
			wantDone: 2, want: []string{"a", "b"},
		},
		"deleted in the meantime": {
			permitted: 3, names: []string{"a", "b"}, fails: map[string]error{"a": apierrors.NewNotFound(pods, "a")},
			wantDone: 2, wantComplete: true, want: []string{"a", "b"},
		},
		"an error": {permitted: 3, names: []string{"a", "b", "c"}, fails: map[string]error{"b": failure}, wantDone: 1, wantErr: failure, want: []string{"a", "b"}},
	} {
		t.Run(name, func(t *testing.T) {
			c, now := &namingClient{fails: test.fails}, clocktesting.NewFakePassiveClock(time.Unix(1e9, 0))
			w, logs := NewStatusWriter(c, test.permitted, now), &lines{}
			done, complete, err := w.Write(logs.context(t.Context()), changesOf(t, test.names...))
			if done != test.wantDone || complete != test.wantComplete || !errors.Is(err, test.wantErr) {
				t.Errorf("%d done, complete %t, %v; want %d, %t, %v", done, complete, err, test.wantDone, test.wantComplete, test.wantErr)
			}
			if diff := cmp.Diff(test.want, c.names); diff != "" {
				t.Errorf("written (-want +got):\n%s", diff)
			}
			var logged []string
			for _, name := range test.want {
				if test.fails[name] == nil {
					logged = append(logged, `"level"=0 "msg"="Condition changed" "object"="`+name+`" "condition"="Valid" "from"="" "to"="True/Good"`)
				}
			}
			if diff := cmp.Diff(logged, logs.all); diff != "" {
				t.Errorf("logged (-want +got):\n%s", diff)
			}
		})
	}
}

// TestStatusWriterKnowsThatTheCacheIsBehind writes a status, and then finds that the one before is right while the cache still has that one.
func TestStatusWriterKnowsThatTheCacheIsBehind(t *testing.T) {
	c, now := &namingClient{}, clocktesting.NewFakePassiveClock(time.Unix(1e9, 0))
	w := NewStatusWriter(c, 1, now)
	write := func(change StatusChange) string {
		t.Helper()
		done, complete, err := w.Write(t.Context(), []StatusChange{change})
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(done, complete, len(c.names))
	}
	change := changesOf(t, "a")[0]
	if IsBehind(change.Before) {
		t.Error("the cache is behind before anything is written")
	}
	if got := write(change); got != "1 true 1" {
		t.Errorf("a change: %s", got)
	}
	if !IsBehind(change.Before) || IsBehind(change.After) {
		t.Error("the cache that has the object as it was before is behind, and the one that has it as it was written is not")
	}
	if got := write(StatusChange{Before: change.Before, After: change.Before.DeepCopyObject().(client.Object)}); got != "1 false 1" {
		t.Errorf("the cache is behind: %s", got)
	}
	if got := write(StatusChange{Before: change.After, After: change.After.DeepCopyObject().(client.Object)}); got != "1 true 1" {
		t.Errorf("the cache shows what was written: %s", got)
	}
	var without corev1.Pod
	if IsBehind(&without) {
		t.Error("an object without UID is behind")
	}
}

func TestLogConditions(t *testing.T) {
	valid := func(status metav1.ConditionStatus, reason, message string) metav1.Condition {
		return metav1.Condition{Type: "Valid", Status: status, Reason: reason, Message: message}
	}
	for name, test := range map[string]struct {
		from, to []metav1.Condition
		want     []string
	}{
		"nothing changed": {from: []metav1.Condition{valid("True", "Good", "m")}, to: []metav1.Condition{valid("True", "Good", "m")}},
		"a message":       {from: []metav1.Condition{valid("True", "Good", "m")}, to: []metav1.Condition{valid("True", "Good", "other")}},
		"a reason": {
			from: []metav1.Condition{valid("False", "Bad", "m")}, to: []metav1.Condition{valid("False", "TooMany", "m")},
			want: []string{`"condition"="Valid" "from"="False/Bad" "to"="False/TooMany"`},
		},
		"two, and one that others report": {
			from: []metav1.Condition{{Type: "Delivering", Status: "True", Reason: "Good"}},
			to:   []metav1.Condition{{Type: "Delivering", Status: "False", Reason: "Bad"}, {Type: "Applied", Status: "True", Reason: "Applied"}, valid("True", "Good", "")},
			want: []string{`"condition"="Valid" "from"="" "to"="True/Good"`, `"condition"="Applied" "from"="" "to"="True/Applied"`},
		},
	} {
		logs, object := &lines{}, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}}
		LogConditions(logs.context(t.Context()), object, test.from, test.to)
		var want []string
		for _, line := range test.want {
			want = append(want, `"level"=0 "msg"="Condition changed" "object"="ns/a" `+line)
		}
		if diff := cmp.Diff(want, logs.all); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
