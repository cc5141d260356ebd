package scanner

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scannerv1 "github.com/scanner-operator/scanner-operator/api/scanner/v1"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// forgetful counts what is left to be forgotten.
type forgetful struct {
	memory
	left   int
	before []time.Time
	err    error
}

func (f *forgetful) ForgetImages(_ context.Context, before time.Time, limit int) ([]model.ImageKey, error) {
	f.before = append(f.before, before)
	removed := make([]model.ImageKey, min(limit, f.left))
	f.left -= len(removed)
	return removed, f.err
}

// scopes remembers which scopes are left, and what was expired of them.
type scopes struct {
	forgetful
	left    []string
	expired map[string]time.Time
	// failing are the scopes about which the store cannot do anything, failed counts how often.
	failing map[string]error
	failed  int
}

func (s *scopes) Scopes(context.Context) ([]string, error) { return slices.Clone(s.left), nil }

func (s *scopes) ForgetScope(_ context.Context, scope string) error {
	if err := s.failing[scope]; err != nil {
		s.failed++
		return err
	}
	s.left = slices.DeleteFunc(s.left, func(known string) bool { return known == scope })
	return nil
}

func (s *scopes) ExpireUses(_ context.Context, scope string, before time.Time) error {
	if err := s.failing[scope]; err != nil {
		s.failed++
		return err
	}
	s.expired[scope] = before
	return nil
}

func TestForgetterOfScopes(t *testing.T) {
	c := clientWith(t)
	long := scannerWith(nil)
	long.Name = strings.Repeat("n", 253)
	for _, s := range []*scannerv1.Scanner{scannerWith(nil), long} {
		if err := c.Create(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	living := []string{scopeOf(client.ObjectKeyFromObject(scannerWith(nil))), scopeOf(client.ObjectKeyFromObject(long))}
	if len(living[1]) > maxScope {
		t.Errorf("the scope of a long name has %d bytes", len(living[1]))
	}
	kept := &scopes{left: append([]string{"gone/a", "gone/b"}, living...), expired: map[string]time.Time{}}
	f := &Forgetter{Client: c, Store: kept, MaxRetention: DefaultMaxRetention, Clock: testclock.NewFakeClock(now), Log: testr.New(t)}
	if err := f.forget(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(living, kept.left); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestForgetterGoesOnAfterOneScope has a scope of a deleted Scanner and one of a living one about which each statement fails.
func TestForgetterGoesOnAfterOneScope(t *testing.T) {
	named := func(name string) *scannerv1.Scanner {
		s := scannerWith(nil)
		s.Name = name
		return s
	}
	for name, tt := range map[string]struct {
		err  error
		want map[string]bool
		left int
		// failed is how many statements fail.
		failed int
	}{
		"each statement about two scopes": {errors.New("too many rows"), map[string]bool{"ns/c": true, "": true}, 3, 2},
		// Nothing else could be done, either.
		"the database is away": {store.ErrUnavailable, map[string]bool{}, 4, 1},
	} {
		t.Run(name, func(t *testing.T) {
			kept := &scopes{left: []string{"ns/a", "ns/b", "ns/c", "ns/d"}, expired: map[string]time.Time{}, failing: map[string]error{"ns/a": tt.err, "ns/b": tt.err}}
			kept.forgetful.left = 1
			f := &Forgetter{Client: clientWith(t, named("b"), named("c")), Store: kept, MaxRetention: DefaultMaxRetention, Clock: testclock.NewFakeClock(now), Log: testr.New(t)}
			if err := f.forget(t.Context()); !errors.Is(err, tt.err) {
				t.Errorf("got %v, want %v", err, tt.err)
			}
			expired := map[string]bool{}
			for scope := range kept.expired {
				expired[scope] = true
			}
			if diff := cmp.Diff(tt.want, expired); diff != "" || len(kept.left) != tt.left || kept.failed != tt.failed || kept.forgetful.left != 0 {
				t.Errorf("%d scopes and %d images are left after %d failures; expired (-want +got):\n%s", len(kept.left), kept.forgetful.left, kept.failed, diff)
			}
		})
	}
}

// What one Scanner wants does not concern the results of another one.
func TestForgetterRetention(t *testing.T) {
	retain := func(name string, hours int) *scannerv1.Scanner {
		s := scannerWith(nil)
		s.Name = name
		if hours > 0 {
			s.Spec.Retention = &metav1.Duration{Duration: time.Duration(hours) * time.Hour}
		}
		return s
	}
	const day = 24
	for name, tt := range map[string]struct {
		most     time.Duration
		scanners []*scannerv1.Scanner
		want     map[string]int
	}{
		"no Scanner":       {DefaultMaxRetention, nil, map[string]int{"": 30 * day}},
		"each its own":     {DefaultMaxRetention, []*scannerv1.Scanner{retain("a", 1), retain("b", 100*day), retain("c", 0)}, map[string]int{"": 30 * day, "a": 1, "b": 100 * day, "c": 30 * day}},
		"no more than may": {10 * day * time.Hour, []*scannerv1.Scanner{retain("a", 1), retain("b", 87600), retain("c", 0)}, map[string]int{"": 10 * day, "a": 1, "b": 10 * day, "c": 10 * day}},
	} {
		t.Run(name, func(t *testing.T) {
			c, kept := clientWith(t), &scopes{expired: map[string]time.Time{}}
			for _, s := range tt.scanners {
				if err := c.Create(t.Context(), s); err != nil {
					t.Fatal(err)
				}
				kept.left = append(kept.left, "ns/"+s.Name)
			}
			f := &Forgetter{Client: c, Store: kept, MaxRetention: tt.most, Clock: testclock.NewFakeClock(now), Log: testr.New(t)}
			if err := f.forget(t.Context()); err != nil {
				t.Fatal(err)
			}
			got := map[string]int{}
			for scope, before := range kept.expired {
				got[strings.TrimPrefix(scope, "ns/")] = int(now.Sub(before) / time.Hour)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("hours by Scanner (-want +got):\n%s", diff)
			}
		})
	}
}

func TestForgetter(t *testing.T) {
	kept := &forgetful{left: 2*store.MaxForget + 1}
	f := &Forgetter{Client: clientWith(t), Store: kept, MaxRetention: DefaultMaxRetention, Clock: testclock.NewFakeClock(now), Log: testr.New(t)}
	if err := f.forget(t.Context()); err != nil {
		t.Fatal(err)
	}
	if kept.left != 0 || len(kept.before) != 3 || !kept.before[0].Equal(now.Add(-unusedRetention)) {
		t.Errorf("%d are left after %v, want none after 3 calls, and before %s", kept.left, kept.before, now.Add(-unusedRetention))
	}
	away := errors.New("away")
	f = &Forgetter{Client: clientWith(t), Store: &forgetful{err: away}, MaxRetention: DefaultMaxRetention, Clock: testclock.NewFakeClock(now), Log: testr.New(t)}
	if err := f.forget(t.Context()); !errors.Is(err, away) {
		t.Errorf("got %v", err)
	}
}
