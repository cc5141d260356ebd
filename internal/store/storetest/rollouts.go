package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// rolledOut makes rollouts from one cataloged image to another, in as many workloads.
func rolledOut(t *testing.T, f *fixture, workloads int) (from, to model.ImageKey) {
	t.Helper()
	from, to = image("a", amd64), image("bb", amd64)
	f.catalog(t, from, "1", catalogOf("p", "q"))
	f.catalog(t, to, "1", catalogOf("q", "r"))
	for minute, key := range []model.ImageKey{from, to} {
		var uses []store.Use
		for n := range workloads {
			uses = append(uses, runs(fmt.Sprintf("w%02d", n), key)...)
		}
		f.runAt(t, minute, "s", uses...)
	}
	return from, to
}

// evaluate expects that so many rollouts are evaluated or time out, those from before a minute.
func (f *fixture) evaluate(t *testing.T, timeout, want int) {
	t.Helper()
	taken, err := f.EvaluateRollouts(t.Context(), day.Add(time.Duration(timeout)*time.Minute), store.MaxEvaluated)
	if err != nil || taken != want {
		t.Fatalf("%d rollouts were evaluated, %v, want %d", taken, err, want)
	}
}

// only returns the only rollout.
func (f *fixture) only(t *testing.T) store.RolloutDetail {
	t.Helper()
	page := f.rollouts(t, store.RolloutQuery{})
	if len(page.Rollouts) != 1 {
		t.Fatalf("there are %d rollouts, want one", len(page.Rollouts))
	}
	detail, err := f.Rollout(t.Context(), store.AllNamespaces(), page.Rollouts[0].ID)
	must(t, err)
	if diff := cmp.Diff(page.Rollouts[0], detail.Rollout); diff != "" {
		t.Errorf("the list and the rollout itself differ: %s", diff)
	}
	return detail
}

func (f *fixture) unreported(t *testing.T, limit int) []store.RolloutDetail {
	t.Helper()
	details, err := f.UnreportedRollouts(t.Context(), 0, limit)
	must(t, err)
	return details
}

var evaluationTests = map[string]func(*testing.T, *fixture){
	"A rollout is evaluated when both images are scanned": func(t *testing.T, f *fixture) {
		from, to := rolledOut(t, f, 1)
		f.evaluate(t, 0, 0)
		f.match(t, from, "1", answers{
			"p": {finding("CVE-1", model.SeverityLow), finding("CVE-2", model.SeverityHigh, "2.0")},
			"q": {finding("CVE-3", model.SeverityMedium), finding("CVE-4", model.SeverityMedium)},
		})
		f.evaluate(t, 0, 0)
		if got := f.only(t); got.Evaluation.State != store.RolloutWaiting || !got.From.Scanned() || got.To.Scanned() {
			t.Errorf("got %+v", got)
		}
		f.match(t, to, "1", answers{"r": {finding("CVE-1", model.SeverityCritical), finding("CVE-5", model.SeverityCritical, "3")}})
		last := f.last(t)
		f.clock.set(day.Add(time.Hour))
		f.evaluate(t, 0, 1)

		want := f.only(t)
		want.Evaluation = store.RolloutEvaluation{
			State: store.RolloutEvaluated, At: day.Add(time.Hour),
			Opened: model.SeverityCounts{Critical: 2}, Closed: model.SeverityCounts{High: 1, Low: 1},
		}
		want.WorstOpened = []store.RolloutFinding{
			{VulnerabilityID: "CVE-1", Package: "r", Severity: model.SeverityCritical},
			{VulnerabilityID: "CVE-5", Package: "r", Severity: model.SeverityCritical, Fixable: true},
		}
		want.WorstClosed = []store.RolloutFinding{
			{VulnerabilityID: "CVE-2", Package: "p", Severity: model.SeverityHigh, Fixable: true},
			{VulnerabilityID: "CVE-1", Package: "p", Severity: model.SeverityLow},
		}
		if diff := cmp.Diff(want, f.only(t)); diff != "" {
			t.Errorf("evaluation (-want +got):\n%s", diff)
		}
		events := f.events(t, last)
		if len(events) != 1 || events[0].Kind != store.EventRolloutEvaluated || events[0].ImageID != to.ImageID || events[0].Namespace() != "n" {
			t.Fatalf("got %+v", events)
		}
		var data store.RolloutEvaluatedEvent
		must(t, json.Unmarshal(events[0].Data, &data))
		if diff := cmp.Diff(want.EvaluatedEvent(), data); diff != "" {
			t.Errorf("event (-want +got):\n%s", diff)
		}

		// Once, whatever comes later.
		f.evaluate(t, 999, 0)
		if diff := cmp.Diff([]store.RolloutDetail{want}, f.unreported(t, 9)); diff != "" {
			t.Errorf("to be reported (-want +got):\n%s", diff)
		}
		must(t, f.MarkRolloutReported(t.Context(), want.ID))
		must(t, f.MarkRolloutReported(t.Context(), want.ID))
		if left := f.unreported(t, 9); len(left) != 0 {
			t.Errorf("still to be reported: %+v", left)
		}
		// It says what was found then.
		must(t, f.DeleteImage(t.Context(), store.AllNamespaces(), store.AllNamespaces(), to.ImageID))
		if got := f.only(t); !cmp.Equal(want.Evaluation, got.Evaluation) || !cmp.Equal(want.WorstOpened, got.WorstOpened) {
			t.Errorf("without the image: %+v", got)
		}
	},
	"What is in both images is neither opened nor closed": func(t *testing.T, f *fixture) {
		from, to := image("a", amd64), image("bb", amd64)
		older, newer := catalogOf("p", "part of p"), catalogOf("p", "part of p")
		newer.Packages[1].Excluded = true
		newer.Packages[0].Package.Version, newer.Packages[0].Package.Fingerprint = "2.0", fmt.Sprintf("%064x", "newer")
		f.catalog(t, from, "1", older)
		f.catalog(t, to, "1", newer)
		f.runAt(t, 0, "s", runs("web", from)...)
		f.runAt(t, 1, "s", runs("web", to)...)
		both := finding("CVE-1", model.SeverityHigh)
		both.Vulnerability.Namespace = "another"
		f.match(t, from, "1", answers{
			"p": {finding("CVE-1", model.SeverityLow), finding("CVE-2", model.SeverityLow)}, "part of p": {finding("CVE-3", model.SeverityMedium)},
		})
		f.match(t, to, "1", answers{"p": {both}})
		f.evaluate(t, 0, 1)
		got := f.only(t)
		if got.Evaluation.Opened != (model.SeverityCounts{}) || got.Evaluation.Closed != (model.SeverityCounts{Medium: 1, Low: 1}) || got.WorstClosed[1].VulnerabilityID != "CVE-2" {
			t.Errorf("got %+v", got)
		}
	},
	"Rollouts time out": func(t *testing.T, f *fixture) {
		from, to := rolledOut(t, f, 1)
		f.match(t, from, "1", nil)
		f.evaluate(t, 1, 0)
		last := f.last(t)
		f.evaluate(t, 2, 1)
		got := f.only(t)
		if got.Evaluation.State != store.RolloutTimedOut || got.Evaluation.At.IsZero() || len(f.unreported(t, 9)) != 0 {
			t.Errorf("got %+v", got)
		}
		events := f.events(t, last)
		var data store.RolloutEvaluatedEvent
		if len(events) != 1 || json.Unmarshal(events[0].Data, &data) != nil || data.State != store.RolloutTimedOut || data.Opened != nil {
			t.Errorf("got %+v", events)
		}
		f.match(t, to, "1", nil)
		f.evaluate(t, 2, 0)
	},
	"A rollout that can be evaluated does not time out": func(t *testing.T, f *fixture) {
		from, to := rolledOut(t, f, 3)
		f.match(t, from, "1", nil)
		f.match(t, to, "1", nil)
		f.evaluate(t, 99, 3)
		for _, r := range f.rollouts(t, store.RolloutQuery{}).Rollouts {
			if r.Evaluation.State != store.RolloutEvaluated {
				t.Errorf("got %+v", r)
			}
		}
	},
	"Many rollouts are evaluated some at a time, the latest first": func(t *testing.T, f *fixture) {
		from, to := rolledOut(t, f, 7)
		f.match(t, from, "1", nil)
		f.match(t, to, "1", nil)
		var order []int64
		for _, want := range []int{3, 3, 1, 0} {
			taken, err := f.EvaluateRollouts(t.Context(), day, 3)
			if err != nil || taken != want {
				t.Fatalf("%d were evaluated, %v, want %d", taken, err, want)
			}
			var evaluated []int64
			for _, detail := range f.unreported(t, 2*taken) {
				evaluated = append(evaluated, detail.ID)
				must(t, f.MarkRolloutReported(t.Context(), detail.ID))
			}
			if !slices.IsSorted(evaluated) {
				t.Errorf("reported in the order %v", evaluated)
			}
			slices.Reverse(evaluated)
			order = append(order, evaluated...)
		}
		if len(order) != 7 || !slices.IsSortedFunc(order, func(a, b int64) int { return int(b - a) }) {
			t.Errorf("evaluated in the order %v", order)
		}
	},
	"Unreported rollouts are listed page by page": func(t *testing.T, f *fixture) {
		from, to := rolledOut(t, f, 5)
		f.match(t, from, "1", nil)
		f.match(t, to, "1", nil)
		f.evaluate(t, 0, 5)
		all, paged := f.unreported(t, 9), []store.RolloutDetail{}
		for after := int64(0); ; after = paged[len(paged)-1].ID {
			page, err := f.UnreportedRollouts(t.Context(), after, 2)
			must(t, err)
			if paged = append(paged, page...); len(page) < 2 || len(paged) > len(all) {
				break
			}
		}
		if diff := cmp.Diff(all, paged); len(all) != 5 || diff != "" {
			t.Errorf("%d rollouts, in pages (-want +got):\n%s", len(all), diff)
		}
	},
	"Evaluations are bounded": func(t *testing.T, f *fixture) {
		from, to := rolledOut(t, f, 1)
		many := answers{}
		for n := range 2 * store.MaxRolloutFindings {
			many["r"] = append(many["r"], finding(fmt.Sprintf("CVE-%03d", n), model.Severity(n%6)))
		}
		f.match(t, from, "1", nil)
		f.match(t, to, "1", many)
		last := f.last(t)
		f.evaluate(t, 0, 1)
		got := f.only(t)
		worst, least := got.WorstOpened[0].Severity, got.WorstOpened[len(got.WorstOpened)-1].Severity
		if opened := got.Evaluation.Opened; len(got.WorstOpened) != store.MaxRolloutFindings || worst != model.SeverityCritical || least != model.SeverityLow || opened.Critical != 33 || opened.Unknown != 34 {
			t.Errorf("%d findings from %s to %s of %+v", len(got.WorstOpened), worst, least, opened)
		}
		var data store.RolloutEvaluatedEvent
		must(t, json.Unmarshal(f.events(t, last)[0].Data, &data))
		if len(data.WorstOpened) != 10 {
			t.Errorf("the event names %d findings", len(data.WorstOpened))
		}
	},
	"Rollouts are compared again": func(t *testing.T, f *fixture) {
		from, to := rolledOut(t, f, 2)
		f.match(t, from, "1", answers{"p": {finding("CVE-1", model.SeverityLow)}})
		f.match(t, to, "1", answers{"r": {finding("CVE-2", model.SeverityHigh), finding("CVE-3", model.SeverityCritical)}})
		f.evaluate(t, 0, 2)
		var ids []int64
		for _, r := range f.rollouts(t, store.RolloutQuery{}).Rollouts {
			ids = append(ids, r.ID)
		}
		expect := func(opened, closed model.SeverityCounts) {
			t.Helper()
			want := map[int64]store.RolloutCounts{}
			for _, id := range ids {
				want[id] = store.RolloutCounts{Opened: opened, Closed: closed}
			}
			got, err := f.PresentRollouts(t.Context(), append([]int64{1 << 40}, ids...))
			must(t, err)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		}
		expect(model.SeverityCounts{High: 1, Critical: 1}, model.SeverityCounts{Low: 1})
		f.decide(t, store.Decision{Object: store.DecisionObject{Kind: "ClusterVulnerabilityException", Name: "a"}, Vulnerabilities: []string{"CVE-3", "CVE-1"}, Status: model.DecisionFixed})
		expect(model.SeverityCounts{High: 1}, model.SeverityCounts{})
		if opened := f.rollouts(t, store.RolloutQuery{}).Rollouts[0].Evaluation.Opened; opened.Critical != 1 {
			t.Errorf("the evaluation that is recorded is %+v", opened)
		}
		must(t, f.DeleteImage(t.Context(), store.AllNamespaces(), store.AllNamespaces(), from.ImageID))
		if got, err := f.PresentRollouts(t.Context(), ids); err != nil || len(got) > 0 || len(f.rollouts(t, store.RolloutQuery{}).Rollouts) != len(ids) {
			t.Errorf("without one of the images: %v, %v", got, err)
		}
	},
	"Rollouts that are not there": func(t *testing.T, f *fixture) {
		if _, err := f.Rollout(t.Context(), store.AllNamespaces(), 1); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("got %v", err)
		}
		must(t, f.MarkRolloutReported(t.Context(), 1))
		rolledOut(t, f, 1)
		f.clock.set(day.Add(time.Hour))
		must(t, f.Prune(t.Context(), day.Add(time.Hour)))
		f.evaluate(t, 99, 0)
	},
}
