package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const tests = `{"Action":"start","Package":"example.com/a/catalog"}
{"Action":"run","Package":"example.com/a/catalog","Test":"TestHostileTokenServices"}
{"Action":"run","Package":"example.com/a/catalog","Test":"TestHostileTokenServices/at_another_host"}
{"Action":"pass","Package":"example.com/a/catalog","Test":"TestHostileTokenServices/at_another_host"}
{"Action":"run","Package":"example.com/a/catalog","Test":"TestHostileTokenServices/endless"}
{"Action":"output","Package":"example.com/a/catalog","Test":"TestHostileTokenServices/endless","Output":"it does not end\n"}
{"Action":"END","Package":"example.com/a/catalog","Test":"TestHostileTokenServices/endless"}
{"Action":"END","Package":"example.com/a/catalog","Test":"TestHostileTokenServices"}
{"Action":"run","Package":"example.com/a/catalog","Test":"TestHostileNeighbors"}
{"Action":"pass","Package":"example.com/a/catalog","Test":"TestHostileNeighbors"}
{"Action":"END","Package":"example.com/a/catalog"}
`

const browser = `{"suites":[{"title":"hostile.spec.ts","specs":[{"title":"images","tests":[{"status":"STATUS"}]}],"suites":[{"specs":[{"title":"x","tests":[{"status":"skipped"}]}]}]}],"errors":[]}`

func TestReport(t *testing.T) {
	for _, test := range []struct {
		name, tests, browser string
		want                 []string
		fails                string
	}{
		{"all passed", strings.ReplaceAll(tests, "END", "pass"), strings.Replace(browser, "STATUS", "expected", 1),
			[]string{"catalog: TokenServices 2 2 0 0", "catalog: Neighbors 1 1 0 0", "browser: every field of every page 2 1 0 1", "all 5 4 0 1"}, ""},
		{"a case failed", strings.ReplaceAll(tests, "END", "fail"), browser, []string{"catalog: TokenServices 2 1 1 0", "it does not end"}, "2 cases failed"},
		{"a case did not end", strings.ReplaceAll(tests, "END", "pause"), strings.Replace(browser, "STATUS", "expected", 1), []string{"catalog: TokenServices 2 1 1 0"}, "1 cases failed"},
		{"the package failed", strings.Replace(strings.ReplaceAll(tests, `END","Package":"example.com/a/catalog","Test"`, `pass","Package":"example.com/a/catalog","Test"`), "END", "fail", 1),
			strings.Replace(browser, "STATUS", "expected", 1), []string{"all 5 4 0 1"}, "0 cases failed"},
		{"not compiled", "./x.go:1: no\n", `{}`, []string{"./x.go:1: no"}, "0 cases failed"},
		{"nothing", "", `{}`, nil, "no case was run"},
	} {
		t.Run(test.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "browser.json")
			if err := os.WriteFile(file, []byte(test.browser), 0o600); err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			err := run(strings.NewReader(test.tests), file, &out)
			if (err == nil) != (test.fails == "") || err != nil && !strings.Contains(err.Error(), test.fails) {
				t.Errorf("got %v, want %q", err, test.fails)
			}
			printed := strings.Join(strings.Fields(out.String()), " ")
			for _, want := range test.want {
				if !strings.Contains(printed, want) {
					t.Errorf("%q is not in\n%s", want, &out)
				}
			}
		})
	}
}
