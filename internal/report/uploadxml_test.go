package report_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/report"
)

const image = "docker.io/library/alpine@sha256:00"

// xmlOf wraps elements into a CycloneDX document.
func xmlOf(elements string) string {
	return `<?xml version="1.0" encoding="UTF-8"?><bom xmlns="http://cyclonedx.org/schema/bom/1.5" version="1">` + elements + `</bom>`
}

func TestReadDocument(t *testing.T) {
	want := report.Summary{SpecVersion: "1.5", Components: 1, Severities: model.SeverityCounts{High: 2}, Fixable: 2}
	for mediaType, document := range map[string]string{
		report.MediaTypeCycloneDXJSON: ` {"bomFormat":"CycloneDX","specVersion":"1.5","components":[{"type":"library","name":"a<b"}],
			"vulnerabilities":[{"id":"CVE-1","ratings":[{"severity":"high"}],"recommendation":"Upgrade.","affects":[{"ref":"a"},{"ref":"b"}]}]} ` + "\n",
		report.MediaTypeCycloneDXXML: xmlOf(`<components><component type="library"><name>a&lt;b</name></component></components><vulnerabilities>
			<vulnerability><id>CVE-1</id><ratings><rating><severity>high</severity></rating></ratings><recommendation>Upgrade.</recommendation>
			<affects><target><ref>a</ref></target><target><ref>b</ref></target></affects></vulnerability></vulnerabilities>`),
	} {
		upload, err := report.ReadDocument(image, mediaType, []byte(document), report.DefaultLimits())
		if err != nil {
			t.Fatalf("%s: %v", mediaType, err)
		}
		if diff := cmp.Diff(want, upload.Summary); diff != "" {
			t.Errorf("%s: %s", mediaType, diff)
		}
		if upload.ImageID != image || upload.MediaType != mediaType || string(upload.Document) != document || !json.Valid(upload.Report) {
			t.Errorf("%s: %+v", mediaType, upload)
		}
		if !strings.Contains(string(upload.Report), `"a<b"`) || !strings.Contains(string(upload.Report), `"specVersion":"1.5"`) {
			t.Errorf("%s: report %s", mediaType, upload.Report)
		}
	}
}

// Every example document of the CycloneDX project is taken, in both forms.
func TestReadDocumentOfTheProject(t *testing.T) {
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/CycloneDX/cyclonedx-go").Output()
	if err != nil {
		t.Fatal(err)
	}
	read := 0
	for extension, mediaType := range map[string]string{"json": report.MediaTypeCycloneDXJSON, "xml": report.MediaTypeCycloneDXXML} {
		files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(dir)), "testdata", "valid-*."+extension))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, version := range []string{"1.4", "1.5", "1.6"} {
				older := bytes.ReplaceAll(content, []byte("schema/bom/1.6"), []byte("schema/bom/"+version))
				older = bytes.ReplaceAll(older, []byte(`"specVersion": "1.6"`), []byte(`"specVersion": "`+version+`"`))
				upload, err := report.ReadDocument(image, mediaType, older, report.DefaultLimits())
				if err != nil || upload.Summary.SpecVersion != version {
					t.Errorf("%s as %s: %+v, %v", filepath.Base(file), version, upload.Summary, err)
				}
				read++
			}
		}
	}
	if read < 100 {
		t.Errorf("only %d documents were there", read)
	}
}

func TestHostileDocuments(t *testing.T) {
	limits := report.Limits{Depth: 6, Values: 100, Components: 2, Vulnerabilities: 2}
	for _, test := range []struct {
		name, image, document, want string
		tooLarge                    bool
	}{
		{"no image", "", xmlOf(""), "imageId", false},
		{"empty", image, "", "its root is", false},
		{"JSON", image, "{}", "its root is", false},
		{"no XML", image, "<bom", "not valid XML", false},
		{"cut off", image, "<bom>", "not valid XML", false},
		{"invalid UTF-8", image, xmlOf("\xff"), "not valid XML", false},
		{"another charset", image, strings.Replace(xmlOf(""), "UTF-8", "ISO-8859-1", 1), "ISO-8859-1", false},
		{"another document", image, `<html/>`, `"html"`, false},
		{"no namespace", image, `<bom/>`, `namespace ""`, false},
		{"old", image, strings.Replace(xmlOf(""), "1.5", "1.3", 1), `specVersion "1.3"`, false},
		{"new", image, strings.Replace(xmlOf(""), "1.5", "9.0", 1), `specVersion "9.0"`, false},
		{"entities", image, `<!DOCTYPE bom [<!ENTITY a "a"><!ENTITY b "&a;&a;">]>` + xmlOf("&b;"), "document type", false},
		{"an entity", image, xmlOf("&b;"), "invalid character entity", false},
		{"two roots", image, xmlOf("") + "<bom/>", "after the root", false},
		{"deep", image, xmlOf(strings.Repeat("<a>", 6) + strings.Repeat("</a>", 6)), "deeper than the limit of 6", true},
		{"many elements", image, xmlOf(strings.Repeat("<a/>", 100)), "limit of 100 tags", true},
		{"many attributes", image, xmlOf("<a" + strings.Repeat(" b=''", 100) + "/>"), "limit of 100 tags", true},
		{"many components", image, xmlOf("<components><component><components>" + strings.Repeat("<component/>", 2) + "</components></component></components>"), "limit of 2 components", true},
		{"many vulnerabilities", image, xmlOf(strings.Repeat("<vulnerability/>", 3)), "limit of 2 vulnerabilities", true},
		{"a number that is none", image, xmlOf("<vulnerabilities><vulnerability><ratings><rating><score>x</score></rating></ratings></vulnerability></vulnerabilities>"), "not a CycloneDX", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := report.ReadDocument(test.image, report.MediaTypeCycloneDXXML, []byte(test.document), limits)
			invalid, ok := errors.AsType[*report.InvalidError](err)
			if !ok || !strings.Contains(invalid.Detail, test.want) || invalid.TooLarge != test.tooLarge {
				t.Errorf("got %v, want %q, too large: %v", err, test.want, test.tooLarge)
			}
		})
	}
	for document, want := range map[string]string{
		`{"bomFormat":"CycloneDX","specVersion":"1.5"}{}`:                "after the JSON object",
		`{"bomFormat":"CycloneDX","specVersion":"1.5","x":"` + "\xff\"}": "UTF-8",
	} {
		if _, err := report.ReadDocument(image, report.MediaTypeCycloneDXJSON, []byte(document), limits); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", document, err)
		}
	}
}

// FuzzReadDocument: what is taken is a JSON document that is taken again, with the same sums.
func FuzzReadDocument(f *testing.F) {
	for _, document := range []string{
		xmlOf(""), xmlOf("<components><component type='library'><name>a</name></component></components>"),
		xmlOf("<vulnerabilities><vulnerability><ratings><rating><score>9.1</score></rating></ratings></vulnerability></vulnerabilities>"),
		`<!DOCTYPE a [<!ENTITY b "c">]><bom>&b;</bom>`, strings.Repeat("<bom>", 65), "<bom xmlns='http://cyclonedx.org/schema/bom/1.6'>\xff</bom>",
	} {
		f.Add(true, []byte(document))
	}
	f.Add(false, []byte(`{"bomFormat":"CycloneDX","specVersion":"1.6","components":[{}],"components":[]}`))
	f.Add(false, []byte(`{"bomFormat":"CycloneDX","specVersion":"1.6","vulnerabilities":[{"ratings":[{"score":1e400}]}]}`))
	f.Fuzz(func(t *testing.T, isXML bool, body []byte) {
		mediaType := report.MediaTypeCycloneDXJSON
		if isXML {
			mediaType = report.MediaTypeCycloneDXXML
		}
		upload, err := report.ReadDocument(image, mediaType, body, report.DefaultLimits())
		if err != nil {
			if _, ok := errors.AsType[*report.InvalidError](err); !ok {
				t.Fatalf("an error of another kind: %v", err)
			}
			return
		}
		again, err := report.ReadDocument(image, report.MediaTypeCycloneDXJSON, upload.Report, report.DefaultLimits())
		if err != nil || again.Summary != upload.Summary {
			t.Fatalf("%s: %+v, %v", upload.Report, again.Summary, err)
		}
	})
}
