package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/scanner-operator/scanner-operator/internal/match"
	"github.com/scanner-operator/scanner-operator/internal/server"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// What is wrong with a parameter is told with its name and what is allowed.
func TestParametersAreRefused(t *testing.T) {
	f := newFixture(t, func(c *server.Config) { c.Versions = match.Versions{} })
	f.seed()
	image := "/api/v1/images/" + escape(scannedID)
	preview := "/api/v1/fixes/preview?imageId=" + escape(scannedID)
	for target, want := range map[string]string{
		"/api/v1/images?namspace=a":                                                `"namspace" is not a query parameter of this resource; its parameters are base, baseLayers, endOfLifeWithin, epss, fixable, format`,
		"/api/v1/overview?text=a":                                                  "it has none",
		"/api/v1/images?fixable=perhaps":                                           `fixable: "perhaps" is not a boolean`,
		"/api/v1/images?kev=true&kev=false":                                        "kev",
		"/api/v1/images?epss=high":                                                 `epss: "high" is not a number`,
		"/api/v1/images?epss=NaN":                                                  "epss is not in the range 0 to 1",
		"/api/v1/images?epss=1.1":                                                  "epss is not in the range 0 to 1",
		"/api/v1/images?epss=-0.1":                                                 "epss is not in the range 0 to 1",
		"/api/v1/images?namespace=" + strings.Repeat("a", 254):                     "namespace exceeds the limit of 253 bytes",
		"/api/v1/images?workloadKind=" + strings.Repeat("a", 64):                   "workloadKind exceeds the limit of 63 bytes",
		"/api/v1/images?text=a%00b":                                                "text contains a control character",
		"/api/v1/images?workload=%FF":                                              "workload is not valid UTF-8",
		"/api/v1/images?format=xml":                                                `format "xml" is not one of json, cyclonedx-json, spdx-json, sarif, csv, openvex, cyclonedx-vex`,
		"/api/v1/images?pageSize=9999999999999999999":                              "pageSize",
		"/api/v1/images?state=Pending&format=sarif":                                `format "sarif" exports findings, which only images in the state Scanned have`,
		image + "/findings?suppressed=true&format=spdx-json":                       "does not support suppressed findings",
		image + "/findings?closed=true&format=cyclonedx-json":                      "does not support closed findings",
		image + "/sbom?format=csv":                                                 `format "csv" is not one of cyclonedx-json, spdx-json`,
		"/api/v1/vulnerabilities?sort=epss":                                        `sort "epss" is not one of -risk, -severity, -epss, id`,
		"/api/v1/vulnerabilities?format=sarif":                                     `format "sarif" is not one of json, csv`,
		"/api/v1/vulnerabilities/a%20b":                                            "only printable ASCII",
		"/api/v1/vulnerabilities/" + strings.Repeat("a", 256):                      "limit of 255",
		"/api/v1/vulnerabilities/CVE-1/affected?on=yesterday":                      "on is not a valid date such as 2026-01-31",
		"/api/v1/vulnerabilities/CVE-1/affected?on=2026-02-30":                     "on is not a valid date",
		"/api/v1/vulnerabilities/CVE-1/affected?closed=1&on=2026-01-01":            "mutually exclusive",
		"/api/v1/packages?version=%3C2":                                            "version requires name",
		"/api/v1/packages?name=a&version=2":                                        `"2" does not start with one of the operators <, <=, >, >=, =`,
		"/api/v1/packages?imageId=a%20b":                                           "imageId",
		"/api/v1/workloads?severity=Bad":                                           `severity "Bad" is not one of Critical`,
		"/api/v1/workloads?owner=a&noOwner=true":                                   "owner and noOwner are mutually exclusive",
		"/api/v1/coverage?owner=" + strings.Repeat("a", 254):                       "owner exceeds the limit of 253 bytes",
		"/api/v1/decisions?state=Standing":                                         `state "Standing" is not one of standing, ended, all`,
		"/api/v1/decisions?status=Ignored":                                         `status "Ignored" is not one of NotAffected, FalsePositive`,
		"/api/v1/decisions?status=" + strings.Repeat("Fixed&status=", 6) + "Fixed": "status is repeated more than 6 times",
		"/api/v1/decisions?sort=author":                                            `sort "author" is not one of -since, expiresAt, name`,
		"/api/v1/decisions?expiringWithin=-1":                                      "expiringWithin is not in the range 0 to 36500",
		"/api/v1/decisions?since=today":                                            "since",
		"/api/v1/decisions?until=tomorrow":                                         "until",
		"/api/v1/decisions?vulnerability=" + strings.Repeat("a", 256):              "vulnerability exceeds the limit of 255 bytes",
		"/api/v1/decisions?name=a%00b":                                             "name contains a control character",
		"/api/v1/decisions/0":                                                      "0 is not a positive number",
		"/api/v1/search":                                                           "text",
		"/api/v1/search?text=+a+":                                                  "text is shorter than 2 bytes",
		"/api/v1/search?text=" + strings.Repeat("a", 254):                          "text exceeds the limit of 253 bytes",
		"/api/v1/search?text=a%00b":                                                "text contains a control character",
		"/api/v1/search?text=ab&limit=0":                                           "limit is not in the range 1 to 20",
		"/api/v1/search?text=ab&limit=21":                                          "limit is not in the range 1 to 20",
		"/api/v1/bases?sort=name":                                                  `sort "name" is not one of -images, -severity`,
		"/api/v1/namespaces?owner=a&noOwner=true":                                  "owner and noOwner are mutually exclusive",
		"/api/v1/namespaces?sort=-risk":                                            `sort "-risk" is not one of name, -severity`,
		"/api/v1/owners?due=soon":                                                  "due",
		"/api/v1/owners?sort=-risk":                                                `sort "-risk" is not one of name, -severity`,
		"/api/v1/images?source=Cloud":                                              `source "Cloud" is not one of Registry, ImageVolume`,
		"/api/v1/images?endOfLifeWithin=-1":                                        "endOfLifeWithin is not in the range 0 to 36500",
		"/api/v1/images?olderThan=0":                                               "olderThan is not in the range 1 to 36500",
		"/api/v1/images?base=sha256:0":                                             `base "sha256:0" is not a chain ID`,
		"/api/v1/workloads?base=x":                                                 `base "x" is not a chain ID`,
		"/api/v1/images?baseLayers=1":                                              "baseLayers is not in the range 1 to 512, or comes without base",
		"/api/v1/images?baseLayers=513&base=" + baseLayer:                          "baseLayers is not in the range",
		"/api/v1/workloads?baseLayers=0&base=" + baseLayer:                         "baseLayers is not in the range",
		"/api/v1/overview/changes?since=1m":                                        "since",
		"/api/v1/overview/changes?since=401d":                                      `since "401d" is not between one hour and 400 days ago`,
		"/api/v1/images?platform=x":                                                "platform",
		"/api/v1/images?running=some":                                              "running",
		"/api/v1/images?base=":                                                     `base "" is not a chain ID`,
		"/api/v1/images?olderThan=36501":                                           "olderThan is not in the range 1 to 36500",
		"/api/v1/images?partial=some":                                              "partial",
		"/api/v1/coverage?state=Done":                                              `state "Done" is not one of Scanned, Partial, Stale, Pending, Failed, Skipped`,
		"/api/v1/fixes?action=patch":                                               `action "patch" is not one of update, rebuild, newerTag, newerBase, wait`,
		"/api/v1/fixes?format=sarif":                                               `format "sarif" is not one of json, csv`,
		"/api/v1/fixes?owner=a&noOwner=true":                                       "owner and noOwner are mutually exclusive",
		preview + "&action=wait":                                                   `action "wait" is not one of update, rebuild`,
		preview:                                                                    "action",
		"/api/v1/fixes/preview?action=rebuild":                                     "imageId",
		preview + "&action=update":                                                 "packageName, packageVersion and packageType are required",
		preview + "&action=update&packageName=a&packageType=npm":                   "packageName, packageVersion and packageType are required",
		preview + "&action=rebuild&fixVersion=1":                                   "are parameters of the action update",
		preview + "&action=update&fixVersion=" + strings.Repeat("1", 256):          "fixVersion exceeds the limit of 255 bytes",
		preview + "&action=rebuild&packageId=1":                                    "are parameters of the action update",
		preview + "&action=update&packageId=" + strings.Repeat("a", 254):           "packageId exceeds the limit of 253 bytes",
		preview + "&action=update&packageName=" + strings.Repeat("a", 1025):        "packageName exceeds the limit of 1024 bytes",
		preview + "&action=update&packageVersion=%00":                              "packageVersion contains a control character",
		preview + "&action=rebuild&platform=x":                                     "platform",
		"/api/v1/compare?from=a":                                                   "to",
		"/api/v1/compare?from=a&to=" + strings.Repeat("a", 513):                    "to: ",
		"/api/v1/compare?from=a%20b&to=a":                                          "from: ",
		"/api/v1/compare?from=a&to=b&platform=x":                                   "platform",
		"/api/v1/rollouts?since=today":                                             "since",
		"/api/v1/trends?from=2026-02-01&to=2026-01-01":                             "from is later than to",
		"/api/v1/trends?from=2024-01-01&to=2026-01-01":                             "732 days, which exceeds the limit of 400",
		"/api/v1/trends?to=0001-01-01&from=9999-12-31":                             "from is later than to",
		"/api/v1/packages?pageToken=AAAA":                                          "pageToken",
		"/api/v1/coverage?pageToken=" + strings.Repeat("A", 8193):                  "pageToken exceeds the limit of 8192 bytes",
		image + "/findings?dueBefore=tomorrow":                                     "dueBefore",
		image + "/findings?sort=-due":                                              `sort "-due" is not one of -risk, -severity, package, due`,
		image + "/findings?origin=debian":                                          `origin "debian" is not one of base, image`,
		image + "/findings?closed=true&overdue=true":                               "closed findings are not due",
		"/api/v1/policies?name=a":                                                  "it has none",
		"/api/v1/vulnerabilities?overdue=maybe":                                    "overdue",
		"/api/v1/vulnerabilities?dueBefore=2026-02-30":                             "dueBefore",
		"/api/v1/packages?overdue=maybe":                                           "overdue",
		"/api/v1/packages?dueBefore=soon":                                          "dueBefore",
		"/api/v1/images?overdue=maybe":                                             "overdue",
	} {
		a := f.do(http.MethodGet, target, "")
		a.problem(t, http.StatusBadRequest, want)
		if t.Failed() {
			t.Fatalf("that was %.100s", target)
		}
	}
	f.do(http.MethodGet, "/api/v1/vulnerabilities/CVE-1999-1", "").problem(t, http.StatusNotFound, "no current or past finding")
	// Clients of /scan-results may add what they like.
	if a := f.do(http.MethodGet, "/scan-results?time=1", ""); a.status != http.StatusOK {
		t.Errorf("an unknown parameter of /scan-results: %d %s", a.status, a.body)
	}
	without := newFixture(t, nil)
	without.do(http.MethodGet, "/api/v1/packages?name=a&version=%3C2", "").problem(t, http.StatusNotImplemented, "versions")
}

// FuzzQueries: whatever stands behind the question mark, lists answer as they should or say what is wrong with it.
func FuzzQueries(f *testing.F) {
	fixture := newFullFixture(f)
	paths := []string{
		"/api/v1/images", "/api/v1/images/" + escape(scannedID) + "/findings", "/api/v1/vulnerabilities", "/api/v1/vulnerabilities/CVE-2024-0000/affected", "/api/v1/vulnerabilities/CVE-2024-0000/exposures",
		"/api/v1/packages", "/api/v1/workloads", "/api/v1/bases", "/api/v1/owners", "/api/v1/namespaces", "/api/v1/search", "/api/v1/fixes", "/api/v1/decisions", "/api/v1/coverage", "/api/v1/rollouts", "/api/v1/trends", "/api/v1/images/" + escape(scannedID) + "/presences", "/api/v1/policies",
		"/api/v1/databases/" + escape(build.ID) + "/changes", "/api/v1/events", "/api/v1/images/" + escape(scannedID),
	}
	for _, v := range visits() {
		path, query, _ := strings.Cut(v.target, "?")
		if i := slices.Index(paths, path); i >= 0 && strings.Count(query, "=") == 1 {
			f.Add(byte(i), query)
		}
	}
	for i, query := range []string{
		"text=%00", "text=%FF%FE", "text=%25%5F%5C%27", "epss=NaN", "epss=1e400", "pageSize=-1", "pageSize=0x10", "pageToken=eyJ2IjoxfQ", "name=a&version=%3C1%7C%7C%3E%3D2",
		"on=9999-12-31", "since=9999-12-31T23:59:59Z", "from=0001-01-01", "sort=-risk&sort=package", "a;b", "%zz", strings.Repeat("state=Failed&", 100), "format=csv", "format=sarif",
	} {
		f.Add(byte(i), query) // the fuzzer tries it elsewhere
	}
	handler := fixture.server.Handler()
	f.Fuzz(func(t *testing.T, which byte, query string) {
		if len(query) > 8192 {
			return // no such header line arrives
		}
		target := url.URL{Scheme: "http", Host: "localhost", RawQuery: query}
		request := httptest.NewRequest(http.MethodGet, "http://localhost"+paths[int(which)%len(paths)], nil)
		request.URL.RawQuery = target.RawQuery
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, request)
		mediaType := recorder.Header().Get("Content-Type")
		switch recorder.Code {
		case http.StatusOK:
			if strings.HasSuffix(mediaType, "json") && !json.Valid(recorder.Body.Bytes()) {
				t.Errorf("no JSON: %s", recorder.Body)
			}
		case http.StatusBadRequest, http.StatusNotFound, http.StatusGone, http.StatusTooManyRequests, http.StatusUpgradeRequired:
			if mediaType != "application/problem+json" || !strings.Contains(recorder.Body.String(), `"detail":`) {
				t.Errorf("no problem: %s %s", mediaType, recorder.Body)
			}
		default:
			t.Errorf("%d %s", recorder.Code, recorder.Body)
		}
	})
}

// limitedStore refuses to list packages.
type limitedStore struct{ store.Store }

func (limitedStore) ListPackages(context.Context, store.Namespaces, store.PackageQuery) (store.PackagePage, error) {
	return store.PackagePage{}, fmt.Errorf("list packages: %w", &store.LimitError{Detail: "more than 7 of them: ask for fewer"})
}

// What is beyond a bound of the store is for the client to change.
func TestBeyondTheBoundsOfTheStore(t *testing.T) {
	f := newFixture(t, func(c *server.Config) { c.Store = limitedStore{c.Store} })
	for _, query := range []string{"", "?format=csv"} {
		a := f.do(http.MethodGet, "/api/v1/packages"+query, "")
		if a.status != http.StatusBadRequest || !strings.Contains(a.body, `"detail":"more than 7 of them: ask for fewer"`) {
			t.Errorf("%q: %d %s", query, a.status, a.body)
		}
	}
}
