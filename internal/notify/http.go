package notify

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

const (
	// eventType is the type of the CloudEvents.
	eventType = "xyz.zoltankerezsi.scanner.notification.v1"
	// namedWorkloads is how many workloads a CloudEvent names.
	namedWorkloads = 100
	// alertDuration is how long an alert is firing: a message tells of something that happened, and nothing tells of its end.
	alertDuration = time.Hour
	// secretPrefix begins the keys of Standard Webhooks; Base64 follows.
	secretPrefix = "whsec_"
	// fileKey is the file of a credential with the key that signs.
	fileKey = "key"
)

// cloudEvent is a message in the JSON format of CloudEvents 1.0.
type cloudEvent struct {
	SpecVersion     string       `json:"specversion"`
	ID              string       `json:"id"`
	Source          string       `json:"source"`
	Type            string       `json:"type"`
	Subject         string       `json:"subject,omitempty"`
	Time            time.Time    `json:"time"`
	DataContentType string       `json:"datacontenttype"`
	Data            webhookEvent `json:"data"`
}

// webhookEvent is the data of a CloudEvent.
type webhookEvent struct {
	Message
	Title         string         `json:"title"`
	Severity      model.Severity `json:"severity"`
	WorkloadCount int            `json:"workloadCount"`
}

// source identifies the operator in a CloudEvent.
func (r *Receivers) source() string {
	if r.Source == "" {
		return "/scanner-operator"
	}
	return "/scanner-operator/" + r.Source
}

func (r *Receivers) sendWebhook(ctx context.Context, sink *Sink, key string, message *Message) error {
	q, s, err := r.endpoint(sink)
	if err != nil {
		return err
	}
	data := webhookEvent{Message: *message, Title: Title(message), Severity: message.Severity(), WorkloadCount: len(message.Workloads)}
	if len(data.Workloads) > namedWorkloads {
		data.Workloads, data.More = data.Workloads[:namedWorkloads], true
	}
	q.contentType = "application/cloudevents+json"
	q.body, err = json.Marshal(cloudEvent{
		SpecVersion: "1.0", ID: key, Source: r.source(), Type: eventType, Subject: message.Group, Time: message.To, DataContentType: "application/json", Data: data,
	})
	if err != nil {
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	q.header.Set("Webhook-Id", key)
	if sink.Credential != "" {
		secret, err := s.Read(fileKey)
		if err != nil {
			return err
		}
		if secret != "" {
			at := strconv.FormatInt(r.Clock.Now().Unix(), 10)
			signature, err := sign(secret, key, at, q.body)
			if err != nil {
				return err
			}
			q.header.Set("Webhook-Timestamp", at)
			q.header.Set("Webhook-Signature", signature)
		}
	}
	return r.post(ctx, q)
}

// sign is the signature of Standard Webhooks: HMAC-SHA256 of the ID, the time and the body.
func sign(secret, id, at string, body []byte) (string, error) {
	key := []byte(secret)
	if encoded, is := strings.CutPrefix(secret, secretPrefix); is {
		var err error
		if key, err = base64.StdEncoding.DecodeString(encoded); err != nil {
			return "", errors.New("the key of the credential begins with " + secretPrefix + " and is not Base64 after that")
		}
	}
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%s.%s", id, at, body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)), nil
}

// alert is one in the API v2 of Alertmanager.
type alert struct {
	Labels       map[string]string `json:"labels"`
	Annotations  map[string]string `json:"annotations"`
	StartsAt     time.Time         `json:"startsAt"`
	EndsAt       time.Time         `json:"endsAt"`
	GeneratorURL string            `json:"generatorURL,omitempty"`
}

func (r *Receivers) sendAlert(ctx context.Context, sink *Sink, key string, message *Message) error {
	q, _, err := r.endpoint(sink)
	if err != nil {
		return err
	}
	q.url = strings.TrimSuffix(q.url, "/") + "/api/v2/alerts"
	// The key makes each message an alert of its own, and the same message the same alert.
	labels := map[string]string{
		"alertname": "ScannerNotification", "rule": message.Rule, "severity": strings.ToLower(message.Severity().String()), "message_id": key,
	}
	for name, value := range map[string]string{"group": message.Group, "cluster": r.Source} {
		if value != "" {
			labels[name] = value
		}
	}
	now := r.Clock.Now().UTC()
	q.contentType = "application/json"
	q.body, err = json.Marshal([]alert{{
		Labels: labels, Annotations: map[string]string{"summary": Title(message), "description": r.texts().Text(message)},
		StartsAt: now, EndsAt: now.Add(alertDuration), GeneratorURL: message.Link,
	}})
	if err != nil {
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return r.post(ctx, q)
}

func (r *Receivers) sendSlack(ctx context.Context, sink *Sink, key string, message *Message) error {
	return r.sendJSON(ctx, sink, map[string]any{"text": strings.TrimSpace(r.texts().Slack(message)) + "\n" + messageLine(key)})
}

// messageLine is the last line of messages in chats, where people recognize a message that comes again.
func messageLine(key string) string { return "Message: " + key[:min(len(key), 8)] }

// sendTeams sends a card: the title, each line of the text, with space between its parts, and a button.
func (r *Receivers) sendTeams(ctx context.Context, sink *Sink, key string, message *Message) error {
	body := []any{map[string]any{"type": "TextBlock", "text": inMarkdown.Replace(Title(message)), "size": "Medium", "weight": "Bolder", "wrap": true}}
	spacing := "Small"
	for line := range strings.SplitSeq(strings.TrimSpace(r.texts().Teams(message))+"\n"+messageLine(key), "\n") {
		if line = strings.TrimSpace(line); line == "" {
			spacing = "Medium"
			continue
		}
		body = append(body, map[string]any{"type": "TextBlock", "text": line, "spacing": spacing, "wrap": true})
		spacing = "None"
	}
	card := map[string]any{
		"$schema": "http://adaptivecards.io/schemas/adaptive-card.json", "type": "AdaptiveCard", "version": "1.4", "body": body, "msteams": map[string]any{"width": "Full"},
	}
	if message.Link != "" {
		card["actions"] = []any{map[string]any{"type": "Action.OpenUrl", "title": "Show details", "url": message.Link}}
	}
	return r.sendJSON(ctx, sink, map[string]any{
		"type": "message", "attachments": []any{map[string]any{"contentType": "application/vnd.microsoft.card.adaptive", "content": card}},
	})
}

func (r *Receivers) sendJSON(ctx context.Context, sink *Sink, content any) error {
	q, _, err := r.endpoint(sink)
	if err != nil {
		return err
	}
	q.contentType = "application/json"
	if q.body, err = json.Marshal(content); err != nil {
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return r.post(ctx, q)
}
