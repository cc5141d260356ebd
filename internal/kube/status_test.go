package kube

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
		changes = append(changes, StatusChange{before, after})
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
			w := NewStatusWriter(c, test.permitted, now)
			done, complete, err := w.Write(t.Context(), changesOf(t, test.names...))
			if done != test.wantDone || complete != test.wantComplete || !errors.Is(err, test.wantErr) {
				t.Errorf("%d done, complete %t, %v; want %d, %t, %v", done, complete, err, test.wantDone, test.wantComplete, test.wantErr)
			}
			if diff := cmp.Diff(test.want, c.names); diff != "" {
				t.Errorf("written (-want +got):\n%s", diff)
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
	if got := write(StatusChange{change.Before, change.Before.DeepCopyObject().(client.Object)}); got != "1 false 1" {
		t.Errorf("the cache is behind: %s", got)
	}
	if got := write(StatusChange{change.After, change.After.DeepCopyObject().(client.Object)}); got != "1 true 1" {
		t.Errorf("the cache shows what was written: %s", got)
	}
	var without corev1.Pod
	if IsBehind(&without) {
		t.Error("an object without UID is behind")
	}
}
