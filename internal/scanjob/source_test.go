package scanjob

import (
	"encoding/json"
	"testing"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

func TestSource(t *testing.T) {
	for spec, want := range map[string]model.ImageSource{
		`{"containers":null}`: model.SourceRegistry,
		`{"volumes":[{"name":"scratch","emptyDir":{}},{"name":"image","image":{"reference":"a@sha256:b"}}]}`: model.SourceImageVolume,
		// Volumes with only the name or only the kind.
		`{"volumes":[{"name":"image","emptyDir":{}}]}`:                    model.SourceRegistry,
		`{"volumes":[{"name":"other","image":{"reference":"a:latest"}}]}`: model.SourceRegistry,
	} {
		if got, err := Source(json.RawMessage(spec)); got != want || err != nil {
			t.Errorf("%s: %q, %v; want %q", spec, got, err, want)
		}
	}
	if got, err := Source(json.RawMessage(`{"volumes":7}`)); got != "" || err == nil {
		t.Errorf("not a pod spec: %q, %v", got, err)
	}
}
