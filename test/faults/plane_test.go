//go:build faults

package faults

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/scanner-operator/scanner-operator/internal/setup"
)

// plane is a control plane: etcd and an API server, whose processes can be killed.
type plane struct {
	dir    string
	env    *envtest.Environment
	config *rest.Config
	// c is a client with all permissions, reader a token for the API of operators that may read everything.
	c      client.Client
	reader string

	mu sync.Mutex
	// down is when a server was killed that does not answer again yet; away is how long servers were away before.
	down time.Time
	away time.Duration
	err  error
	// starting waits for servers that were killed.
	starting sync.WaitGroup
	// changes counts what changed, by namespace and kind. observed says that all changes are counted, and not those of tests only; unobserve ends
	// that.
	changes   map[string]int
	observed  bool
	unobserve func()
}

// The servers of a control plane.
const (
	etcd      = "etcd"
	apiServer = "kube-apiserver"
)

// serverTimeout is how long a server may take to start or to stop.
const serverTimeout = time.Minute

// newPlane starts a control plane with the CRDs of the operator.
func newPlane() (_ *plane, err error) {
	p := &plane{env: &envtest.Environment{
		CRDDirectoryPaths: []string{filepath.Join("..", "..", "config", "crd", "bases"), "testdata"}, ErrorIfCRDPathMissing: true,
		ControlPlaneStartTimeout: serverTimeout, ControlPlaneStopTimeout: serverTimeout,
	}}
	if p.dir, err = os.MkdirTemp("", "faults-plane-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.stop())
		}
	}()
	// The directories stay the same when servers start again, so that envtest does not remove them.
	control := &p.env.ControlPlane
	control.Etcd, control.APIServer = &envtest.Etcd{DataDir: filepath.Join(p.dir, etcd)}, &envtest.APIServer{CertDir: filepath.Join(p.dir, apiServer)}
	if control.Etcd.Path, err = p.recorded(etcd, control.Etcd.DataDir); err != nil {
		return nil, err
	}
	if control.APIServer.Path, err = p.recorded(apiServer, control.APIServer.CertDir); err != nil {
		return nil, err
	}
	if p.config, err = p.env.Start(); err != nil {
		return nil, fmt.Errorf("start a control plane: %w", err)
	}
	p.config.QPS = -1
	c, err := client.NewWithWatch(p.config, client.Options{Scheme: setup.Scheme()})
	if err != nil {
		return nil, err
	}
	p.c = p.counted(c)
	return p, p.prepare(context.Background())
}

// recorded returns a script that starts a server and leaves its process ID, which envtest does not tell.
func (p *plane) recorded(server, dir string) (script string, err error) {
	script = filepath.Join(p.dir, server+".sh")
	content := fmt.Sprintf("#!/bin/sh\necho $$ >%q\nexec %q \"$@\"\n", p.pidFile(server), filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), server))
	return script, errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(script, []byte(content), 0o700)) //nolint:gosec // It is a program.
}

func (p *plane) pidFile(server string) string { return filepath.Join(p.dir, server+".pid") }

// prepare makes what all runs use: a node, and somebody who may read the API of operators.
func (p *plane) prepare(ctx context.Context) error {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName, Labels: map[string]string{
		corev1.LabelArchStable: "amd64", corev1.LabelOSStable: "linux",
	}}}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "reader"}}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "reader"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: account.Namespace, Name: account.Name}},
	}
	for _, object := range []client.Object{node, account, binding} {
		if err := p.c.Create(ctx, object); err != nil {
			return fmt.Errorf("create %T: %w", object, err)
		}
	}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(24 * 60 * 60))}}
	if err := p.c.SubResource("token").Create(ctx, account, request); err != nil {
		return fmt.Errorf("create a token: %w", err)
	}
	p.reader = request.Status.Token
	return nil
}

// stop ends the servers and removes their data.
func (p *plane) stop() error {
	p.starting.Wait()
	if p.unobserve != nil {
		p.unobserve()
	}
	return errors.Join(p.env.Stop(), os.RemoveAll(p.dir))
}

// kill ends a server at once, and starts it again on the same data. It returns when the server has ended.
func (p *plane) kill(server string) {
	p.mu.Lock()
	p.down = time.Now()
	p.mu.Unlock()
	err := p.terminate(server)
	p.starting.Go(func() {
		if err == nil {
			err = p.restart(server)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.away += time.Since(p.down)
		p.down = time.Time{}
		if err != nil {
			p.err = fmt.Errorf("kill %s: %w", server, err)
		}
	})
}

func (p *plane) terminate(server string) error {
	content, err := os.ReadFile(p.pidFile(server))
	if err != nil {
		return err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(content)))
	if err != nil {
		return err
	}
	if err = syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return wait.PollUntilContextTimeout(context.Background(), time.Millisecond, serverTimeout, true, func(context.Context) (bool, error) {
		return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH), nil
	})
}

func (p *plane) restart(server string) error {
	start := p.env.ControlPlane.Etcd.Start
	if server == apiServer {
		start = p.env.ControlPlane.APIServer.Start
	}
	if err := start(); err != nil {
		return err
	}
	// The API server has to reach etcd.
	var last error
	err := wait.PollUntilContextTimeout(context.Background(), tick, serverTimeout, true, func(ctx context.Context) (bool, error) {
		last = p.c.Get(ctx, client.ObjectKey{Name: metav1.NamespaceDefault}, &corev1.Namespace{})
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("wait for the API server after the start of %s: %w", server, errors.Join(err, last))
	}
	return nil
}

// outage is how long servers were away so far.
func (p *plane) outage() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.down.IsZero() {
		return p.away
	}
	return p.away + time.Since(p.down)
}

// failed returns why a server did not start again, when all do.
func (p *plane) failed() error {
	p.starting.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// planes are the control planes that faults happen to, each in one run at a time.
type planes struct {
	mu   sync.Mutex
	idle []*plane
	// busy bounds those that runs have.
	busy chan struct{}
}

// take returns a control plane of which a run makes use alone until it ends.
func (s *planes) take(t *testing.T) *plane {
	t.Helper()
	s.busy <- struct{}{}
	t.Cleanup(func() { <-s.busy })
	p := s.pop()
	if p == nil {
		var err error
		if p, err = newPlane(); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if err := p.failed(); err != nil {
			t.Error(errors.Join(err, p.stop()))
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.idle = append(s.idle, p)
	})
	return p
}

func (s *planes) pop() *plane {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.idle) == 0 {
		return nil
	}
	p := s.idle[len(s.idle)-1]
	s.idle = s.idle[:len(s.idle)-1]
	return p
}

func (s *planes) stop() (err error) {
	for p := s.pop(); p != nil; p = s.pop() {
		err = errors.Join(err, p.stop())
	}
	return err
}
