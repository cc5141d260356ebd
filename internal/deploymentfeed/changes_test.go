package deploymentfeed

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/scanner-operator/scanner-operator/internal/truncate"
)

// with makes a Deployment; containers are "name=image", those of init containers begin with "init:".
func with(replicas *int32, containers ...string) *appsv1.Deployment {
	d := &appsv1.Deployment{}
	d.Name, d.Spec.Replicas = "web", replicas
	spec := &d.Spec.Template.Spec
	for _, text := range containers {
		name, image, _ := strings.Cut(text, "=")
		if name, found := strings.CutPrefix(name, "init:"); found {
			spec.InitContainers = append(spec.InitContainers, corev1.Container{Name: name, Image: image})
			continue
		}
		spec.Containers = append(spec.Containers, corev1.Container{Name: name, Image: image})
	}
	return d
}

func TestTextsOfChanges(t *testing.T) {
	replicas := func(n int32) *int32 { return &n }
	for name, test := range map[string]struct {
		before, after *appsv1.Deployment
		want          []string
	}{
		"nothing":            {with(replicas(2), "a=x:1"), with(replicas(2), "a=x:1"), nil},
		"replicas":           {with(replicas(2), "a=x:1"), with(replicas(0), "a=x:1"), []string{"Replicas changed: 0"}},
		"no replicas is one": {with(nil), with(replicas(1)), nil},
		"to no replicas":     {with(replicas(3)), with(nil), []string{"Replicas changed: 1"}},
		"image":              {with(nil, "a=x:1"), with(nil, "a=x:2"), []string{"Image changed: x:2"}},
		"all containers in their order": {
			with(nil, "init:i=m:1", "b=y:1", "a=x:1", "c=z:1"), with(nil, "init:i=m:2", "b=y:2", "a=x:2", "c=z:1"),
			[]string{"Image changed: y:2", "Image changed: x:2", "Image changed: m:2"},
		},
		"replicas first":                {with(replicas(1), "a=x:1"), with(replicas(5), "a=x:2"), []string{"Replicas changed: 5", "Image changed: x:2"}},
		"an image once":                 {with(nil, "a=x:1", "b=x:1"), with(nil, "a=x:2", "b=x:2"), []string{"Image changed: x:2"}},
		"another order":                 {with(nil, "a=x:1", "b=y:1"), with(nil, "b=y:1", "a=x:1"), nil},
		"another container":             {with(nil, "a=x:1"), with(nil, "a=x:1", "b=y:1"), []string{"Image changed: y:1"}},
		"a container renamed":           {with(nil, "a=x:1", "b=y:1"), with(nil, "c=x:1", "b=y:1"), nil},
		"renamed with another image":    {with(nil, "a=x:1"), with(nil, "c=x:2"), []string{"Image changed: x:2"}},
		"a new one beside the same":     {with(nil, "a=x:1"), with(nil, "a=x:1", "c=x:1"), []string{"Image changed: x:1"}},
		"the image of a renamed one":    {with(nil, "a=x:1", "b=y:1"), with(nil, "c=x:1", "b=x:1"), []string{"Image changed: x:1"}},
		"a container less":              {with(nil, "a=x:1", "b=y:1"), with(nil, "a=x:1"), nil},
		"no containers":                 {with(nil), with(nil), nil},
		"escaped as encoding/json does": {with(nil, "a=x"), with(nil, "a=<&>"), []string{`Image changed: \u003c\u0026\u003e`}},
	} {
		var want []string
		for _, news := range test.want {
			want = append(want, fmt.Sprintf(`{"timestamp":"2026-01-31T11:00:00Z","message":"Deployment web updated - %s"}`, news))
		}
		at := time.Date(2026, 1, 31, 12, 0, 0, 987654321, time.FixedZone("", 3600))
		got, err := updateTexts(test.before, test.after, at)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
}

func TestMessagesAreBounded(t *testing.T) {
	long := strings.Repeat("ü", maxImageText)
	after := with(nil, "a="+long)
	for n := range 2 * maxImageMessages {
		after.Spec.Template.Spec.Containers = append(after.Spec.Template.Spec.Containers, corev1.Container{Name: fmt.Sprint(n), Image: fmt.Sprintf("x:%d", n)})
	}
	images := changedImages(with(nil), after)
	if len(images) != maxImageMessages {
		t.Errorf("%d messages about one change, want %d", len(images), maxImageMessages)
	}
	short := truncate.Ellipsis(images[0], maxImageText)
	if len(short) > maxImageText || len(short) < maxImageText-4 || !utf8.ValidString(short) || !strings.HasSuffix(short, "ü…") {
		t.Errorf("%d bytes: %q", len(short), short)
	}
}
