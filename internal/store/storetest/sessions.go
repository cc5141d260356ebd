package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/store"
)

var sessionTests = map[string]func(*testing.T, *fixture){
	"Sessions": func(t *testing.T, f *fixture) {
		start := time.Date(2026, 1, 1, 0, 0, 0, 1000, time.UTC)
		f.clock.set(start)
		session := sessionOf("a", "alice", start)
		must(t, f.CreateSession(t.Context(), session))
		session.Content[0] = 'x' // The store keeps what it was given.
		f.expectSession(t, sessionOf("a", "alice", start))
		if _, err := f.Session(t.Context(), "A"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("another ID: %v", err)
		}
		if err := f.CreateSession(t.Context(), session); err == nil {
			t.Error("the same ID was accepted again")
		}

		first, second := sessionOf("a", "alice", start), sessionOf("a", "alice", start)
		first.ProviderSession = "another at the provider"
		first.Content, first.RefreshAt, first.ExpiresAt = bytes.Repeat([]byte{0xff, 0}, store.MaxSessionContent/2), start.Add(2*time.Hour), start.Add(3*time.Hour)
		f.expectUpdate(t, first, true)
		f.expectUpdate(t, second, false)
		first.Version++
		f.expectSession(t, first)
		f.clock.set(start.Add(3*time.Hour - time.Microsecond))
		f.expectSession(t, first)
		f.clock.set(start.Add(3 * time.Hour))
		f.expectNoSession(t, "a")

		// An update does not bring a deleted session back.
		must(t, f.DeleteSessions(t.Context(), store.SessionSelector{ID: "a"}))
		f.expectUpdate(t, first, false)
		f.expectNoSession(t, "a")
	},
	"SessionsAreDeleted": func(t *testing.T, f *fixture) {
		start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		f.clock.set(start)
		for _, id := range []string{"a1", "a2", "b1"} {
			session := sessionOf(id, id[:1], start)
			session.ProviderSession = "at-provider-" + id
			must(t, f.CreateSession(t.Context(), session))
		}
		for _, step := range []struct {
			selector store.SessionSelector
			gone     []string
		}{
			{store.SessionSelector{Owner: "other"}, nil},
			{store.SessionSelector{Owner: "a", ID: "b1"}, nil},
			{store.SessionSelector{Subject: "subject-of-b", ProviderSession: "at-provider-a2"}, nil},
			{store.SessionSelector{ProviderSession: "at-provider-a2"}, []string{"a2"}},
			{store.SessionSelector{Subject: "subject-of-b"}, []string{"a2", "b1"}},
			{store.SessionSelector{Owner: "a"}, []string{"a1", "a2", "b1"}},
			{store.SessionSelector{Owner: "a"}, []string{"a1", "a2", "b1"}},
		} {
			must(t, f.DeleteSessions(t.Context(), step.selector))
			for _, id := range []string{"a1", "a2", "b1"} {
				if _, err := f.Session(t.Context(), id); errors.Is(err, store.ErrNotFound) != slices.Contains(step.gone, id) {
					t.Errorf("after %+v, session %s: %v", step.selector, id, err)
				}
			}
		}
		if err := f.DeleteSessions(t.Context(), store.SessionSelector{}); err == nil {
			t.Error("an empty selector was accepted")
		}
		must(t, f.CreateSession(t.Context(), sessionOf("c1", "c", start)))
		must(t, f.DeleteSessions(t.Context(), store.SessionSelector{ProviderSession: "at-provider-c1"}))
		if _, err := f.Session(t.Context(), "c1"); err != nil {
			t.Errorf("a session that the provider did not name: %v", err)
		}
		must(t, f.DeleteSessions(t.Context(), store.SessionSelector{Subject: "subject-of-c", ProviderSession: "at-provider-c1"}))
		f.expectNoSession(t, "c1")
	},
	"SessionsThatBeganLaterAreKept": func(t *testing.T, f *fixture) {
		start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		f.clock.set(start)
		for i, id := range []string{"before", "at", "after"} {
			must(t, f.CreateSession(t.Context(), sessionOf(id, "alice", start.Add(time.Duration(i)*time.Microsecond))))
		}
		must(t, f.DeleteSessions(t.Context(), store.SessionSelector{Subject: "subject-of-alice", CreatedBefore: start.Add(time.Microsecond)}))
		f.expectNoSession(t, "before")
		for i, id := range []string{"at", "after"} {
			f.expectSession(t, sessionOf(id, "alice", start.Add(time.Duration(i+1)*time.Microsecond)))
		}
		if err := f.DeleteSessions(t.Context(), store.SessionSelector{CreatedBefore: start.Add(time.Hour)}); err == nil {
			t.Error("a selector of nobody was accepted")
		}
	},
	"SessionsAreBounded": func(t *testing.T, f *fixture) {
		start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		f.clock.set(start)
		must(t, f.CreateSession(t.Context(), sessionOf("other", "other", start)))
		for i := range store.MaxSessionsOfOwner + 2 {
			must(t, f.CreateSession(t.Context(), sessionOf(fmt.Sprint("s", i), "alice", start.Add(time.Duration(i)*time.Second))))
		}
		f.expectNoSession(t, "s0")
		f.expectNoSession(t, "s1")
		for _, kept := range []string{"other", "s2", fmt.Sprint("s", store.MaxSessionsOfOwner+1)} {
			_, err := f.Session(t.Context(), kept)
			must(t, err)
		}
		tooLarge := sessionOf("large", "alice", start)
		tooLarge.Content = make([]byte, store.MaxSessionContent+1)
		tooLong := sessionOf(string(bytes.Repeat([]byte{'x'}, store.MaxSessionKey+1)), "alice", start)
		for _, refused := range []store.Session{tooLarge, tooLong, {}} {
			if err := f.CreateSession(t.Context(), refused); err == nil {
				t.Errorf("a session with an ID of %d and a content of %d bytes was accepted", len(refused.ID), len(refused.Content))
			}
		}
	},
}

// sessionOf is a session that ends after an hour.
func sessionOf(id, owner string, created time.Time) store.Session {
	return store.Session{
		ID: id, Owner: owner, Subject: "subject-of-" + owner, Content: []byte("\x00sealed\xff" + id),
		CreatedAt: created, RefreshAt: created.Add(time.Minute), ExpiresAt: created.Add(time.Hour),
	}
}

func (f *fixture) expectSession(t *testing.T, want store.Session) {
	t.Helper()
	got, err := f.Session(t.Context(), want.ID)
	must(t, err)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func (f *fixture) expectNoSession(t *testing.T, id string) {
	t.Helper()
	if got, err := f.Session(t.Context(), id); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("session %s: %+v, %v", id, got, err)
	}
}

func (f *fixture) expectUpdate(t *testing.T, session store.Session, want bool) {
	t.Helper()
	updated, err := f.UpdateSession(t.Context(), session)
	must(t, err)
	if updated != want {
		t.Errorf("updated: %t, want %t", updated, want)
	}
}
