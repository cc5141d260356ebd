// Package admission_test sends requests to a real API server as the operator's account, with the roles and the admission policies of the chart:
// those of the operator, and those of somebody who has stolen its token.
package admission_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1alpha1 "github.com/scanner-operator/scanner-operator/api/app/v1alpha1"
	stablev444beta989 "github.com/scanner-operator/scanner-operator/api/stable/v444beta989"
	"github.com/scanner-operator/scanner-operator/internal/controller/controllertest"
)

func TestMain(m *testing.M) { os.Exit(controllertest.Main(m)) }

const (
	patience = controllertest.Patience
	tick     = controllertest.Tick
	image    = "registry.example.com/scanner-operator:dev"
)

// installation is a release of the chart without its Deployment.
type installation struct {
	// admin may do everything, own is the operator's account.
	admin, own client.Client
	config     *rest.Config
	// release is the namespace of the operator. shop has PodSets and BellerophonSimples, empty has none.
	release, shop, empty string
	// uploadURL is where scan Jobs upload to.
	uploadURL string
	// uids holds the UIDs of the parents in shop, by name.
	uids map[string]string
}

// install installs the roles and the policies of the chart with values, and waits until they are in effect.
func install(t *testing.T, values string, parents ...client.Object) *installation {
	t.Helper()
	g := gomega.NewWithT(t)
	scheme := controllertest.Scheme(t, appv1alpha1.AddToScheme, stablev444beta989.AddToScheme)
	admin, err := client.New(controllertest.Config(t), client.Options{Scheme: scheme})
	g.Expect(err).NotTo(gomega.HaveOccurred())
	i := &installation{admin: admin, uids: map[string]string{}}
	i.release, i.shop, i.empty = controllertest.Namespace(t, admin), controllertest.Namespace(t, admin), controllertest.Namespace(t, admin)
	for _, parent := range parents {
		parent.SetNamespace(i.shop)
		g.Expect(admin.Create(t.Context(), parent)).To(gomega.Succeed())
		i.uids[parent.GetName()] = string(parent.GetUID())
	}
	policies := map[string]bool{}
	for _, object := range render(t, i.release, values) {
		switch object.GetKind() {
		case "Deployment":
			i.uploadURL = argument(t, object, "--api-url=")
			continue
		case "ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding":
		case "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding":
			policies[strings.TrimPrefix(object.GetName(), i.release+"-scanner-")] = true
		default:
			continue
		}
		g.Expect(admin.Create(t.Context(), object)).To(gomega.Succeed())
		t.Cleanup(func() { _ = admin.Delete(context.Background(), object) })
	}
	if len(policies) == 0 {
		t.Fatal("the chart has no policies")
	}
	i.config = rest.AnonymousClientConfig(controllertest.Config(t))
	i.config.BearerToken, i.config.QPS = i.token(t, "scanner-controller-manager"), -1
	i.own, err = client.New(i.config, client.Options{Scheme: scheme})
	g.Expect(err).NotTo(gomega.HaveOccurred())
	// The API server takes a moment to know a new policy: the last of each kind of object denies what only it denies.
	g.Eventually(func() error { return i.try(t, i.pod(i.empty, "web", "uid")) }, patience, tick).Should(denied("no params found"))
	g.Eventually(func() error {
		pod := i.pod(i.shop, "web", "uid")
		delete(pod.Labels, appv1alpha1.LabelReplacement)
		return i.try(t, pod)
	}, patience, tick).Should(denied("podset-pods"))
	if policies["scan-jobs"] {
		g.Eventually(func() error {
			return i.try(t, i.scanJob(i.shop, func(_ *batchv1.Job, _ *corev1.PodSpec, c *corev1.Container) { c.Image = "evil" }))
		}, patience, tick).Should(denied("scan-jobs"))
	}
	if i.uids["web"] != "" {
		g.Eventually(func() error { return i.try(t, i.pod(i.shop, "web", "another")) }, patience, tick).Should(denied("podset-templates"))
	}
	if i.uids["hero"] != "" {
		g.Eventually(func() error { return i.try(t, i.service(nil)) }, patience, tick).Should(gomega.Succeed())
		g.Eventually(func() error {
			return i.try(t, i.service(func(s *corev1.Service) { s.OwnerReferences[0].UID = "another" }))
		}, patience, tick).Should(denied("shero-specs"))
		g.Eventually(func() error {
			return i.try(t, i.service(func(s *corev1.Service) { s.Labels = nil }))
		}, patience, tick).Should(denied("shero-objects"))
	}
	return i
}

// argument returns the value of an argument of the only container of a Deployment.
func argument(t *testing.T, deployment *unstructured.Unstructured, prefix string) string {
	t.Helper()
	containers, _, err := unstructured.NestedSlice(deployment.Object, "spec", "template", "spec", "containers")
	if err != nil || len(containers) != 1 {
		t.Fatalf("%d containers, %v", len(containers), err)
	}
	args, _, err := unstructured.NestedStringSlice(containers[0].(map[string]any), "args")
	if err != nil {
		t.Fatal(err)
	}
	for _, arg := range args {
		if value, found := strings.CutPrefix(arg, prefix); found {
			return value
		}
	}
	t.Fatalf("the operator has no argument %s", prefix)
	return ""
}

// try creates an object as the operator, without storing it.
func (i *installation) try(t *testing.T, object client.Object) error {
	t.Helper()
	return i.own.Create(t.Context(), object, client.DryRunAll)
}

func (i *installation) token(t *testing.T, account string) string {
	t.Helper()
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(3600))}}
	owner := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: i.release, Name: account}}
	if err := i.admin.SubResource("token").Create(t.Context(), owner, request); err != nil {
		t.Fatal(err)
	}
	return request.Status.Token
}

// denied matches the error of an admission policy whose name or message contains a text. When several policies deny a request, the error is that of
// any of them.
func denied(message string) gomega.OmegaMatcher {
	return gomega.And(gomega.HaveOccurred(), gomega.MatchError(gomega.ContainSubstring("ValidatingAdmissionPolicy")), gomega.MatchError(gomega.ContainSubstring(message)))
}

// render returns what helm would install into a namespace.
func render(t *testing.T, namespace, values string) []*unstructured.Unstructured {
	t.Helper()
	helm := os.Getenv("HELM")
	if helm == "" {
		const message = "HELM does not name the helm binary; make test-integration does"
		if os.Getenv("CI") == "true" {
			t.Fatal(message)
		}
		t.Skip(message)
	}
	home := t.TempDir()
	file := filepath.Join(home, "values.yaml")
	if err := os.WriteFile(file, []byte(values), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, helm, "template", "scanner", "../../charts/scanner-operator", "--namespace="+namespace,
		"--set=image.registry=registry.example.com,image.repository=scanner-operator", "--values="+file)
	// Nothing of the user's own Helm configuration.
	cmd.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("render the chart: %v: %s", err, stderr.String())
	}
	var objects []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(out), 4096)
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(&object.Object); errors.Is(err, io.EOF) {
			return objects
		} else if err != nil {
			t.Fatal(err)
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}

// rawTemplate returns spec.template of a PodSet.
func rawTemplate(t *testing.T, pod *corev1.PodSpec) *runtime.RawExtension {
	t.Helper()
	text, err := json.Marshal(&corev1.PodTemplateSpec{Spec: *pod})
	if err != nil {
		t.Fatal(err)
	}
	return &runtime.RawExtension{Raw: text}
}

// sorted returns the names of a table, so that its rows run in one order.
func sorted[V any](table map[string]V) []string {
	names := make([]string, 0, len(table))
	for name := range table {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
