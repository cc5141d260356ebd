package chart_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	sigsyaml "sigs.k8s.io/yaml"
)

const (
	chartDir  = "../../charts/scanner-operator"
	namespace = "scanner-system"
	image     = "registry.example.com/scanner-operator:dev"
	// imageValues are the values without which the chart refuses to render.
	imageValues = "image: {registry: registry.example.com, repository: scanner-operator}"
)

func helm(t *testing.T, args ...string) (string, error) {
	t.Helper()
	binary := os.Getenv("HELM")
	if binary == "" {
		if os.Getenv("CI") == "true" {
			t.Fatal("HELM does not name the helm binary; run make test-chart")
		}
		t.Skip("HELM does not name the helm binary; run make test-chart")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, args...)
	// Nothing of the user's own Helm configuration.
	home := t.TempDir()
	cmd.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", errors.New(err.Error() + ": " + stderr.String())
	}
	return stdout.String(), nil
}

// release is what "helm install scanner" would create.
type release struct {
	Deployment *appsv1.Deployment
	Objects    []runtime.Object
}

func (r release) pod() corev1.PodSpec         { return r.Deployment.Spec.Template.Spec }
func (r release) container() corev1.Container { return r.pod().Containers[0] }

func find[T runtime.Object](r release) []T {
	var found []T
	for _, obj := range r.Objects {
		if typed, ok := obj.(T); ok {
			found = append(found, typed)
		}
	}
	return found
}

func name(t *testing.T, obj runtime.Object) string {
	t.Helper()
	m, ok := obj.(metav1.Object)
	if !ok {
		t.Fatalf("%T has no metadata", obj)
	}
	return m.GetName()
}

// render renders the chart with values and decodes every object strictly: a field that does not exist is an error.
func render(t *testing.T, values string, args ...string) release {
	t.Helper()
	out, err := template(t, values, args...)
	if err != nil {
		t.Fatal(err)
	}
	return decode(t, out)
}

// decode returns the objects of what helm printed.
func decode(t *testing.T, out string) release {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, appsv1.AddToScheme, rbacv1.AddToScheme, networkingv1.AddToScheme,
		policyv1.AddToScheme, admissionv1.AddToScheme, apiextensionsv1.AddToScheme, schedulingv1.AddToScheme, gatewayv1.Install,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	var r release
	documents := yaml.NewDocumentDecoder(io.NopCloser(strings.NewReader(out)))
	defer func() { _ = documents.Close() }()
	buf := make([]byte, 1<<20)
	for {
		n, err := documents.Read(buf)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		var meta metav1.TypeMeta
		if err := sigsyaml.Unmarshal(buf[:n], &meta); err != nil {
			t.Fatalf("%v in\n%s", err, buf[:n])
		}
		if meta.Kind == "" {
			continue
		}
		if meta.Kind == "ServiceMonitor" || meta.Kind == "Certificate" || meta.Kind == "PrometheusRule" {
			u := &unstructured.Unstructured{}
			if err := sigsyaml.UnmarshalStrict(buf[:n], &u.Object); err != nil {
				t.Fatal(err)
			}
			r.Objects = append(r.Objects, u)
			continue
		}
		obj, _, err := decoder.Decode(buf[:n], nil, nil)
		if err != nil {
			t.Fatalf("%v in\n%s", err, buf[:n])
		}
		r.Objects = append(r.Objects, obj)
	}
	deployments := find[*appsv1.Deployment](r)
	if len(deployments) != 1 {
		t.Fatalf("%d Deployments, want 1", len(deployments))
	}
	r.Deployment = deployments[0]
	return r
}

func template(t *testing.T, values string, args ...string) (string, error) {
	t.Helper()
	args = append([]string{
		"template", "scanner", chartDir, "--namespace", namespace, "--values", valuesFile(t, imageValues), "--values", valuesFile(t, values),
	}, args...)
	return helm(t, args...)
}

func valuesFile(t *testing.T, values string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(file, []byte(values), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// variants are releases that must all be sound.
func variants(t *testing.T) map[string]release {
	t.Helper()
	all := map[string]string{"defaults": ""}
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no values files in testdata: %v", err)
	}
	for _, file := range files {
		values, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all[filepath.Base(file)] = string(values)
	}
	releases := map[string]release{}
	for file, values := range all {
		releases[file] = render(t, values)
	}
	return releases
}
