package storetest

import (
	"errors"
	"fmt"

	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/advice"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// openIn lists the findings that count in an image.
func (m *searchModel) openIn(image *searchImage) []model.Finding {
	var findings []model.Finding
	for _, f := range m.findings {
		if m.counts(image, f) {
			findings = append(findings, model.Finding{PackageFinding: *f.last(), Package: m.packageOf(f.fingerprint)})
		}
	}
	return findings
}

// checkCompare compares two images as advice.Compare does.
func (m *searchModel) checkCompare() {
	from, to := m.images[m.random.IntN(len(m.images))], m.images[m.random.IntN(len(m.images))]
	got, err := m.Compare(m.t.Context(), store.AllNamespaces(), from.key, to.key)
	must(m.t, err)
	what := fmt.Sprintf("%s compared with %s", from.key, to.key)
	if !from.matched || !to.matched {
		if got.Evaluation.State != store.RolloutWaiting || got.WorstOpened != nil {
			m.t.Errorf("%s is %+v", what, got)
		}
		return
	}
	want := advice.Compare(m.openIn(from), m.openIn(to))
	changes := func(findings []store.RolloutFinding) []advice.Change {
		list := make([]advice.Change, len(findings))
		for i, f := range findings {
			list[i] = advice.Change(f)
		}
		return list
	}
	if diff := cmp.Diff(want, advice.Comparison{Opened: changes(got.WorstOpened), Closed: changes(got.WorstClosed)}); diff != "" {
		m.t.Errorf("%s (-want +got):\n%s", what, diff)
	}
	if got.Evaluation.Opened != advice.Count(want.Opened) || got.Evaluation.Closed != advice.Count(want.Closed) || got.Evaluation.State != store.RolloutEvaluated {
		m.t.Errorf("%s counts %+v", what, got.Evaluation)
	}
	if _, err := m.Compare(m.t.Context(), store.AllNamespaces(), from.key, model.ImageKey{ImageID: "gone"}); !errors.Is(err, store.ErrNotFound) {
		m.t.Errorf("an image that is not known: %v", err)
	}
}
