package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// The names and addresses of a real cluster. One real cluster fits on a machine.
const (
	nodeName    = "devcluster"
	bridge      = "sodev0"
	gateway     = "10.201.0.1"
	podCIDR     = "10.201.0.0/24"
	serviceCIDR = "10.202.0.0/24"
	apiIP       = "10.202.0.1"
	dnsIP       = "10.202.0.10"
	cgroup      = "scanner-operator-devcluster"
	pauseImage  = "devcluster.invalid/pause:1"

	// containerdState holds the root file systems of containers. Pods with user namespaces have to get there, and not
	// into the cluster's folder, which is root's alone.
	containerdState = "/run/scanner-operator-devcluster"
)

var realPorts = []string{
	"etcd", "etcd-peer", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kubelet-healthz",
	"kube-proxy-metrics", "kube-proxy-healthz", "coredns", "coredns-health",
}

// debianPackages by a command or file that they bring. A C compiler and libseccomp are for building runc.
var debianPackages = []struct{ file, name string }{
	{"iptables", "iptables"}, {"conntrack", "conntrack"}, {"ip", "iproute2"},
	{"/usr/lib/cni/bridge", "containernetworking-plugins"},
	{"gcc", "gcc"}, {"/usr/include/stdlib.h", "libc6-dev"}, {"pkg-config", "pkg-config"}, {"/usr/include/seccomp.h", "libseccomp-dev"},
}

// requireReal checks that a real cluster can be built and started here, and installs packages that lack.
func (c *cluster) requireReal(ctx context.Context) error {
	if os.Geteuid() != 0 {
		return errors.New("a real cluster needs root; --mode=simulated does not")
	}
	return installPackages(ctx, c.say)
}

func (c *cluster) startReal(ctx context.Context) error {
	if err := c.remember(ctx); err != nil {
		return err
	}
	if err := c.prepareMachine(ctx); err != nil {
		return err
	}
	plane := controlPlane{bind: gateway, advertise: gateway, serviceCIDR: serviceCIDR, serviceIP: apiIP}
	if err := c.reservePorts(realPorts...); err != nil {
		return err
	}
	if err := c.writeCredentials(plane, map[string]identity{
		"kubelet":    {user: "system:node:" + nodeName, groups: []string{"system:nodes"}, hosts: []string{gateway, nodeName}},
		"kube-proxy": {user: "system:kube-proxy"},
		"coredns":    {user: "coredns", groups: []string{"system:masters"}},
	}); err != nil {
		return err
	}
	if err := c.writeNodeConfig(); err != nil {
		return err
	}
	if err := c.startContainerd(ctx); err != nil {
		return err
	}
	if err := c.startControlPlane(ctx, plane); err != nil {
		return err
	}
	return c.startNode(ctx)
}

// installPackages installs what lacks with apt-get, or names it.
func installPackages(ctx context.Context, say func(string, ...any)) error {
	lacking := func() (packages []string) {
		for _, p := range debianPackages {
			if filepath.IsAbs(p.file) {
				if _, err := os.Stat(p.file); err == nil {
					continue
				}
			} else if _, err := exec.LookPath(p.file); err == nil {
				continue
			}
			packages = append(packages, p.name)
		}
		return packages
	}
	packages := lacking()
	if len(packages) == 0 {
		return nil
	}
	if _, err := exec.LookPath("apt-get"); err != nil {
		return fmt.Errorf("a real cluster needs %s; install them (the names are Debian's)", strings.Join(packages, ", "))
	}
	say("installing %s", strings.Join(packages, ", "))
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	for _, args := range [][]string{{"update", "-q"}, append([]string{"install", "-y", "-q", "--no-install-recommends"}, packages...)} {
		if err := command(ctx, nil, "env", append([]string{"DEBIAN_FRONTEND=noninteractive", "apt-get"}, args...)...); err != nil {
			return err
		}
	}
	if packages = lacking(); len(packages) > 0 {
		return fmt.Errorf("%s lack even after their installation", strings.Join(packages, ", "))
	}
	return nil
}

// command runs a program and returns its output with the error.
func command(ctx context.Context, stdin []byte, name string, args ...string) error {
	_, err := output(ctx, stdin, name, args...)
	return err
}

func output(ctx context.Context, stdin []byte, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	if stdin != nil {
		cmd.Stdin = bytes.NewReader(stdin)
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, lastLines(stderr.String(), 5))
	}
	return stdout.Bytes(), nil
}

func (c *cluster) startContainerd(ctx context.Context) error {
	if err := c.run(spec{
		name: "containerd", bin: filepath.Join(c.state.Binaries, "containerd"), args: []string{"--config=" + c.path("containerd.toml")},
		// The machine's own shim and runc, if it has any, do not fit.
		env: append([]string{"PATH=" + c.state.Binaries + string(os.PathListSeparator) + os.Getenv("PATH")}, c.state.ContainerdEnv...),
	}); err != nil {
		return err
	}
	if err := until(ctx, func() error {
		if err := c.dead(); err != nil {
			return err
		}
		return c.ctr(ctx, "version")
	}); err != nil {
		return err
	}
	archive := c.path("pause.tar")
	if err := writePauseImage(filepath.Join(c.state.Binaries, "pause"), archive); err != nil {
		return err
	}
	return c.load(ctx, archive)
}

func (c *cluster) ctr(ctx context.Context, args ...string) error {
	_, err := c.ctrOutput(ctx, args...)
	return err
}

func (c *cluster) ctrOutput(ctx context.Context, args ...string) ([]byte, error) {
	return output(ctx, nil, filepath.Join(c.state.Binaries, "ctr"), append([]string{"--address=" + c.path("containerd.sock"), "--namespace=k8s.io"}, args...)...)
}

// load imports an archive into the node's containerd.
func (c *cluster) load(ctx context.Context, archive string) error {
	if c.state.Mode != modeReal {
		return fmt.Errorf("%s is not a real cluster that runs: nothing to load images into", c.name)
	}
	if err := c.ctr(ctx, "images", "import", archive); err != nil {
		return fmt.Errorf("import %s: %w", archive, err)
	}
	return nil
}

// startNode starts the kubelet, kube-proxy and CoreDNS, and waits until pods can run.
func (c *cluster) startNode(ctx context.Context) error {
	bin := func(name string) string { return filepath.Join(c.state.Binaries, name) }
	if err := c.run(spec{name: "kubelet", bin: bin("kubelet"), args: append([]string{
		"--config=" + c.path("kubelet.yaml"), "--kubeconfig=" + c.path("pki", "kubelet.kubeconfig"), "--root-dir=" + c.path("kubelet"),
		"--hostname-override=" + nodeName, "--node-ip=" + gateway, "--cert-dir=" + c.path("pki", "kubelet-certs"),
	}, c.state.KubeletArgs...)}); err != nil {
		return err
	}
	if err := c.run(spec{name: "kube-proxy", bin: bin("kube-proxy"), args: []string{"--config=" + c.path("kube-proxy.yaml")}}); err != nil {
		return err
	}
	if err := c.createDNS(ctx); err != nil {
		return err
	}
	if err := c.run(spec{name: "coredns", bin: bin("coredns"), args: []string{"-conf=" + c.path("Corefile")}}); err != nil {
		return err
	}
	return until(ctx, func() error {
		if err := c.dead(); err != nil {
			return err
		}
		if err := c.nodesReady(ctx, 1); err != nil {
			return err
		}
		if _, err := c.request(ctx, http.MethodGet, "/api/v1/namespaces/default/serviceaccounts/default", "", nil); err != nil {
			return err
		}
		return answers(ctx, "http://"+loopback+":"+strconv.Itoa(c.state.Ports["coredns-health"])+"/health")
	})
}

func answers(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, res.Status)
	}
	return nil
}

// createDNS makes the Service that pods ask for names; CoreDNS itself runs beside the kubelet.
func (c *cluster) createDNS(ctx context.Context) error {
	port := c.state.Ports["coredns"]
	objects := []struct {
		path   string
		object map[string]any
	}{
		{"/api/v1/namespaces/kube-system/services", map[string]any{
			"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"name": "kube-dns"},
			"spec": map[string]any{"clusterIP": dnsIP, "ports": []any{
				map[string]any{"name": "dns", "protocol": "UDP", "port": 53, "targetPort": port},
				map[string]any{"name": "dns-tcp", "protocol": "TCP", "port": 53, "targetPort": port},
			}},
		}},
		{"/apis/discovery.k8s.io/v1/namespaces/kube-system/endpointslices", map[string]any{
			"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
			"metadata": map[string]any{"name": "kube-dns", "labels": map[string]string{"kubernetes.io/service-name": "kube-dns"}},
			"ports": []any{
				map[string]any{"name": "dns", "protocol": "UDP", "port": port}, map[string]any{"name": "dns-tcp", "protocol": "TCP", "port": port},
			},
			"endpoints": []any{map[string]any{"addresses": []string{gateway}, "conditions": map[string]bool{"ready": true}}},
		}},
	}
	for _, o := range objects {
		body, err := json.Marshal(o.object)
		if err != nil {
			return err
		}
		if err := until(ctx, func() error {
			// The namespace itself is made by the API server, some time after it is ready.
			_, err := c.request(ctx, http.MethodPost, o.path, "application/json", bytes.NewReader(body))
			return err
		}); err != nil {
			return fmt.Errorf("create the Service of the cluster's DNS: %w", err)
		}
	}
	return nil
}

func lastLines(s string, n int) string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	if len(lines) > n {
		lines = lines[len(lines)-n:]
	}
	return strings.Join(lines, "\n")
}
