package scanner

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"

	scannerv1 "github.com/scanner-operator/scanner-operator/api/scanner/v1"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/vuln"
)

// forgetful counts what is left to be forgotten.
type forgetful struct {
	memory
	left   int
	before []time.Time
	err    error
}

func (f *forgetful) ForgetImages(_ context.Context, before time.Time, limit int) ([]vuln.ImageKey, error) {
	f.before = append(f.before, before)
	removed := make([]vuln.ImageKey, min(limit, f.left))
	f.left -= len(removed)
	return removed, f.err
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
