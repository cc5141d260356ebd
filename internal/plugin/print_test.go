package plugin

import (
	"encoding/json"
	"flag"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write the expected output instead of comparing it")

// hostile is a text that takes over a terminal, breaks lines and tables, and turns the direction of text around.
const hostile = "evil\u001b]0;title\u0007\u001b[2J\u009b31m\r\n\tNAME\u202egpj.exe\U000e0001\u200b\u007f\u2028"

const digest = "1e42bbe2508154c9126d48c2b8a75420c3544343bf86fd041fb7527e017a4b4a"

// answers are those of the operator, by path. HOSTILE stands for the hostile text.
var answers = map[string]string{
	"/api/v1/images": `{"total":3,"items":[
		{"imageId":"docker.io/library/alpine@sha256:` + digest + `","platform":"linux/amd64","state":"Scanned","packages":14,"size":8388608,"attempts":0,"distro":"alpine:3.20","distribution":{"name":"alpine","version":"3.20","endOfLife":"2026-04-01","endOfLifeReached":true},"created":"2024-11-23T12:00:00Z",
		 "firstSeen":"2026-11-20T12:00:00Z","overdue":2,"counts":{"critical":1,"high":2,"medium":3,"low":4,"negligible":0,"unknown":0,"kev":1,"fixable":5}},
		{"imageId":"r.example/HOSTILE@sha256:` + digest + `","platform":"HOSTILE","state":"Failed","reason":"ImageNotFound","message":"HOSTILE","packages":0,"size":0,"attempts":3,
		 "firstSeen":"2026-11-23T11:00:00Z","counts":{},"distro":"HOSTILE:HOSTILE","distribution":{"name":"HOSTILE","version":"HOSTILE","endOfLife":"2027-01-01","endOfLifeReached":false}},
		{"imageId":"r.example/partial","platform":"linux/arm64","state":"Scanned","partial":true,"packages":1,"size":0,"attempts":0,"firstSeen":"2026-11-23T11:59:50Z","counts":{}}]}`,
	"/api/v1/vulnerabilities": `{"total":2000,"items":[
		{"id":"CVE-2021-44228","severity":"Critical","kev":true,"epss":0.944,"risk":99.94,"fixable":true,"images":3,"workloads":5,"packages":2,"firstSeen":"2026-10-01T12:00:00Z"},
		{"id":"HOSTILE","severity":"HOSTILE","kev":false,"epss":0.00004,"risk":0,"fixable":false,"images":1,"workloads":0,"packages":1}]}`,
	"/api/v1/vulnerabilities/GHSA-jfh8-c2jp-5v3q": `{"id":"GHSA-jfh8-c2jp-5v3q","affected":1,"images":1,"workloads":1,"records":[{"id":"CVE-2021-44228","namespace":"n","severity":"Critical","risk":1}]}`,
	"/api/v1/images/docker.io/library/alpine@sha256:" + digest + "/findings": `{"total":2,"items":[
		{"package":{"name":"log4j-core","version":"2.14.1","type":"java-archive"},"fix":{"state":"fixed","versions":["2.15.0","2.12.2"]},"firstSeen":"2026-10-01T12:00:00Z","owners":["Team Shop","HOSTILE"],"due":{"at":"2026-10-15T12:00:00Z","overdue":true,"policy":"default"},
		 "decisions":[{"status":"UnderInvestigation","suppresses":false,"since":"2026-11-01T12:00:00Z","object":{"kind":"VulnerabilityException","namespace":"shop","name":"HOSTILE"}}],
		 "vulnerability":{"id":"CVE-2021-44228","namespace":"n","aliases":["GHSA-jfh8-c2jp-5v3q"],"severity":"Critical","risk":99.94,"epss":{"score":0.944,"percentile":1},
		  "kev":[{"dateAdded":"2021-12-10","dueDate":"HOSTILE"}],"cvss":[{"version":"3.1","vector":"v","score":10}],"dataSource":"https://example.com/HOSTILE","description":"HOSTILE"},
		 "details":[{"matcher":"java-matcher","type":"exact-direct-match","searchedBy":{"name":"HOSTILE"},"found":{"constraint":"<2.15.0"}}],
		 "locations":[{"path":"/app/HOSTILE.jar","layer":"sha256:1"}]},
		{"package":{"name":"HOSTILE","version":"HOSTILE","type":"HOSTILE"},"fix":{"state":"wont-fix"},"details":[],"locations":[],"owners":["Team Shop","HOSTILE"],"due":{"at":"2026-12-01T12:00:00Z","overdue":false,"policy":"HOSTILE"},
		 "suppressed":true,"decisions":[{"status":"NotAffected","suppresses":true,"since":"2026-11-01T12:00:00Z","object":{"kind":"HOSTILE","name":"HOSTILE"}}],
		 "vulnerability":{"id":"HOSTILE","namespace":"n","severity":"Low","risk":0.1}}]}`,
	"/api/v1/images/docker.io/library/alpine@sha256:" + digest + "/presences": `{"total":2,"items":[
		{"imageId":"i","platform":"p","container":"HOSTILE","since":"2026-11-20T12:00:00Z","workload":{"kind":"Deployment","namespace":"shop","name":"web","owner":"Team Shop"}},
		{"imageId":"i","platform":"p","container":"c","since":"2026-11-20T12:00:00Z","workload":{"kind":"Deployment","namespace":"shop","name":"api","owner":"HOSTILE"}},
		{"imageId":"i","platform":"p","container":"ended","since":"2026-11-20T12:00:00Z","until":"2026-11-21T12:00:00Z","workload":{"kind":"Deployment","namespace":"shop","name":"old"}}]}`,
	"/api/v1/vulnerabilities/CVE-2021-44228/affected": `{"total":1,"images":1,"workloads":4,"items":[
		{"imageId":"docker.io/library/alpine@sha256:` + digest + `","platform":"linux/amd64","package":{"name":"log4j-core","version":"HOSTILE","type":"java-archive"},"fix":{"state":"not-fixed"},
		 "suppressed":true,"decisions":[{"status":"AcceptedRisk","suppresses":true,"since":"2026-11-01T12:00:00Z","object":{"kind":"HOSTILE","name":"wait"}}],
		 "severity":"Critical","running":true,"vulnerabilityId":"GHSA-jfh8-c2jp-5v3q","namespace":"github:language:java","exposedSince":"2026-11-01T12:00:00Z","workloadCount":4,"owners":["Team Shop"],
		 "workloads":[{"kind":"Deployment","namespace":"shop","name":"web","owner":"Team Shop"},{"kind":"CronJob","namespace":"shop","name":"nightly"},{"kind":"Pod","namespace":"HOSTILE","name":"HOSTILE"}]}]}`,
	"/api/v1/coverage": `{"total":2,"summary":{"scanned":9,"partial":0,"stale":0,"pending":0,"failed":1,"skipped":2,"ratio":0.9},"items":[
		{"workload":{"kind":"Deployment","namespace":"shop","name":"web","owner":"Team Shop"},"container":"app","state":"Scanned","reference":"nginx:1.27","imageId":"docker.io/library/nginx@sha256:` + digest + `",
		 "platform":"linux/amd64","pods":2,"since":"2026-11-20T12:00:00Z"},
		{"workload":{"kind":"HOSTILE","namespace":"HOSTILE","name":"HOSTILE","owner":"HOSTILE"},"container":"HOSTILE","state":"Failed","reason":"ImageNotFound","message":"HOSTILE","reference":"HOSTILE","imageId":"",
		 "platform":"linux/amd64","pods":1,"nextAttempt":"2026-11-23T12:05:00Z"}]}`,
	"/api/v1/decisions": `{"total":4,"items":[
		{"id":4,"source":"kubernetes","state":"standing","object":{"kind":"ClusterVulnerabilityException","name":"accepted"},"status":"AcceptedRisk","suppresses":true,"matchedFindings":12,"suppressedFindings":12,
		 "match":{"vulnerabilities":["CVE-2021-44228","CVE-2021-45046","CVE-2021-45105"],"images":["r.example/web"]},"author":"alice@example.com","comment":"HOSTILE",
		 "since":"2026-11-01T12:00:00Z","expiresAt":"2026-12-01T00:00:00Z","expireWhenFixed":true},
		{"id":3,"source":"HOSTILE","state":"standing","object":{"kind":"HOSTILE","namespace":"HOSTILE","name":"HOSTILE"},"status":"NotAffected","justification":"HOSTILE","suppresses":false,"matchedFindings":1,
		 "suppressedFindings":0,"match":{"packages":["HOSTILE"],"images":["HOSTILE","b"]},"author":"HOSTILE","since":"2026-11-20T12:00:00Z"},
		{"id":2,"source":"vex","state":"standing","object":{"kind":"VEXSource","name":"vendor"},"status":"Affected","suppresses":false,"matchedFindings":0,"suppressedFindings":0,
		 "match":{"vulnerabilities":["CVE-2021-44228"]},"since":"2026-11-20T12:00:00Z"},
		{"id":1,"source":"kubernetes","state":"ended","object":{"kind":"ClusterVulnerabilityException","name":"accepted"},"status":"UnderInvestigation","suppresses":false,
		 "match":{"vulnerabilities":["CVE-2021-44228"]},"since":"2026-10-01T12:00:00Z","until":"2026-11-01T12:00:00Z","endedBy":"Changed"}]}`,
	"/api/v1/rollouts": `{"total":1,"items":[{"id":1,"at":"2026-11-22T12:00:00Z","container":"app","workload":{"kind":"Deployment","namespace":"shop","name":"HOSTILE"},
		"from":{"imageId":"r.example/web@sha256:` + digest + `","platform":"linux/amd64"},"to":{"imageId":"r.example/web@sha256:` + strings.Repeat("f", 64) + `","platform":"linux/amd64"},
		"evaluation":{"state":"evaluated","opened":{"critical":1,"high":0,"medium":2,"low":3,"negligible":0,"unknown":0},"closed":{"critical":0,"high":4,"medium":0,"low":0,"negligible":0,"unknown":0}}}]}`,
	"/api/v1/events": `{"sequence":3,"last":3,"logId":"x","items":[
		{"type":"event","sequence":1,"logId":"a","at":"2026-11-23T11:00:00Z","kind":"image.failed","imageId":"r.example/HOSTILE@sha256:` + digest + `","platform":"p","data":{"reason":"ImageNotFound","message":"HOSTILE"}},
		{"type":"event","sequence":2,"logId":"b","at":"2026-11-23T11:00:01Z","kind":"rollout.changed","data":{"workload":{"kind":"Deployment","namespace":"shop","name":"HOSTILE"},"container":"HOSTILE"}},
		{"type":"event","sequence":3,"logId":"c","at":"2026-11-23T11:00:02Z","kind":"HOSTILE","data":"HOSTILE"}]}`,
}

func answer(t *testing.T) http.HandlerFunc {
	t.Helper()
	quoted, err := json.Marshal(hostile)
	if err != nil {
		t.Fatal(err)
	}
	return func(w http.ResponseWriter, r *http.Request) {
		body, found := answers[strings.ReplaceAll(r.URL.Path, "%2F", "/")]
		if !found {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusNotFound)
			body = `{"status":404,"title":"Not Found","detail":"HOSTILE is not there"}`
		}
		_, _ = w.Write([]byte(strings.ReplaceAll(body, "HOSTILE", strings.Trim(string(quoted), `"`))))
	}
}

// TestOutput compares everything that commands print with files, and expects nothing that a terminal would interpret.
func TestOutput(t *testing.T) {
	c := newCluster(t, answer(t))
	image := "docker.io/library/alpine@sha256:" + digest
	for name, arguments := range map[string][]string{
		"images":              {"images"},
		"images-wide":         {"images", "-o", "wide", "-A"},
		"images-json":         {"images", "-o", "json"},
		"images-yaml":         {"images", "-o", "yaml"},
		"vulnerabilities":     {"findings"},
		"findings":            {"findings", image},
		"findings-wide":       {"findings", image, "-o", "wide"},
		"suppressed":          {"findings", image, "--suppressed"},
		"why":                 {"why", image, "CVE-2021-44228"},
		"why-wide":            {"why", image, "CVE-2021-44228", "-o", "wide"},
		"why-alias":           {"why", image, "GHSA-jfh8-c2jp-5v3q"},
		"affected":            {"affected", "CVE-2021-44228", "-A"},
		"suppressed-affected": {"affected", "CVE-2021-44228", "--suppressed"},
		"affected-wide":       {"affected", "CVE-2021-44228", "-o", "wide"},
		"decisions":           {"decisions"},
		"decisions-wide":      {"decisions", "--state", "all", "-o", "wide"},
		"coverage":            {"coverage", "-A"},
		"coverage-wide":       {"coverage", "-o", "wide", "--no-headers"},
		"rollouts":            {"rollouts"},
		"watch":               {"watch", "-A", "--replay", "--limit", "3"},
		"watch-json":          {"watch", "-A", "--replay", "--limit", "3", "-o", "json"},
		"watch-yaml":          {"watch", "-A", "--replay", "--limit", "3", "-o", "yaml"},
		"watch-wide":          {"watch", "-A", "--replay", "--limit", "3", "-o", "wide"},
		"not-found":           {"affected", "CVE-0-0"},
		"ambiguous":           {"findings", "r.example"},
	} {
		t.Run(name, func(t *testing.T) {
			out, errOut, err := c.run(arguments...)
			got := out + errOut
			if err != nil {
				got += "Error: " + err.Error() + "\n"
			}
			for _, r := range got {
				if r != '\n' && !unicode.IsPrint(r) {
					t.Errorf("the output contains %U", r)
				}
			}
			path := filepath.Join("testdata", name+".txt")
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestDocumentsKeepValues expects of JSON that hostile characters are escaped, and not lost.
func TestDocumentsKeepValues(t *testing.T) {
	c := newCluster(t, answer(t))
	for _, format := range []string{"json", "yaml"} {
		out, _, err := c.run("images", "-o", format)
		if err != nil {
			t.Fatal(err)
		}
		content := []byte(out)
		if format == "yaml" {
			if content, err = yaml.YAMLToJSON(content); err != nil {
				t.Fatal(err)
			}
		}
		var list struct{ Items []struct{ Message string } }
		if err := json.Unmarshal(content, &list); err != nil {
			t.Fatal(err)
		}
		if got := list.Items[1].Message; format == "json" && got != hostile || !strings.HasPrefix(got, "evil\u001b]0;title") {
			t.Errorf("%s: %q, want %q", format, got, hostile)
		}
	}
	if got := string(escapedJSON([]byte("\"\U000e0001\""))); got != `"\udb40\udc01"` {
		t.Errorf("a character beyond 16 bits became %s", got)
	}
}
