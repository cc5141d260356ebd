package scanner

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/scanner-operator/scanner-operator/internal/inventory"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// ownersStore notes the workloads that are recorded, with their owners.
type ownersStore struct {
	memory
	uses, coverage map[string]string
}

func (s *ownersStore) RecordUses(_ context.Context, _ string, uses []store.Use) error {
	s.uses = map[string]string{}
	for _, use := range uses {
		s.uses[use.Workload.Kind+"/"+use.Workload.Name] = use.Workload.Owner
	}
	return nil
}

func (s *ownersStore) RecordCoverage(_ context.Context, _ string, rows []store.ContainerCoverage) error {
	s.coverage = map[string]string{}
	for _, row := range rows {
		s.coverage[row.Workload.Kind+"/"+row.Workload.Name] = row.Workload.Owner
	}
	return nil
}

// ofDeployment makes a pod one of a Deployment.
func ofDeployment(pod *corev1.Pod, deployment string, labels, annotations map[string]string) *corev1.Pod {
	pod.Labels = map[string]string{appsv1.DefaultDeploymentUniqueLabelKey: "5d4f"}
	maps.Copy(pod.Labels, labels)
	pod.Annotations = annotations
	pod.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: deployment + "-5d4f", Controller: new(true)}}
	return pod
}

type values = map[string]string

func TestOwnersOfWorkloads(t *testing.T) {
	image := imageKey("a").ImageID
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns", Annotations: values{"example.com/owner": "everybody"}}}
	deployment := func(name string, labels values) *appsv1.Deployment {
		return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: labels}}
	}
	objects := []client.Object{
		scannerWith(nil), namespace,
		deployment("web", values{"team": "of the Deployment"}), deployment("api", values{"team": "of the Deployment"}), deployment("old", nil),
		// The newest pod decides, whatever the older ones say.
		ofDeployment(podOf("web-1", image, 2*time.Hour), "web", values{"team": "before"}, nil),
		ofDeployment(podOf("web-2", image, time.Hour), "web", values{"example.com/owner": "b"}, values{"team": "a"}),
		ofDeployment(podOf("api-1", image, time.Hour), "api", nil, values{"team": "in\nvalid"}),
		ofDeployment(podOf("old-1", image, time.Hour), "old", nil, nil),
		podOf("alone", "", time.Hour),
	}
	tests := map[string]struct {
		owners Owners
		want   values
	}{
		"no keys": {Owners{Deployments: true}, values{"Deployment/web": "", "Deployment/api": "", "Deployment/old": "", "Pod/alone": ""}},
		"without Deployments": {
			Owners{Keys: inventory.OwnerKeys{"team", "example.com/owner"}},
			values{"Deployment/web": "a", "Deployment/api": "everybody", "Deployment/old": "everybody", "Pod/alone": "everybody"},
		},
		"with Deployments": {
			Owners{Keys: inventory.OwnerKeys{"team", "example.com/owner"}, Deployments: true},
			values{"Deployment/web": "a", "Deployment/api": "of the Deployment", "Deployment/old": "everybody", "Pod/alone": "everybody"},
		},
		"one key": {
			Owners{Keys: inventory.OwnerKeys{"team"}},
			values{"Deployment/web": "a", "Deployment/api": "", "Deployment/old": "", "Pod/alone": ""},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			recorded := &ownersStore{memory: memory{}}
			r, _ := newReconciler(t, recorded, &starter{attempts: map[string]Attempt{}}, objects...)
			r.Owners = tt.owners
			var logged []string
			log := funcr.New(func(_, line string) { logged = append(logged, line) }, funcr.Options{})
			for range 2 {
				if _, err := r.Reconcile(logr.NewContext(t.Context(), log), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "s"}}); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(tt.want, recorded.coverage); diff != "" {
				t.Errorf("coverage (-want +got):\n%s", diff)
			}
			uses := maps.Clone(tt.want)
			delete(uses, "Pod/alone") // Its image is not known.
			if diff := cmp.Diff(uses, recorded.uses); diff != "" {
				t.Errorf("uses (-want +got):\n%s", diff)
			}
			logged = slices.DeleteFunc(logged, func(line string) bool { return !strings.Contains(line, "invalid owner") })
			if want := min(1, len(tt.owners.Keys)); len(logged) != want || want > 0 && !strings.Contains(logged[0], `"name"="api-1" "key"="team"`) {
				t.Errorf("logged %q, want the invalid owner %d times", logged, want)
			}
		})
	}
}

// TestATenantDecidesItsOwnOwners has a tenant claim an owner for a workload in every way, and expects that one of the same name elsewhere keeps its own.
func TestATenantDecidesItsOwnOwners(t *testing.T) {
	claimed := metav1.ObjectMeta{Name: "web", Namespace: "tenant", Labels: values{"team": "claimed"}}
	r, _ := newReconciler(t, memory{}, &starter{attempts: map[string]Attempt{}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "tenant", Labels: values{"team": "claimed"}}}, &appsv1.Deployment{ObjectMeta: claimed},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "victim", Labels: values{"team": "right"}}})
	r.Owners = Owners{Keys: inventory.OwnerKeys{"team"}, Deployments: true}
	pod := func(namespace, owner string) podContainers {
		return podContainers{containers: []inventory.Container{{Namespace: namespace, Pod: "web-1", Owner: inventory.Owner{Kind: "Deployment", Name: "web"}}}, owner: owner}
	}
	within := scope{namespaces: map[string]bool{"tenant": true, "victim": true}}
	got, err := r.owners(t.Context(), within, []podContainers{pod("victim", ""), pod("tenant", "claimed")})
	if err != nil {
		t.Fatal(err)
	}
	want := map[store.Workload]string{
		{Namespace: "tenant", Kind: "Deployment", Name: "web"}: "claimed", {Namespace: "victim", Kind: "Deployment", Name: "web"}: "right",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("owners (-want +got):\n%s", diff)
	}
}

// TestOwnersReadNothingUnasked counts the reads of objects that are read for owners alone.
func TestOwnersReadNothingUnasked(t *testing.T) {
	r, _ := newReconciler(t, &ownersStore{memory: memory{}}, &starter{attempts: map[string]Attempt{}}, scannerWith(nil), podOf("a", imageKey("a").ImageID, time.Hour))
	refused := errors.New("not allowed")
	watcher, ok := r.Client.(client.WithWatch)
	if !ok {
		t.Fatal("the client cannot watch")
	}
	r.Client = interceptor.NewClient(watcher, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if _, partial := obj.(*metav1.PartialObjectMetadata); partial {
				return refused
			}
			return c.Get(ctx, key, obj, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if _, deployments := list.(*appsv1.DeploymentList); deployments {
				return refused
			}
			return c.List(ctx, list, opts...)
		},
	})
	r.Owners = Owners{Deployments: true}
	reconcileOnce(t, r)
	r.Owners.Keys = inventory.OwnerKeys{"team"}
	if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "s"}}); !errors.Is(err, refused) {
		t.Errorf("with keys: %v, want the refusal", err)
	}
}

func TestOwnerChanged(t *testing.T) {
	r := &Reconciler{Owners: Owners{Keys: inventory.OwnerKeys{"team"}}}
	passes := r.ownerChanged()
	object := func(labels, annotations values) client.Object {
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "ns", Labels: labels, Annotations: annotations}}
	}
	for name, tt := range map[string]struct {
		before, after client.Object
		want          bool
	}{
		"another label":           {object(nil, nil), object(values{"x": "y"}, nil), false},
		"an owner":                {object(nil, nil), object(values{"team": "a"}, nil), true},
		"another owner":           {object(values{"team": "a"}, nil), object(values{"team": "b"}, nil), true},
		"no owner any more":       {object(nil, values{"team": "a"}), object(nil, nil), true},
		"the same somewhere else": {object(nil, values{"team": "a"}), object(values{"team": "a"}, nil), false},
		"an invalid one":          {object(nil, nil), object(nil, values{"team": "a\x00"}), false},
	} {
		if got := passes.Update(event.UpdateEvent{ObjectOld: tt.before, ObjectNew: tt.after}); got != tt.want {
			t.Errorf("%s: passes %t, want %t", name, got, tt.want)
		}
	}
	if passes.Create(event.CreateEvent{Object: object(nil, nil)}) || !passes.Create(event.CreateEvent{Object: object(values{"team": "a"}, nil)}) {
		t.Error("creations do not pass with an owner alone")
	}
}

func TestInvalidOwnersAreBounded(t *testing.T) {
	var i invalidOwners
	logged := 0
	for n := range 2 * maxInvalidOwners {
		for range 2 {
			if i.first(strings.Repeat("a", n)) {
				logged++
			}
		}
	}
	if logged != maxInvalidOwners || len(i.logged) != maxInvalidOwners {
		t.Errorf("logged %d objects and remembered %d, want %d", logged, len(i.logged), maxInvalidOwners)
	}
}
