package decisions

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/scanner-operator/scanner-operator/internal/server/api"
	"github.com/scanner-operator/scanner-operator/internal/setup"
)

// TestOwnersFollowMetadata changes the labels and annotations of a namespace, a Deployment and its pod, and expects the owner to follow.
func TestOwnersFollowMetadata(t *testing.T) {
	t.Parallel()
	c, g := needCluster(t), gomega.NewWithT(t)
	amd64Node(t, c)
	in := namespace(t, c)
	address := operator(t, in, func(o *setup.Options) { o.Auth, o.OwnerKeys = setup.AuthNone, []string{"team", "example.com/owner"} })
	labels := map[string]string{"app": "web"}
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: in, Name: "web"},
		Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app:1"}}},
		}},
	}
	create(t, c, deployment)
	pod := runningPod(t, c, in, "web-5d4f-1", imageID("web", "1"), func(pod *corev1.Pod) {
		pod.Labels = map[string]string{appsv1.DefaultDeploymentUniqueLabelKey: "5d4f"}
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-5d4f", UID: "uid", Controller: new(true)}}
	})
	create(t, c, sampleScanner(t, in))
	owners := func() []string {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address+"/api/v1/owners", nil)
		if err != nil {
			return []string{err.Error()}
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return []string{err.Error()}
		}
		defer func() { _ = response.Body.Close() }()
		var page api.OwnerPage
		if err := json.NewDecoder(response.Body).Decode(&page); err != nil {
			return []string{err.Error()}
		}
		var names []string
		for _, item := range page.Items {
			name := ""
			if item.Owner != nil {
				name = *item.Owner
			}
			names = append(names, fmt.Sprint(name, " ", item.Workloads))
		}
		return names
	}
	patch := func(object client.Object, metadata string) {
		t.Helper()
		if err := c.Patch(t.Context(), object, client.RawPatch(types.MergePatchType, []byte(`{"metadata":`+metadata+`}`))); err != nil {
			t.Fatal(err)
		}
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: in}}
	g.Eventually(owners, patience, tick).Should(gomega.Equal([]string{" 1"}))
	for _, step := range []struct {
		object   client.Object
		metadata string
		want     string
	}{
		{ns, `{"annotations":{"example.com/owner":"everybody"}}`, "everybody 1"},
		{ns, `{"labels":{"team":"platform"}}`, "platform 1"},
		{deployment, `{"annotations":{"example.com/owner":"Team Web"}}`, "Team Web 1"},
		{pod, `{"annotations":{"team":"Team of the pod"}}`, "Team of the pod 1"},
		{pod, `{"annotations":{"team":null}}`, "Team Web 1"},
		{deployment, `{"annotations":null}`, "platform 1"},
		{ns, `{"labels":{"team":null},"annotations":null}`, " 1"},
	} {
		patch(step.object, step.metadata)
		g.Eventually(owners, patience, tick).Should(gomega.Equal([]string{step.want}), step.metadata)
	}
}
