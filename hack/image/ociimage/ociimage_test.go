package ociimage

import "testing"

// TestAnnotations imports images under the names that Kubernetes looks for.
func TestAnnotations(t *testing.T) {
	for name, want := range map[string]string{
		"localhost/scanner-operator:dev":         "localhost/scanner-operator:dev",
		"localhost:5000/scanner-operator:dev":    "localhost:5000/scanner-operator:dev",
		"registry.example/team/scanner-operator": "registry.example/team/scanner-operator:latest",
		"team/scanner-operator:1":                "docker.io/team/scanner-operator:1",
		"scanner-operator:dev":                   "docker.io/library/scanner-operator:dev",
	} {
		got, err := Annotations(name)
		if err != nil || got["io.containerd.image.name"] != want || got["org.opencontainers.image.ref.name"] != name {
			t.Errorf("%s: got %v, %v, want %s", name, got, err, want)
		}
	}
	if _, err := Annotations("Not A Name"); err == nil {
		t.Error("an invalid name is accepted")
	}
}
