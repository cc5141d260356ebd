package policyreports

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/scanner-operator/scanner-operator/internal/controller/controllertest"
	"github.com/scanner-operator/scanner-operator/internal/sinks"
)

const patience, tick = controllertest.Patience, controllertest.Tick

func TestMain(m *testing.M) { os.Exit(controllertest.Main(m)) }

// crd has the fields of openreports.io/v1alpha1 that are written, with their types and values.
const crd = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: reports.openreports.io}
spec:
  group: openreports.io
  scope: Namespaced
  names: {kind: Report, listKind: ReportList, plural: reports, singular: report}
  versions:
    - name: v1alpha1
      served: true
      storage: true
      schema:
        openAPIV3Schema:
          type: object
          properties:
            source: {type: string}
            scope: {type: object, properties: {kind: {type: string}, namespace: {type: string}, name: {type: string}}}
            configuration:
              type: object
              required: [limits]
              properties: {limits: {type: object, properties: {maxResults: {type: integer}}}}
            summary:
              type: object
              properties: {pass: {type: integer}, fail: {type: integer}, warn: {type: integer}, error: {type: integer}, skip: {type: integer}}
            results:
              type: array
              items:
                type: object
                required: [policy]
                properties:
                  policy: {type: string}
                  rule: {type: string}
                  category: {type: string}
                  severity: {type: string, enum: [critical, high, low, medium, info]}
                  result: {type: string, enum: [pass, fail, warn, error, skip]}
                  message: {type: string}
                  properties: {type: object, additionalProperties: {type: string}}
`

// TestReports writes, replaces and deletes objects on a real API server with the rights of the operator, and leaves those of others as they are.
func TestReports(t *testing.T) {
	g := gomega.NewWithT(t)
	scheme := controllertest.Scheme(t, corev1.AddToScheme)
	admin, err := client.New(controllertest.Config(t), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	namespace := controllertest.Namespace(t, admin)
	restricted, err := client.New(controllertest.Restricted(t), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	logs := &controllertest.Logs{}
	w := &Writer{Client: restricted, Live: restricted, Log: logr.FromContextOrDiscard(logs.Context(t.Context()))}
	const content = `{"source":"scanner-operator","scope":{"kind":"Deployment","namespace":"n","name":"web"},"configuration":{"limits":{"maxResults":10}},` +
		`"summary":{"pass":0,"fail":1,"warn":0,"error":0,"skip":0},"results":[{"policy":"CVE-1","rule":"openssl","category":"Vulnerability","severity":"critical","result":"fail","message":"m","properties":{"package":"openssl"}}]}`
	owner := sinks.Owner{Name: "sink", UID: "9f1f5f86-7a2f-4a53-9a0c-6a7a0a2f4d10"}
	put := func(content string) error {
		return w.Put(t.Context(), &sinks.PolicyObject{Owner: owner, Namespace: namespace, Name: "scanner-a", Content: []byte(content)})
	}
	if err := put(content); !errors.Is(err, sinks.ErrUnavailable) || !strings.Contains(err.Error(), "install its CRD") {
		t.Errorf("without the CRD: %v", err)
	}
	definition := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(crd), &definition.Object); err != nil {
		t.Fatal(err)
	}
	if err := admin.Create(t.Context(), definition); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = admin.Delete(context.Background(), definition) })
	g.Eventually(func() error { return put(content) }, patience, tick).Should(gomega.Succeed())
	read := func(name string) *unstructured.Unstructured {
		t.Helper()
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(kind)
		if err := admin.Get(t.Context(), types.NamespacedName{Namespace: namespace, Name: name}, object); err != nil {
			t.Fatal(err)
		}
		return object
	}
	if err := put(content); err != nil {
		t.Errorf("the same object once more: %v", err)
	}
	object := read("scanner-a")
	owners := object.GetOwnerReferences()
	if len(owners) != 1 || owners[0].Kind != "ReportSink" || string(owners[0].UID) != owner.UID || object.GetLabels()[LabelSink] != "sink" {
		t.Errorf("metadata %+v %v", owners, object.GetLabels())
	}
	if err := put(strings.Replace(content, `"fail":1`, `"fail":7`, 1)); err != nil {
		t.Fatal(err)
	}
	if fail, _, _ := unstructured.NestedInt64(read("scanner-a").Object, "summary", "fail"); fail != 7 {
		t.Errorf("%d findings, want 7", fail)
	}
	if err := put(strings.Replace(content, `"critical"`, `"terrible"`, 1)); !errors.Is(err, sinks.ErrRefused) {
		t.Errorf("an object that is not valid: %v", err)
	}
	// An object of someone else is neither replaced nor deleted.
	other := &unstructured.Unstructured{}
	other.SetGroupVersionKind(kind)
	other.SetNamespace(namespace)
	other.SetName("scanner-b")
	if err := admin.Create(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	err = w.Put(t.Context(), &sinks.PolicyObject{Owner: owner, Namespace: namespace, Name: "scanner-b", Content: []byte(content)})
	if !errors.Is(err, sinks.ErrRefused) {
		t.Errorf("an object of someone else is replaced: %v", err)
	}
	if err := w.Delete(t.Context(), owner, namespace, "scanner-b"); !errors.Is(err, sinks.ErrRefused) {
		t.Errorf("an object of someone else is deleted: %v", err)
	}
	read("scanner-b")
	if err := w.Delete(t.Context(), owner, namespace, "scanner-a"); err != nil {
		t.Fatal(err)
	}
	if err := w.Delete(t.Context(), owner, namespace, "scanner-a"); err != nil {
		t.Errorf("a second time: %v", err)
	}
	var logged []string
	for _, line := range []string{`"Created Report" %s "to"="fail=1"`, `"Updated Report" %s "from"="fail=1" "to"="fail=7"`, `"Deleted Report" %s "from"="fail=7"`} {
		logged = append(logged, `"level"=0 "msg"=`+fmt.Sprintf(line, fmt.Sprintf(`"namespace"=%q "object"="scanner-a" "sink"="sink"`, namespace)))
	}
	if diff := cmp.Diff(logged, logs.Take()); diff != "" {
		t.Errorf("logs (-want +got):\n%s", diff)
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind("ReportList"))
	if err := admin.List(t.Context(), list, client.InNamespace(namespace)); err != nil || len(list.Items) != 1 {
		t.Errorf("%d objects, %v", len(list.Items), err)
	}
}
