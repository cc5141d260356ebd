package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gorilla/websocket"
)

// maxMessage bounds a message of the feed.
const maxMessage = 1 << 20

// message is what the feed sends: an event, or a note about the feed itself.
type message struct {
	Type     string          `json:"type"`
	Sequence int64           `json:"sequence"`
	At       time.Time       `json:"at"`
	Kind     string          `json:"kind"`
	ImageID  string          `json:"imageId"`
	Data     json.RawMessage `json:"data"`
}

// watch prints events as they happen until ctx ends.
func (d *demo) watch(ctx context.Context) error {
	url := "ws://" + d.api + "/api/v1/events"
	connection, response, err := websocket.DefaultDialer.DialContext(ctx, url, nil)
	if err != nil {
		return fmt.Errorf("connect to %s: %w; is make run running?", url, err)
	}
	_ = response.Body.Close()
	connection.SetReadLimit(maxMessage)
	stop := context.AfterFunc(ctx, func() { _ = connection.Close() })
	defer stop()
	defer connection.Close() //nolint:errcheck // it was read
	fmt.Printf("Watching %s; Ctrl-C stops.\n", url)
	for {
		var m message
		if err := connection.ReadJSON(&m); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("read the event feed: %w", err)
		}
		if m.Type == "event" {
			fmt.Printf("%s  %-18s %s\n", m.At.Local().Format(time.TimeOnly), m.Kind, m.summary())
		}
	}
}

// data is what a line shows of the data of an event.
type data struct {
	Object, Workload *struct{ Namespace, Name string }
	Detail           *struct {
		Deleted    bool
		Coverage   string
		Conditions []struct{ Type, Reason, Message string }
	}
	Packages       int
	Counts         map[string]int
	Opened, Closed map[string]int
	Reason         string
	Message        string
}

// summary is one line about the event; the feed itself sends more.
func (m message) summary() string {
	var d data
	if err := json.Unmarshal(m.Data, &d); err != nil {
		return string(m.Data)
	}
	parts := []string{shortID(m.ImageID)}
	for _, object := range []*struct{ Namespace, Name string }{d.Object, d.Workload} {
		if object != nil {
			parts = append(parts, object.Namespace+"/"+object.Name)
		}
	}
	if d.Packages > 0 {
		parts = append(parts, fmt.Sprintf("%d packages", d.Packages))
	}
	parts = append(parts, bySeverity("findings", d.Counts), bySeverity("opened", d.Opened), bySeverity("closed", d.Closed), d.Reason, d.Message)
	if d.Detail != nil {
		if d.Detail.Deleted {
			parts = append(parts, "deleted")
		}
		if d.Detail.Coverage != "" {
			parts = append(parts, "coverage "+d.Detail.Coverage)
		}
		for _, condition := range d.Detail.Conditions {
			if condition.Type == "Ready" {
				parts = append(parts, condition.Reason+": "+condition.Message)
			}
		}
	}
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), "  ")
}

// shortID is the name of an image with the first digits of its digest.
func shortID(imageID string) string {
	const digits = 12
	name, digest, found := strings.Cut(imageID, "@sha256:")
	if !found || len(digest) < digits {
		return imageID
	}
	return name + "@" + digest[:digits]
}

// bySeverity lists the numbers of findings that are not zero, the most severe first; "" when the event has none.
func bySeverity(title string, counts map[string]int) string {
	if counts == nil {
		return ""
	}
	var parts []string
	for _, severity := range []string{"critical", "high", "medium", "low", "negligible", "unknown"} {
		if counts[severity] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", counts[severity], severity))
		}
	}
	if len(parts) == 0 {
		parts = []string{"none"}
	}
	return title + ": " + strings.Join(parts, ", ")
}
