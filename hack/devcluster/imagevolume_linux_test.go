package main

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/scanner-operator/scanner-operator/hack/gobuild"
)

// readerImage holds the program of testdata/reader, and files that pods read from a volume with the image.
const readerImage = "devcluster.invalid/reader:1"

// loadReaderImage brings an image into the node that no registry has.
func loadReaderImage(t *testing.T, c *cluster) {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(dir, "reader")
	build := gobuild.Build{Title: "the reader", Output: program, Packages: []string{"./testdata/reader"}, Progress: t.Output()}
	if err := build.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	binary, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	archive := filepath.Join(dir, "reader.tar")
	if err := writeImage(archive, readerImage, v1.Config{Entrypoint: []string{"/reader"}}, imageFile{"reader", 0o755, 0, binary},
		imageFile{"public", 0o644, 0, []byte("public")}, imageFile{"root", 0o600, 0, []byte("root's")}, imageFile{"other", 0o600, 70, []byte("another's")},
	); err != nil {
		t.Fatal(err)
	}
	if err := c.load(t.Context(), archive); err != nil {
		t.Fatal(err)
	}
}

var readerVolume = map[string]any{"name": "image", "image": map[string]string{"reference": readerImage, "pullPolicy": "Never"}}

// readImageVolumes checks what pods that meet the restricted Pod Security Standard can read and create in an image that is mounted as a volume.
func readImageVolumes(t *testing.T, c *cluster, name string) {
	t.Helper()
	const enforce = `{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"restricted"}}}`
	if _, err := c.request(t.Context(), http.MethodPatch, "/api/v1/namespaces/default", "application/merge-patch+json", strings.NewReader(enforce)); err != nil {
		t.Fatal(err)
	}
	const denied = "permission denied"
	for _, test := range []struct {
		pod         string
		user        int
		hostUsers   bool
		root, other string
	}{
		{"user", 65532, true, denied, denied},
		{"namespace", 65532, false, denied, denied},
		// User 0 of the pod's user namespace owns what user 0 of the image owns, and has no capability to read the rest.
		{"root", 0, false, "root's", denied},
	} {
		want := map[string]string{"public": "public", "root": test.root, "other": test.other}
		for _, file := range []string{"public", "root", "other"} {
			want[file+".new"] = "read-only file system"
		}
		pod := name + "-" + test.pod
		if diff := cmp.Diff(want, readImageVolume(t, c, pod, test.user, test.hostUsers)); diff != "" {
			t.Errorf("the pod %s, want -, got +:\n%s", pod, diff)
		}
	}
}

// readImageVolume returns what a pod found in its volume.
func readImageVolume(t *testing.T, c *cluster, pod string, user int, hostUsers bool) map[string]string {
	t.Helper()
	status := runPodSpec(t, c, pod, nil, map[string]any{
		"restartPolicy": "Never", "hostUsers": hostUsers, "automountServiceAccountToken": false, "volumes": []any{readerVolume},
		"securityContext": map[string]any{"runAsNonRoot": user != 0, "runAsUser": user, "seccompProfile": map[string]string{"type": "RuntimeDefault"}},
		"containers": []any{map[string]any{
			"name": "main", "image": readerImage, "args": []string{"public", "root", "other"}, "workingDir": "/image",
			"securityContext": map[string]any{"allowPrivilegeEscalation": false, "capabilities": map[string]any{"drop": []string{"ALL"}}},
			"volumeMounts":    []any{map[string]string{"name": "image", "mountPath": "/image"}},
		}},
	}, func(s podStatus) bool { return s.Phase == "Succeeded" || s.Phase == "Failed" })
	var found map[string]string
	if err := json.Unmarshal([]byte(status.Containers[0].State.Terminated.Message), &found); err != nil {
		t.Fatalf("the pod %s ended with %+v: %v", pod, status, err)
	}
	return found
}
