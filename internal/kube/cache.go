// Package kube holds what all controllers share: the kinds of objects, how objects are cached, and how a reconcile ends.
package kube

import (
	"fmt"
	"maps"
	"strings"
	"unicode/utf8"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/truncate"
)

// CacheOptions returns the options of the manager's cache: of each kind it holds the objects and the fields that Kinds says, without managed
// fields. No namespaces means all. Of Pods and Deployments it holds the labels and annotations with ownerKeys as well.
func CacheOptions(namespaces, ownerKeys []string) (cache.Options, error) {
	opts := cache.Options{DefaultTransform: cache.TransformStripManagedFields(), ByObject: map[client.Object]cache.ByObject{}}
	for _, kind := range Kinds() {
		if kind.Selector == nil && kind.Transform == nil {
			continue
		}
		by := cache.ByObject{Transform: kind.Transform}
		switch kind.Object.(type) {
		case *corev1.Pod, *appsv1.Deployment:
			by.Transform = keepOwnerKeys(by.Transform, ownerKeys)
		}
		if kind.Selector != nil {
			selector, err := kind.Selector()
			if err != nil {
				return cache.Options{}, fmt.Errorf("select the cached objects of kind %s: %w", kind.Kind, err)
			}
			by.Label = selector
		}
		opts.ByObject[kind.Object] = by
	}
	if len(namespaces) > 0 {
		opts.DefaultNamespaces = map[string]cache.Config{}
		for _, ns := range namespaces {
			opts.DefaultNamespaces[ns] = cache.Config{}
		}
	}
	return opts, nil
}

// keepOwnerKeys is a transform that keeps the labels and annotations with some keys, too.
func keepOwnerKeys(transform toolscache.TransformFunc, keys []string) toolscache.TransformFunc {
	if len(keys) == 0 {
		return transform
	}
	return func(obj any) (any, error) {
		transformed, err := transform(obj)
		full, isObject := obj.(client.Object)
		trimmed, stillObject := transformed.(client.Object)
		if err != nil || !isObject || !stillObject {
			return transformed, err
		}
		trimmed.SetLabels(merged(trimmed.GetLabels(), withKeys(full.GetLabels(), keys)))
		trimmed.SetAnnotations(merged(withKeys(full.GetAnnotations(), keys), trimmed.GetAnnotations()))
		return trimmed, nil
	}
}

// merged returns values with those of others, which take precedence. It modifies neither.
func merged(values, others map[string]string) map[string]string {
	for key, value := range others {
		if before, found := values[key]; !found || before != value {
			all := make(map[string]string, len(values)+len(others))
			maps.Copy(all, values)
			maps.Copy(all, others)
			return all
		}
	}
	return values
}

// maxKept bounds the kept values of labels and annotations, in bytes. It leaves room for one character more than owners have: a value that is too long stays
// too long.
const maxKept = model.MaxOwner + utf8.UTFMax

// withKeys is a copy of the values with some keys, nil if there are none. Longer values than those of owners stay too long, but are cut.
func withKeys(values map[string]string, keys []string) map[string]string {
	var kept map[string]string
	for _, key := range keys {
		value, found := values[key]
		if !found {
			continue
		}
		if kept == nil {
			kept = map[string]string{}
		}
		kept[key] = strings.Clone(truncate.Text(value, maxKept))
	}
	return kept
}
