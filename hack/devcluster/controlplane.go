package main

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

const loopback = "127.0.0.1"

// controlPlane says what differs between the modes.
type controlPlane struct {
	// bind is the address that the API server listens on, advertise the one that pods use; "" for none.
	bind, advertise string
	serviceCIDR     string
	// serviceIP is the first address of serviceCIDR, which becomes that of the Service "kubernetes".
	serviceIP string
	podCIDR   string
}

// ports reserves free ports, which stay the same as long as the cluster lives.
func (c *cluster) reservePorts(names ...string) error {
	var listeners []net.Listener
	defer func() {
		for _, l := range listeners {
			l.Close()
		}
	}()
	for _, name := range names {
		l, err := net.Listen("tcp", net.JoinHostPort(loopback, "0"))
		if err != nil {
			return fmt.Errorf("find a free port for %s: %w", name, err)
		}
		listeners = append(listeners, l)
		c.state.Ports[name] = l.Addr().(*net.TCPAddr).Port
	}
	return c.save()
}

func (c *cluster) server(address string) string {
	return "https://" + net.JoinHostPort(address, strconv.Itoa(c.state.Ports["kube-apiserver"]))
}

// writeCredentials makes all certificates and the kubeconfigs of everybody in clients.
func (c *cluster) writeCredentials(plane controlPlane, clients map[string]identity) error {
	dir := c.path("pki")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	ca, err := newAuthority()
	if err != nil {
		return fmt.Errorf("make the certificate authority: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "ca.crt"), ca.pem, 0o600); err != nil {
		return err
	}
	hosts := []string{loopback, plane.bind, plane.serviceIP, "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc",
		"kubernetes.default.svc.cluster.local"}
	if err := ca.writePair(dir, "kube-apiserver", identity{user: "kube-apiserver", groups: []string{"system:masters"}, hosts: hosts}); err != nil {
		return err
	}
	if err := writeServiceAccountKey(filepath.Join(dir, "service-accounts.key")); err != nil {
		return err
	}
	everybody := map[string]identity{
		"kubeconfig":              {user: "admin", groups: []string{"system:masters"}},
		"kube-controller-manager": {user: "system:kube-controller-manager"},
		"kube-scheduler":          {user: "system:kube-scheduler"},
	}
	maps.Copy(everybody, clients)
	for name, id := range everybody {
		config, err := ca.kubeconfig(c.server(plane.bind), id)
		if err != nil {
			return err
		}
		path := filepath.Join(dir, name+".kubeconfig")
		if name == "kubeconfig" {
			path = c.path("kubeconfig")
		}
		if err := os.WriteFile(path, config, 0o600); err != nil {
			return err
		}
		if len(id.hosts) > 0 {
			if err := ca.writePair(dir, name, id); err != nil {
				return err
			}
		}
	}
	return nil
}

func writeServiceAccountKey(path string) error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return fmt.Errorf("make the key of service accounts: %w", err)
	}
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}), 0o600)
}

// startControlPlane starts etcd, the API server, the controller manager and the scheduler, and waits for the API server.
func (c *cluster) startControlPlane(ctx context.Context, plane controlPlane) error {
	bin := func(name string) string { return filepath.Join(c.state.Binaries, name) }
	pki := func(name string) string { return c.path("pki", name) }
	port := func(name string) string { return strconv.Itoa(c.state.Ports[name]) }
	etcd := "http://" + net.JoinHostPort(loopback, port("etcd"))
	peer := "http://" + net.JoinHostPort(loopback, port("etcd-peer"))
	if err := c.run(spec{name: "etcd", bin: bin("etcd"), args: []string{
		"--name=default", "--data-dir=" + c.path("etcd"), "--listen-client-urls=" + etcd, "--advertise-client-urls=" + etcd,
		"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer, "--initial-cluster=default=" + peer,
		// The data live as long as the cluster.
		"--unsafe-no-fsync", "--log-level=warn",
	}}); err != nil {
		return err
	}
	api := []string{
		"--etcd-servers=" + etcd, "--bind-address=" + plane.bind, "--secure-port=" + port("kube-apiserver"),
		"--tls-cert-file=" + pki("kube-apiserver.crt"), "--tls-private-key-file=" + pki("kube-apiserver.key"),
		"--client-ca-file=" + pki("ca.crt"), "--cert-dir=" + c.path("pki"),
		"--kubelet-client-certificate=" + pki("kube-apiserver.crt"), "--kubelet-client-key=" + pki("kube-apiserver.key"),
		"--kubelet-certificate-authority=" + pki("ca.crt"), "--kubelet-preferred-address-types=InternalIP",
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + pki("service-accounts.key"), "--service-account-signing-key-file=" + pki("service-accounts.key"),
		"--service-cluster-ip-range=" + plane.serviceCIDR, "--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction", "--allow-privileged=true", "--profiling=false",
	}
	if plane.advertise == "" {
		api = append(api, "--advertise-address="+loopback, "--endpoint-reconciler-type=none")
	} else {
		api = append(api, "--advertise-address="+plane.advertise)
	}
	if err := c.run(spec{name: "kube-apiserver", bin: bin("kube-apiserver"), args: api}); err != nil {
		return err
	}
	if err := until(ctx, func() error {
		if err := c.dead(); err != nil {
			return err
		}
		return c.apiReady(ctx)
	}); err != nil {
		return err
	}
	controllers := []string{
		"--kubeconfig=" + pki("kube-controller-manager.kubeconfig"), "--root-ca-file=" + pki("ca.crt"),
		"--authentication-kubeconfig=" + pki("kube-controller-manager.kubeconfig"),
		"--authorization-kubeconfig=" + pki("kube-controller-manager.kubeconfig"),
		"--service-account-private-key-file=" + pki("service-accounts.key"), "--use-service-account-credentials",
		"--bind-address=" + loopback, "--secure-port=" + port("kube-controller-manager"), "--leader-elect=false",
		"--cert-dir=" + c.path("pki", "kube-controller-manager"),
	}
	if plane.podCIDR != "" {
		controllers = append(controllers, "--allocate-node-cidrs", "--cluster-cidr="+plane.podCIDR)
	}
	if err := c.run(spec{name: "kube-controller-manager", bin: bin("kube-controller-manager"), args: controllers}); err != nil {
		return err
	}
	return c.run(spec{name: "kube-scheduler", bin: bin("kube-scheduler"), args: []string{
		"--kubeconfig=" + pki("kube-scheduler.kubeconfig"), "--authentication-kubeconfig=" + pki("kube-scheduler.kubeconfig"),
		"--authorization-kubeconfig=" + pki("kube-scheduler.kubeconfig"), "--bind-address=" + loopback,
		"--secure-port=" + port("kube-scheduler"), "--leader-elect=false", "--cert-dir=" + c.path("pki", "kube-scheduler"),
	}})
}

// dead returns an error when a component that was started has ended.
func (c *cluster) dead() error {
	for _, p := range c.state.Processes {
		if !p.alive() {
			log := c.path("logs", p.Name+".log")
			return fatalError{fmt.Errorf("%s has ended; its log is %s, and ends with:\n%s", p.Name, log, endOf(log))}
		}
	}
	return nil
}

// endOf returns the last 2,000 bytes of a file: the folder of a cluster that does not start is deleted by tests.
func endOf(file string) string {
	content, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	return string(content[max(0, len(content)-2000):])
}

// apiReady asks the API server whether it is ready.
func (c *cluster) apiReady(ctx context.Context) error {
	body, err := c.request(ctx, http.MethodGet, "/readyz", "", nil)
	if err != nil {
		return fmt.Errorf("the API server is not ready: %w", err)
	}
	if string(body) != "ok" {
		return errors.New("the API server is not ready")
	}
	return nil
}

// request calls the API server as administrator. An answer of 400 or above is an error.
func (c *cluster) request(ctx context.Context, method, path, contentType string, body io.Reader) ([]byte, error) {
	client, server, err := c.adminClient()
	if err != nil {
		return nil, err
	}
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, method, server+path, body)
	if err != nil {
		return nil, err
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	res, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, 16<<20))
	if err != nil {
		return nil, err
	}
	if res.StatusCode >= 400 {
		return nil, &statusError{code: res.StatusCode, text: fmt.Sprintf("%s %s: %s: %.500s", method, path, res.Status, answer)}
	}
	return answer, nil
}

type statusError struct {
	code int
	text string
}

func (e *statusError) Error() string { return e.text }

func (c *cluster) adminClient() (*http.Client, string, error) {
	config, err := readKubeconfig(c.path("kubeconfig"))
	if err != nil {
		return nil, "", err
	}
	pair, err := tls.X509KeyPair(config.cert, config.key)
	if err != nil {
		return nil, "", err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(config.ca)
	return &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12},
	}}, config.server, nil
}
