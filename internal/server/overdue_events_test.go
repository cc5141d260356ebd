package server

import (
	"strings"
	"testing"

	"github.com/scanner-operator/scanner-operator/internal/store"
)

// The keys of findings in events are for the operator alone.
func TestEventsHaveNoKeysOfFindings(t *testing.T) {
	event := toEvent(store.Event{Kind: store.EventNamespaceOverdue, Data: []byte(`{"namespace":"n","images":[{"imageId":"i","keys":"AAAAAAAAAAE="}]}`)})
	if data := string(event.Data); strings.Contains(data, "keys") || !strings.Contains(data, `"imageId":"i"`) {
		t.Errorf("the data is %s", data)
	}
}
