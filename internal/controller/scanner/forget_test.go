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

// scopes remembers which scopes are left.
type scopes struct {
	forgetful
	uses, coverage []string
}

func (s *scopes) Scopes(context.Context) ([]string, error) {
	return slices.Compact(slices.Sorted(slices.Values(slices.Concat(s.uses, s.coverage)))), nil
}

func (s *scopes) RecordUses(_ context.Context, scope string, uses []store.Use) error {
	s.uses = slices.DeleteFunc(s.uses, func(known string) bool { return known == scope && len(uses) == 0 })
	return nil
}

func (s *scopes) RecordCoverage(_ context.Context, scope string, containers []store.ContainerCoverage) error {
	s.coverage = slices.DeleteFunc(s.coverage, func(known string) bool { return known == scope && len(containers) == 0 })
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
	kept := &scopes{uses: append([]string{"gone/a"}, living...), coverage: append([]string{"gone/a", "gone/b"}, living...)}
	f := &Forgetter{Client: c, Store: kept, Clock: testclock.NewFakeClock(now), Log: testr.New(t)}
	if err := f.forget(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([][]string{living, living}, [][]string{kept.uses, kept.coverage}); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestForgetter(t *testing.T) {
	retain := func(name string, hours int) *scannerv1.Scanner {
		s := scannerWith(nil)
		s.Name = name
		if hours > 0 {
			s.Spec.Retention = &metav1.Duration{Duration: time.Duration(hours) * time.Hour}
		}
		return s
	}
	for name, tt := range map[string]struct {
		scanners []*scannerv1.Scanner
		want     time.Duration
	}{
		"no Scanner":          {nil, defaultRetention},
		"the default":         {[]*scannerv1.Scanner{retain("a", 0)}, defaultRetention},
		"a short one":         {[]*scannerv1.Scanner{retain("a", 1)}, time.Hour},
		"the longest of some": {[]*scannerv1.Scanner{retain("a", 5), retain("b", 100), retain("c", 7)}, 100 * time.Hour},
		"one says nothing":    {[]*scannerv1.Scanner{retain("a", 5), retain("b", 0)}, defaultRetention},
	} {
		t.Run(name, func(t *testing.T) {
			c := clientWith(t)
			for _, s := range tt.scanners {
				if err := c.Create(t.Context(), s); err != nil {
					t.Fatal(err)
				}
			}
			kept := &forgetful{left: 2*store.MaxForget + 1}
			f := &Forgetter{Client: c, Store: kept, Clock: testclock.NewFakeClock(now), Log: testr.New(t)}
			if err := f.forget(t.Context()); err != nil {
				t.Fatal(err)
			}
			if kept.left != 0 || len(kept.before) != 3 || !kept.before[0].Equal(now.Add(-tt.want)) {
				t.Errorf("%d are left after %v, want none after 3 calls, and before %s", kept.left, kept.before, now.Add(-tt.want))
			}
		})
	}
	away := errors.New("away")
	f := &Forgetter{Client: clientWith(t), Store: &forgetful{err: away}, Clock: testclock.NewFakeClock(now), Log: testr.New(t)}
	if err := f.forget(t.Context()); !errors.Is(err, away) {
		t.Errorf("got %v", err)
	}
}
