package report_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/report"
)

// bodyOf wraps the members of a CycloneDX document into an upload.
func bodyOf(members string) string {
	return `{"imageId":"docker.io/library/alpine@sha256:00","report":{"bomFormat":"CycloneDX","specVersion":"1.5"` + members + `}}`
}

func TestReadUpload(t *testing.T) {
	for _, test := range []struct {
		name, body string
		want       report.Summary
	}{
		{"bare", bodyOf(""), report.Summary{SpecVersion: "1.5"}},
		{"escaped newline at the end", bodyOf("") + "\\n\n", report.Summary{SpecVersion: "1.5"}},
		{"null lists", bodyOf(`,"components":null,"vulnerabilities": null`), report.Summary{SpecVersion: "1.5"}},
		{"other members and spaces", " {\t\"x\": [1, {\"y\": \"}]\\\"\"}], \"\\u0069mageId\" : \"a\",\r\n\"report\":{\"specVersion\":\"1.4\",\"bomFormat\":\"CycloneDX\", \"z\":{}} } ",
			report.Summary{SpecVersion: "1.4"}},
		{"worst rating", bodyOf(`,"vulnerabilities":[{"ratings":[{"severity":"low"},{"score":9.1e0},{"severity":"none"}],"affects":[{"ref":"a"},{"ref":"b"}]},{},{"ratings":[{"severity":"info"}],"recommendation":"Upgrade."}]`),
			report.Summary{SpecVersion: "1.5", Severities: model.SeverityCounts{Critical: 2, Unknown: 1, Negligible: 1}, Fixable: 1}},
	} {
		t.Run(test.name, func(t *testing.T) {
			upload, err := report.ReadUpload([]byte(test.body), report.DefaultLimits())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, upload.Summary); diff != "" {
				t.Error(diff)
			}
			if !json.Valid(upload.Report) || upload.ImageID == "" {
				t.Errorf("imageId %q, report %q", upload.ImageID, upload.Report)
			}
		})
	}
}

func TestHostileReports(t *testing.T) {
	limits := report.Limits{Depth: 6, Values: 100, Components: 2, Vulnerabilities: 2}
	for _, test := range []struct {
		name, body, want string
		tooLarge         bool
	}{
		{"empty", "", "not a JSON object", false},
		{"array", "[]", "not a JSON object", false},
		{"cut off", `{"imageId":"a"`, "truncated", false},
		{"cut off in a string", `{"imageId":"a`, "inside a string", false},
		{"not JSON", `{"imageId" "a"}`, "not valid JSON", false},
		{"mismatched", `{"imageId":[}}`, "not valid JSON", false},
		{"something behind", bodyOf("") + `{}`, "after the JSON object", false},
		{"no image", `{"report":{"bomFormat":"CycloneDX","specVersion":"1.5"}}`, "imageId", false},
		{"image is a number", `{"imageId":1,"report":{}}`, "not a string", false},
		{"image with a control character", `{"imageId":"a\u0000","report":{}}`, "printable", false},
		{"two images", `{"imageId":"a","imageId":"b","report":{}}`, "more than once", false},
		{"no report", `{"imageId":"a"}`, "report is missing", false},
		{"report is a string", `{"imageId":"a","report":"{}"}`, "not a JSON object", false},
		{"not CycloneDX", `{"imageId":"a","report":{"bomFormat":"SPDX","specVersion":"1.5"}}`, "bomFormat", false},
		{"old", `{"imageId":"a","report":{"bomFormat":"CycloneDX","specVersion":"1.3"}}`, "specVersion", false},
		{"components is an object", bodyOf(`,"components":{}`), "not an array", false},
		{"components of numbers", bodyOf(`,"components":[1]`), "not an object", false},
		{"ratings of strings", bodyOf(`,"vulnerabilities":[{"ratings":["high"]}]`), "not an object", false},
		{"unheard of severity", bodyOf(`,"vulnerabilities":[{"ratings":[{"severity":"awful"}]}]`), "awful", false},
		{"two lists", bodyOf(`,"vulnerabilities":[],"vulnerabilities":[]`), "more than once", false},
		{"deep", bodyOf(`,"x":` + strings.Repeat("[", 10) + strings.Repeat("]", 10)), "deeper than the limit of 6", true},
		{"many values", bodyOf(`,"x":[` + strings.Repeat("0,", 100) + `0]`), "limit of 100 values", true},
		{"many components", bodyOf(`,"components":[{},{},{}]`), "limit of 2 components", true},
		{"many vulnerabilities", bodyOf(`,"vulnerabilities":[{},{},{}]`), "limit of 2 vulnerabilities", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := report.ReadUpload([]byte(test.body), limits)
			invalid, ok := errors.AsType[*report.InvalidError](err)
			if !ok || !strings.Contains(invalid.Detail, test.want) || invalid.TooLarge != test.tooLarge {
				t.Errorf("got %v, want %q, too large: %v", err, test.want, test.tooLarge)
			}
		})
	}
}

// A body of ten megabytes of small objects must not become hundreds of megabytes of memory.
func TestReadUploadDoesNotGrow(t *testing.T) {
	body := []byte(bodyOf(`,"components":[` + strings.Repeat("{},", 3_500_000) + `{}]`))
	limits := report.Limits{Depth: 64, Values: 1 << 40, Components: 1 << 40, Vulnerabilities: 1 << 40}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	upload, err := report.ReadUpload(body, limits)
	runtime.ReadMemStats(&after)
	if err != nil || upload.Summary.Components != 3_500_001 {
		t.Fatalf("%d components, %v", upload.Summary.Components, err)
	}
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 1<<20 {
		t.Errorf("reading allocated %d bytes", grown)
	}
	if _, err := report.ReadUpload(body, report.DefaultLimits()); err == nil {
		t.Error("the default limits let it pass")
	}
}

// FuzzReadUpload compares what ReadUpload sees with what encoding/json sees.
func FuzzReadUpload(f *testing.F) {
	f.Add([]byte(bodyOf("")))
	f.Add([]byte(bodyOf(`,"vulnerabilities":[{"ratings":[{"severity":"low","score":1}],"affects":[{"ref":"\\\""}]}]`)))
	f.Add([]byte(`{"imageId":"a","report":{"bomFormat":"CycloneDX","specVersion":"1.6","components":[{"a":[1,2,{"b":null}]},{}]}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		upload, err := report.ReadUpload(body, report.DefaultLimits())
		if err != nil {
			if _, ok := errors.AsType[*report.InvalidError](err); !ok {
				t.Fatalf("an error of another kind: %v", err)
			}
			return
		}
		var want struct {
			ImageID *string          `json:"imageId"`
			Report  *json.RawMessage `json:"report"`
		}
		if err := json.NewDecoder(bytes.NewReader(body)).Decode(&want); err != nil {
			t.Fatalf("accepted what is not JSON: %v", err)
		}
		// encoding/json takes names in any case, so that it may see more members than there are.
		if lower := bytes.ToLower(body); bytes.Count(lower, []byte("imageid")) != 1 || bytes.Count(lower, []byte("report")) != 1 || bytes.Contains(body, []byte(`\u`)) {
			return
		}
		if upload.ImageID != *want.ImageID || !bytes.Equal(upload.Report, *want.Report) {
			t.Fatalf("got %q %q, want %q %q", upload.ImageID, upload.Report, *want.ImageID, *want.Report)
		}
	})
}
