package metrics

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/scanner-operator/scanner-operator/internal/store"
)

type runningAges struct {
	ages store.RunningAges
	err  error
}

func (r runningAges) RunningAges(_ context.Context, distros int, days []int) (store.RunningAges, error) {
	if distros != maxEndedDistros || len(days) != len(olderThan) {
		return store.RunningAges{}, errors.New("unexpected bounds")
	}
	return r.ages, r.err
}

func TestAges(t *testing.T) {
	registry := prometheus.NewRegistry()
	for name, tt := range map[string]struct {
		store runningAges
		want  string
	}{
		"some": {runningAges{ages: store.RunningAges{
			Ended: []store.DistroImages{{Distro: "debian:10", Images: 3}, {Distro: "x\xff:1:2", Images: 1}}, OtherEnded: 2,
			Older: map[int]int{90: 5, 365: 1}, Unknown: 7,
		}}, `
			scanner_operator_images_age_unknown=7
			scanner_operator_images_end_of_life{distro="debian",version="10"}=3
			scanner_operator_images_end_of_life{distro="other",version=""}=2
			scanner_operator_images_end_of_life{distro="x",version="1:2"}=1
			scanner_operator_images_older_than{days="365"}=1
			scanner_operator_images_older_than{days="90"}=5`},
		"the store is away": {runningAges{err: errors.New("away")}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if err := NewAges(registry, tt.store, logr.Discard()); err != nil {
				t.Fatal(err)
			}
			if got, want := gather(t, registry), strings.Fields(tt.want); strings.Join(got, "\n") != strings.Join(want, "\n") {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		})
	}
}
