package notify

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/mail"
	"net/smtp"
	"net/textproto"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/outbound"
)

// The values of the key tls of a credential.
const (
	tlsStart    = "starttls"
	tlsImplicit = "tls"
	tlsNone     = "none"
)

// The files of the credential of a mail server, besides those of all.
const (
	fileHost     = "host"
	fileTLS      = "tls"
	fileFrom     = "from"
	fileUsername = "username"
	filePassword = "password"
)

// mailServer is what a credential says of a mail server.
type mailServer struct {
	host, tls, from, username, password, caBundle string
}

func (r *Receivers) mailServer(name string) (*mailServer, error) {
	s, m := outbound.Credential{Dir: r.Dir, Name: name}, &mailServer{}
	var err error
	read := func(target *string, file string, get func(string) (string, error)) {
		if err == nil {
			*target, err = get(file)
		}
	}
	read(&m.host, fileHost, s.Need)
	read(&m.from, fileFrom, s.Need)
	read(&m.tls, fileTLS, s.Read)
	read(&m.username, fileUsername, s.Read)
	read(&m.password, filePassword, s.Read)
	read(&m.caBundle, outbound.FileCA, s.Read)
	if err != nil {
		return nil, err
	}
	if m.tls == "" {
		m.tls = tlsStart
	}
	switch {
	case m.tls != tlsStart && m.tls != tlsImplicit && m.tls != tlsNone:
		return nil, fmt.Errorf("the key %s of the credential %s is not %s, %s or %s", fileTLS, name, tlsStart, tlsImplicit, tlsNone)
	case m.tls == tlsNone && m.username != "":
		return nil, fmt.Errorf("the credential %s has a user name and %s %s: a password is not sent without TLS", name, fileTLS, tlsNone)
	}
	if _, _, err := net.SplitHostPort(m.host); err != nil {
		return nil, fmt.Errorf("the key %s of the credential %s is not HOST:PORT", fileHost, name)
	}
	if _, err := mail.ParseAddress(m.from); err != nil || strings.ContainsAny(m.from, "\r\n") {
		return nil, fmt.Errorf("the key %s of the credential %s is not an email address", fileFrom, name)
	}
	return m, nil
}

func (r *Receivers) sendMail(ctx context.Context, sink *Sink, key string, message *Message) error {
	server, err := r.mailServer(sink.Credential)
	if err != nil {
		return err
	}
	from, err := mail.ParseAddress(server.from)
	if err != nil {
		return err
	}
	var attached *Attachment
	if message.Report != nil {
		if attached, err = r.Reports(ctx, message.Report); err != nil {
			return fmt.Errorf("the report cannot be made: %w", err)
		}
	}
	limited, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	client, err := server.connect(limited, outbound.Guard{Trusted: true})
	if err != nil {
		return fmt.Errorf("the mail server cannot be used: %w", mailError(errors.Join(limited.Err(), err)))
	}
	defer client.Close() //nolint:errcheck // Quit ends it in order.
	rejected, err := r.transmit(client, from.Address, sink.To, r.letter(from, sink.To, key, message, attached))
	if err != nil {
		return fmt.Errorf("the mail server does not accept the message: %w", mailError(errors.Join(limited.Err(), err)))
	}
	// The message is accepted, whatever is answered now.
	_ = client.Quit()
	if len(rejected) > 0 {
		return &PartialError{fmt.Sprintf("the mail server rejects %d of %d recipients, the first one, %s, with code %d; the others got the message",
			len(rejected), len(sink.To), rejected[0].to, rejected[0].code)}
	}
	return nil
}

// connect returns a client that is encrypted and authenticated as the credential says. The connection ends with ctx.
func (m *mailServer) connect(ctx context.Context, g outbound.Guard) (*smtp.Client, error) {
	host, _, err := net.SplitHostPort(m.host)
	if err != nil {
		return nil, err
	}
	roots, err := outbound.Roots(m.caBundle)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{ServerName: host, RootCAs: roots, MinVersion: tls.VersionTLS12}
	conn, err := g.Dial(ctx, "tcp", m.host)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { _ = conn.Close() })
	secured := conn
	if m.tls == tlsImplicit {
		secured = tls.Client(conn, config)
	}
	client, err := smtp.NewClient(secured, host)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	if err := m.prepare(client, config); err != nil {
		return nil, errors.Join(err, client.Close())
	}
	return client, nil
}

func (m *mailServer) prepare(client *smtp.Client, config *tls.Config) error {
	// Extension would take an answer that does not come for one without STARTTLS.
	if err := client.Hello("localhost"); err != nil {
		return err
	}
	if m.tls == tlsStart {
		if offered, _ := client.Extension("STARTTLS"); !offered {
			return outbound.Error("it does not offer STARTTLS")
		}
		if err := client.StartTLS(config); err != nil {
			return err
		}
	}
	if m.username == "" {
		return nil
	}
	return client.Auth(smtp.PlainAuth("", m.username, m.password, config.ServerName))
}

// rejection is an address to which a mail server accepts no mail, and the code of its answer.
type rejection struct {
	to   string
	code int
}

// transmit sends a letter to those recipients that the server accepts. It fails if it accepts none, or may accept more later: with the answer that may be another
// one then, if there is one.
func (r *Receivers) transmit(client *smtp.Client, from string, to []string, letter []byte) ([]rejection, error) {
	if err := client.Mail(from); err != nil {
		return nil, err
	}
	var rejected []rejection
	var failure error
	later := false
	for _, one := range to {
		err := client.Rcpt(one)
		if err == nil {
			r.late.accepted(one)
			continue
		}
		answered, isAnswer := errors.AsType[*textproto.Error](err)
		if !isAnswer {
			return nil, err
		}
		rejected = append(rejected, rejection{one, answered.Code})
		waits := answered.Code < 500 && r.late.waits(one, r.Clock.Now())
		if failure == nil || answered.Code < 550 {
			failure = err
		}
		later = later || waits
	}
	if later || len(rejected) == len(to) {
		return nil, failure
	}
	writer, err := client.Data()
	if err != nil {
		return nil, err
	}
	if _, err := writer.Write(letter); err != nil {
		return nil, err
	}
	return rejected, writer.Close()
}

const (
	// lateFor is how long messages wait for a recipient whom the mail server does not accept for now: greylisting takes minutes, a full mailbox may last.
	lateFor = time.Hour
	// maxLate bounds the recipients that are remembered. Beyond it, all are forgotten, and waited for again.
	maxLate = 10_000
)

// lateRecipients are the recipients whom a mail server does not accept for now, with the time since when. The zero value is ready.
type lateRecipients struct {
	mu    sync.Mutex
	since map[string]time.Time
}

func (l *lateRecipients) accepted(to string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.since, to)
}

// waits reports whether messages still wait for a recipient who is not accepted now.
func (l *lateRecipients) waits(to string, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.since == nil || len(l.since) >= maxLate {
		l.since = map[string]time.Time{}
	}
	since, known := l.since[to]
	if !known {
		l.since[to] = now
		return true
	}
	return now.Sub(since) < lateFor
}

// mailError is what an error says without the text of the server, which could repeat secrets. Codes from 550 on say that the message is never accepted.
func mailError(err error) error {
	var answered *textproto.Error
	if !errors.As(err, &answered) {
		return outbound.Unreachable(err)
	}
	if answered.Code >= 550 && answered.Code < 560 {
		return fmt.Errorf("%w with code %d", ErrRefused, answered.Code)
	}
	return fmt.Errorf("it answers with code %d", answered.Code)
}

// letter is the text of a mail, as plain text and as HTML, with an attachment if there is one. The same message has the same Message-ID, so that mail
// systems can recognize it.
func (r *Receivers) letter(from *mail.Address, to []string, key string, message *Message, attached *Attachment) []byte {
	_, domain, _ := strings.Cut(from.Address, "@")
	var text bytes.Buffer
	for _, header := range [][2]string{
		{"From", from.String()}, {"To", strings.Join(to, ", ")}, {"Subject", mime.QEncoding.Encode("utf-8", Title(message))},
		{"Date", r.Clock.Now().UTC().Format(time.RFC1123Z)}, {"Message-ID", "<" + key + "@" + domain + ">"}, {"Auto-Submitted", "auto-generated"},
		{"MIME-Version", "1.0"},
	} {
		fmt.Fprintf(&text, "%s: %s\r\n", header[0], header[1])
	}
	// Boundaries that are in no part: the parts have no line that begins with them, whatever the names in the message are.
	if attached == nil {
		r.writeAlternatives(&text, "part-"+digest("boundary", key), message)
		return text.Bytes()
	}
	outer := "file-" + digest("boundary", key)
	fmt.Fprintf(&text, "Content-Type: multipart/mixed; boundary=%q\r\n\r\n--%s\r\n", outer, outer)
	r.writeAlternatives(&text, "part-"+digest("boundary", key), message)
	fmt.Fprintf(&text, "\r\n--%s\r\nContent-Type: text/html; charset=utf-8\r\nContent-Disposition: attachment; filename=%q\r\nContent-Transfer-Encoding: base64\r\n\r\n",
		outer, attached.Name)
	for line := range slices.Chunk([]byte(base64.StdEncoding.EncodeToString(attached.Page)), 76) {
		fmt.Fprintf(&text, "%s\r\n", line)
	}
	fmt.Fprintf(&text, "--%s--\r\n", outer)
	return text.Bytes()
}

// writeAlternatives writes a message as plain text and as HTML, with the header of this part of a mail.
func (r *Receivers) writeAlternatives(text *bytes.Buffer, boundary string, message *Message) {
	fmt.Fprintf(text, "Content-Type: multipart/alternative; boundary=%q\r\n", boundary)
	for _, part := range [][2]string{{"text/plain", r.texts().Text(message)}, {"text/html", r.texts().Page(message)}} {
		fmt.Fprintf(text, "\r\n--%s\r\nContent-Type: %s; charset=utf-8\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n", boundary, part[0])
		body := quotedprintable.NewWriter(text)
		_, _ = body.Write([]byte(part[1])) // A buffer never fails.
		_ = body.Close()
	}
	fmt.Fprintf(text, "\r\n--%s--\r\n", boundary)
}
