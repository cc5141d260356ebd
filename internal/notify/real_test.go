package notify

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime/quotedprintable"
	"net"
	"net/http"
	"net/http/httptest"
	"net/mail"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
	"github.com/google/go-cmp/cmp"
	"github.com/onsi/gomega"
	"k8s.io/utils/clock"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

// mailbox is a mail server, which keeps what it gets.
type mailbox struct {
	// refuse is what it answers to a message, nil to accept it.
	refuse error

	mu      sync.Mutex
	letters []letter
}

// letter is a mail as the server got it.
type letter struct {
	from     string
	to       []string
	user     string
	isSecure bool
	text     string
}

func (b *mailbox) NewSession(c *smtp.Conn) (smtp.Session, error) {
	return &session{box: b, conn: c}, nil
}

func (b *mailbox) all() []letter {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]letter{}, b.letters...)
}

// session is a connection to a mailbox.
type session struct {
	box  *mailbox
	conn *smtp.Conn
	letter
}

func (s *session) AuthMechanisms() []string { return []string{sasl.Plain} }

func (s *session) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, password string) error {
		if user != "scanner" || password != "s3cret" {
			return errors.New("wrong password s3cret")
		}
		s.user = user
		return nil
	}), nil
}
func (s *session) Reset()        {}
func (s *session) Logout() error { return nil }
func (s *session) Mail(from string, _ *smtp.MailOptions) error {
	s.from = from
	return nil
}

func (s *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.to = append(s.to, to)
	return nil
}

func (s *session) Data(r io.Reader) error {
	text, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	if s.box.refuse != nil {
		return s.box.refuse
	}
	_, s.isSecure = s.conn.TLSConnectionState()
	s.letter.text = string(text)
	s.box.mu.Lock()
	defer s.box.mu.Unlock()
	s.box.letters = append(s.box.letters, s.letter)
	return nil
}

// serve runs a mail server for a mailbox with the certificate of a test server, with TLS from the start or with STARTTLS. It returns its address and the
// certificate authority.
func serve(t *testing.T, box *mailbox, implicit bool) (address, ca string) {
	t.Helper()
	certificates := httptest.NewTLSServer(http.NotFoundHandler())
	certificates.Close()
	server := smtp.NewServer(box)
	server.Domain = "mail.example"
	server.TLSConfig = &tls.Config{Certificates: certificates.TLS.Certificates, MinVersion: tls.VersionTLS12}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
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
		<-ended
	})
	return address, caOf(certificates)
}

func TestMail(t *testing.T) {
	for name, implicit := range map[string]bool{"starttls": false, "tls": true} {
		t.Run(name, func(t *testing.T) {
			box := &mailbox{}
			address, ca := serve(t, box, implicit)
			r := receivers(t, map[string]string{
				"host": address, "from": "Scänner <scanner@example.com>", "tls": name, "username": "scanner", "password": "s3cret", "ca.crt": ca,
			})
			sink := &Sink{Type: Email, Credential: "c", To: []string{"a@example.com", "b@example.com"}}
			must(t, r.Send(t.Context(), sink, "key-1", example()))
			got := box.all()
			if len(got) != 1 || got[0].from != "scanner@example.com" || !cmp.Equal(got[0].to, sink.To) || got[0].user != "scanner" || !got[0].isSecure {
				t.Fatalf("the server got %+v", got)
			}
			parsed, err := mail.ReadMessage(strings.NewReader(got[0].text))
			must(t, err)
			text, err := io.ReadAll(quotedprintable.NewReader(parsed.Body))
			must(t, err)
			if string(text) != strings.ReplaceAll(Body(example()), "\n", "\r\n") && string(text) != Body(example()) {
				t.Errorf("the text is %q", text)
			}
			if parsed.Header.Get("Message-ID") != "<key-1@example.com>" || parsed.Header.Get("To") != "a@example.com, b@example.com" {
				t.Errorf("the headers are %v", parsed.Header)
			}
			golden(t, "mail.eml", strings.ReplaceAll(got[0].text, "\r\n", "\n"))
		})
	}
}

// A message is not sent without TLS, and errors tell no password.
func TestMailProblems(t *testing.T) {
	for name, c := range map[string]struct {
		files  map[string]string
		answer error
		want   string
	}{
		"an unknown authority":       {map[string]string{"ca.crt": ""}, nil, "certificate"},
		"a wrong password":           {map[string]string{"password": "wrong"}, nil, "answers with code"},
		"no server":                  {map[string]string{"host": ""}, nil, "has no key host"},
		"no port":                    {map[string]string{"host": "mail.example"}, nil, "not HOST:PORT"},
		"another kind of encryption": {map[string]string{"tls": "rot13"}, nil, "is not starttls, tls or none"},
		"a password without TLS":     {map[string]string{"tls": "none"}, nil, "not sent without TLS"},
		"no address":                 {map[string]string{"from": "Scanner"}, nil, "not an email address"},
		"refused":                    {nil, &smtp.SMTPError{Code: 554, Message: "s3cret"}, ErrRefused.Error()},
		"later":                      {nil, &smtp.SMTPError{Code: 451, Message: "s3cret"}, "code 451"},
	} {
		t.Run(name, func(t *testing.T) {
			box := &mailbox{refuse: c.answer}
			address, ca := serve(t, box, false)
			files := map[string]string{"host": address, "from": "scanner@example.com", "username": "scanner", "password": "s3cret", "ca.crt": ca}
			maps.Copy(files, c.files)
			err := receivers(t, files).Send(t.Context(), &Sink{Type: Email, Credential: "c", To: []string{"a@example.com"}}, "k", example())
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if errors.Is(err, ErrRefused) != (name == "refused") {
				t.Errorf("refused: %v", err)
			}
			if got := box.all(); len(got) > 0 {
				t.Errorf("the server got %+v", got)
			}
		})
	}
}

// alertmanager runs Debian's Alertmanager, and returns its URL.
func alertmanager(t *testing.T) string {
	t.Helper()
	program, err := exec.LookPath("prometheus-alertmanager")
	if err != nil {
		const message = "prometheus-alertmanager is not installed; hack/setup.sh installs it"
		if os.Getenv("CI") == "true" {
			t.Fatal(message)
		}
		t.Skip(message)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	address := listener.Addr().String()
	must(t, listener.Close())
	dir := t.TempDir()
	config := filepath.Join(dir, "config.yml")
	must(t, os.WriteFile(config, []byte("{route: {receiver: none}, receivers: [{name: none}]}"), 0o600))
	command := exec.Command(program, "--config.file="+config, "--storage.path="+dir, "--web.listen-address="+address, "--cluster.listen-address=")
	command.Stderr = io.Discard
	must(t, command.Start())
	t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		_ = command.Wait()
	})
	url := "http://" + address
	gomega.NewWithT(t).Eventually(func() error {
		answer, err := http.Get(url + "/-/ready")
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

// alerts are those of an Alertmanager.
func alerts(t *testing.T, url string) []alert {
	t.Helper()
	answer, err := http.Get(url + "/api/v2/alerts")
	must(t, err)
	defer answer.Body.Close() //nolint:errcheck // All is read.
	var all []alert
	must(t, json.NewDecoder(answer.Body).Decode(&all))
	return all
}

// A database update arrives as one alert in a real Alertmanager and as one mail in a real mailbox, also when the alert is sent twice.
func TestFromDatabaseUpdateToReceivers(t *testing.T) {
	g, f, box := gomega.NewWithT(t), newFixture(t), &mailbox{}
	url := alertmanager(t)
	address, ca := serve(t, box, false)
	r := receivers(t, map[string]string{"url": url, "host": address, "from": "scanner@example.com", "username": "scanner", "password": "s3cret", "ca.crt": ca})
	r.Clock = clock.RealClock{}
	f.run(t, image("a"), []string{"p"}, workload("shop", "web", ""))
	e, _ := f.engine(t, f.Store, r)
	d := Definition{UID: "uid", Name: "r", When: `change.kind == "FindingOpened"`, Sinks: []Sink{
		{Name: "alerts", Type: Alertmanager, Credential: "c"}, {Name: "mail", Type: Email, Credential: "c", To: []string{"a@example.com"}},
	}}
	only, err := NewRule(d, r.Config)
	must(t, err)
	f.start(t, e, only)
	f.update(t, findings{"p": {finding("CVE-1", model.SeverityCritical), finding("CVE-2", model.SeverityLow)}})
	g.Eventually(func() int { return len(alerts(t, url)) }, patience, tick).Should(gomega.Equal(1))
	g.Eventually(func() int { return len(box.all()) }, patience, tick).Should(gomega.Equal(1))
	one := alerts(t, url)[0]
	if one.Labels["severity"] != "critical" || one.Labels["group"] != "shop" || !strings.Contains(one.Annotations["summary"], "2 new findings in shop") {
		t.Errorf("the alert is %+v", one)
	}
	must(t, r.Send(t.Context(), &d.Sinks[0], one.Labels["message_id"], &Message{
		Rule: "r", Group: "shop", Counts: map[Kind]int{FindingOpened: 2}, Severities: map[Kind]model.SeverityCounts{FindingOpened: {Critical: 1, Low: 1}},
	}))
	if got := alerts(t, url); len(got) != 1 {
		t.Errorf("the same message is %d alerts", len(got))
	}
}
