package storetest

import (
	"time"

	"github.com/scanner-operator/scanner-operator/internal/store"
)

// checkSuppressed expects the number of suppressed findings of matched images.
func (m *searchModel) checkSuppressed() {
	m.t.Helper()
	want := 0
	for _, image := range m.images {
		for _, f := range m.findings {
			if image.matched && image.has(f.fingerprint) && f.closed.IsZero() && !m.counts(image, f) {
				want++
			}
		}
	}
	overview, err := m.Overview(m.t.Context(), store.AllNamespaces())
	must(m.t, err)
	sums, err := m.DecisionSums(m.t.Context(), time.Hour)
	must(m.t, err)
	if overview.Suppressed != want || sums.Suppressed != want {
		m.t.Errorf("%d findings are suppressed, and %d by the sums of decisions; want %d", overview.Suppressed, sums.Suppressed, want)
	}
}
