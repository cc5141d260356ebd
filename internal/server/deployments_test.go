package server_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/gorilla/websocket"
	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllertest"

	"github.com/scanner-operator/scanner-operator/internal/deploymentfeed"
	"github.com/scanner-operator/scanner-operator/internal/feed"
	"github.com/scanner-operator/scanner-operator/internal/metrics"
	"github.com/scanner-operator/scanner-operator/internal/server"
)

const deploymentsPath = "/api/wds/logs"

// deploymentFeed runs a feed with an informer that the test speaks through.
func deploymentFeed(t *testing.T, registry *prometheus.Registry, queue int) (*deploymentfeed.Feed, *controllertest.FakeInformer) {
	t.Helper()
	informer := controllertest.NewFakeInformer()
	informers := &informertest.FakeInformers{InformersByGVK: map[schema.GroupVersionKind]toolscache.SharedIndexInformer{
		appsv1.SchemeGroupVersion.WithKind("Deployment"): informer,
	}}
	shown, err := metrics.NewDeployments(registry)
	if err != nil {
		t.Fatal(err)
	}
	deployments := deploymentfeed.NewFeed(deploymentfeed.Config{Informers: informers, Metrics: shown, Log: logr.Discard(), Backlog: queue})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := deployments.Start(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return deployments, informer
}

// synced says that all Deployments were told, and waits until the feed knows.
func synced(t *testing.T, deployments *deploymentfeed.Feed, informer *controllertest.FakeInformer) {
	t.Helper()
	informer.Synced()
	for deadline := time.Now().Add(patience); !deployments.Synced(); {
		if time.Now().After(deadline) {
			t.Fatal("the feed has not synced")
		}
	}
}

func deployment(namespace, name string) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(namespace + name), ResourceVersion: "1"}}
}

func expectTexts(t *testing.T, connection *websocket.Conn, want ...string) {
	t.Helper()
	for _, text := range want {
		kind, data, err := connection.ReadMessage()
		if err != nil || kind != websocket.TextMessage || string(data) != text {
			t.Fatalf("got %q of kind %d, %v; want %q", data, kind, err, text)
		}
	}
}

func TestDeploymentFeed(t *testing.T) {
	registry, hand := prometheus.NewRegistry(), newHandFeed()
	deployments, informer := deploymentFeed(t, registry, 0)
	f := newFixture(t, func(c *server.Config) { c.Deployments, c.Feed = deployments, hand.subscribe })

	_, a := f.dialPath(deploymentsPath)
	a.problem(t, http.StatusServiceUnavailable, "the Deployments have not been listed yet")
	if a.header.Get("Retry-After") == "" {
		t.Error("nothing says when to come back")
	}
	synced(t, deployments, informer)
	informer.Add(deployment("b", "web"))
	informer.Add(deployment("a", "db"))

	all, _ := f.dialPath(deploymentsPath)
	expectTexts(t, all, "Successfully processed deployment: db", "Successfully processed deployment: web")
	some, _ := f.dialPath(deploymentsPath + "?namespace=b&deployment=web")
	expectTexts(t, some, "Successfully processed deployment: web")
	informer.Delete(deployment("a", "db"))
	expectTexts(t, all, "Deployment db deleted", "Deployment a/db has been deleted")

	// That the event log does not go on is nothing to those who do not follow it.
	follower, _ := f.dial()
	subscription := <-hand.subscriptions
	subscription.err = feed.ErrReset
	subscription.end()
	if code := closed(t, follower); code != websocket.CloseServiceRestart {
		t.Errorf("closed with %d", code)
	}
	informer.Delete(deployment("b", "web"))
	for _, connection := range []*websocket.Conn{all, some} {
		expectTexts(t, connection, "Deployment web deleted", "Deployment b/web has been deleted")
	}
	f.stop()
	if code := closed(t, all); code != websocket.CloseGoingAway {
		t.Errorf("closed with %d", code)
	}
}

func TestDeploymentFeedRefuses(t *testing.T) {
	deployments, informer := deploymentFeed(t, prometheus.NewRegistry(), 0)
	synced(t, deployments, informer)
	f := newGuardedFixture(t, newCluster(), func(c *server.Config) { c.Deployments = deployments })
	admin := bearer("admin")
	f.do(http.MethodGet, deploymentsPath, "", admin).problem(t, http.StatusUpgradeRequired, "WebSocket")
	for _, test := range []struct {
		query   string
		headers []string
		status  int
		detail  string
	}{
		{"", nil, 401, ""},
		{"", []string{bearer("nobody")}, 403, ""},
		{"", []string{admin, "Origin: https://evil.example"}, 403, "cross-origin"},
		{"?namespace=Shop", []string{admin}, 400, "namespace: "},
		{"?namespace=a.b", []string{admin}, 400, "namespace: "},
		{"?deployment=a_b", []string{admin}, 400, "deployment: "},
		{"?deployment=" + strings.Repeat("x", 254), []string{admin}, 400, "deployment: "},
	} {
		_, a := f.dialPath(deploymentsPath+test.query, test.headers...)
		a.problem(t, test.status, test.detail)
	}
	if connection, a := f.dialPath(deploymentsPath+"?namespace=&deployment=a.b", admin); connection == nil {
		t.Errorf("refused: %+v", a)
	}
	off := newFixture(t, nil)
	off.do(http.MethodGet, deploymentsPath, "").problem(t, http.StatusNotFound, "the flag --controllers disables")
}

// A client that does not read is disconnected and told so; nobody waits for it.
func TestSlowDeploymentClientIsEvicted(t *testing.T) {
	const queue = 64
	registry := prometheus.NewRegistry()
	deployments, informer := deploymentFeed(t, registry, queue)
	synced(t, deployments, informer)
	f := newFixture(t, func(c *server.Config) {
		c.Deployments, c.Registerer = deployments, registry
		c.Limits.PingInterval, c.Limits.PongTimeout = time.Hour, time.Hour
	})
	slow, _ := f.dialPath(deploymentsPath)
	quick, _ := f.dialPath(deploymentsPath)
	// Both follow.
	informer.Add(deployment("a", "first"))
	for _, connection := range []*websocket.Conn{slow, quick} {
		expectTexts(t, connection, "Successfully processed deployment: first")
	}
	long := strings.Repeat("x", 4096)
	for sent := 1; ; sent++ {
		// What was handed to the slow one is what was not handed to the quick one.
		if behind := 2*sent - int(count(t, registry, "scanner_operator_deployment_feed_messages_total")); behind > queue {
			break
		}
		if sent > 20_000 {
			t.Fatal("the slow client takes everything")
		}
		name := fmt.Sprint(long, sent)
		informer.Add(deployment("a", name))
		expectTexts(t, quick, "Successfully processed deployment: "+name)
	}
	if code := closed(t, slow); code != websocket.CloseTryAgainLater {
		t.Errorf("closed with %d", code)
	}
	for _, name := range []string{"scanner_operator_deployment_feed_evictions_total", "scanner_operator_websocket_evictions_total"} {
		if evicted := count(t, registry, name); evicted != 1 {
			t.Errorf("%s is %v", name, evicted)
		}
	}
}
