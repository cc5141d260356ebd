package metrics

import (
	"context"
	"errors"
	"testing"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
)

type sizer struct{ err error }

func (s *sizer) DatabaseSize(context.Context) (int64, error) { return 4096, s.err }

func TestSize(t *testing.T) {
	source, registry := &sizer{}, prometheus.NewPedanticRegistry()
	if err := NewSize(registry, source, logr.Discard()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"scanner_operator_sql_database_size_bytes=4096"}, gather(t, registry)); diff != "" {
		t.Error(diff)
	}
	source.err = errors.New("the database is away")
	if shown := gather(t, registry); len(shown) != 0 {
		t.Errorf("without a store %v is shown", shown)
	}
}
