package notify

import (
	"encoding/json"
	"fmt"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/policy"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// EvaluatedRollout is a rollout in a message, with what it opened and closed.
type EvaluatedRollout struct {
	ID int64 `json:"id"`
	// Name says which rollout it is.
	Name   string               `json:"name"`
	Opened model.SeverityCounts `json:"opened"`
	Closed model.SeverityCounts `json:"closed"`
}

func (r *EvaluatedRollout) text() string {
	return fmt.Sprintf("%s: opens %d findings (%d Critical, %d High), closes %d", r.Name, r.Opened.Total(), r.Opened.Critical, r.Opened.High, r.Closed.Total())
}

// addRollout adds a rollout that was evaluated.
func (b *batch) addRollout(e *store.Event) error {
	var data store.RolloutEvaluatedEvent
	if err := json.Unmarshal(e.Data, &data); err != nil {
		return fmt.Errorf("read event %d: %w", e.Sequence, err)
	}
	if data.Opened == nil || data.Closed == nil || !b.rule.sees(data.Workload.Namespace) {
		return nil
	}
	if !b.selects(&policy.Change{Kind: string(RolloutEvaluated)}, new(worstOf(*data.Opened)), &policy.ChangedFinding{}) {
		return nil
	}
	w := &data.Workload
	if !b.place(imageFacts(model.ImageKey{ImageID: data.To.ImageID}), w) {
		return nil
	}
	g := b.group(b.rule.group(w))
	rollout := &EvaluatedRollout{
		ID: data.ID, Opened: *data.Opened, Closed: *data.Closed, Name: fmt.Sprintf("rollout of %s %s/%s, container %s", w.Kind, w.Namespace, w.Name, data.Container),
	}
	g.message.addOther(Other{Kind: RolloutEvaluated, Text: rollout.text(), Rollout: rollout}, *data.Opened, e.At)
	g.message.addWorkloads([]string{workloadName(w)})
	return nil
}

// rolloutIDs are the IDs of the rollouts in a message.
func (m *Message) rolloutIDs() []int64 {
	var ids []int64
	for i := range m.Others {
		if rollout := m.Others[i].Rollout; rollout != nil {
			ids = append(ids, rollout.ID)
		}
	}
	return ids
}

// compareRollouts has rollouts say what they open and close now, without findings that decisions suppress since they were evaluated, and leaves out rollouts
// that the rule does not select any more. present has what they open and close, by ID. It reports whether anything changed.
func (m *Message) compareRollouts(rule *Rule, present map[int64]store.RolloutCounts) (changed bool) {
	var kept []Other
	for _, o := range m.Others {
		now, known := store.RolloutCounts{}, false
		if o.Rollout != nil {
			now, known = present[o.Rollout.ID]
		}
		if !known {
			kept = append(kept, o)
			continue
		}
		left := *o.Rollout
		if left.Opened, left.Closed = now.Opened, now.Closed; left == *o.Rollout {
			kept = append(kept, o)
			continue
		}
		changed = true
		counts := difference(m.Severities[RolloutEvaluated], o.Rollout.Opened)
		if !rule.keeps(RolloutEvaluated, left.Opened) {
			if m.Counts[RolloutEvaluated]--; m.Counts[RolloutEvaluated] == 0 {
				delete(m.Counts, RolloutEvaluated)
				delete(m.Severities, RolloutEvaluated)
				continue
			}
		} else {
			counts = counts.Plus(left.Opened)
			o.Rollout, o.Text = &left, left.text()
			kept = append(kept, o)
		}
		m.severities(RolloutEvaluated, counts)
	}
	m.Others = kept
	return changed
}
