//go:build faults

package faults

import (
	"context"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/scanner-operator/scanner-operator/internal/setup"
)

// observe watches the objects of all runs, so that each lists only what has changed.
func (p *plane) observe() error {
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	p.unobserve = func() { stop(); <-ended }
	informers, err := cache.New(p.config, cache.Options{Scheme: setup.Scheme()})
	if err != nil {
		close(ended)
		return err
	}
	go func() {
		defer close(ended)
		_ = informers.Start(ctx)
	}()
	for _, kind := range kinds {
		object := &metav1.PartialObjectMetadata{}
		object.SetGroupVersionKind(kind)
		informer, err := informers.GetInformer(ctx, object)
		if err != nil {
			return err
		}
		changed := func(object any) {
			if key, err := toolscache.DeletionHandlingMetaNamespaceKeyFunc(object); err == nil {
				namespace, _, _ := toolscache.SplitMetaNamespaceKey(key)
				p.changed(namespace, kind.Kind)
			}
		}
		_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc: changed, UpdateFunc: func(_, object any) { changed(object) }, DeleteFunc: changed,
		})
		if err != nil {
			return err
		}
	}
	if !informers.WaitForCacheSync(ctx) {
		return errors.New("the objects of the control plane could not be watched")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.observed = true
	return nil
}

// changed counts a change of an object.
func (p *plane) changed(namespace, kind string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.changes == nil {
		p.changes = map[string]int{}
	}
	p.changes[namespace+"/"+kind]++
}

// version is the number of changes of the objects of a kind that are known, and whether all become known.
func (p *plane) version(namespace, kind string) (version int, observed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.changes[namespace+"/"+kind], p.observed
}

// counted returns a client whose writes are known as changes at once: what a test does next must not begin with what was before.
func (p *plane) counted(c client.WithWatch) client.Client {
	changed := func(namespace string, object client.Object) {
		// Of an unknown kind, which the client rejects, nothing has changed.
		kind, _ := c.GroupVersionKindFor(object)
		p.changed(namespace, kind.Kind)
	}
	after := func(object client.Object, err error) error {
		changed(object.GetNamespace(), object)
		return err
	}
	return interceptor.NewClient(c, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, opts ...client.CreateOption) error {
			return after(object, c.Create(ctx, object, opts...))
		},
		Delete: func(ctx context.Context, c client.WithWatch, object client.Object, opts ...client.DeleteOption) error {
			return after(object, c.Delete(ctx, object, opts...))
		},
		DeleteAllOf: func(ctx context.Context, c client.WithWatch, object client.Object, opts ...client.DeleteAllOfOption) error {
			var all client.DeleteAllOfOptions
			all.ApplyOptions(opts)
			err := c.DeleteAllOf(ctx, object, opts...)
			changed(all.Namespace, object)
			return err
		},
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, opts ...client.PatchOption) error {
			return after(object, c.Patch(ctx, object, patch, opts...))
		},
		SubResourceCreate: func(ctx context.Context, c client.Client, sub string, object, subObject client.Object, opts ...client.SubResourceCreateOption) error {
			return after(object, c.SubResource(sub).Create(ctx, object, subObject, opts...))
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, object client.Object, opts ...client.SubResourceUpdateOption) error {
			return after(object, c.SubResource(sub).Update(ctx, object, opts...))
		},
	})
}
