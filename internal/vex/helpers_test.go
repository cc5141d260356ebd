package vex_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/semver"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/vex"
)

// semantic compares versions as https://semver.org says.
type semantic struct{}

func (semantic) Satisfies(_, version, constraint string) (bool, error) {
	operand := strings.TrimLeft(constraint, "<>=")
	a, b := "v"+version, "v"+operand
	if !semver.IsValid(a) || !semver.IsValid(b) {
		return false, fmt.Errorf("%s or %s is no semantic version", version, operand)
	}
	c := semver.Compare(a, b)
	switch strings.TrimSuffix(constraint, operand) {
	case "<":
		return c < 0, nil
	case "<=":
		return c <= 0, nil
	case ">":
		return c > 0, nil
	case ">=":
		return c >= 0, nil
	default:
		return c == 0, nil
	}
}

// replaceIn is a document with a text in place of another one, each time that it occurs; it must occur.
func replaceIn(t *testing.T, document, from, to string) string {
	t.Helper()
	if !strings.Contains(document, from) {
		t.Fatalf("the document does not contain %q", from)
	}
	return strings.ReplaceAll(document, from, to)
}

func read(t *testing.T, text string) *vex.Document {
	t.Helper()
	d, err := vex.Read("test.json", strings.NewReader(text), vex.Limits{})
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return d
}

func newSet(t *testing.T, documents ...*vex.Document) *vex.Set {
	t.Helper()
	set, err := vex.NewSet(documents)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

const digest = "sha256:244fd47e07d1004f0aed9c156aa09083c82bf8944eceb67c946ff7430510a77b"

// shop is the image that statements are applied to.
var shop = model.ImageNames{
	References:   []string{"registry.example.com/team/shop@" + digest, "registry.example.com/team/shop:1.2"},
	Digests:      []string{"sha256:" + strings.Repeat("b", 64)},
	Architecture: "amd64",
	CPE:          "cpe:/o:example:linux:9",
}

// finding is one of a package that is given by its PURL.
func finding(id, purl string, aliases ...string) model.Finding {
	var f model.Finding
	f.Vulnerability.ID, f.Vulnerability.Aliases = id, aliases
	f.Package.PURL, f.Package.Type = purl, "npm"
	name, _, _ := strings.Cut(purl, "?")
	if at := strings.LastIndexByte(name, '@'); at > 0 {
		f.Package.Name, f.Package.Version = name[:at], name[at+1:]
	}
	return f
}

// apply is what a set means for findings.
func apply(t *testing.T, set *vex.Set, names model.ImageNames, findings []model.Finding) vex.Result {
	t.Helper()
	result, err := set.Apply(t.Context(), names, findings, semantic{}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// statusOf says what a set decides about a finding: the status of a statement that suppresses it, and otherwise "open", or "unmatched" when no
// statement matches it.
func statusOf(t *testing.T, set *vex.Set, names model.ImageNames, f model.Finding) string {
	t.Helper()
	result := apply(t, set, names, []model.Finding{f})
	if len(result.Suppressed) > 0 {
		return result.Suppressed[0].Suppression.Status
	}
	all := apply(t, set, names, nil)
	if len(result.Unmatched) == len(all.Unmatched) {
		return "unmatched"
	}
	return "open"
}

// openVEX is a document with statements that are given as JSON.
func openVEX(id, author, timestamp string, version int, statements ...string) string {
	return fmt.Sprintf(`{"@context": "https://openvex.dev/ns/v0.2.0", "@id": %q, "author": %q, "timestamp": %q, "version": %d, "statements": [%s]}`,
		id, author, timestamp, version, strings.Join(statements, ","))
}

const day = "2026-01-01T00:00:00Z"

// about is an OpenVEX statement about a product, with what its status requires.
func about(vulnerability, status, product string, more ...string) string {
	return fmt.Sprintf(`{"vulnerability": {"name": %q}, "status": %q, "products": [%s] %s %s}`, vulnerability, status, product,
		map[string]string{"not_affected": `, "justification": "component_not_present"`, "affected": `, "action_statement": "Upgrade."`}[status],
		strings.Join(more, ""))
}

func id(identifier string) string { return fmt.Sprintf(`{"@id": %s}`, quote(identifier)) }

func quote(s string) string {
	data, _ := json.Marshal(cmp.Or(s, ""))
	return string(data)
}

// wantErrors reads documents that are refused, and compares the errors.
func wantErrors(t *testing.T, cases map[string]struct{ document, want string }) {
	t.Helper()
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			d, err := vex.Read("test.json", strings.NewReader(c.document), vex.Limits{})
			if err == nil || d != nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "test.json: ") {
				t.Errorf("got %v, %v; want an error with %q", d, err, c.want)
			}
		})
	}
}
