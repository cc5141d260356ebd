package podset

import (
	"strings"
	"testing"
)

// TestTemplatesThatAreRefused reads what an API server has not looked at: it is stored as it is.
func TestTemplatesThatAreRefused(t *testing.T) {
	const container = `{"spec":{"containers":[{"name":"a","image":"b"%s}]%s}}`
	with := func(inContainer, inSpec string) string {
		return strings.Replace(strings.Replace(container, "%s", inContainer, 1), "%s", inSpec, 1)
	}
	for name, test := range map[string]struct{ raw, want string }{
		"quantities":             {with(`,"resources":{"limits":{"memory":"1.5e3","cpu":"100m"},"requests":{"cpu":1}}`, `,"overhead":{"cpu":"1E2"}`), ""},
		"a text like one":        {with(`,"args":["1e2345678"],"env":[{"name":"limits","value":"1e2345678"}]`, ``), ""},
		"a small limit":          {with(`,"resources":{"limits":{"memory":"1e-100000000"}}`, ``), "exponent"},
		"a small request":        {with(`,"resources":{"requests":{"memory":"1E-100000000"}}`, ``), "exponent"},
		"a small overhead":       {with(``, `,"overhead":{"cpu":".1e-100000000"}`), "exponent"},
		"a small size":           {with(``, `,"volumes":[{"name":"v","emptyDir":{"sizeLimit":"+1e-100000000"}}]`), "exponent"},
		"a small claim":          {with(``, `,"volumes":[{"name":"v","ephemeral":{"volumeClaimTemplate":{"spec":{"resources":{"requests":{"storage":"1e-100000000"}}}}}}]`), "exponent"},
		"a small divisor":        {with(`,"env":[{"name":"e","valueFrom":{"resourceFieldRef":{"resource":"a","divisor":"1e-100000000"}}}]`, ``), "exponent"},
		"a long limit":           {with(`,"resources":{"limits":{"memory":"`+strings.Repeat("9", 900_000)+`"}}`, ``), "64 digits"},
		"no quantity":            {with(`,"resources":{"limits":{"memory":"many"}}`, ``), "quantities must match"},
		"a limit in other case":  {with(`,"RESOURCES":{"LimitS":{"memory":"1e-100000000"}}`, ``), "exponent"},
		"a limit of odd letters": {with(`,"resources":{"limitſ":{"memory":"1e-100000000"}}`, ``), "exponent"},
		"a list":                 {`[]`, "not a valid pod template"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Template(withTemplate(test.raw))
			if test.want == "" && err == nil {
				return
			}
			if err == nil || test.want == "" || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}
