package notify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"k8s.io/utils/clock"

	"github.com/scanner-operator/scanner-operator/internal/outbound"
)

// Receivers sends messages to the receivers of sinks. It implements Sender.
type Receivers struct {
	Config *Config
	// Dir has a directory with the files of each credential.
	Dir string
	// Source names the operator in messages, such as the name of the cluster.
	Source string
	Clock  clock.PassiveClock
	// Reports makes the reports that mails have attached.
	Reports func(ctx context.Context, report *Report) (*Attachment, error)

	late lateRecipients
}

// texts are those of the administrator, or the default ones.
func (r *Receivers) texts() *texts {
	if r.Config == nil || r.Config.texts == nil {
		return defaultTexts
	}
	return r.Config.texts
}

// Send implements Sender.
func (r *Receivers) Send(ctx context.Context, sink *Sink, key string, message *Message) error {
	switch sink.Type {
	case Webhook:
		return r.sendWebhook(ctx, sink, key, message)
	case Alertmanager:
		return r.sendAlert(ctx, sink, key, message)
	case Slack:
		return r.sendSlack(ctx, sink, key, message)
	case Teams:
		return r.sendTeams(ctx, sink, key, message)
	case Email:
		return r.sendMail(ctx, sink, key, message)
	default:
		return fmt.Errorf("%w: unknown type %q", ErrRefused, sink.Type)
	}
}

// request is what is posted to a receiver.
type request struct {
	url, contentType string
	body             []byte
	header           http.Header
	// trusted says that the URL is that of a credential. caBundle has further certificate authorities, "" for none.
	trusted  bool
	caBundle string
}

// endpoint returns a request to where the sink is, with the token of its credential, if it has one.
func (r *Receivers) endpoint(sink *Sink) (*request, outbound.Credential, error) {
	s := outbound.Credential{Dir: r.Dir, Name: sink.Credential}
	if sink.Credential == "" {
		return &request{url: sink.URL, header: http.Header{}}, s, nil
	}
	q := &request{header: http.Header{}, trusted: true}
	var err error
	if q.url, err = s.Need(outbound.FileURL); err != nil {
		return nil, s, err
	}
	if q.caBundle, err = s.Read(outbound.FileCA); err != nil {
		return nil, s, err
	}
	token, err := s.Read(outbound.FileToken)
	if token != "" {
		q.header.Set("Authorization", "Bearer "+token)
	}
	return q, s, err
}

// post sends a request. Errors contain neither the URL, which can be a secret, nor what the receiver answered, which can be one of another service.
func (r *Receivers) post(ctx context.Context, q *request) error {
	target, err := url.Parse(q.url)
	if err != nil || target.Scheme != "http" && target.Scheme != "https" || target.Hostname() == "" {
		return errors.New("the URL of the receiver is not http:// or https://HOST/PATH")
	}
	client, err := outbound.Client(outbound.Guard{Allows: r.Config.allows, Trusted: q.trusted, Plain: target.Scheme == "http"}, q.caBundle)
	if err != nil {
		return err
	}
	call, err := http.NewRequestWithContext(ctx, http.MethodPost, q.url, bytes.NewReader(q.body))
	if err != nil {
		return errors.New("the URL of the receiver cannot be used")
	}
	call.Header = q.header
	call.Header.Set("Content-Type", q.contentType)
	call.Header.Set("User-Agent", "scanner-operator")
	answer, err := client.Do(call)
	if err != nil {
		return outbound.Unreachable(err)
	}
	defer answer.Body.Close() //nolint:errcheck // The status was read.
	outbound.Drain(answer)
	switch code := answer.StatusCode; {
	case code >= 200 && code < 300:
		return nil
	case code >= 300 && code < 400:
		return fmt.Errorf("the receiver answers with status %d: redirects are not followed", code)
	case code == http.StatusBadRequest || code == http.StatusRequestEntityTooLarge || code == http.StatusUnprocessableEntity:
		return fmt.Errorf("%w with status %d", ErrRefused, code)
	default:
		return fmt.Errorf("the receiver answers with status %d", code)
	}
}
