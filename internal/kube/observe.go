package kube

import (
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// InformerEvent is a type of event that an informer delivers.
type InformerEvent string

// The events of informers.
const (
	InformerAdd InformerEvent = "add"
	// InformerUpdate is a change; InformerResync repeats an unchanged object.
	InformerUpdate InformerEvent = "update"
	InformerResync InformerEvent = "resync"
	InformerDelete InformerEvent = "delete"
	// InformerTombstone is a deletion that a list found, after the watch had missed it.
	InformerTombstone InformerEvent = "tombstone"
)

// NewInformer makes an informer; it is the type of cache.Options.NewInformer.
type NewInformer = func(cache.ListerWatcher, runtime.Object, time.Duration, cache.Indexers) cache.SharedIndexInformer

// ObservedInformers returns a function that creates informers, which call observe for each event, with the kind of the object.
func ObservedInformers(observe func(kind string, event InformerEvent)) NewInformer {
	return func(source cache.ListerWatcher, example runtime.Object, resync time.Duration, indexers cache.Indexers) cache.SharedIndexInformer {
		informer := cache.NewSharedIndexInformer(source, example, resync, indexers)
		kind := kindOf(example)
		// It fails only for a stopped informer.
		_, _ = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { observe(kind, InformerAdd) },
			UpdateFunc: func(before, after any) {
				observe(kind, updateOf(before, after))
			},
			DeleteFunc: func(obj any) {
				if _, missed := obj.(cache.DeletedFinalStateUnknown); missed {
					observe(kind, InformerTombstone)
					return
				}
				observe(kind, InformerDelete)
			},
		})
		return informer
	}
}

func updateOf(before, after any) InformerEvent {
	was, ok1 := before.(client.Object)
	is, ok2 := after.(client.Object)
	if ok1 && ok2 && was.GetUID() == is.GetUID() && was.GetResourceVersion() == is.GetResourceVersion() {
		return InformerResync
	}
	return InformerUpdate
}

// kindOf returns the kind that is set in an object, as in partial objects, or else the name of its type.
func kindOf(obj runtime.Object) string {
	if kind := obj.GetObjectKind().GroupVersionKind().Kind; kind != "" {
		return kind
	}
	return reflect.Indirect(reflect.ValueOf(obj)).Type().Name()
}
