package setuptest

import (
	"os"
	"path/filepath"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	scannerv1 "github.com/scanner-operator/scanner-operator/api/scanner/v1"
	"github.com/scanner-operator/scanner-operator/internal/controller/controllertest"
)

// Namespace makes a namespace with the service account that a controller manager would make.
func Namespace(t *testing.T, c client.Client) string {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "t-"}}
	Create(t, c, ns)
	Create(t, c, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "default"}})
	return ns.Name
}

// Create creates an object.
func Create(t *testing.T, c client.Client, obj client.Object) {
	t.Helper()
	if err := c.Create(t.Context(), obj); err != nil {
		t.Fatalf("create %T: %v", obj, err)
	}
}

// Remove deletes an object at once, and has what it owns deleted in the background.
func Remove(t *testing.T, c client.Client, obj client.Object) {
	t.Helper()
	if err := c.Delete(t.Context(), obj, client.GracePeriodSeconds(0), client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
		t.Fatal(err)
	}
}

// Token makes a token of a service account, for the API server without an audience.
func Token(t *testing.T, c client.Client, ns, account string, audiences ...string) string {
	t.Helper()
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: audiences, ExpirationSeconds: new(int64(3600))}}
	owner := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: account}}
	if err := c.SubResource("token").Create(t.Context(), owner, request); err != nil {
		t.Fatal(err)
	}
	return request.Status.Token
}

// Node makes the node that RunningPod names, with Linux on amd64, unless it is there.
func Node(t *testing.T, c client.Client) {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node", Labels: map[string]string{
		corev1.LabelArchStable: "amd64", corev1.LabelOSStable: "linux",
	}}}
	if err := c.Create(t.Context(), node); client.IgnoreAlreadyExists(err) != nil {
		t.Fatal(err)
	}
}

// SampleScanner reads the sample manifest.
func SampleScanner(t *testing.T, namespace string) *scannerv1.Scanner {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(controllertest.Root(), "config", "samples", "scanner_v1_scanner.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var s scannerv1.Scanner
	if err := yaml.UnmarshalStrict(content, &s); err != nil {
		t.Fatal(err)
	}
	s.Namespace = namespace
	return &s
}

// RunningPod makes a pod that runs an image on a node, as a kubelet would report it.
func RunningPod(t *testing.T, c client.Client, namespace, name, imageID string, mutate ...func(*corev1.Pod)) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       corev1.PodSpec{NodeName: "node", Containers: []corev1.Container{{Name: "app", Image: "app:1"}}},
	}
	for _, m := range mutate {
		m(pod)
	}
	Create(t, c, pod)
	pod.Status.Phase = corev1.PodRunning
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", Image: "app:1", ImageID: imageID}}
	if err := c.Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	return pod
}
