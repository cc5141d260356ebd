package servingcert

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/go-logr/logr/testr"
	"github.com/google/go-cmp/cmp"
	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

var secretName = types.NamespacedName{Namespace: "scanner-system", Name: "api-tls"}

// emptySecret is the Secret as the chart creates it.
func emptySecret() *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: secretName.Namespace, Name: secretName.Name}}
}

func source(c client.Client, clk *clocktesting.FakeClock, log logr.Logger) *Source {
	return FromSecret(Secret{Name: secretName, Reader: c, Writer: c, Names: testNames}, clk, log)
}

// get asks a server for its certificate's serial number, as a client that was given some CAs and has no connection yet.
func get(t *testing.T, server *httptest.Server, authorities string, now time.Time, change func(*tls.Config)) (serial string, err error) {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(authorities))
	config := &tls.Config{RootCAs: roots, Time: func() time.Time { return now }}
	if change != nil {
		change(config)
	}
	transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		t.Error(err)
	}
	if response.TLS.Version != tls.VersionTLS13 || response.Proto != "HTTP/1.1" {
		t.Errorf("%s over %s", response.Proto, tls.VersionName(response.TLS.Version))
	}
	return response.TLS.PeerCertificates[0].SerialNumber.String(), nil
}

func serve(t *testing.T, s *Source) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.Config.ErrorLog = nil
	server.Listener = tls.NewListener(server.Listener, s.TLSConfig())
	server.Start()
	server.URL = strings.Replace(server.URL, "http://", "https://", 1)
	t.Cleanup(server.Close)
	return server
}

func mustRefresh(t *testing.T, s *Source) string {
	t.Helper()
	if err := s.refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	authorities, err := s.Authorities()
	if err != nil {
		t.Fatal(err)
	}
	return authorities
}

func TestServerReloadsTheCertificate(t *testing.T) {
	now := time.Now()
	clk := clocktesting.NewFakeClock(now)
	c := fake.NewClientBuilder().WithObjects(emptySecret()).Build()
	s := source(c, clk, testr.New(t))
	server := serve(t, s)
	if _, err := get(t, server, "", now, nil); err == nil || s.Check(nil) == nil {
		t.Error("the server is ready without a certificate")
	}
	authorities := mustRefresh(t, s)
	if err := s.Check(nil); err != nil {
		t.Error(err)
	}
	before, err := get(t, server, authorities, now, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*tls.Config){
		"TLS 1.2":      func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 },
		"another name": func(c *tls.Config) { c.ServerName = "scanner.example.com" },
		"no CA":        func(c *tls.Config) { c.RootCAs = x509.NewCertPool() },
	} {
		if _, err := get(t, server, authorities, now, change); err == nil {
			t.Errorf("%s: connected", name)
		}
	}
	clk.Step(certificateLifetime - certificateRenewal + time.Hour)
	mustRefresh(t, s)
	after, err := get(t, server, authorities, clk.Now(), nil)
	if err != nil || after == before {
		t.Errorf("before the end of the certificate the server has %s after %s, %v", after, before, err)
	}
}

// TestReplicasShareOneCertificate starts replicas at the same time on a Secret without data.
func TestReplicasShareOneCertificate(t *testing.T) {
	clk := clocktesting.NewFakeClock(time.Now())
	// All read the Secret before the first updates it.
	const replicas = 3
	var read, updates sync.WaitGroup
	read.Add(replicas)
	var mu sync.Mutex
	reads := 0
	c := fake.NewClientBuilder().WithObjects(emptySecret()).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
			err := c.Get(ctx, key, object, opts...)
			mu.Lock()
			reads++
			first := reads <= replicas
			mu.Unlock()
			if first {
				read.Done()
				read.Wait()
			}
			return err
		},
	}).Build()
	sources := make([]*Source, replicas)
	for i := range sources {
		sources[i] = source(c, clk, testr.New(t))
		updates.Go(func() {
			if err := sources[i].refresh(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	updates.Wait()
	for _, s := range sources {
		if authorities, err := s.Authorities(); err != nil || authorities != mustRefresh(t, sources[0]) || authorities == "" {
			t.Errorf("the replicas have different CAs, %v", err)
		}
	}
	var stored corev1.Secret
	if err := c.Get(t.Context(), secretName, &stored); err != nil {
		t.Fatal(err)
	}
	if stored.ResourceVersion != "1000" {
		t.Errorf("the Secret is at version %s: it was updated more than once", stored.ResourceVersion)
	}
}

func TestSecretProblems(t *testing.T) {
	clk := clocktesting.NewFakeClock(time.Now())
	missing := source(fake.NewClientBuilder().Build(), clk, testr.New(t))
	if err := missing.refresh(t.Context()); err == nil || !strings.Contains(missing.Check(nil).Error(), "the Secret scanner-system/api-tls does not exist") {
		t.Errorf("without a Secret: %v, %v", err, missing.Check(nil))
	}

	failing := false
	c := fake.NewClientBuilder().WithObjects(emptySecret()).WithInterceptorFuncs(interceptor.Funcs{
		Update: func(ctx context.Context, c client.WithWatch, object client.Object, opts ...client.UpdateOption) error {
			if failing {
				return errors.New("the API server is down")
			}
			return c.Update(ctx, object, opts...)
		},
	}).Build()
	authorities := mustRefresh(t, source(c, clk, testr.New(t)))
	// A replica that starts while the Secret cannot be updated serves what is stored.
	failing = true
	clk.Step(certificateLifetime - certificateRenewal + time.Hour)
	s := source(c, clk, testr.New(t))
	if err := s.refresh(t.Context()); err == nil {
		t.Error("the failure to renew is not reported")
	}
	if got, err := s.Authorities(); err != nil || got != authorities {
		t.Errorf("the stored certificate is not used: %v", err)
	}
	// What nobody can read is replaced; without data there is a new CA.
	failing = false
	for _, data := range []map[string][]byte{{keyCertificate: []byte("garbage")}, nil} {
		var secret corev1.Secret
		if err := c.Get(t.Context(), secretName, &secret); err != nil {
			t.Fatal(err)
		}
		secret.Data = data
		if err := c.Update(t.Context(), &secret); err != nil {
			t.Fatal(err)
		}
		if got := mustRefresh(t, s); got == authorities {
			t.Error("the CA is not new")
		}
	}
}

// TestStartRetries starts while there is no Secret.
func TestStartRetries(t *testing.T) {
	clk := clocktesting.NewFakeClock(time.Now())
	c := fake.NewClientBuilder().Build()
	s := source(c, clk, logr.Discard())
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- s.Start(ctx) }()
	waitUntil(t, clk.HasWaiters)
	if err := c.Create(t.Context(), emptySecret()); err != nil {
		t.Fatal(err)
	}
	clk.Step(retryInterval)
	waitUntil(t, func() bool { return s.Check(nil) == nil })
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if s.NeedLeaderElection() {
		t.Error("only the leader would serve")
	}
}

func waitUntil(t *testing.T, reached func() bool) {
	t.Helper()
	gomega.NewWithT(t).Eventually(reached, 30*time.Second, time.Millisecond).Should(gomega.BeTrue())
}

func TestFiles(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	write := func(data map[string][]byte) {
		t.Helper()
		for name, content := range data {
			if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	issued := func() map[string][]byte {
		t.Helper()
		s, _, err := state{}.renewed(now, testNames)
		if err != nil {
			t.Fatal(err)
		}
		data, err := s.encode()
		if err != nil {
			t.Fatal(err)
		}
		delete(data, keyAuthorityKeys)
		return data
	}
	s := FromFiles(dir, clocktesting.NewFakeClock(now), testr.New(t))
	server := serve(t, s)
	if err := s.refresh(t.Context()); err == nil || s.Check(nil) == nil {
		t.Error("ready without files")
	}
	first := issued()
	// Only certificates go to scan pods, whatever else is in the file.
	authorities := string(first[keyAuthorities])
	first[keyAuthorities] = append(append([]byte("# a comment\n"), first[keyPrivate]...), first[keyAuthorities]...)
	write(first)
	if got := mustRefresh(t, s); got != authorities {
		t.Errorf("CAs %q, want %q", got, authorities)
	}
	before, err := get(t, server, authorities, now, nil)
	if err != nil {
		t.Fatal(err)
	}

	second := issued()
	write(map[string][]byte{keyCertificate: second[keyCertificate]})
	if err := s.refresh(t.Context()); err == nil {
		t.Error("a certificate of another key is accepted")
	}
	if during, err := get(t, server, authorities, now, nil); err != nil || during != before {
		t.Errorf("while the files do not fit: %s, %v; want %s", during, err, before)
	}
	write(second)
	if after, err := get(t, server, mustRefresh(t, s), now, nil); err != nil || after == before {
		t.Errorf("the server still has %s, %v", after, err)
	}

	for content, refusal := range map[string]string{"": "", "\n": "", "no PEM": "no PEM certificate", strings.Repeat(authorities, 200): "exceeds the limit"} {
		write(map[string][]byte{keyAuthorities: []byte(content)})
		if err := s.refresh(t.Context()); (err != nil) != (refusal != "") || err != nil && !strings.Contains(err.Error(), refusal) {
			t.Errorf("CAs %.20q: %v, want %q", content, err, refusal)
		}
	}
	if err := os.Remove(filepath.Join(dir, keyAuthorities)); err != nil {
		t.Fatal(err)
	}
	if got := mustRefresh(t, s); got != "" {
		t.Errorf("without ca.crt the CAs are %q", got)
	}
}

// TestRenewalIsLogged checks that the log tells at level info when the Secret was written, and nothing when it is as it should be.
func TestRenewalIsLogged(t *testing.T) {
	clk := clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	var logged []string
	log := funcr.New(func(_, args string) {
		if strings.Contains(args, "Renewed") {
			logged = append(logged, args)
		}
	}, funcr.Options{})
	s := source(fake.NewClientBuilder().WithObjects(emptySecret()).Build(), clk, log)
	expect := func(step string, want ...string) {
		t.Helper()
		mustRefresh(t, s)
		if diff := cmp.Diff(want, logged); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step, diff)
		}
		logged = nil
	}
	const line = `"level"=0 "msg"="Renewed the certificate of the API" "secret"="scanner-system/api-tls" `
	expect("created", line+`"from"="" "to"="2026-04-01T00:00:00Z" "authorities"=1`)
	expect("settled")
	clk.Step(certificateLifetime - certificateRenewal + time.Hour)
	expect("renewed", line+`"from"="2026-04-01T00:00:00Z" "to"="2026-05-31T01:00:00Z" "authorities"=1`)
	expect("settled again")
}
