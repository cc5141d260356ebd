package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gorilla/websocket"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/server"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// sessionNamespaces are what a session says about what its owner sees.
type sessionNamespaces struct {
	All            bool
	Visible, Total int
	Names          []string
}

// sessionNamespaces reads what the session of a caller says, nil for nothing.
func (f *fixture) sessionNamespaces(headers ...string) *sessionNamespaces {
	f.t.Helper()
	a := f.do(http.MethodGet, sessionPath, "", headers...)
	var session struct{ Namespaces *sessionNamespaces }
	f.must(json.Unmarshal([]byte(a.body), &session))
	if strings.Contains(a.body, `"total":0`) {
		f.t.Errorf("there is a total of 0: %s", a.body)
	}
	return session.Namespaces
}

// A session says how many namespaces its owner sees, of how many. Who sees none is not told how many there are.
func TestSessionNamespaces(t *testing.T) {
	t.Parallel()
	one := &sessionNamespaces{Visible: 1, Total: 3, Names: []string{"shop"}}
	all := &sessionNamespaces{All: true, Visible: 3, Total: 3, Names: []string{"bank", "dark", "shop"}}
	f := newMatrixFixture(t, nil, nil)
	for user, want := range map[string]*sessionNamespaces{
		"none": one, "one": one, "two": {Visible: 2, Total: 3, Names: []string{"bank", "shop"}}, "all": all, signedIn: one, anonymous: one, "unknown": nil,
	} {
		if diff := cmp.Diff(want, f.sessionNamespaces(f.as(user))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", user, diff)
		}
		validate(t, success(http.MethodGet, sessionPath), f.do(http.MethodGet, sessionPath, "", f.as(user)).body)
	}
	if diff := cmp.Diff(one, f.sessionNamespaces("Cookie: scanner-operator-session=unknown")); diff != "" {
		t.Errorf("with a cookie of no use (-want +got):\n%s", diff)
	}
	closed := newMatrixFixture(t, nil, func(c *server.Config) { c.AnonymousRead = false })
	if diff := cmp.Diff(&sessionNamespaces{Names: []string{}}, closed.sessionNamespaces(closed.as("none"))); diff != "" {
		t.Errorf("without a permission (-want +got):\n%s", diff)
	}
	if got := closed.sessionNamespaces(); got != nil {
		t.Errorf("where reading requires a token: %+v", got)
	}
	if diff := cmp.Diff(&sessionNamespaces{All: true, Names: []string{}}, newFixture(t, nil).sessionNamespaces()); diff != "" {
		t.Errorf("without authentication (-want +got):\n%s", diff)
	}
}

// manyNamespaces is a store that knows many namespaces.
type manyNamespaces struct {
	store.Store
	count int
}

// Namespaces implements store.Reader.
func (m manyNamespaces) Namespaces(context.Context) ([]string, error) {
	names := make([]string, m.count)
	for i := range names {
		names[i] = fmt.Sprintf("team-%06d", i)
	}
	return names, nil
}

// However many namespaces there are, a session is short, and says who is signed in.
func TestSessionOfManyNamespaces(t *testing.T) {
	t.Parallel()
	for _, count := range []int{150, store.MaxNamespaces + 1} {
		f := newMatrixFixture(t, nil, func(c *server.Config) { c.Store = manyNamespaces{c.Store, count} })
		if got := f.sessionNamespaces(bearer("all")); got == nil || !got.All || got.Visible != count || got.Total != count || len(got.Names) != 100 || got.Names[0] != "team-000000" {
			t.Errorf("%d namespaces: %+v", count, got)
		}
		if diff := cmp.Diff(&sessionNamespaces{Names: []string{}}, f.sessionNamespaces(bearer("one"))); diff != "" {
			t.Errorf("%d namespaces, none visible (-want +got):\n%s", count, diff)
		}
	}
}

// Groups decide which namespaces a session sees. When the provider names others, or the session ends, its WebSockets end, and so does what it sees.
func TestNamespacesFollowGroups(t *testing.T) {
	t.Parallel()
	p := newHostileProvider(t)
	f := newSignInFixture(t, p.config(), nil, func(c *server.Config) {
		// The WebSockets are read at the end only.
		c.Limits.PingInterval, c.Limits.PongTimeout = 10*time.Millisecond, time.Hour
	})
	var uses []store.Use
	for _, namespace := range []string{"shop", "bank", "dark"} {
		image := model.ImageKey{ImageID: "registry.example/" + namespace, Platform: linux}
		_, err := f.store.WantImages(t.Context(), []model.ImageKey{image})
		f.must(err)
		uses = append(uses, store.Use{Image: image, Workload: store.Workload{Namespace: namespace, Kind: "Deployment", Name: "web"}, Container: "app"})
	}
	f.must(f.store.RecordUses(t.Context(), "scanner", uses))
	f.rbac.verbs = map[string][]string{"shop-team": reading, "bank-team": reading}
	f.rbac.only = map[string]string{"shop-team": "shop", "bank-team": "bank"}
	groups := func(names ...string) {
		p.set(func(p *hostileProvider) { p.claims = func(claims map[string]any) { claims["groups"] = names } })
	}
	sees := func(b *browser, want ...string) {
		t.Helper()
		got := f.sessionNamespaces("Cookie: " + sessionCookie + "=" + b.cookies[sessionCookie])
		if got == nil || !slices.Equal(got.Names, want) {
			t.Errorf("the session sees %+v, want %q", got, want)
		}
		var page struct{ Items []struct{ ImageID string } }
		f.must(json.Unmarshal([]byte(b.do(f, http.MethodGet, "/api/v1/images").body), &page))
		if len(page.Items) != len(want) || len(want) > 0 && page.Items[0].ImageID != "registry.example/"+want[0] {
			t.Errorf("images %+v, want those of %q", page.Items, want)
		}
	}
	ends := func(b *browser, change func(), want int) {
		t.Helper()
		socket, _ := f.dial("Cookie: " + sessionCookie + "=" + b.cookies[sessionCookie])
		change()
		f.clock.step(16 * time.Minute)
		if code := closed(t, socket); code != want {
			t.Errorf("the WebSocket was closed with %d, want %d", code, want)
		}
	}
	groups("shop-team")
	b := newBrowser(t, "")
	b.finish(f)
	sees(b, "shop")
	ends(b, func() { groups("bank-team") }, websocket.CloseServiceRestart)
	sees(b, "bank")
	ends(b, func() { groups("others") }, websocket.ClosePolicyViolation)
	b.expect(f, http.StatusForbidden)
	groups("bank-team", "shop-team")
	f.clock.step(16 * time.Minute)
	b.expect(f, http.StatusOK)
	again := newBrowser(t, "")
	again.cookies = maps.Clone(b.cookies)
	ends(b, func() { b.do(f, http.MethodDelete, sessionPath) }, websocket.ClosePolicyViolation)
	again.expect(f, http.StatusUnauthorized)
}
