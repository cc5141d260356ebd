package upgrade

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	sigsyaml "sigs.k8s.io/yaml"
)

// Fixed is what an upgrade must leave as it is: for each object, named "kind name", the fields that the API server does not let
// anybody change, or whose change would lose data. An object of a kind that is not in fixedFields may come and go.
type Fixed map[string]map[string]any

// fixedFields lists for each kind the paths of such fields. An object of these kinds also keeps its name, which others refer to.
var fixedFields = map[string][]string{
	"Deployment":               {"spec.selector"},
	"StatefulSet":              {"spec.selector", "spec.serviceName", "spec.podManagementPolicy", "spec.volumeClaimTemplates"},
	"Service":                  {"spec.clusterIP", "spec.ipFamilies"},
	"ServiceAccount":           {},
	"Secret":                   {"type"},
	"PriorityClass":            {"value", "preemptionPolicy"},
	"PersistentVolumeClaim":    {"spec.accessModes", "spec.storageClassName", "spec.volumeMode", "spec.volumeName", "spec.selector", "spec.dataSource"},
	"CustomResourceDefinition": {"spec.group", "spec.scope", "spec.names.kind", "spec.names.plural"},
	"RoleBinding":              {"roleRef"},
	"ClusterRoleBinding":       {"roleRef"},
}

// FixedFields reads what "helm template" prints.
func FixedFields(manifests []byte) (Fixed, error) {
	fixed := Fixed{}
	for reader := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(manifests))); ; {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return fixed, nil
		}
		if err != nil {
			return nil, err
		}
		object := &unstructured.Unstructured{}
		if err := sigsyaml.Unmarshal(document, &object.Object); err != nil {
			return nil, fmt.Errorf("%w in %.500s", err, document)
		}
		paths, found := fixedFields[object.GetKind()]
		if !found {
			continue
		}
		fields := map[string]any{}
		for _, path := range paths {
			// What is not there is nil.
			fields[path], _, err = unstructured.NestedFieldNoCopy(object.Object, strings.Split(path, ".")...)
			if err != nil {
				return nil, fmt.Errorf("%s %s: %w", object.GetKind(), object.GetName(), err)
			}
		}
		versions, _, err := unstructured.NestedSlice(object.Object, "spec", "versions")
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", object.GetKind(), object.GetName(), err)
		}
		for _, version := range versions {
			if v, ok := version.(map[string]any); ok {
				fields[fmt.Sprintf("version %v is served", v["name"])] = v["served"]
			}
		}
		fixed[object.GetKind()+" "+object.GetName()] = fields
	}
}

// Broken lists what of before is not so any more.
func (before Fixed) Broken(after Fixed) []string {
	var broken []string
	for name, fields := range before {
		now, found := after[name]
		if !found {
			broken = append(broken, name+" is missing")
			continue
		}
		for field, value := range fields {
			if !reflect.DeepEqual(value, now[field]) {
				broken = append(broken, fmt.Sprintf("%s: %s was %v and is %v", name, field, value, now[field]))
			}
		}
	}
	slices.Sort(broken)
	return broken
}
