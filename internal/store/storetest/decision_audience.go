package storetest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// told lists what the events about decisions after since say to who sees some namespaces.
func (f *fixture) told(t *testing.T, in store.Namespaces, since int64) []string {
	t.Helper()
	events, err := f.EventsSince(t.Context(), in, since, store.MaxKeys)
	must(t, err)
	var all []string
	for i := range events {
		e := &events[i]
		if !e.VisibleIn(in) {
			t.Errorf("%v is not told to %v", e, in)
		}
		if !strings.HasPrefix(string(e.Kind), "decision.") {
			continue
		}
		var data store.DecisionEvent
		must(t, json.Unmarshal(e.Data, &data))
		text := strings.TrimPrefix(string(e.Kind), "decision.")
		if data.Action != "" {
			text += "/" + string(data.Action)
		}
		if data.Object != nil {
			text += " " + data.Object.Name
		}
		if data.Status != "" || data.ExpiresAt != nil || data.Author != "" {
			text += fmt.Sprint(" ", data.Status, " ", data.ExpiresAt != nil, " ", data.Author)
		}
		if data.Omitted > 0 {
			text += fmt.Sprint(" and ", data.Omitted)
		}
		all = append(all, text)
	}
	return all
}

// expectEvents compares what the events after since say in each namespace, and lets the clock go on.
func (f *fixture) expectEvents(t *testing.T, step string, since int64, want map[string][]string) {
	t.Helper()
	for namespace, want := range want {
		if diff := cmp.Diff(want, f.told(t, store.AllNamespaces().In(namespace), since)); diff != "" {
			t.Errorf("%s: what who sees %q is told (-want +got):\n%s", step, namespace, diff)
		}
	}
}

var decisionAudienceTests = map[string]func(*testing.T, *fixture){
	"Events about decisions of the cluster are told where they match": func(t *testing.T, f *fixture) {
		start := oldBuild.Built
		f.clock.set(start)
		var keys []model.ImageKey
		for number, namespace := range []string{"a", "b"} {
			key := model.ImageKey{ImageID: modelImageID(number), Platform: amd64}
			f.catalog(t, key, namespace, catalogOf(namespace))
			f.match(t, key, namespace, answers{namespace: {finding(fmt.Sprint("CVE-", number+1), model.SeverityHigh)}})
			must(t, f.RecordUses(t.Context(), namespace, []store.Use{{Image: key, Workload: deployment(namespace, "web"), Container: "c"}}))
			keys = append(keys, key)
		}
		about := func(name string, vulnerabilities ...string) store.Decision {
			return exception(name, model.DecisionAcceptedRisk, vulnerabilities, nil)
		}
		moved, inImages, investigated := about("moved", "CVE-1"), about("of images", "CVE-1", "CVE-2"), about("investigated", "CVE-2")
		inImages.Images, investigated.Status = []string{keys[1].ImageID}, model.DecisionUnderInvestigation
		kept := []store.Decision{
			about("both", "CVE-1", "CVE-2"), about("nothing", "CVE-3"), inImages, investigated,
			placed(about("in a", "CVE-1", "CVE-2"), "a", []string{"a"}), placed(about("in b", "CVE-1"), "b", []string{"b"}),
		}
		last := f.last(t)
		f.decide(t, append(kept, moved)...)
		f.expectEvents(t, "begin", last, map[string][]string{
			"a": {"changed/applied both", "changed/applied in a", "changed/applied moved"},
			"b": {"changed/applied both", "changed/applied investigated", "changed/applied of images"}, "c": nil,
			"": {
				"changed/applied both AcceptedRisk false jane", "changed/applied in a AcceptedRisk false jane", "changed/applied in b AcceptedRisk false jane",
				"changed/applied investigated UnderInvestigation false jane", "changed/applied moved AcceptedRisk false jane",
				"changed/applied nothing AcceptedRisk false jane", "changed/applied of images AcceptedRisk false jane",
			},
		})
		// Those who were shown what was said before learn that it is no more, and nothing of what is said now.
		last = f.last(t)
		moved.Vulnerabilities, moved.ExpiresAt = []string{"CVE-2"}, start.Add(48*time.Hour)
		f.decide(t, append(kept, moved)...)
		f.expectEvents(t, "move", last, map[string][]string{
			"a": {"changed/changed moved"}, "b": {"changed/changed moved"}, "c": nil, "": {"changed/changed moved AcceptedRisk true jane"},
		})
		last = f.last(t)
		f.clock.set(start.Add(24 * time.Hour))
		must(t, f.RecordExpiring(t.Context()))
		f.expectEvents(t, "remind", last, map[string][]string{"a": nil, "b": {"expiring moved AcceptedRisk true "}, "": {"expiring moved AcceptedRisk true jane"}})
		last = f.last(t)
		f.clock.set(start.Add(48 * time.Hour))
		_, err := f.ExpireDecisions(t.Context())
		must(t, err)
		f.expectEvents(t, "expire", last, map[string][]string{"a": nil, "b": {"expired moved"}, "": {"expired moved AcceptedRisk true jane"}})
		// What does not run there any more is not told there.
		must(t, f.RecordUses(t.Context(), "b", nil))
		must(t, f.DeleteImage(t.Context(), store.AllNamespaces(), store.AllNamespaces(), keys[1].ImageID))
		last = f.last(t)
		f.decide(t)
		f.expectEvents(t, "end", last, map[string][]string{"a": {"changed/removed both", "changed/removed in a"}, "b": nil})
	},
	"Events about many decisions of the cluster have no numbers of others": func(t *testing.T, f *fixture) {
		f.clock.set(oldBuild.Built)
		key := model.ImageKey{ImageID: modelImageID(0), Platform: amd64}
		f.catalog(t, key, "1", catalogOf("a"))
		f.match(t, key, "1", decided)
		must(t, f.RecordUses(t.Context(), "a", []store.Use{{Image: key, Workload: deployment("a", "web"), Container: "c"}}))
		var many []store.Decision
		for i := range store.MaxDecisionEvents + 4 {
			// The last one does not match.
			many = append(many, exception(fmt.Sprintf("d%03d", i), model.DecisionFixed, []string{[]string{"CVE-1", "CVE-9"}[i/(store.MaxDecisionEvents+3)]}, nil))
		}
		last := f.last(t)
		f.decide(t, many...)
		for namespace, want := range map[string][]string{"a": {"changed/changed"}, "b": nil, "": {"changed/changed and 4"}} {
			got := f.told(t, store.AllNamespaces().In(namespace), last)
			if len(got) > store.MaxDecisionEvents {
				got = slices.Clone(got[store.MaxDecisionEvents:])
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("who sees %q (-want +got):\n%s", namespace, diff)
			}
		}
	},
}
