package deploymentfeed_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/gorilla/websocket"
	"github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/scanner-operator/scanner-operator/internal/controller/controllertest"
	"github.com/scanner-operator/scanner-operator/internal/deploymentfeed"
	"github.com/scanner-operator/scanner-operator/internal/feed"
	"github.com/scanner-operator/scanner-operator/internal/kube"
	"github.com/scanner-operator/scanner-operator/internal/metrics"
	"github.com/scanner-operator/scanner-operator/internal/server"
	"github.com/scanner-operator/scanner-operator/internal/server/auth"
	"github.com/scanner-operator/scanner-operator/internal/server/live"
	"github.com/scanner-operator/scanner-operator/internal/store/sqlstore"
)

func TestMain(m *testing.M) { os.Exit(controllertest.Main(m)) }

const (
	patience = controllertest.Patience
	tick     = controllertest.Tick
)

// world is an API server, and a replica that follows its Deployments with the rights alone that the package asks for.
type world struct {
	client.Client
	*gomega.WithT
	t          *testing.T
	own, other string
	relister   *kube.Relister
	line       *line
	// address is that of the live feed.
	address string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	config, scheme := controllertest.Restricted(t), controllertest.Scheme(t)
	c, err := client.New(controllertest.Config(t), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{
		Client: c, WithT: gomega.NewWithT(t), t: t, own: controllertest.Namespace(t, c), other: controllertest.Namespace(t, c),
		relister: &kube.Relister{}, line: &line{},
	}
	config.Wrap(w.line.wrap)
	config.Wrap(w.relister.Wrap)
	shown, err := metrics.NewDeployments(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	var api *server.Server
	controllertest.Start(t, config, scheme, []string{w.own, w.other}, func(mgr ctrl.Manager) error {
		deployments := deploymentfeed.NewFeed(deploymentfeed.Config{Informers: mgr.GetCache(), Metrics: shown, Log: logr.Discard()})
		if api, err = w.server(deployments); err != nil {
			return err
		}
		return errors.Join(mgr.Add(deployments), mgr.Add(api))
	})
	w.Eventually(api.Addr, patience, tick).ShouldNot(gomega.BeEmpty())
	w.address = "ws://" + api.Addr() + "/api/wds/logs"
	return w
}

func (w *world) server(deployments *deploymentfeed.Feed) (*server.Server, error) {
	db, err := sqlstore.Open(w.t.Context(), sqlstore.Config{Type: "sqlite", DSN: filepath.Join(w.t.TempDir(), "test.db")})
	if err != nil {
		return nil, err
	}
	w.t.Cleanup(func() { w.Expect(db.Close()).To(gomega.Succeed()) })
	hub := feed.New(db, feed.Config{Log: logr.Discard()})
	return server.New(server.Config{
		BindAddress: "127.0.0.1:0", Auth: auth.None, Store: db, Ingest: struct{ server.Ingester }{}, Registerer: prometheus.NewRegistry(),
		Feed:        func(ctx context.Context) live.Subscription { return hub.Subscribe(ctx, feed.Filter{}) },
		Deployments: deployments, Log: logr.Discard(),
	})
}

// listener is a client of the feed as users write it: it dials and reads messages.
type listener struct {
	*websocket.Conn
	w *world
}

func (w *world) dial(query string) listener {
	w.t.Helper()
	var conn *websocket.Conn
	w.Eventually(func() (err error) {
		var response *http.Response
		conn, response, err = websocket.DefaultDialer.DialContext(w.t.Context(), w.address+query, nil)
		if response != nil {
			_ = response.Body.Close()
		}
		return err
	}, patience, tick).Should(gomega.Succeed())
	w.t.Cleanup(func() { _ = conn.Close() })
	w.Expect(conn.SetReadDeadline(time.Now().Add(2 * patience))).To(gomega.Succeed())
	return listener{conn, w}
}

var timestamp = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`)

// expect reads messages. TIME stands for a time.
func (l listener) expect(want ...string) {
	l.w.t.Helper()
	for _, text := range want {
		_, data, err := l.ReadMessage()
		got := string(data)
		if when := timestamp.FindString(got); when != "" {
			at, err := time.Parse(time.RFC3339, when)
			if age := time.Since(at); err != nil || age < -time.Minute || age > 10*time.Minute {
				l.w.t.Errorf("%s is not now: %v", when, err)
			}
			got = strings.Replace(got, when, "TIME", 1)
		}
		if err != nil || got != text {
			l.w.t.Fatalf("got %q, %v; want %q", got, err, text)
		}
	}
}

func (w *world) deploy(namespace, name string, images ...string) *appsv1.Deployment {
	w.t.Helper()
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}
	d.Spec.Template.Labels = d.Spec.Selector.MatchLabels
	for i, image := range images {
		d.Spec.Template.Spec.Containers = append(d.Spec.Template.Spec.Containers, corev1.Container{Name: string(rune('a' + i)), Image: image})
	}
	d.Spec.Template.Spec.InitContainers = []corev1.Container{{Name: "init", Image: "init:1"}}
	w.Expect(w.Create(w.t.Context(), d)).To(gomega.Succeed())
	return d
}

func (w *world) change(d *appsv1.Deployment, change func(*appsv1.DeploymentSpec)) {
	w.t.Helper()
	before := d.DeepCopy()
	change(&d.Spec)
	w.Expect(w.Patch(w.t.Context(), d, client.MergeFrom(before))).To(gomega.Succeed())
}

func (w *world) remove(d *appsv1.Deployment) {
	w.t.Helper()
	w.Expect(w.Delete(w.t.Context(), d)).To(gomega.Succeed())
}

// line is the connection of the replica to the API server.
type line struct {
	mu     sync.Mutex
	dead   bool
	bodies []io.Closer
}

func (l *line) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.dead {
			return nil, syscall.ECONNREFUSED // as from an API server that restarts
		}
		response, err := next.RoundTrip(request)
		if err == nil && request.URL.Query().Get("watch") != "" {
			l.bodies = append(l.bodies, response.Body)
			response.Body = stream{response.Body}
		}
		return response, err
	})
}

// stream is one that ends in peace when it is cut, as those of an API server that stops do.
type stream struct{ io.ReadCloser }

func (s stream) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	if err != nil {
		err = io.EOF
	}
	return n, err
}

func (l *line) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dead = true
	for _, body := range l.bodies {
		_ = body.Close()
	}
	l.bodies = nil
}

func (l *line) mend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dead = false
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

const processed = "Successfully processed deployment: "

func told(name, what string) string {
	return `{"timestamp":"TIME","message":"Deployment ` + name + ` updated - ` + what + `"}`
}

func TestDocumentedMessages(t *testing.T) {
	w := newWorld(t)
	web := w.deploy(w.own, "web", "nginx:1", "proxy:1")
	l := w.dial("?namespace=" + w.own)
	l.expect(processed + "web")

	db := w.deploy(w.own, "db", "postgres:1")
	l.expect(processed + "db")
	w.change(web, func(s *appsv1.DeploymentSpec) { s.Replicas = new(int32(3)) })
	l.expect(told("web", "Replicas changed: 3"), processed+"web")
	w.change(web, func(s *appsv1.DeploymentSpec) {
		s.Replicas = new(int32(0))
		s.Template.Spec.Containers[1].Image = "proxy:2"
		s.Template.Spec.Containers[0].Image = "nginx:2"
		s.Template.Spec.InitContainers[0].Image = "init:2"
	})
	l.expect(told("web", "Replicas changed: 0"), told("web", "Image changed: nginx:2"), told("web", "Image changed: proxy:2"),
		told("web", "Image changed: init:2"), processed+"web")
	w.change(web, func(s *appsv1.DeploymentSpec) { s.Template.Spec.Containers[0].Args = []string{"-v"} })
	l.expect(processed + "web")
	elsewhere := w.deploy(w.other, "web", "nginx:1")
	w.remove(db)
	l.expect("Deployment db deleted", "Deployment "+w.own+"/db has been deleted")

	// Who comes now hears of what there is; names are not alone in the world.
	for query, want := range map[string][]string{
		"":                {processed + "web", processed + "web"},
		"?deployment=web": {processed + "web", processed + "web"},
		"?namespace=" + w.other + "&deployment=web": {processed + "web"},
		"?namespace=" + w.other + "&deployment=db":  {},
	} {
		late := w.dial(query)
		late.expect(want...)
		if query == "" {
			w.change(elsewhere, func(s *appsv1.DeploymentSpec) { s.Replicas = new(int32(2)) })
			late.expect(told("web", "Replicas changed: 2"), processed+"web")
		}
	}
}

// TestWatchIsCut has a watch end in the ways that watches end, with changes meanwhile.
func TestWatchIsCut(t *testing.T) {
	for name, relist := range map[string]bool{"it goes on where it was": false, "its place in the history is gone": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			l := w.dial("?namespace=" + w.own)
			gone, again, scaled := w.deploy(w.own, "gone", "x:1"), w.deploy(w.own, "remade", "x:1"), w.deploy(w.own, "scaled", "x:1")
			w.deploy(w.own, "same", "x:1")
			l.expect(processed+"gone", processed+"remade", processed+"scaled", processed+"same")

			w.line.cut()
			if relist {
				w.relister.Relist("deployments")
			}
			w.remove(gone)
			w.remove(again)
			w.deploy(w.own, "remade", "x:2")
			w.change(scaled, func(s *appsv1.DeploymentSpec) { s.Replicas = new(int32(2)) })
			w.line.mend()
			// In which order a list tells of different Deployments is its own business.
			want := map[string][]string{
				"gone":   {"Deployment gone deleted", "Deployment " + w.own + "/gone has been deleted"},
				"remade": {"Deployment remade deleted", "Deployment " + w.own + "/remade has been deleted", processed + "remade"},
				"scaled": {told("scaled", "Replicas changed: 2"), processed + "scaled"},
			}
			got := map[string][]string{}
			for range 7 {
				_, data, err := l.ReadMessage()
				w.Expect(err).NotTo(gomega.HaveOccurred())
				text := timestamp.ReplaceAllString(string(data), "TIME")
				for name := range want {
					if strings.Contains(text, name) {
						got[name] = append(got[name], text)
					}
				}
			}
			w.Expect(got).To(gomega.Equal(want))
			w.deploy(w.own, "last", "x:1")
			l.expect(processed + "last")
		})
	}
}
