//go:build e2e

package e2e

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"sigs.k8s.io/yaml"
)

// What the node alone knows about registries. The operator is configured for none of them.
const (
	// providerPort is the port of the registry whose credentials come from the credential provider of the kubelet.
	providerPort        = 5002
	providerCredentials = "node:provider"
	// secretPort is the port of the registry whose credentials are in a Secret.
	secretPort        = 5003
	secretCredentials = "pod:secret"
	// mirroredHost and proxiedHost are names that do not resolve.
	mirroredHost = "mirrored.invalid"
	proxiedHost  = "proxied.invalid"
)

// nodeRegistries are registries that the node reaches by its own configuration, or by the pull secret of the pod.
type nodeRegistries struct {
	provider, authority, mirrored, proxied, secret *registry
	// proxy is the HTTP proxy of the container runtime.
	proxy *forwardProxy
	// authorityHost is the host of authority with TLS.
	authorityHost string
	dir           string
}

// newNodeRegistries prepares what the node is started with.
func newNodeRegistries(ctx context.Context) (n *nodeRegistries, err error) {
	n = &nodeRegistries{}
	if n.dir, err = os.MkdirTemp("", "e2e-node-"); err != nil {
		return nil, err
	}
	if err := n.writeProvider(ctx); err != nil {
		return nil, errors.Join(err, n.close())
	}
	if n.proxy, err = newForwardProxy(); err != nil {
		return nil, errors.Join(err, n.close())
	}
	return n, nil
}

// flags are those of "devcluster up".
func (n *nodeRegistries) flags() []string {
	return []string{
		"--containerd-env=HTTPS_PROXY=" + n.proxy.url, "--containerd-env=NO_PROXY=10.0.0.0/8",
		"--kubelet-arg=--image-credential-provider-bin-dir=" + n.dir,
		"--kubelet-arg=--image-credential-provider-config=" + filepath.Join(n.dir, "providers.yaml"),
	}
}

// writeProvider builds the credential provider and writes the kubelet's configuration of it.
func (n *nodeRegistries) writeProvider(ctx context.Context) error {
	const name = "e2e-provider"
	build := exec.CommandContext(ctx, "go", "build", "-o", filepath.Join(n.dir, name), "./testdata/credentialprovider")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build the credential provider: %w: %s", err, output)
	}
	credentials := filepath.Join(n.dir, "credentials")
	if err := os.WriteFile(credentials, []byte(providerCredentials), 0o600); err != nil {
		return err
	}
	config, err := yaml.Marshal(map[string]any{
		"apiVersion": "kubelet.config.k8s.io/v1", "kind": "CredentialProviderConfig",
		"providers": []any{map[string]any{
			"name": name, "apiVersion": "credentialprovider.kubelet.k8s.io/v1", "defaultCacheDuration": "0s", "args": []string{credentials},
			// The address of the node is known when it runs.
			"matchImages": []string{fmt.Sprintf("*.*.*.*:%d", providerPort)},
		}},
	})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(n.dir, "providers.yaml"), config, 0o600)
}

// serve starts the registries, and configures the container runtime for those that need it.
func (n *nodeRegistries) serve(address string) (err error) {
	for _, r := range []struct {
		registry    **registry
		address     string
		port        int
		credentials string
	}{
		{&n.provider, address, providerPort, providerCredentials},
		{&n.secret, address, secretPort, secretCredentials},
		// Tests push to these on loopback.
		{&n.authority, "127.0.0.1", 0, ""},
		{&n.proxied, "127.0.0.1", 0, ""},
		{&n.mirrored, "127.0.0.1", 0, ""},
	} {
		if *r.registry, err = newRegistry(r.address, r.port, r.credentials); err != nil {
			return err
		}
	}
	certificate, authority, err := newCertificate(address, proxiedHost)
	if err != nil {
		return err
	}
	ca := filepath.Join(n.dir, "ca.crt")
	if err := os.WriteFile(ca, authority, 0o600); err != nil {
		return err
	}
	if n.authorityHost, err = n.authority.listen(address, certificate); err != nil {
		return err
	}
	if err := writeHosts(n.authorityHost, "https://"+n.authorityHost, ca); err != nil {
		return err
	}
	mirror, err := n.mirrored.listen(address, nil)
	if err != nil {
		return err
	}
	if err := writeHosts(mirroredHost, "http://"+mirror, ""); err != nil {
		return err
	}
	behind, err := n.proxied.listen("127.0.0.1", certificate)
	if err != nil {
		return err
	}
	n.proxy.allow(proxiedHost+":443", behind)
	return writeHosts(proxiedHost, "https://"+proxiedHost, ca)
}

// writeHosts has the container runtime of the node ask a server for the images of a registry, and trust a CA.
func writeHosts(host, server, ca string) error {
	file := filepath.Join(filepath.Dir(e2e.Kubeconfig), "registries", host, "hosts.toml")
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	content := fmt.Sprintf("server = \"https://%s\"\n[host.%q]\n  capabilities = [\"pull\", \"resolve\"]\n", host, server)
	if ca != "" {
		content += fmt.Sprintf("  ca = %q\n", ca)
	}
	return os.WriteFile(file, []byte(content), 0o600)
}

func (n *nodeRegistries) registries() []*registry {
	return []*registry{n.provider, n.secret, n.authority, n.proxied, n.mirrored}
}

func (n *nodeRegistries) close() error {
	for _, r := range n.registries() {
		if r != nil {
			r.close()
		}
	}
	if n.proxy != nil {
		n.proxy.close()
	}
	return os.RemoveAll(n.dir)
}

// newCertificate returns a certificate for hosts, and its authority in PEM.
func newCertificate(hosts ...string) (*tls.Certificate, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "e2e"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}

// forwardProxy is an HTTP proxy with tunnels to the hosts that it knows. It listens on loopback, where the node's container runtime reaches it
// and pods do not.
type forwardProxy struct {
	url     string
	server  *http.Server
	tunnels atomic.Int64

	mu      sync.Mutex
	allowed map[string]string
}

func newForwardProxy() (*forwardProxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start a proxy: %w", err)
	}
	p := &forwardProxy{url: "http://" + listener.Addr().String(), allowed: map[string]string{}}
	p.server = &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: p}
	go func() { _ = p.server.Serve(listener) }()
	return p, nil
}

func (p *forwardProxy) close() { _ = p.server.Close() }

// allow lets the proxy connect clients that ask for a host to an address.
func (p *forwardProxy) allow(host, address string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.allowed[host] = address
}

// ServeHTTP implements http.Handler.
func (p *forwardProxy) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	p.mu.Lock()
	address, known := p.allowed[req.Host]
	p.mu.Unlock()
	if req.Method != http.MethodConnect || !known {
		http.Error(w, "the proxy does not know "+req.Host, http.StatusForbidden)
		return
	}
	server, err := (&net.Dialer{Timeout: 10 * time.Second}).DialContext(req.Context(), "tcp", address)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer server.Close()
	client, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer client.Close()
	if _, err := io.WriteString(client, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	p.tunnels.Add(1)
	ended := make(chan struct{}, 2)
	go func() { _, _ = io.Copy(server, buffered); ended <- struct{}{} }()
	go func() { _, _ = io.Copy(client, server); ended <- struct{}{} }()
	<-ended
}
