package kube

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// Everything is the request of controllers that reconcile all objects of their kinds together.
var Everything = reconcile.Request{NamespacedName: types.NamespacedName{Name: "all"}}

type requests = workqueue.TypedRateLimitingInterface[reconcile.Request]

// After makes a request a while after an event. Events of that time make one request.
func After(delay time.Duration, request reconcile.Request) handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(_ context.Context, _ event.CreateEvent, q requests) { q.AddAfter(request, delay) },
		UpdateFunc: func(_ context.Context, _ event.UpdateEvent, q requests) { q.AddAfter(request, delay) },
		DeleteFunc: func(_ context.Context, _ event.DeleteEvent, q requests) { q.AddAfter(request, delay) },
		GenericFunc: func(_ context.Context, _ event.TypedGenericEvent[client.Object], q requests) {
			q.AddAfter(request, delay)
		},
	}
}

// AtStart makes a request when a controller starts, also when there is no object: the last one may have been deleted before.
func AtStart(request reconcile.Request) source.Source {
	return source.Func(func(_ context.Context, q requests) error {
		q.Add(request)
		return nil
	})
}
