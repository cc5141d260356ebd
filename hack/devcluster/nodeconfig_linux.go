package main

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// registryPorts are the ports of the gateway's address at which a registry is asked over plain HTTP.
const firstRegistryPort, lastRegistryPort = 5000, 5009

const containerdConfig = `version = 3
root = "{dir}/containerd/root"
state = "{containerdState}"

[grpc]
  address = "{dir}/containerd.sock"

[plugins."io.containerd.cri.v1.images"]
  [plugins."io.containerd.cri.v1.images".pinned_images]
    sandbox = "{pause}"
  [plugins."io.containerd.cri.v1.images".registry]
    config_path = "{dir}/registries"

[plugins."io.containerd.cri.v1.runtime"]
  # Without CAP_SYS_RESOURCE no process may lower its score.
  restrict_oom_score_adj = true
  # A profile that is loaded into the kernel would stay there.
  disable_apparmor = true
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
      SystemdCgroup = false
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["/usr/lib/cni"]
    conf_dir = "{dir}/cni"
`

const cniConfig = `{
  "cniVersion": "0.4.0", "name": "{bridge}",
  "plugins": [
    {"type": "bridge", "bridge": "{bridge}", "isGateway": true, "ipMasq": true, "hairpinMode": true,
     "ipam": {"type": "host-local", "dataDir": "{dir}/cni-addresses", "routes": [{"dst": "0.0.0.0/0"}],
              "ranges": [[{"subnet": "{podCIDR}", "rangeStart": "10.201.0.10", "gateway": "{gateway}"}]]}},
    {"type": "portmap", "capabilities": {"portMappings": true}}
  ]
}
`

const kubeletConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: {gateway}
port: {kubelet}
healthzBindAddress: 127.0.0.1
healthzPort: {kubelet-healthz}
authentication:
  anonymous: {enabled: false}
  webhook: {enabled: true}
  x509: {clientCAFile: "{dir}/pki/ca.crt"}
authorization: {mode: Webhook}
tlsCertFile: "{dir}/pki/kubelet.crt"
tlsPrivateKeyFile: "{dir}/pki/kubelet.key"
containerRuntimeEndpoint: "unix://{dir}/containerd.sock"
cgroupDriver: cgroupfs
cgroupRoot: /{cgroup}
failCgroupV1: false
failSwapOn: false
enforceNodeAllocatable: []
oomScoreAdj: 0
clusterDNS: ["{dnsIP}"]
clusterDomain: cluster.local
podLogsDir: "{dir}/pod-logs"
volumePluginDir: "{dir}/volume-plugins"
evictionHard: {memory.available: 100Mi, nodefs.available: 1%, imagefs.available: 1%}
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
syncFrequency: 10s
`

const kubeProxyConfig = `apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
clientConnection: {kubeconfig: "{dir}/pki/kube-proxy.kubeconfig"}
hostnameOverride: {node}
mode: iptables
clusterCIDR: {podCIDR}
metricsBindAddress: 127.0.0.1:{kube-proxy-metrics}
healthzBindAddress: 127.0.0.1:{kube-proxy-healthz}
nodePortAddresses: ["{gateway}/32"]
iptables:
  # Pods answer each other over the bridge, past iptables; only what the node has masqueraded comes back to it.
  masqueradeAll: true
  localhostNodePorts: false
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
`

const corefile = `.:{coredns} {
	bind {gateway}
	errors
	health 127.0.0.1:{coredns-health}
	kubernetes cluster.local in-addr.arpa {
		kubeconfig {dir}/pki/coredns.kubeconfig devcluster
		pods insecure
	}
	forward . /etc/resolv.conf
	cache 5
}
`

// writeNodeConfig writes the configuration files of everything that runs on the node.
func (c *cluster) writeNodeConfig() error {
	pairs := []string{
		"{dir}", c.dir, "{bridge}", bridge, "{gateway}", gateway, "{podCIDR}", podCIDR, "{dnsIP}", dnsIP, "{cgroup}", cgroup,
		"{node}", nodeName, "{pause}", pauseImage, "{containerdState}", containerdState,
	}
	for port, number := range c.state.Ports {
		pairs = append(pairs, "{"+port+"}", strconv.Itoa(number))
	}
	fill := strings.NewReplacer(pairs...)
	files := map[string]string{
		"containerd.toml": containerdConfig, "cni/10-bridge.conflist": cniConfig, "kubelet.yaml": kubeletConfig,
		"kube-proxy.yaml": kubeProxyConfig, "Corefile": corefile,
	}
	for port := firstRegistryPort; port <= lastRegistryPort; port++ {
		host := fmt.Sprintf("%s:%d", gateway, port)
		files["registries/"+host+"/hosts.toml"] = fmt.Sprintf(
			"server = \"http://%[1]s\"\n[host.\"http://%[1]s\"]\n  capabilities = [\"pull\", \"resolve\"]\n", host)
	}
	for file, content := range files {
		path := c.path(filepath.FromSlash(file))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(fill.Replace(content)), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// writePauseImage makes the image of the sandbox containers from the pause binary.
func writePauseImage(binary, archive string) error {
	content, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	return writeImage(archive, pauseImage, v1.Config{Entrypoint: []string{"/pause"}, User: "65535:65535"}, imageFile{"pause", 0o755, 0, content})
}

// imageFile is a file of an image; the owner is user and group.
type imageFile struct {
	name    string
	mode    int64
	owner   int
	content []byte
}

// writeImage makes an archive with an image of one layer.
func writeImage(archive, tag string, config v1.Config, files ...imageFile) error {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, f := range files {
		header := tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: f.mode, Uid: f.owner, Gid: f.owner, Size: int64(len(f.content))}
		if err := w.WriteHeader(&header); err != nil {
			return err
		}
		if _, err := w.Write(f.content); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(buf.Bytes())), nil })
	if err != nil {
		return err
	}
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return err
	}
	file, err := image.ConfigFile()
	if err != nil {
		return err
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Config = "linux", runtime.GOARCH, config
	if image, err = mutate.ConfigFile(image, file); err != nil {
		return err
	}
	reference, err := name.NewTag(tag)
	if err != nil {
		return err
	}
	return tarball.WriteToFile(archive, reference, image)
}
