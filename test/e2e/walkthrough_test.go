//go:build e2e

package e2e

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/onsi/gomega"
)

// kubectl runs a command in a namespace and returns its output.
func kubectl(t *testing.T, namespace string, args ...string) string {
	t.Helper()
	out, err := runKubectl(t.Context(), namespace, "", args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func runKubectl(ctx context.Context, namespace, input string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "kubectl", append([]string{"--kubeconfig=" + e2e.Kubeconfig, "--namespace=" + namespace}, args...)...)
	cmd.Dir, cmd.Stdin = e2e.Root, strings.NewReader(input)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, stderr.String())
	}
	return string(out), nil
}

// prints polls a command.
func prints(t *testing.T, namespace string, args ...string) func() (string, error) {
	return func() (string, error) { return runKubectl(t.Context(), namespace, "", args...) }
}

// publish makes an image of a sleeping program available under a public name, from the registry of the samples.
func publish(t *testing.T, registry, repository, tag, label string) {
	t.Helper()
	image := labelled(t, sleepingImage(t), label)
	reference, err := name.NewTag(e2e.registry.host+"/"+repository+":"+tag, name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(reference, image, remote.WithContext(t.Context())); err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(filepath.Dir(e2e.Kubeconfig), "registries", registry)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	mirror := fmt.Sprintf("[host.\"http://%s\"]\n  capabilities = [\"pull\", \"resolve\"]\n", e2e.registry.host)
	if err := os.WriteFile(filepath.Join(folder, "hosts.toml"), []byte(mirror), 0o644); err != nil {
		t.Fatal(err)
	}
}

// sleepingImage has a program named sleep, for a user that is not root.
func sleepingImage(t *testing.T) v1.Image {
	t.Helper()
	program := filepath.Join(t.TempDir(), "sleep")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags=-s -w", "-o", program, "./hack/sampleimages/sleeper")
	build.Dir, build.Env = e2e.Root, append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the sleeper: %v: %s", err, out)
	}
	content, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	if err := w.WriteHeader(&tar.Header{Name: "bin/sleep", Mode: 0o755, Size: int64(len(content)), Typeflag: tar.TypeReg}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(layer.Bytes())), nil })
	if err != nil {
		t.Fatal(err)
	}
	image, err := mutate.AppendLayers(empty.Image, l)
	if err != nil {
		t.Fatal(err)
	}
	file, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	file = file.DeepCopy()
	file.OS, file.Architecture = "linux", runtime.GOARCH
	file.Config.Env, file.Config.User, file.Config.Entrypoint = []string{"PATH=/bin"}, "65532", []string{"/bin/sleep"}
	image, err = mutate.ConfigFile(image, file)
	if err != nil {
		t.Fatal(err)
	}
	return image
}

// TestPodSetWalkthrough runs the commands of docs/tutorials/podset.md.
func TestPodSetWalkthrough(t *testing.T) {
	t.Parallel()
	g, ns := gomega.NewWithT(t), restrictedNamespace(t)
	publish(t, "quay.io", "amacdona/strauss", "latest", "strauss")
	eventually := func(args ...string) gomega.AsyncAssertion {
		return g.Eventually(prints(t, ns, args...), patience, commandTick)
	}
	running := []string{"get", "pods", "-o", `jsonpath={range .items[?(@.status.phase=="Running")]}{.metadata.name}{"\n"}{end}`}
	status := []string{"get", "podset", "podset-sample", "-o", `jsonpath={.status.availableReplicas} {.status.podNames}`}

	g.Expect(kubectl(t, ns, "apply", "-f", "config/samples/app_v1alpha1_podset.yaml")).To(gomega.Equal("podset.app.example.com/podset-sample created\n"))
	for _, step := range []struct {
		replicas int
		command  []string
	}{
		{replicas: 3},
		{5, []string{"patch", "podset", "podset-sample", "--type=json", "-p", `[{"op": "replace", "path": "/spec/replicas", "value":5}]`}},
		{1, []string{"patch", "podset", "podset-sample", "--type=json", "-p", `[{"op": "replace", "path": "/spec/replicas", "value":1}]`}},
		{2, []string{"scale", "podset", "podset-sample", "--replicas=2"}},
	} {
		if step.command != nil {
			g.Expect(kubectl(t, ns, step.command...)).To(gomega.MatchRegexp("^podset.app.example.com/podset-sample (patched|scaled)\n$"))
		}
		eventually(running...).Should(gomega.WithTransform(strings.Fields, gomega.And(
			gomega.HaveLen(step.replicas), gomega.HaveEach(gomega.HavePrefix("podset-sample-pod")))))
		eventually(status...).Should(gomega.And(
			gomega.HavePrefix(fmt.Sprintf("%d [", step.replicas)), gomega.WithTransform(func(s string) int { return strings.Count(s, "podset-sample-pod") }, gomega.Equal(step.replicas))))
	}
	eventually("get", "podsets").Should(gomega.MatchRegexp(`(?m)^podset-sample\s+2\s+2\s+True`))
	g.Expect(kubectl(t, ns, "get", "pods", "-o", "yaml")).To(gomega.MatchRegexp(`ownerReferences:\n\s+- apiVersion: app.example.com/v1alpha1\n(\s+.*\n)*?\s+kind: PodSet\n\s+name: podset-sample\n`))
	_, err := runKubectl(t.Context(), ns, "", "patch", "podset", "podset-sample", "--type=merge", "-p", `{"spec":{"replicas":11}}`)
	g.Expect(err).To(gomega.MatchError(gomega.ContainSubstring("should be less than or equal to 10")))
	kubectl(t, ns, "delete", "podset", "podset-sample")
	eventually("get", "pods", "-o", "name").Should(gomega.BeEmpty(), "the pods outlive their PodSet")
}

// TestMyCustomResourceWalkthrough runs the commands of docs/tutorials/mycustomresource.md.
func TestMyCustomResourceWalkthrough(t *testing.T) {
	t.Parallel()
	g, ns := gomega.NewWithT(t), restrictedNamespace(t)
	g.Expect(kubectl(t, ns, "get", "crds")).To(gomega.MatchRegexp(`(?m)^mycustomresources\.poc\.test\.domain\s.*\d{4}-`))
	g.Expect(kubectl(t, ns, "apply", "-f", "config/samples", "--dry-run=server")).To(gomega.ContainSubstring("mycustomresource.poc.test.domain/my-custom-resource-02 created"))
	g.Expect(kubectl(t, ns, "apply", "-f", "config/samples/poc_v1_mycustomresource.yaml")).To(gomega.Equal(
		"mycustomresource.poc.test.domain/my-custom-resource-01 created\nmycustomresource.poc.test.domain/my-custom-resource-02 created\n"))
	describe := prints(t, ns, "describe", "MyCustomresource", "my-custom-resource-01")
	g.Eventually(describe, patience, commandTick).Should(gomega.ContainSubstring("FriendNotFound"))

	// The pod of the tutorial runs as root, so it needs a namespace without restrictions.
	open := "default"
	out, err := runKubectl(t.Context(), open, `apiVersion: v1
kind: Pod
metadata:
  name: funny-joe
spec:
  containers:
  - name: ubuntu
    image: ubuntu:latest
    # Just sleep forever
    command: [ "sleep" ]
    args: [ "infinity" ]
`, "apply", "-f", "-")
	g.Expect(out, err).To(gomega.Equal("pod/funny-joe created\n"))
	g.Eventually(describe, patience, commandTick).Should(gomega.MatchRegexp(`(?m)^  Healthy:\s+true$`))
	g.Expect(kubectl(t, open, "delete", "pods", "funny-joe", "--grace-period=1")).To(gomega.HavePrefix(`pod "funny-joe" deleted`))
	g.Eventually(describe, patience, commandTick).ShouldNot(gomega.ContainSubstring("Healthy:"))
}

// TestBellerophonSimpleWalkthrough runs the commands of docs/tutorials/bellerophonsimple.md.
func TestBellerophonSimpleWalkthrough(t *testing.T) {
	t.Parallel()
	g, ns := gomega.NewWithT(t), restrictedNamespace(t)
	const hero = "example-simple-bellerophon-hero1"
	publish(t, "quay.io", "pok-us-io/pokus_api_build", "latest", "pokus 1")
	publish(t, "quay.io", "pok-us-io/pokus_api_build", "2", "pokus 2")
	eventually := func(args ...string) gomega.AsyncAssertion {
		return g.Eventually(prints(t, ns, args...), patience, commandTick)
	}
	status := []string{"get", "sheroes", hero, "-o", `jsonpath={.status.readyReplicas} {.status.currentImage}`}

	g.Expect(kubectl(t, ns, "apply", "-f", "config/samples/stable_v444beta989_bellerophonsimple.yaml")).To(gomega.Equal(
		"bellerophonsimple.stable.simple-bellerophon.io/" + hero + " created\n"))
	g.Expect(kubectl(t, ns, "get", "sheroes", "-o", "wide")).To(gomega.MatchRegexp(`(?m)^NAME.*AGE$\n^` + hero))
	g.Expect(kubectl(t, ns, "describe", "sheroes", hero)).To(gomega.And(
		gomega.MatchRegexp(`(?m)^  Image:\s+quay.io/pok-us-io/pokus_api_build$`), gomega.MatchRegexp(`(?m)^  Replicas:\s+7$`), gomega.MatchRegexp(`(?m)^  winged_horse_name:\s+pegasusio$`)))
	eventually(status...).Should(gomega.Equal("7 quay.io/pok-us-io/pokus_api_build"))
	g.Expect(kubectl(t, ns, "get", "bsh", hero, "-o", `jsonpath={.status.conditions[?(@.type=="Ready")].status}`)).To(gomega.Equal("True"))

	// The desired state is restored.
	kubectl(t, ns, "delete", "statefulset", hero, "--cascade=orphan")
	kubectl(t, ns, "delete", "service", hero)
	eventually("get", "statefulset,service", "-o", "name").Should(gomega.And(
		gomega.ContainSubstring("statefulset.apps/"+hero), gomega.ContainSubstring("service/"+hero)))
	kubectl(t, ns, "scale", "statefulset", hero, "--replicas=1")
	eventually("get", "statefulset", hero, "-o", "jsonpath={.spec.replicas}").Should(gomega.Equal("7"))

	kubectl(t, ns, "scale", "sheroes", hero, "--replicas=2")
	eventually(status...).Should(gomega.Equal("2 quay.io/pok-us-io/pokus_api_build"))
	kubectl(t, ns, "patch", "sheroes", hero, "--type=merge", "-p", `{"spec":{"image":"quay.io/pok-us-io/pokus_api_build:2"}}`)
	eventually(status...).Should(gomega.Equal("2 quay.io/pok-us-io/pokus_api_build:2"))
	kubectl(t, ns, "delete", "sheroes", hero)
	eventually("get", "pods,statefulsets,services,poddisruptionbudgets", "-o", "name").Should(gomega.BeEmpty(), "its parts outlive the shero")
}

// TestDeploymentFeedWalkthrough reads the messages of docs/tutorials/deployment-feed.md as a client does.
func TestDeploymentFeedWalkthrough(t *testing.T) {
	t.Parallel()
	ns, a := restrictedNamespace(t), newAPI(t)
	conn, res, err := dialer.DialContext(t.Context(), "ws"+strings.TrimPrefix(a.base, "http")+"/api/wds/logs?namespace="+ns,
		http.Header{"Authorization": {"Bearer " + a.token}})
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	defer conn.Close()
	// The connection is read while commands run, too: a subscriber that does not answer pings is disconnected.
	messages, ended := make(chan []byte, 1000), make(chan error, 1)
	go func() {
		for {
			_, message, err := conn.ReadMessage()
			if err != nil {
				ended <- err
				return
			}
			messages <- message
		}
	}()
	// until reads up to a message. Others may come before: the status of a Deployment changes as well.
	until := func(want string) {
		t.Helper()
		timeout := time.After(patience)
		for {
			var message []byte
			select {
			case message = <-messages:
			case err := <-ended:
				t.Fatalf("%v, without %q", err, want)
			case <-timeout:
				t.Fatalf("no message %q", want)
			}
			text := string(message)
			var update struct{ Timestamp, Message string }
			if json.Unmarshal(message, &update) == nil {
				if _, err := time.Parse(time.RFC3339, update.Timestamp); err != nil {
					t.Errorf("the time of %s: %v", message, err)
				}
				text = update.Message
			}
			if text == want {
				return
			}
		}
	}
	kubectl(t, ns, "create", "deployment", "web", "--image=registry.invalid/web:1")
	until("Successfully processed deployment: web")
	kubectl(t, ns, "scale", "deployment", "web", "--replicas=3")
	until("Deployment web updated - Replicas changed: 3")
	until("Successfully processed deployment: web")
	kubectl(t, ns, "set", "image", "deployment", "web", "web=registry.invalid/web:2")
	until("Deployment web updated - Image changed: registry.invalid/web:2")
	until("Successfully processed deployment: web")
	kubectl(t, ns, "delete", "deployment", "web")
	until("Deployment web deleted")
	until("Deployment " + ns + "/web has been deleted")
}
