package bellerophon

import (
	"testing"

	utiljson "k8s.io/apimachinery/pkg/util/json"
)

func TestFirstDifference(t *testing.T) {
	tests := map[string]struct{ wanted, live, want string }{
		"equal":                       {`{"a":1,"b":[1,"x"],"c":{"d":true}}`, `{"a":1,"b":[1,"x"],"c":{"d":true}}`, ""},
		"more than is wanted":         {`{"a":{"b":1}}`, `{"a":{"b":1,"x":2},"y":3}`, ""},
		"another value":               {`{"a":{"b":1}}`, `{"a":{"b":2}}`, "a.b"},
		"zero is a wish":              {`{"a":0}`, `{"a":3}`, "a"},
		"so is false":                 {`{"a":false}`, `{"a":true}`, "a"},
		"zero is not absence":         {`{"a":0}`, `{}`, "a"},
		"another type":                {`{"a":{"b":1}}`, `{"a":"x"}`, "a.b"},
		"the first of several":        {`{"b":1,"a":1}`, `{}`, "a"},
		"a plain list that is longer": {`{"a":["x"]}`, `{"a":["x","y"]}`, "a"},
		"another plain list":          {`{"a":["x","y"]}`, `{"a":["y","x"]}`, "a[0]"},
		"a missing list":              {`{"a":["x"]}`, `{}`, "a"},
		"elements by name, in disorder, with others": {`{"a":[{"name":"x","v":1},{"name":"y","v":2}]}`,
			`{"a":[{"name":"z"},{"name":"y","v":2},{"name":"x","v":1,"w":3}]}`, ""},
		"an element by name that differs": {`{"a":[{"name":"x","v":1}]}`, `{"a":[{"name":"x","v":2}]}`, "a[x].v"},
		"an element that is missing":      {`{"a":[{"name":"x","v":1}]}`, `{"a":[{"name":"y","v":1}]}`, "a[x].name"},
		"mounts by path, not by name": {`{"a":[{"name":"v","mountPath":"/a"},{"name":"v","mountPath":"/b"}]}`,
			`{"a":[{"name":"v","mountPath":"/b"},{"name":"v","mountPath":"/a"}]}`, ""},
		"elements without a key": {`{"a":[{"v":1}]}`, `{"a":[{"v":1,"w":2}]}`, ""},
	}
	for label, test := range tests {
		t.Run(label, func(t *testing.T) {
			if got := firstDifference(decode(t, test.wanted), decode(t, test.live)); got != test.want {
				t.Errorf("difference at %q, want %q", got, test.want)
			}
		})
	}
}

func decode(t *testing.T, text string) any {
	t.Helper()
	var value map[string]any
	if err := utiljson.Unmarshal([]byte(text), &value); err != nil {
		t.Fatal(err)
	}
	return value
}
