package store

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// Keys of findings are for the operator alone: events have them in the database, and nowhere else.
func TestFindingKeys(t *testing.T) {
	keys := FindingKeys{0, 1, 1 << 63, 1<<64 - 1}
	for kind, data := range map[EventKind]any{
		EventFindingOverdue:   OverdueEvent{Policies: []string{"p"}, Keys: keys},
		EventNamespaceOverdue: NamespaceOverdueEvent{Namespace: "n", Images: []OverdueImage{{ImageID: "i", Keys: keys}}, Policies: []string{"p"}},
	} {
		content, err := json.Marshal(data)
		if err != nil || !strings.Contains(string(content), `"keys":"AAAAAAAAAAAAAAAAAAAAAYAAAAAAAAAA//////////8="`) {
			t.Errorf("%s is %s, %v", kind, content, err)
		}
		var one OverdueEvent
		var many NamespaceOverdueEvent
		if kind == EventFindingOverdue {
			err = json.Unmarshal(content, &one)
		} else {
			err = json.Unmarshal(content, &many)
			one.Keys = many.Images[0].Keys
		}
		if err != nil || !slices.Equal(one.Keys, keys) {
			t.Errorf("%s has the keys %v, %v", kind, one.Keys, err)
		}
		want := strings.Replace(string(content), `,"keys":"AAAAAAAAAAAAAAAAAAAAAYAAAAAAAAAA//////////8="`, "", 1)
		if got := string(Event{Kind: kind, Data: content}.Public().Data); got != want {
			t.Errorf("%s is shown as %s, want %s", kind, got, want)
		}
		if got := string(Event{Kind: kind, Data: []byte(`{"keys":1,"images":1}`)}.Public().Data); got != "{}" {
			t.Errorf("%s that is not valid is shown as %s", kind, got)
		}
	}
	for _, text := range []string{`{"keys":"AAAA"}`, `{"keys":"?"}`, `{"keys":[1]}`} {
		if json.Unmarshal([]byte(text), &OverdueEvent{}) == nil {
			t.Errorf("%s is accepted", text)
		}
	}
}
