package inventory

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

func TestOwnerKeys(t *testing.T) {
	keys := OwnerKeys{"team", "example.com/owner"}
	long := strings.Repeat("a", model.MaxOwner)

	tests := map[string]struct {
		labels, annotations map[string]string
		want                string
		invalid             []string
	}{
		"nothing":                                {},
		"other keys":                             {labels: map[string]string{"app": "web"}, annotations: map[string]string{"Team": "a"}},
		"a label":                                {labels: map[string]string{"team": "a"}, want: "a"},
		"an annotation":                          {annotations: map[string]string{"team": "Payments & Co"}, want: "Payments & Co"},
		"a label before an annotation":           {labels: map[string]string{"team": "a"}, annotations: map[string]string{"team": "b"}, want: "a"},
		"the first key":                          {labels: map[string]string{"example.com/owner": "b"}, annotations: map[string]string{"team": "a"}, want: "a"},
		"an empty value is none":                 {labels: map[string]string{"team": ""}, annotations: map[string]string{"team": " ", "example.com/owner": "b"}, want: "b"},
		"spaces around are cut":                  {annotations: map[string]string{"team": "\n a b\t"}, want: "a b"},
		"the longest":                            {annotations: map[string]string{"team": long}, want: long},
		"too long":                               {annotations: map[string]string{"team": long + "a"}, invalid: []string{"team"}},
		"a control character":                    {annotations: map[string]string{"team": "a\x1b[31mb"}, invalid: []string{"team"}},
		"a line break inside":                    {annotations: map[string]string{"team": "a\nb"}, invalid: []string{"team"}},
		"another direction of writing":           {annotations: map[string]string{"team": "a\u202eb"}, invalid: []string{"team"}},
		"invalid UTF-8":                          {annotations: map[string]string{"team": "a\xff"}, invalid: []string{"team"}},
		"what is invalid does not hide the next": {annotations: map[string]string{"team": "a\x00", "example.com/owner": "b"}, want: "b", invalid: []string{"team"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			owner, invalid := keys.Of(tt.labels, tt.annotations)
			if owner != tt.want {
				t.Errorf("owner: got %q, want %q", owner, tt.want)
			}
			if diff := cmp.Diff(tt.invalid, invalid); diff != "" {
				t.Errorf("invalid keys (-want +got):\n%s", diff)
			}
		})
	}
	if owner, _ := OwnerKeys(nil).Of(map[string]string{"team": "a"}, nil); owner != "" {
		t.Errorf("without keys: got %q", owner)
	}
}

func FuzzOwnerKeys(f *testing.F) {
	f.Add("team", "a b")
	f.Add(" ", "a\x00\u202e\xff")
	f.Fuzz(func(t *testing.T, label, annotation string) {
		owner, _ := OwnerKeys{"k"}.Of(map[string]string{"k": label}, map[string]string{"k": annotation})
		if len(owner) > model.MaxOwner || !utf8.ValidString(owner) || strings.TrimSpace(owner) != owner || strings.ContainsAny(owner, "\x00\n\r\x1b\u202e") {
			t.Errorf("got the owner %q", owner)
		}
	})
}
