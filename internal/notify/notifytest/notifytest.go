// Package notifytest has receivers of notifications for tests: a mail server, and Debian's Alertmanager.
package notifytest

import (
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
	"github.com/onsi/gomega"
)

const (
	patience = 30 * time.Second
	tick     = 20 * time.Millisecond
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Mailbox is a mail server, which keeps what it gets.
type Mailbox struct {
	// Refuse is what it answers to a message, nil to accept it.
	Refuse error
	// Reject is what it answers to recipients, by address; it accepts all others.
	Reject map[string]error

	mu      sync.Mutex
	letters []Letter
}

// Letter is a mail as the server got it.
type Letter struct {
	From string
	To   []string
	// User is who authenticated, "" for nobody.
	User   string
	Secure bool
	Text   string
}

// NewSession begins a connection to it.
func (b *Mailbox) NewSession(c *smtp.Conn) (smtp.Session, error) {
	return &session{box: b, conn: c}, nil
}

// All are the mails that it got, in order.
func (b *Mailbox) All() []Letter {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]Letter{}, b.letters...)
}

// session is a connection to a Mailbox.
type session struct {
	box  *Mailbox
	conn *smtp.Conn
	Letter
}

func (s *session) AuthMechanisms() []string { return []string{sasl.Plain} }

func (s *session) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, password string) error {
		if user != "scanner" || password != "s3cret" {
			return errors.New("wrong password s3cret")
		}
		s.User = user
		return nil
	}), nil
}
func (s *session) Reset()        {}
func (s *session) Logout() error { return nil }
func (s *session) Mail(from string, _ *smtp.MailOptions) error {
	s.From = from
	return nil
}

func (s *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	if err := s.box.Reject[to]; err != nil {
		return err
	}
	s.To = append(s.To, to)
	return nil
}

func (s *session) Data(r io.Reader) error {
	text, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	if s.box.Refuse != nil {
		return s.box.Refuse
	}
	_, s.Secure = s.conn.TLSConnectionState()
	s.Text = string(text)
	s.box.mu.Lock()
	defer s.box.mu.Unlock()
	s.box.letters = append(s.box.letters, s.Letter)
	return nil
}

// Serve runs a mail server for a Mailbox with the certificate of a test server, with TLS from the start or with STARTTLS. It returns its address and the
// certificate authority.
func Serve(t *testing.T, box *Mailbox, implicit bool) (address, ca string) {
	t.Helper()
	certificates := httptest.NewTLSServer(http.NotFoundHandler())
	certificates.Close()
	server := smtp.NewServer(box)
	server.Domain = "mail.example"
	server.TLSConfig = &tls.Config{Certificates: certificates.TLS.Certificates, MinVersion: tls.VersionTLS12}
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	address = listener.Addr().String()
	if implicit {
		listener = tls.NewListener(listener, server.TLSConfig)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() {
		must(t, server.Close())
		_ = listener.Close() // A server that has not begun to serve does not close it, and would wait for connections for ever.
		<-ended
	})
	return address, authority(certificates)
}

// authority is the certificate of a server in PEM.
func authority(server *httptest.Server) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
}

// Alert is one in an Alertmanager.
type Alert struct {
	Labels       map[string]string `json:"labels"`
	Annotations  map[string]string `json:"annotations"`
	GeneratorURL string            `json:"generatorURL"`
}

// Alertmanager runs Debian's Alertmanager, and returns its URL.
func Alertmanager(t *testing.T) string {
	t.Helper()
	program, err := exec.LookPath("prometheus-alertmanager")
	if err != nil {
		const message = "prometheus-alertmanager is not installed; hack/setup.sh installs it"
		if os.Getenv("CI") == "true" {
			t.Fatal(message)
		}
		t.Skip(message)
	}
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	address := listener.Addr().String()
	must(t, listener.Close())
	dir := t.TempDir()
	config := filepath.Join(dir, "config.yml")
	must(t, os.WriteFile(config, []byte("{route: {receiver: none}, receivers: [{name: none}]}"), 0o600))
	command := exec.Command(program, //nolint:gosec,noctx // The program of the package; it ends with the test.
		"--config.file="+config, "--storage.path="+dir, "--web.listen-address="+address, "--cluster.listen-address=")
	command.Stderr = io.Discard
	must(t, command.Start())
	t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		_ = command.Wait()
	})
	url := "http://" + address
	gomega.NewWithT(t).Eventually(func() error {
		answer, err := get(t, url+"/-/ready")
		if err != nil {
			return err
		}
		defer answer.Body.Close() //nolint:errcheck // The status is read.
		if answer.StatusCode != http.StatusOK {
			return fmt.Errorf("status %d", answer.StatusCode)
		}
		return nil
	}, patience, tick).Should(gomega.Succeed())
	return url
}

func get(t *testing.T, url string) (*http.Response, error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	return http.DefaultClient.Do(request)
}

// Alerts are those of an Alertmanager.
func Alerts(t *testing.T, url string) []Alert {
	t.Helper()
	answer, err := get(t, url+"/api/v2/alerts")
	must(t, err)
	defer answer.Body.Close() //nolint:errcheck // All is read.
	var all []Alert
	must(t, json.NewDecoder(answer.Body).Decode(&all))
	return all
}
