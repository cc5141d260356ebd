package bellerophon

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	stablev444beta989 "github.com/scanner-operator/scanner-operator/api/stable/v444beta989"
)

// desiredOf returns the objects of a shero, by kind.
func desiredOf(t *testing.T, shero *stablev444beta989.BellerophonSimple) map[string]*unstructured.Unstructured {
	t.Helper()
	objects, err := desired(shero)
	if err != nil {
		t.Fatal(err)
	}
	byKind := map[string]*unstructured.Unstructured{}
	for _, object := range objects {
		byKind[object.GetKind()] = object
	}
	return byKind
}

// differenceOf compares the object of a kind with what is wanted.
func (w *world) differenceOf(want map[string]*unstructured.Unstructured, kind string) string {
	live := emptyLike(want[kind])
	if err := w.Get(w.t.Context(), w.key(hero), live); err != nil {
		return err.Error()
	}
	path, err := differs(want[kind], live)
	if err != nil {
		return err.Error()
	}
	return path
}
