package notify

import (
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
	// KEV counts the opened ones that are known to be exploited.
	KEV int `json:"kev,omitempty"`
}

func (r *EvaluatedRollout) text() string {
	return fmt.Sprintf("%s: opens %d findings (%d Critical, %d High), closes %d", r.Name, r.Opened.Total(), r.Opened.Critical, r.Opened.High, r.Closed.Total())
}

// addRollout adds a rollout that was evaluated.
func (b *batch) addRollout(e *store.Event) error {
	var data store.RolloutEvaluatedEvent
	if err := unmarshal(e, &data); err != nil {
		return err
	}
	if data.Opened == nil || data.Closed == nil || !b.rule.sees(data.Workload.Namespace) {
		return nil
	}
	if !b.selects(&policy.Change{Kind: string(RolloutEvaluated), KEV: data.OpenedKEV > 0}, new(worstOf(*data.Opened)), &policy.ChangedFinding{}) {
		return nil
	}
	w := &data.Workload
	if !b.place(imageFacts(model.ImageKey{ImageID: data.To.ImageID}), w) {
		return nil
	}
	g := b.group(b.rule.group(w))
	rollout := &EvaluatedRollout{
		ID: data.ID, Opened: *data.Opened, Closed: *data.Closed, KEV: data.OpenedKEV, Name: fmt.Sprintf("rollout of %s %s/%s, container %s", w.Kind, w.Namespace, w.Name, data.Container),
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
	return m.reviseOthers(RolloutEvaluated, func(_ int, o Other) *revised {
		if o.Rollout == nil {
			return nil
		}
		now, known := present[o.Rollout.ID]
		before := o.Rollout.Opened
		if !known || now == (store.RolloutCounts{Opened: before, Closed: o.Rollout.Closed, OpenedKEV: o.Rollout.KEV}) {
			return nil
		}
		o.Rollout = new(*o.Rollout)
		o.Rollout.Opened, o.Rollout.Closed, o.Rollout.KEV = now.Opened, now.Closed, now.OpenedKEV
		o.Text = o.Rollout.text()
		return &revised{before, now.Opened, o, rule.keeps(RolloutEvaluated, now.Opened, now.OpenedKEV > 0)}
	})
}
