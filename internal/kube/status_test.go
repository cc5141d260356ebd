package kube

import (
	"context"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// namingClient notes the names of the objects whose status it writes, and fails for some of them.
type namingClient struct {
	client.SubResourceWriter
	names []string
	fails map[string]error
	// took is called for each, unless it is nil.
	took func(name string)
}

func (c *namingClient) Status() client.SubResourceWriter { return c }

func (c *namingClient) Patch(_ context.Context, obj client.Object, _ client.Patch, _ ...client.SubResourcePatchOption) error {
	c.names = append(c.names, obj.GetName())
	if c.took != nil {
		c.took(obj.GetName())
	}
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

// changesOf returns changes of objects with these names. Those whose name begins with = keep their status, and of those with + only numbers change.
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
		changes = append(changes, StatusChange{Before: before, After: after, From: nil, Minor: name[0] == '+', To: []metav1.Condition{{Type: "Valid", Status: "True", Reason: "Good"}}})
	}
	return changes
}
