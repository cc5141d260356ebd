package scanner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/go-logr/logr/testr"
	"github.com/prometheus/client_golang/prometheus"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/scanner-operator/scanner-operator/internal/metrics"
)

func podVersion(name, version string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "1", ResourceVersion: version}}
}

// pagedReader answers with one object at a time, whatever is asked.
type pagedReader struct {
	client.Reader
	pages int
}

func (r *pagedReader) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	page, isPage := list.(*metav1.PartialObjectMetadataList)
	if !isPage {
		return r.Reader.List(ctx, list, opts...)
	}
	r.pages++
	options := (&client.ListOptions{}).ApplyOptions(opts)
	all := &metav1.PartialObjectMetadataList{}
	all.SetGroupVersionKind(page.GroupVersionKind())
	// The label selector stays; the fake client knows no pages.
	if err := r.Reader.List(ctx, all, &client.ListOptions{Namespace: options.Namespace, LabelSelector: options.LabelSelector}); err != nil {
		return err
	}
	at := 0
	if options.Continue != "" {
		if _, err := fmt.Sscan(options.Continue, &at); err != nil {
			return err
		}
	}
	page.Items = all.Items[at:min(at+1, len(all.Items))]
	if at+1 < len(all.Items) {
		page.Continue = fmt.Sprint(at + 1)
	}
	return nil
}

func TestAudit(t *testing.T) {
	foreign := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "foreign"}}
	ours := scanJobOf()
	tests := map[string]struct {
		cached, live []client.Object
		// meanwhile is what the cache shows at the second look.
		meanwhile []client.Object
		kind      int
		want      []string
	}{
		"the same": {
			[]client.Object{podVersion("a", "1"), podVersion("b", "2")}, []client.Object{podVersion("b", "2"), podVersion("a", "1")}, nil, 0, nil,
		},
		"a change that was lost":   {[]client.Object{podVersion("a", "1")}, []client.Object{podVersion("a", "2"), podVersion("b", "1")}, nil, 0, []string{"pods"}},
		"a new one that was lost":  {nil, []client.Object{podVersion("a", "1")}, nil, 0, []string{"pods"}},
		"an end that was lost":     {[]client.Object{podVersion("a", "1")}, nil, nil, 0, []string{"pods"}},
		"a change that came later": {[]client.Object{podVersion("a", "1")}, []client.Object{podVersion("a", "2")}, []client.Object{podVersion("a", "2")}, 0, nil},
		"something that changes all the time": {
			[]client.Object{podVersion("a", "1")}, []client.Object{podVersion("a", "3")}, []client.Object{podVersion("a", "2")}, 0, nil,
		},
		"a scan Job that was lost": {nil, []client.Object{ours}, nil, 1, []string{"jobs"}},
		"a Job of somebody else":   {nil, []client.Object{foreign}, nil, 1, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var relisted []string
			shown, err := metrics.NewScans(prometheus.NewRegistry())
			if err != nil {
				t.Fatal(err)
			}
			live := &pagedReader{Reader: clientWith(t, tt.live...)}
			cached := &changingReader{readers: []client.Reader{clientWith(t, tt.cached...)}}
			if tt.meanwhile != nil {
				cached.readers = append(cached.readers, clientWith(t, tt.meanwhile...))
			}
			a := &Auditor{
				Cached: cached, Live: live, Relist: func(resource string) { relisted = append(relisted, resource) },
				Clock: clock.RealClock{}, Metrics: shown, Log: testr.New(t),
			}
			if err := a.audit(t.Context(), auditedKinds[tt.kind]); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(relisted, tt.want) {
				t.Errorf("read anew: %v, want %v", relisted, tt.want)
			}
			if live.pages < len(tt.live) && tt.kind == 0 {
				t.Errorf("%d pages of %d objects", live.pages, len(tt.live))
			}
		})
	}
}

// changingReader is one reader after the other, the last of them for good.
type changingReader struct {
	client.Reader
	readers []client.Reader
}

func (r *changingReader) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	reader := r.readers[0]
	if len(r.readers) > 1 {
		r.readers = r.readers[1:]
	}
	return reader.List(ctx, list, opts...)
}

func TestAuditReadsTheNamespacesThatTheCacheHolds(t *testing.T) {
	other := podVersion("a", "1")
	other.Namespace = "other"
	c := clientWith(t, podVersion("a", "1"), other)
	for _, tt := range []struct {
		namespaces []string
		want       int
	}{{nil, 2}, {[]string{"ns"}, 1}, {[]string{"ns", "other"}, 2}} {
		a := &Auditor{Live: c, Namespaces: tt.namespaces}
		found, _, err := a.live(t.Context(), auditedKinds[0])
		if err != nil || len(found) != tt.want {
			t.Errorf("%v: found %v, %v; want %d", tt.namespaces, found, err, tt.want)
		}
	}
}

// TestAuditSkipsNamespacesThatCannotBeRead has a pod that was lost in one namespace, and another namespace that cannot be read: what the cache has of it is no
// difference.
func TestAuditSkipsNamespacesThatCannotBeRead(t *testing.T) {
	in := func(namespace, name string) *corev1.Pod {
		pod := podVersion(name, "1")
		pod.Namespace = namespace
		return pod
	}
	for name, tt := range map[string]struct {
		live []client.Object
		want []string
	}{
		"a pod was lost": {[]client.Object{in("a", "known"), in("a", "lost")}, []string{"pods"}},
		"none was":       {[]client.Object{in("a", "known")}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			shown, err := metrics.NewScans(prometheus.NewRegistry())
			if err != nil {
				t.Fatal(err)
			}
			var relisted []string
			forbidden := apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New("the RoleBinding was deleted"))
			live := interceptor.NewClient(clientWith(t, tt.live...), interceptor.Funcs{
				List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
					if (&client.ListOptions{}).ApplyOptions(opts).Namespace == "b" {
						return forbidden
					}
					return c.List(ctx, list, opts...)
				},
			})
			a := &Auditor{
				Cached: clientWith(t, in("a", "known"), in("b", "x")), Live: live, Namespaces: []string{"b", "a"}, Metrics: shown,
				Relist: func(resource string) { relisted = append(relisted, resource) }, Clock: clock.RealClock{}, Log: testr.New(t),
			}
			if err := a.audit(t.Context(), auditedKinds[0]); !apierrors.IsForbidden(err) {
				t.Errorf("got %v, want the error about the namespace b", err)
			}
			if !slices.Equal(relisted, tt.want) {
				t.Errorf("read anew: %v, want %v", relisted, tt.want)
			}
		})
	}
}
