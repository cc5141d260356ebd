package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gorilla/websocket"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/server"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// Who is told events of a kind.
const (
	toNamespace = "who sees the namespace of the image, the workload or the object"
	toEverybody = "everybody"
	toCluster   = "who sees the whole cluster"
)

// eventKinds has a row for each kind.
var eventKinds = map[store.EventKind]string{
	store.EventImageDiscovered: toCluster, store.EventImageQueued: toNamespace, store.EventImageCataloged: toNamespace, store.EventImageMatched: toNamespace,
	store.EventImageFailed: toNamespace, store.EventImageRemoved: toNamespace, store.EventImageReported: toNamespace,
	store.EventScanRequested: toNamespace,
	store.EventFindingOpened: toCluster, store.EventFindingClosed: toCluster, store.EventFindingChanged: toCluster, store.EventFindingOverdue: toCluster, store.EventDatabaseUpdated: toEverybody,
	store.EventScannerChanged: toNamespace, store.EventPodSetChanged: toNamespace, store.EventSheroChanged: toNamespace, store.EventRolloutChanged: toNamespace,
	store.EventRolloutEvaluated: toNamespace, store.EventImageIntroduced: toNamespace, store.EventChangeRequested: toCluster,
	store.EventDecisionChanged: toNamespace, store.EventDecisionExpired: toNamespace, store.EventDecisionExpiring: toNamespace, store.EventDatabaseStale: toEverybody,
	store.EventCoverageLost: toNamespace, store.EventNamespaceOverdue: toNamespace,
}

// eventPage is a page of events.
type eventPage struct {
	Sequence, Last int64
	LogID          string
	Items          []eventItem
}

// eventItem is an event as it is told.
type eventItem struct {
	Sequence                int64
	Kind, ImageID, Platform string
	Data                    json.RawMessage
}

func (e eventItem) String() string {
	return fmt.Sprintf("%d %s %s %s %s", e.Sequence, e.Kind, e.ImageID, e.Platform, e.Data)
}

func (f *fixture) eventPage(user, query string) eventPage {
	f.t.Helper()
	a := f.do(http.MethodGet, eventsPath+"?"+query, "", f.as(user))
	if a.status != http.StatusOK {
		f.t.Fatalf("%s as %s: %d %s", query, user, a.status, a.body)
	}
	var page eventPage
	f.must(json.Unmarshal([]byte(a.body), &page))
	return page
}

// replayed are the events that the WebSocket tells a user, in the form of a page.
func (f *fixture) replayed(user string, last int64) []string {
	f.t.Helper()
	connection, a := f.dialPath(eventsPath+"?since=0", f.as(user))
	if connection == nil {
		f.t.Fatalf("%s: %+v", user, a)
	}
	var told []string
	for {
		_, content, err := connection.ReadMessage()
		f.must(err)
		var m struct {
			Type string
			eventItem
		}
		f.must(json.Unmarshal(content, &m))
		switch {
		case m.Type == "event":
			// Who sees everything is told no position behind an event.
			if told = append(told, m.eventItem.String()); user == "all" && m.Sequence == last {
				return told
			}
		case m.Type == "position" && m.Sequence >= last:
			// Callers who see some namespaces are told it with a ping, after everything else.
			return told
		case m.Type == "reset":
			f.t.Fatalf("%s: %s", user, content)
		}
	}
}

// TestMatrixOfEventKinds reads the events of each kind as each user, as pages and from the WebSocket.
func TestMatrixOfEventKinds(t *testing.T) {
	t.Parallel()
	f := newMatrixFixture(t, nil, func(c *server.Config) { c.Limits.PingInterval, c.Limits.PongTimeout = 5*time.Millisecond, time.Hour })
	f.must(f.store.RequestScan(t.Context(), store.AllNamespaces(), store.AllNamespaces(), shopImage))
	f.must(f.store.DeleteImage(t.Context(), store.AllNamespaces(), store.AllNamespaces(), shopImage))
	for _, kind := range store.EventKinds() {
		told, found := eventKinds[kind]
		if !found {
			t.Errorf("%s has no row in the matrix of events: say who is told", kind)
		}
		for user := range matrixUsers {
			some := user == "all" || told != toCluster
			page := f.eventPage(user, "since=0&limit=1000&kind="+string(kind))
			if (len(page.Items) > 0) != some {
				t.Errorf("%s as %s: %d events, they are told to %s", kind, user, len(page.Items), told)
			}
			for _, item := range page.Items {
				if data := string(item.Data); user != "all" && (strings.Contains(data, "dark") || strings.Contains(data, "changes") || strings.Contains(data, "message") || strings.Contains(data, `"findings"`) ||
					item.ImageID == darkImage || item.ImageID == looseImage) {
					t.Errorf("%s as %s: %+v", kind, user, item)
				}
			}
		}
	}
	for user := range matrixUsers {
		page := f.eventPage(user, "since=0&limit=1000")
		var want []string
		for _, item := range page.Items {
			want = append(want, item.String())
		}
		if diff := cmp.Diff(want, f.replayed(user, page.Last)); diff != "" || len(want) == 0 {
			t.Errorf("the WebSocket of %s (-page +WebSocket):\n%s", user, diff)
		}
	}
	for kind := range eventKinds {
		if !slices.Contains(store.EventKinds(), kind) {
			t.Errorf("%s is no kind", kind)
		}
	}
}

// TestMatrixOfPositions resumes at positions of others, and counts.
func TestMatrixOfPositions(t *testing.T) {
	t.Parallel()
	f := newMatrixFixture(t, nil, nil)
	whole := f.eventPage("one", "since=0&limit=1000")
	if whole.Sequence != int64(len(whole.Items)) || whole.Last != whole.Sequence || len(whole.Items) < 8 {
		t.Fatalf("%d events up to %d of %d", len(whole.Items), whole.Sequence, whole.Last)
	}
	// In small pages the same comes, with numbers that have no gaps, however much happened elsewhere.
	position := eventPage{}
	var count int64
	for {
		page := f.eventPage("one", fmt.Sprintf("since=%d&limit=2&logId=%s", position.Sequence, position.LogID))
		for i := range page.Items {
			count++
			if item := page.Items[i]; item.Sequence != count || item.Kind != whole.Items[count-1].Kind || item.ImageID != whole.Items[count-1].ImageID {
				t.Fatalf("event %d is %+v, want %+v", count, item, whole.Items[count-1])
			}
		}
		if position = page; page.Sequence == page.Last {
			break
		}
	}
	if count != whole.Sequence {
		t.Errorf("%d events in pages, %d at once", count, whole.Sequence)
	}
	// What happens elsewhere changes nothing but the sealed position.
	f.want("elsewhere", 3)
	after := f.eventPage("one", fmt.Sprintf("since=%d&logId=%s", position.Sequence, position.LogID))
	if len(after.Items) != 0 || after.Sequence != position.Sequence || after.Last != position.Last {
		t.Errorf("after events elsewhere: %+v", after)
	}
	for name, query := range map[string]string{
		"no log ID": "since=3", "another number": fmt.Sprintf("since=%d&logId=%s", position.Sequence+1, position.LogID),
		"a position of the log": fmt.Sprintf("since=3&logId=%s", f.eventPage("all", "since=0&limit=3").LogID),
		"of other namespaces":   fmt.Sprintf("since=2&logId=%s", f.eventPage("two", "since=0&limit=2").LogID),
	} {
		a := f.do(http.MethodGet, eventsPath+"?"+query, "", bearer("one"))
		var reset struct {
			Sequence int64
			LogID    string
		}
		f.must(json.Unmarshal([]byte(a.body), &reset))
		if a.status != http.StatusGone || reset.Sequence != 0 || reset.LogID == "" {
			t.Errorf("%s: %d %s", name, a.status, a.body)
			continue
		}
		if page := f.eventPage("one", "since=0&logId="+reset.LogID); len(page.Items) != 0 {
			t.Errorf("%s: after the reset come %d events", name, len(page.Items))
		}
	}
}

// TestMatrixOfStreams follows each WebSocket as each user while something happens in all namespaces.
func TestMatrixOfStreams(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	deployments, informer := deploymentFeed(t, registry, 0)
	synced(t, deployments, informer)
	for _, namespace := range []string{"bank", "dark", "shop"} {
		informer.Add(deployment(namespace, "app-"+namespace))
	}
	f := newMatrixFixture(t, nil, func(c *server.Config) { c.Deployments = deployments })
	type follower struct{ results, deployments, events *websocket.Conn }
	followers := map[string]follower{}
	for user := range matrixUsers {
		var all follower
		all.results, _ = f.dialPath("/subscribe", f.as(user))
		all.deployments, _ = f.dialPath(deploymentsPath, f.as(user))
		all.events, _ = f.dialPath(eventsPath+"?kind=image.matched", f.as(user))
		followers[user] = all
		if hello := message(t, all.events); hello.Type != "hello" || (hello.Sequence == 0) != (user != "all") {
			t.Errorf("%s is greeted with %+v", user, hello)
		}
	}
	for _, image := range []string{darkImage, bankImage, shopImage, sharedImage} {
		f.scan(model.ImageKey{ImageID: image, Platform: linux}, packageOf("fresh", image))
	}
	// The other kind of event that results have; that of an image that only others run comes first.
	for _, image := range []string{looseImage, darkImage, shopImage} {
		f.must(f.store.SaveReport(t.Context(), store.AllNamespaces(), image, store.Report{Content: []byte(`{"again":1}`)}))
	}
	for user, want := range map[string][]string{
		"one": {shopImage, sharedImage}, "two": {bankImage, shopImage, sharedImage}, "all": {darkImage, bankImage, shopImage, sharedImage},
		signedIn: {shopImage, sharedImage}, anonymous: {shopImage, sharedImage},
	} {
		var results, told []string
		f.must(followers[user].results.SetReadDeadline(time.Now().Add(patience)))
		withReports := append(slices.Clone(want), shopImage)
		if user == "all" {
			withReports = append(slices.Clone(want), looseImage, darkImage, shopImage)
		}
		for range withReports {
			results = append(results, next(t, followers[user].results))
		}
		for range want {
			m := message(t, followers[user].events)
			for m.Type == "position" {
				m = message(t, followers[user].events)
			}
			told = append(told, m.ImageID)
		}
		if diff := cmp.Diff([][]string{withReports, want}, [][]string{results, told}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", user, diff)
		}
	}
	for user, want := range map[string][]string{
		"one": {"shop"}, "two": {"bank", "shop"}, "all": {"bank", "dark", "shop"}, signedIn: {"shop"}, anonymous: {"shop"},
	} {
		f.must(followers[user].deployments.SetReadDeadline(time.Now().Add(patience))) // What comes before may take long.
		for _, namespace := range want {
			expectTexts(t, followers[user].deployments, "Successfully processed deployment: app-"+namespace)
		}
	}
}
