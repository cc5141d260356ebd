package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

const lifecycleName = "lifecycle-test"

// TestLifecycle starts a cluster, breaks it, heals it, takes it down, and then looks for anything that was left.
func TestLifecycle(t *testing.T) {
	mode := os.Getenv("DEVCLUSTER_TEST")
	victim := "kube-controller-manager"
	switch mode {
	case "":
		t.Skip("set DEVCLUSTER_TEST to simulated or real to start a cluster; real needs root, and that no other real cluster runs")
	case modeSimulated:
	case modeReal:
		// Its shims, and the pods in them, outlive it.
		victim = "containerd"
	default:
		t.Fatalf("DEVCLUSTER_TEST=%s: use simulated or real", mode)
	}
	flags := []string{"--name=" + lifecycleName, "--mode=" + mode}
	// What an interrupted run of this test left is not the machine's own.
	devcluster(t, slices.Concat([]string{"down"}, flags)...)
	before := lookAtMachine(t)
	t.Cleanup(func() {
		if _, err := call(context.WithoutCancel(t.Context()), t, slices.Concat([]string{"down"}, flags)...); err != nil {
			t.Error(err)
		}
	})

	devcluster(t, slices.Concat([]string{"up"}, flags)...)
	first := lifecycleCluster(t)
	devcluster(t, slices.Concat([]string{"status"}, flags)...)
	runPods(t, first, "first")
	devcluster(t, slices.Concat([]string{"up"}, flags)...)
	if again := lifecycleCluster(t); !reflect.DeepEqual(again.state, first.state) {
		t.Fatalf("a second up changed the state from\n%+v to\n%+v", first.state, again.state)
	}

	kill(t, first, victim)
	if _, err := call(t.Context(), t, slices.Concat([]string{"status"}, flags)...); err == nil || !strings.Contains(err.Error(), victim) {
		t.Errorf("status without %s: %v", victim, err)
	}
	devcluster(t, slices.Concat([]string{"up"}, flags)...)
	second := lifecycleCluster(t)
	devcluster(t, slices.Concat([]string{"status"}, flags)...)
	runPods(t, second, "second")
	for _, p := range first.state.Processes {
		if p.alive() {
			t.Errorf("%s of the broken cluster still runs", p.Name)
		}
	}

	devcluster(t, slices.Concat([]string{"down"}, flags)...)
	for _, p := range slices.Concat(first.state.Processes, second.state.Processes) {
		if p.alive() {
			t.Errorf("%s still runs", p.Name)
		}
	}
	nothingLeft(t, first.dir)
	if mode == modeReal {
		// Others may work on the machine while a simulated cluster runs; a real one is alone on it.
		if after := lookAtMachine(t); !reflect.DeepEqual(after, before) {
			t.Errorf("the machine was\n%+v, and is\n%+v", before, after)
		}
	}
	devcluster(t, slices.Concat([]string{"down"}, flags)...)
}

// TestResolveImages runs pods by tag on simulated nodes: as with a kubelet, the status has the digest of the tag, or says why there is none.
func TestResolveImages(t *testing.T) {
	if os.Getenv("DEVCLUSTER_TEST") != modeSimulated {
		t.Skip("set DEVCLUSTER_TEST to simulated")
	}
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	repository := strings.TrimPrefix(server.URL, "http://") + "/app"
	push := func(tag string) string {
		t.Helper()
		image, err := random.Image(16, 1)
		if err != nil {
			t.Fatal(err)
		}
		reference, err := name.ParseReference(repository + ":" + tag)
		if err != nil {
			t.Fatal(err)
		}
		if err := remote.Write(reference, image); err != nil {
			t.Fatal(err)
		}
		digest, err := image.Digest()
		if err != nil {
			t.Fatal(err)
		}
		return repository + "@" + digest.String()
	}
	flags := []string{"--name=" + lifecycleName, "--mode=" + modeSimulated}
	t.Cleanup(func() {
		if _, err := call(context.WithoutCancel(t.Context()), t, slices.Concat([]string{"down"}, flags)...); err != nil {
			t.Error(err)
		}
	})
	devcluster(t, slices.Concat([]string{"down"}, flags)...)
	devcluster(t, slices.Concat([]string{"up", "--resolve-images"}, flags)...)
	c := lifecycleCluster(t)

	for _, tag := range []string{"1", "2"} {
		want := push(tag)
		status := runPod(t, c, "tag-"+tag, repository+":"+tag, nil, func(s podStatus) bool { return s.Phase == "Running" })
		if got := status.Containers[0].ImageID; got != want {
			t.Errorf("the image ID is %q, want %q", got, want)
		}
	}
	status := runPod(t, c, "missing", repository+":3", nil, func(s podStatus) bool {
		return len(s.Containers) == 1 && s.Containers[0].State.Waiting.Reason == "ImagePullBackOff"
	})
	if message := status.Containers[0].State.Waiting.Message; status.Phase != "Pending" || !strings.Contains(message, "MANIFEST_UNKNOWN") {
		t.Errorf("the pod is %s and says %q, want Pending and the message of the registry", status.Phase, message)
	}
	want := push("3")
	status = waitForPod(t, c, "missing", func(s podStatus) bool { return s.Phase == "Running" })
	if got := status.Containers[0].ImageID; got != want {
		t.Errorf("after the push the image ID is %q, want %q", got, want)
	}
}

// call runs a command of this program.
func call(ctx context.Context, t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := newCommand()
	var stdout bytes.Buffer
	cmd.SetOut(&stdout)
	cmd.SetErr(t.Output())
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(ctx)
	if err != nil {
		err = fmt.Errorf("devcluster %s: %w", strings.Join(args, " "), err)
	}
	return stdout.String(), err
}

func devcluster(t *testing.T, args ...string) {
	t.Helper()
	if _, err := call(t.Context(), t, args...); err != nil {
		t.Fatal(err)
	}
}

func lifecycleCluster(t *testing.T) *cluster {
	t.Helper()
	c, err := openCluster(lifecycleName, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// kill ends a component as a crash would.
func kill(t *testing.T, c *cluster, name string) {
	t.Helper()
	i := slices.IndexFunc(c.state.Processes, func(p process) bool { return p.Name == name })
	if i < 0 || !c.state.Processes[i].alive() {
		t.Fatalf("%s does not run", name)
	}
	victim := c.state.Processes[i]
	if err := syscall.Kill(victim.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), killGrace)
	defer cancel()
	if err := until(ctx, func() error {
		if victim.alive() {
			return errors.New("still running")
		}
		return nil
	}); err != nil {
		t.Fatalf("%s after its end: %v", name, err)
	}
}

// podStatus is what the tests look at.
type podStatus struct {
	Phase      string `json:"phase"`
	Containers []struct {
		ImageID string `json:"imageID"`
		State   struct {
			Waiting struct {
				Reason  string `json:"reason"`
				Message string `json:"message"`
			} `json:"waiting"`
			Terminated struct {
				Message string `json:"message"`
			} `json:"terminated"`
		} `json:"state"`
	} `json:"containerStatuses"`
}

// runPods checks that pods run, and in a simulated cluster that their annotations do what they say.
func runPods(t *testing.T, c *cluster, name string) {
	t.Helper()
	running := func(s podStatus) bool { return s.Phase == "Running" }
	if c.state.Mode == modeReal {
		loadReaderImage(t, c)
		// It runs, with its volume, until the cluster ends or breaks.
		runPodSpec(t, c, name, nil, map[string]any{
			"containers": []any{map[string]any{"name": "main", "image": pauseImage, "volumeMounts": []any{map[string]string{"name": "image", "mountPath": "/image"}}}},
			"volumes":    []any{readerVolume},
		}, running)
		readImageVolumes(t, c, name)
		return
	}
	const id = "registry.example.com/demo@sha256:0000000000000000000000000000000000000000000000000000000000000001"
	status := runPod(t, c, name, pauseImage, map[string]string{"devcluster/image-id.main": id}, running)
	if len(status.Containers) != 1 || status.Containers[0].ImageID != id {
		t.Errorf("got %+v, want the image ID of the annotation", status)
	}
	status = runPod(t, c, name+"-error", pauseImage, map[string]string{"devcluster/pull-error": "ImagePullBackOff", "devcluster/pull-message": "no: such \"image\""},
		func(s podStatus) bool { return len(s.Containers) > 0 })
	if waiting := status.Containers[0].State.Waiting; status.Phase != "Pending" || waiting.Reason != "ImagePullBackOff" || waiting.Message != "no: such \"image\"" {
		t.Errorf("got %+v, want the reason and message of the annotations", status)
	}
}

const pods = "/api/v1/namespaces/default/pods"

// runPod creates a pod and waits for done.
func runPod(t *testing.T, c *cluster, name, image string, annotations map[string]string, done func(podStatus) bool) podStatus {
	t.Helper()
	return runPodSpec(t, c, name, annotations, map[string]any{"containers": []any{map[string]any{"name": "main", "image": image}}}, done)
}

func runPodSpec(t *testing.T, c *cluster, name string, annotations map[string]string, spec map[string]any, done func(podStatus) bool) podStatus {
	t.Helper()
	pod, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": name, "annotations": annotations}, "spec": spec,
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.request(t.Context(), http.MethodPost, pods, "application/json", bytes.NewReader(pod)); err != nil {
		t.Fatal(err)
	}
	return waitForPod(t, c, name, done)
}

func waitForPod(t *testing.T, c *cluster, name string, done func(podStatus) bool) podStatus {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var answer struct {
		Status podStatus `json:"status"`
	}
	if err := until(ctx, func() error {
		body, err := c.request(ctx, http.MethodGet, pods+"/"+name, "", nil)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(body, &answer); err != nil {
			return fatalError{err}
		}
		if !done(answer.Status) {
			return fmt.Errorf("the pod %s is not as expected: %.2000s", name, body)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return answer.Status
}

// nothingLeft looks for the folder, the lock, mounts and processes of a cluster.
func nothingLeft(t *testing.T, dir string) {
	t.Helper()
	for _, path := range []string{dir, dir + ".lock"} {
		if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is left: %v", path, err)
		}
	}
	if mounts, err := mountPoints(dir); err != nil || len(mounts) > 0 {
		t.Errorf("the mounts %q are left: %v", mounts, err)
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		// A process that ends meanwhile has no command line.
		line, err := os.ReadFile(filepath.Join("/proc", entry.Name(), "cmdline"))
		if err == nil && bytes.Contains(line, []byte(dir+"/")) && syscall.Kill(pid, 0) == nil {
			t.Errorf("the process %d is left: %s", pid, bytes.ReplaceAll(line, []byte{0}, []byte(" ")))
		}
	}
}

// machine is what a real cluster changes.
type machine struct {
	Interface  bool
	Chains     []string
	Rules      []string
	Namespaces []string
	Cgroups    []string
	Paths      []string
	Sysctls    map[string]string
}

func lookAtMachine(t *testing.T) machine {
	t.Helper()
	_, err := os.Stat("/sys/class/net/" + bridge)
	m := machine{Interface: err == nil, Namespaces: namespaces(), Sysctls: map[string]string{}}
	tables, err := readTables(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range tables {
		for _, chain := range table.chains {
			if strings.HasPrefix(chain, "KUBE-") || strings.HasPrefix(chain, "CNI-") {
				m.Chains = append(m.Chains, table.id()+" "+chain)
			}
		}
		for _, rule := range table.rules {
			m.Rules = append(m.Rules, table.id()+" "+rule)
		}
	}
	for _, pattern := range []string{"/sys/fs/cgroup/" + cgroup, "/sys/fs/cgroup/*/" + cgroup} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		m.Cgroups = append(m.Cgroups, found...)
	}
	for _, path := range paths {
		if _, err := os.Lstat(path); err == nil {
			m.Paths = append(m.Paths, path)
		}
	}
	for _, name := range sysctls {
		if value, err := os.ReadFile("/proc/sys/" + name); err == nil {
			m.Sysctls[name] = strings.TrimSpace(string(value))
		}
	}
	return m
}
