package plugin

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// vexOperator answers requests about VEX documents, and remembers them.
type vexOperator struct {
	asked   []string
	problem string
}

func (o *vexOperator) document(kind, name string) string {
	counts := `"applied":true,"matched":1,"unmatched":22,"suppressedFindings":7,"unmatchedStatements":[{"document":"document","position":"statements[1]","vulnerability":"CVE-\u001b[1m1","reason":"NoFinding"}]`
	if o.problem != "" {
		counts = `"applied":false,"problem":{"reason":"TooMany","message":"` + o.problem + `"},"unmatchedStatements":[]`
	}
	return fmt.Sprintf(`{"kind":%q,"name":%q,"author":"jane","savedAt":"2026-11-23T11:00:00Z","documents":1,"bytes":300,"sha256":"ab","exportedDecisions":"Full","statements":23,%s}`, kind, name, counts)
}

func (o *vexOperator) serve(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	o.asked = append(o.asked, strings.TrimSpace(r.Method+" "+r.URL.RequestURI()+" "+r.Header.Get("Content-Type")+" "+string(body)))
	w.Header().Set("Content-Type", "application/json")
	switch {
	case r.Method == http.MethodDelete:
		w.WriteHeader(http.StatusNoContent)
	case r.URL.Path == "/api/v1/vex":
		_, _ = fmt.Fprintf(w, `{"items":[%s,%s]}`, o.document("VEXSource", "vendor"), o.document("VEXDocument", "shop"))
	case r.Method == http.MethodPut:
		_, _ = io.WriteString(w, o.document("VEXDocument", strings.TrimPrefix(r.URL.Path, "/api/v1/vex/")))
	default:
		_, _ = io.WriteString(w, "{\"author\":\"\u202eevil\"}")
	}
}

func TestVEX(t *testing.T) {
	operator := &vexOperator{}
	c := newCluster(t, operator.serve)
	file := filepath.Join(t.TempDir(), "vex.json")
	if err := os.WriteFile(file, []byte(`{"a":1}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, try := range []struct {
		arguments   string
		asked       string
		out, errOut []string
	}{
		{"vex list", "GET /api/v1/vex", []string{
			"KIND          NAME     APPLIED   STATEMENTS   MATCHED   SUPPRESSED   AGE\n", "VEXSource     vendor   True      23           1         7            60m\n", "VEXDocument   shop ",
		}, nil},
		{"vex list -o json", "GET /api/v1/vex", []string{`"position": "statements[1]"`, `"total": 2`}, nil},
		{"vex upload shop " + file, `PUT /api/v1/vex/shop application/json {"a":1}`, []string{"VEXDocument   shop "}, []string{
			"Statements that match no finding: 22\n", "  statements[1] (CVE-[1m1, NoFinding)\n  and 21 more\n",
		}},
		{"vex upload shop " + file + " --exported-decisions=Full", `PUT /api/v1/vex/shop?exportedDecisions=Full application/json {"a":1}`, []string{"VEXDocument   shop "}, nil},
		{"vex upload shop " + file + " --exported-decisions=StatusOnly", `PUT /api/v1/vex/shop application/json {"a":1}`, []string{"VEXDocument   shop "}, nil},
		{"vex list -o wide", "GET /api/v1/vex", []string{"EXPORTED-DECISIONS", "Full"}, nil},
		{"vex get shop", "GET /api/v1/vex/shop", []string{`"author": "\u202eevil"`}, nil},
		{"vex delete shop", "DELETE /api/v1/vex/shop", []string{"VEX document shop deleted\n"}, nil},
	} {
		operator.asked = nil
		out, errOut, err := c.run(strings.Split(try.arguments, " ")...)
		if err != nil || len(operator.asked) != 1 || operator.asked[0] != try.asked {
			t.Errorf("%s: %v, asked for %q", try.arguments, err, operator.asked)
		}
		for text, parts := range map[string][]string{out: try.out, errOut: try.errOut} {
			for _, part := range parts {
				if !strings.Contains(text, part) {
					t.Errorf("%s: %q has no %q", try.arguments, text, part)
				}
			}
		}
	}
	operator.problem = "more than 10000 statements"
	if _, _, err := c.run("vex", "upload", "shop", file); err == nil || !strings.Contains(err.Error(), "not in effect: more than 10000 statements") {
		t.Errorf("a document that has no effect: %v", err)
	}
	if out, _, err := c.run("vex", "list"); err != nil || !strings.Contains(out, "False (TooMany)   23           <none>    <none>") {
		t.Errorf("%s, %v", out, err)
	}
}

// What cannot be uploaded is not sent.
func TestVEXFiles(t *testing.T) {
	operator := &vexOperator{}
	c := newCluster(t, operator.serve)
	large := filepath.Join(t.TempDir(), "large.json")
	if err := os.WriteFile(large, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(large, maxDocument+1); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{large: "larger than the limit of 16777216 bytes", large + "x": "no such file"} {
		if _, _, err := c.run("vex", "upload", "shop", file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", file, err)
		}
	}
	if _, _, err := c.run("vex", "upload", "shop", "-", "--exported-decisions=all"); err == nil || !strings.Contains(err.Error(), `"all" is not one of StatusOnly, Full`) {
		t.Errorf("another value: %v", err)
	}
	if _, _, err := c.run("vex", "upload", "..", "-"); err == nil || !strings.Contains(err.Error(), "is not an ID") {
		t.Errorf("a name of dots: %v", err)
	}
	if len(operator.asked) > 0 {
		t.Errorf("requests were sent: %q", operator.asked)
	}
}

// TestVEXRights: who may not do it through the service proxy is told which verb is missing.
func TestVEXRights(t *testing.T) {
	c := newCluster(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"no","code":403}`)
	})
	for arguments, verb := range map[string]string{"vex delete shop": "delete", "vex list": "get", "vex upload shop -": "update"} {
		if _, _, err := c.run(strings.Split(arguments, " ")...); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("the verb %q on services/proxy", verb)) {
			t.Errorf("%s: %v", arguments, err)
		}
	}
}
