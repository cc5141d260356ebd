package policy_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/policy"
)

var (
	openssl = policy.Finding{
		ID: "CVE-2024-1", Severity: "High", KEV: true, EPSS: 0.5, Risk: 70, Fixable: true, FixState: "fixed",
		Package: policy.Package{Type: "deb", Name: "openssl", Version: "3.0.1", Distro: "debian:12"},
	}
	shop = policy.Image{ID: "registry.example/shop@sha256:1", Repository: "registry.example/shop", Distro: "debian:12"}
	prod = policy.Workload{Namespace: "prod", Kind: "Deployment", Name: "shop", Owner: "red"}
)

func TestSelectors(t *testing.T) {
	for expression, want := range map[string]struct{ finding, place, placed, scores bool }{
		"":                    {true, true, false, false},
		`finding.kev`:         {true, true, false, false},
		`!finding.kev`:        {false, true, false, false},
		`finding.epss >= 0.5`: {true, true, false, true},
		`finding.risk > 80`:   {false, true, false, true},
		`finding.severity == "High" && workload.namespace == "prod"`:                    {true, true, true, false},
		`finding.severity == "Low" && workload.namespace == "prod"`:                     {false, true, true, false},
		`workload.namespace == "dev" && finding.fixable && image.distro != ""`:          {true, false, true, false},
		`(finding.package.name.startsWith("open") && true) && (image.id.contains("@"))`: {true, true, true, false},
		`workload.owner in ["red", "blue"] || image.repository.endsWith("/cart")`:       {true, true, true, false},
		`finding.package.version.matches("^3\\.0\\.") && finding.fixState == "fixed"`:   {true, true, false, false},
		`true && false`: {false, true, false, false},
		`["a", "b"].exists(x, x == "b" && finding.package.type == "deb")`: {true, true, false, false},
	} {
		s, err := policy.Compile(expression)
		if err != nil {
			t.Errorf("%s: %v", expression, err)
			continue
		}
		finding, err := s.Finding(&openssl)
		if err != nil {
			t.Errorf("%s: %v", expression, err)
		}
		place, err := s.Place(&shop, &prod)
		if err != nil {
			t.Errorf("%s: %v", expression, err)
		}
		if finding != want.finding || place != want.place || s.Placed() != want.placed || s.Scores() != want.scores {
			t.Errorf("%s: finding %t, place %t, placed %t, scores %t; want %+v", expression, finding, place, s.Placed(), s.Scores(), want)
		}
	}
}

func TestBadExpressions(t *testing.T) {
	for expression, want := range map[string]string{
		`finding.kev &&`:                "line 1, column ",
		"finding.kev\n && finding.x":    "line 2, column 12: undefined field 'x'",
		`vulnerability.kev`:             "undeclared reference to 'vulnerability'",
		`finding.severity`:              "is of type string, it has to be true or false",
		`finding.severity == 5`:         "no matching overload",
		`finding.kev || image.id == ""`: "line 1, column 13: a part of the expression is about the finding and about where it is",
		`finding.kev && (finding.fixable == (workload.owner == "red"))`: "create a policy for each case",
		`finding.id.matches("(")`:                                            "missing closing )",
		strings.Repeat("(", 100) + "true" + strings.Repeat(")", 100):         "recursion",
		strings.Repeat("!", 3000) + "true":                                   "",
		strings.Repeat(`finding.kev || `, 272) + `finding.kev`:               "", // As long as permitted.
		strings.Repeat("a", policy.MaxExpression+1):                          "the maximum is 4096",
		`finding.id.matches("` + strings.Repeat("(a{1000}){1000}", 2) + `")`: "invalid repeat count",
	} {
		began := time.Now()
		_, err := policy.Compile(expression)
		var described *policy.Error
		switch {
		case want == "" && err == nil:
		case err == nil:
			t.Errorf("%.60s: no error, want %q", expression, want)
		case !errors.As(err, &described) || !strings.Contains(err.Error(), want):
			t.Errorf("%.60s: %v, want %q", expression, err, want)
		}
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("%.60s took %s", expression, took)
		}
	}
}

// An expression that costs too much selects nothing, and says so.
func TestCostIsLimited(t *testing.T) {
	const list = `[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]`
	for name, expression := range map[string]string{
		"nested loops": list + `.all(a, ` + list + `.all(b, ` + list + `.all(c, ` + list + `.all(d, a + b + c + d > 0 || finding.kev))))`,
		"long texts":   list + `.all(a, ` + list + `.all(b, ` + list + `.all(c, !finding.id.matches("(.*)*x"))))`,
	} {
		s, err := policy.Compile(expression)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if selected, err := s.Finding(&openssl); selected || err == nil || !strings.Contains(err.Error(), "cost limit") {
			t.Errorf("%s: selected %t, %v", name, selected, err)
		}
	}
}

func TestRules(t *testing.T) {
	one, two, nine := 1, 2, 9
	fixable, unfixed := openssl, openssl
	unfixed.Fixable, unfixed.KEV = false, false
	first, fix := policy.Terms{From: model.DueFromFirstSeen, DueIn: model.DueIn{High: &nine, KEV: &two}}, policy.Terms{From: model.DueFromFixAvailable, DueIn: model.DueIn{High: &nine, KEV: &two}}
	same := policy.Terms{From: model.DueFromFirstSeen, DueIn: model.DueIn{High: &one, KEV: &one}}
	for name, c := range map[string]struct {
		terms   policy.Terms
		finding policy.Finding
		times   policy.Times
		want    []policy.Rule
	}{
		"by severity and because it is exploited": {first, fixable, policy.Times{Opened: 100, Fixable: 50, Exploited: 200}, []policy.Rule{{9, 100}, {2, 200}}},
		"exploited before":                        {first, fixable, policy.Times{Opened: 100, Exploited: 50}, []policy.Rule{{9, 100}, {2, 100}}},
		"not exploited":                           {first, unfixed, policy.Times{Opened: 100, Exploited: 50}, []policy.Rule{{9, 100}}},
		"the same days":                           {same, fixable, policy.Times{Opened: 100, Exploited: 200}, []policy.Rule{{1, 100}}},
		"opened by the next result set":           {first, fixable, policy.Times{Exploited: 200}, []policy.Rule{{9, 0}, {2, 0}}},
		"fixed later":                             {fix, fixable, policy.Times{Opened: 100, Fixable: 150, Exploited: 120}, []policy.Rule{{9, 150}, {2, 150}}},
		"fixed by the next result set":            {fix, fixable, policy.Times{Opened: 100}, []policy.Rule{{9, 0}, {2, 0}}},
		"not fixed":                               {fix, unfixed, policy.Times{Opened: 100}, nil},
	} {
		if diff := cmp.Diff(c.want, c.terms.Rules(model.SeverityHigh, &c.finding, c.times)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if rules := first.Rules(model.SeverityLow, &unfixed, policy.Times{Opened: 1}); rules != nil {
		t.Errorf("a severity that is not due has %v", rules)
	}
}

// Whatever the expression is, it is refused or it can be evaluated for each finding and each place, within its bounds.
func FuzzCompile(f *testing.F) {
	for _, seed := range []string{"", `finding.kev`, `finding.kev || image.id == ""`, `workload.owner in ["a"] && finding.epss > 0.1`, `[1].exists(finding, finding == 1)`, `{"a": finding}.all(k, image.id == k)`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, expression string) {
		s, err := policy.Compile(expression)
		if err != nil {
			var described *policy.Error
			if !errors.As(err, &described) || described.Error() == "" {
				t.Errorf("%q: %v", expression, err)
			}
			return
		}
		// Errors are about values, such as a division by zero or the cost, and never about a variable without a value.
		for _, evaluate := range []func() (bool, error){
			func() (bool, error) { return s.Finding(&openssl) }, func() (bool, error) { return s.Place(&shop, &prod) },
		} {
			if _, err := evaluate(); err != nil && strings.Contains(err.Error(), "no such attribute") {
				t.Errorf("%q: %v", expression, err)
			}
		}
	})
}
