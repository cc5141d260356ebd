package vex_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/scanner-operator/scanner-operator/internal/vex"
)

// fullOpenVEX has every field of the schema.
const fullOpenVEX = `{"@context": "https://openvex.dev/ns/v0.2.0", "@id": "https://example.com/vex/1", "author": "a", "role": "r", "timestamp": "2026-01-01T00:00:00Z",
  "last_updated": "2026-01-01T00:00:00Z", "version": 1, "tooling": "t", "statements": [
  {"@id": "https://example.com/s", "version": 1, "vulnerability": {"@id": "https://example.com/CVE-1", "name": "CVE-1", "description": "d", "aliases": ["GHSA-1"]},
   "timestamp": "2026-01-01T00:00:00Z", "last_updated": "2026-01-01T00:00:00Z", "status": "not_affected", "supplier": "s", "status_notes": "n", "justification": "component_not_present",
   "impact_statement": "i", "products": [{"@id": "pkg:oci/shop", "identifiers": {"purl": "pkg:oci/shop", "cpe22": "cpe:/a:x:y", "cpe23": "cpe:2.3:a:x:y:1:*:*:*:*:*:*:*"},
     "hashes": {"md5": "0", "sha1": "0", "sha-256": "0", "sha-384": "0", "sha-512": "0", "sha3-224": "0", "sha3-256": "0", "sha3-384": "0", "sha3-512": "0", "blake2s-256": "0",
       "blake2b-256": "0", "blake2b-512": "0"},
     "subcomponents": [{"@id": "pkg:npm/x", "identifiers": {"purl": "pkg:npm/x"}, "hashes": {"sha-256": "0"}}]}]},
  {"vulnerability": {"name": "CVE-2"}, "status": "affected", "action_statement": "a", "action_statement_timestamp": "2026-01-01T00:00:00Z", "products": [{"@id": "pkg:npm/x"}]},
  {"vulnerability": {"name": "CVE-3"}, "status": "fixed", "products": [{"identifiers": {"purl": "pkg:npm/x"}, "subcomponents": []}]}]}`

// openVEXExceptions are the changes that the schema refuses and Read accepts; docs/explanation/vex-conformance.md has the reasons.
var openVEXExceptions = []string{
	"supplier", // go-vex writes it for documents, products and subcomponents. It restricts nothing.
	"hashes",   // The text of the specification makes all ways to identify a product optional.
	"twice",    // An element that is repeated states the same again.
	"becomes ", // Only of @id, which is no IRI for images such as registry.example.com/shop:1.2, and for documents of some programs.
}

// TestOpenVEXSchema changes a valid document in one place: what the schema refuses, Read refuses, too.
func TestOpenVEXSchema(t *testing.T) {
	schema := openVEXSchema(t)
	valid := decodeJSON(t, fullOpenVEX)
	if err := schema.Validate(valid); err != nil {
		t.Fatal(err)
	}
	read(t, fullOpenVEX)
	refused, excepted := 0, map[string]int{}
	for path, mutants := range mutate(valid) {
		for name, mutant := range mutants {
			content, err := json.Marshal(mutant)
			if err != nil {
				t.Fatal(err)
			}
			if schema.Validate(decodeJSON(t, string(content))) == nil {
				continue
			}
			refused++
			if _, err := vex.Read("x", bytes.NewReader(content), vex.Limits{}); err != nil {
				continue
			}
			if i := slices.IndexFunc(openVEXExceptions, func(e string) bool {
				return strings.HasPrefix(name, e) && (e != "becomes " || strings.HasSuffix(path, ".@id"))
			}); i >= 0 {
				excepted[openVEXExceptions[i]]++
				continue
			}
			t.Errorf("%s, %s: the schema refuses it, and it is read: %s", path, name, content)
		}
	}
	t.Logf("%d documents are invalid; of these are read: %v", refused, excepted)
	if refused < 700 || len(excepted) != len(openVEXExceptions) {
		t.Errorf("%d documents are invalid; of these are read: %v", refused, excepted)
	}
}

func openVEXSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	content, err := os.ReadFile("testdata/openvex_json_schema.json")
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	if err := compiler.AddResource("openvex.json", decodeJSON(t, string(content))); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile("openvex.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

func decodeJSON(t *testing.T, text string) any {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// mutate returns copies of a document with one change, by the path of the value and what the change is.
func mutate(document any) map[string]map[string]any {
	all := map[string]map[string]any{}
	var walk func(path string, v any, replace func(any) any)
	walk = func(path string, v any, replace func(any) any) {
		mutants := map[string]any{}
		all[path] = mutants
		for name, other := range map[string]any{
			"null": nil, "true": true, "number": 0, "negative": -1, "fraction": 1.5, "text": "no such value", "empty text": "", "array": []any{}, "object": map[string]any{},
			"array of text": []any{"x"}, "array of null": []any{nil}, "array of an object": []any{map[string]any{}},
		} {
			mutants["becomes "+name] = replace(other)
		}
		switch v := v.(type) {
		case map[string]any:
			for key, value := range v {
				without := maps.Clone(v)
				delete(without, key)
				mutants["without "+key] = replace(without)
				for _, other := range []string{strings.ToUpper(key), strings.ToUpper(key[:1]) + key[1:], key + "s", strings.TrimSuffix(key, "s")} {
					renamed := maps.Clone(without)
					renamed[other] = value
					mutants[key+" as "+other] = replace(renamed)
				}
				walk(path+"."+key, value, func(n any) any {
					changed := maps.Clone(v)
					changed[key] = n
					return replace(changed)
				})
			}
			for _, more := range []string{"x", "subcomponents", "products", "supplier", "hash", "swid"} {
				if _, found := v[more]; !found {
					added := maps.Clone(v)
					added[more] = "x"
					mutants[more+" added"] = replace(added)
				}
			}
			if hashes, found := v["hashes"]; found {
				mutants["hashes only"] = replace(map[string]any{"hashes": hashes})
			}
		case []any:
			if len(v) > 0 {
				mutants["twice"] = replace(append(slices.Clone(v), v[0]))
				mutants["null added"] = replace(append(slices.Clone(v), nil))
			}
			for i, value := range v {
				walk(fmt.Sprintf("%s[%d]", path, i), value, func(n any) any {
					changed := slices.Clone(v)
					changed[i] = n
					return replace(changed)
				})
			}
		}
	}
	walk("", document, func(n any) any { return n })
	return all
}

// TestOpenVEXNamesFields: what the schema does not know is named, with its place.
func TestOpenVEXNamesFields(t *testing.T) {
	valid := openVEX("x", "a", day, 1, about("CVE-1", "fixed", `{"@id": "pkg:oci/shop", "subcomponents": [{"@id": "pkg:npm/x"}]}`))
	read(t, valid)
	with := func(from, to string) string { return replaceIn(t, valid, from, to) }
	long := strings.Repeat("x", 5000)
	wantErrors(t, map[string]struct{ document, want string }{
		"misspelt":                {with(`"subcomponents"`, `"subcomponent"`), `statements[0]: unknown field "products[0].subcomponent"`},
		"field of 0.0.1":          {with(`"status"`, `"subcomponents": ["pkg:npm/x"], "status"`), `statements[0]: unknown field "subcomponents"`},
		"in upper case":           {with(`"products"`, `"Products"`), `statements[0]: unknown field "Products"`},
		"status in upper case":    {with(`"status"`, `"STATUS"`), `statements[0]: unknown field "STATUS"`},
		"of the document":         {with(`"author"`, `"x": 1, "author"`), `unknown field "x"`},
		"of the vulnerability":    {with(`"name"`, `"cve": "x", "name"`), `unknown field "vulnerability.cve"`},
		"twice in a document":     {with(`"author"`, `"author": "b", "author"`), `duplicate field "author"`},
		"twice in a statement":    {with(`"status"`, `"status": "affected", "status"`), `statements[0]: duplicate field "status"`},
		"twice in a product":      {with(`"subcomponents"`, `"@id": "pkg:npm/x", "subcomponents"`), `duplicate field "products[0].@id"`},
		"twice in a hash":         {with(`"subcomponents"`, `"hashes": {"md5": "0", "md5": "1"}, "subcomponents"`), `duplicate field "products[0].hashes.md5"`},
		"null":                    {with(`[{"@id": "pkg:npm/x"}]`, `null`), `statements[0]: "subcomponents" is null`},
		"null in a list":          {with(`[{"@id": "pkg:npm/x"}]`, `[null]`), `statements[0]: "subcomponents" has an element that is null`},
		"null in a document":      {with(`"author": "a"`, `"author": "a", "role": null`), `"role" is null`},
		"no statements":           {replaceIn(t, openVEX("x", "a", day, 1), `[]`, `null`), `"statements" is null`},
		"a long unknown field":    {with(`"status"`, `"`+long+`": 1, "status"`), `statements[0]: unknown field "xxx`},
		"a long field of a null":  {with(`"status"`, `"`+long+`": null, "status"`), `statements[0]: `},
		"many unknown fields":     {with(`"status"`, list(3, `"x%d": 1`)+`, "status"`), `unknown field "x0", unknown field "x1"`},
		"version of a statement":  {with(`"status"`, `"version": 0, "status"`), `statements[0]: "version" is 0, less than 1`},
		"identifiers without one": {with(`"subcomponents"`, `"identifiers": {}, "subcomponents"`), `statements[0].products[0].identifiers has none of "purl", "cpe22", "cpe23"`},
	})
	read(t, with(`"author": "a"`, `"author": "null", "tooling": "a \"null\" \\"`))
}
