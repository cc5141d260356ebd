package plugin

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/scanner-operator/scanner-operator/internal/server/api"
	"github.com/scanner-operator/scanner-operator/internal/truncate"
)

const (
	// pollEvery is how often watch asks for new events, maxPause how long it waits at most while the operator cannot be reached.
	pollEvery = 2 * time.Second
	maxPause  = 30 * time.Second
	// maxWideDetail bounds the data of an event in a wide line.
	maxWideDetail = 16 << 10
)

func (o *options) watchCommand() *cobra.Command {
	var kinds []string
	var replay bool
	var limit int
	cmd := &cobra.Command{
		Use:   "watch",
		Short: "Print events as they happen",
		Long: `Print events as they happen: scans, changes of findings, rollouts and new vulnerability databases. The command asks for new events every two seconds, and continues
where it was after the operator or the API server could not be reached. With -n or in the namespace of the current context, it prints the events of objects in the namespace,
of the images that run there, and of vulnerability databases.

With -o json, each event is one line; with -o yaml, each is a document. -o wide shows whole image IDs and data.`,
		Example: `  # Rollouts in all namespaces
  kubectl scanner watch -A --kind rollout.changed,rollout.evaluated

  # All events that the operator retains, and new ones
  kubectl scanner watch -A --replay -o json`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().StringSliceVar(&kinds, "kind", nil, "Only events of this kind, for example image.matched. May be repeated")
	cmd.Flags().BoolVar(&replay, "replay", false, "Print the events that the operator retains, too")
	cmd.Flags().IntVar(&limit, "limit", 0, "End after this number of events; 0 means never")
	cmd.RunE = o.run(func(ctx context.Context, c *client, namespace string, _ []string) error {
		w := watcher{o: o, c: c, namespace: namespace, limit: limit, query: url.Values{"kind": kinds, "limit": {strconv.Itoa(maxPage)}}}
		if limit < 0 {
			return fmt.Errorf("--limit is %d, but must not be negative", limit)
		}
		if replay {
			w.query.Set("since", "0")
		}
		return w.run(ctx)
	})
	return cmd
}

// watcher follows the event log.
type watcher struct {
	o         *options
	c         *client
	namespace string
	// query has the position in the event log.
	query url.Values
	// printed counts events; limit is how many there may be, 0 for any number.
	printed, limit int
	// images are those that run in the namespace.
	images map[string]bool
}

// errEnough ends a watch that has printed as many events as it should.
var errEnough = errors.New("enough events")

// run prints events until the context ends, or an error that does not pass.
func (w *watcher) run(ctx context.Context) error {
	pause := w.o.pollEvery
	failing := false
	for {
		more, err := w.page(ctx)
		select {
		case <-ctx.Done():
			return nil // Ctrl-C is how it ends.
		default:
		}
		switch {
		case errors.Is(err, errEnough):
			return nil
		case err != nil && !passes(err):
			return err
		case err != nil && !failing:
			// Once, and not each time.
			_, _ = fmt.Fprintf(w.o.errOut, "Cannot read events, trying again: %v\n", err)
			failing = true
		case err != nil:
			pause = min(2*pause, maxPause)
		default:
			pause, failing = w.o.pollEvery, false
		}
		if more {
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

// passes says whether an error may pass: the operator or the API server cannot be reached, or says that it is unavailable.
func passes(err error) bool {
	if status := statusOf(err); status != 0 {
		return status == http.StatusTooManyRequests || status >= http.StatusInternalServerError
	}
	_, network := errors.AsType[net.Error](err)
	// The last ones are answers to the request for a token.
	return network || errors.Is(err, io.ErrUnexpectedEOF) || apierrors.IsInternalError(err) || apierrors.IsServiceUnavailable(err) ||
		apierrors.IsTooManyRequests(err) || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err)
}

// page prints the events of a page. It returns whether there is another.
func (w *watcher) page(ctx context.Context) (more bool, err error) {
	body, err := w.c.body(ctx, w.query, "api", "v1", "events")
	if failure, ok := errors.AsType[*responseError](err); ok && failure.status == http.StatusGone {
		var reset api.EventReset
		if json.Unmarshal(failure.body, &reset) != nil {
			return false, err
		}
		_, _ = fmt.Fprintln(w.o.errOut, "Events are missing: the operator no longer has them, or you see other namespaces than before.")
		w.continueFrom(reset.Sequence, reset.LogId)
		return false, nil
	}
	if err != nil {
		return false, err
	}
	var page api.EventPage
	if err := json.Unmarshal(body, &page); err != nil {
		return false, fmt.Errorf("the response is not a page of events: %w", err)
	}
	w.images = nil
	for _, event := range page.Items {
		concerns, err := w.concerns(ctx, event)
		if err != nil {
			return false, err
		}
		if !concerns {
			continue
		}
		if err := w.print(event); err != nil {
			return false, err
		}
		if w.printed++; w.printed == w.limit {
			return false, errEnough
		}
	}
	w.continueFrom(page.Sequence, page.LogId)
	return page.Sequence < page.Last && len(page.Items) > 0, nil
}

func (w *watcher) continueFrom(sequence int64, logID string) {
	w.query.Set("since", strconv.FormatInt(sequence, 10))
	w.query.Del("logId")
	set(w.query, "logId", logID)
}

// eventData is what the data of events of all kinds may have.
type eventData struct {
	Workload *api.Workload `json:"workload"`
	Object   *struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
		Resource  string `json:"resource"`
	} `json:"object"`
	Images  []string `json:"images"`
	Reason  string   `json:"reason"`
	Message string   `json:"message"`
}

// concerns says whether an event is about the namespace that is shown.
func (w *watcher) concerns(ctx context.Context, event api.Event) (bool, error) {
	if w.namespace == "" {
		return true, nil
	}
	var data eventData
	// Data of another shape names nothing that could be compared.
	_ = json.Unmarshal(event.Data, &data)
	switch {
	case data.Workload != nil:
		return data.Workload.Namespace == w.namespace, nil
	case data.Object != nil && data.Object.Namespace != "":
		return data.Object.Namespace == w.namespace, nil
	case event.ImageId == nil && data.Images == nil:
		return event.Kind == api.DatabaseUpdated, nil
	}
	if w.images == nil {
		// Once per page: what runs in the namespace changes.
		images, err := list[api.Image](ctx, w.c, maxLimit, url.Values{"namespace": {w.namespace}}, "api", "v1", "images")
		if err != nil {
			return false, err
		}
		w.images = map[string]bool{}
		for _, i := range images.items {
			w.images[i.ImageId] = true
		}
	}
	if event.ImageId != nil {
		return w.images[*event.ImageId], nil
	}
	for _, id := range data.Images {
		if w.images[id] {
			return true, nil
		}
	}
	return false, nil
}

// print writes an event: as one line, or as a document of YAML.
func (w *watcher) print(event api.Event) error {
	if w.o.output == "json" || w.o.output == "yaml" {
		content, err := json.Marshal(event)
		if err != nil {
			return err
		}
		if w.o.output == "json" {
			_, err = w.o.out.Write(append(escapedJSON(content), '\n'))
			return err
		}
		if content, err = toYAML(content); err != nil {
			return err
		}
		_, err = w.o.out.Write(append([]byte("---\n"), content...))
		return err
	}
	var data eventData
	// Data of another shape is printed as it is.
	_ = json.Unmarshal(event.Data, &data)
	subject := ""
	switch {
	case event.ImageId != nil:
		subject = w.o.shortImage(*event.ImageId)
	case data.Workload != nil:
		subject = data.Workload.Namespace + "/" + workload(*data.Workload)
	case data.Object != nil:
		subject = strings.Trim(data.Object.Namespace+"/"+data.Object.Name, "/")
	}
	var detail bytes.Buffer
	if json.Compact(&detail, event.Data) != nil {
		detail.Reset()
	}
	text := detail.String()
	if data.Reason != "" {
		text = strings.TrimSpace(data.Reason + " " + data.Message)
	}
	limit := 3 * maxCell
	if w.o.output == "wide" {
		limit = maxWideDetail
	}
	_, err := fmt.Fprintf(w.o.out, "%s  %-18s  %s  %s\n", event.At.In(w.o.now().Location()).Format(time.DateTime), printable(truncate.Ellipsis(string(event.Kind), maxCell)),
		printable(truncate.Ellipsis(cmp.Or(subject, "-"), maxWideCell)), printable(truncate.Ellipsis(text, limit)))
	return err
}
