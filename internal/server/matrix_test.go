package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/match"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/server"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// matrixRow is what a route is tried with.
type matrixRow struct {
	// targets are read by each user, who must get the same from a server that holds its namespaces only. IMAGE stands for each image.
	targets []string
	// other says where else the route is tried.
	other string
}

// formatsOf lists the formats in which a route answers, as the specification has them.
func formatsOf(t *testing.T, route string) []string {
	t.Helper()
	document, err := specification()
	if err != nil {
		t.Fatal(err)
	}
	root, _ := document.(map[string]any)
	resolve := func(at any) map[string]any {
		object, _ := at.(map[string]any)
		if reference, ok := object["$ref"].(string); ok {
			object = root
			for name := range strings.SplitSeq(strings.TrimPrefix(reference, "#/"), "/") {
				object, _ = object[name].(map[string]any)
			}
		}
		return object
	}
	method, path, _ := strings.Cut(route, " ")
	item := resolve(resolve(root["paths"])[path])
	parameters, _ := resolve(item[strings.ToLower(method)])["parameters"].([]any)
	shared, _ := item["parameters"].([]any)
	var formats []string
	for _, one := range append(shared, parameters...) {
		parameter := resolve(one)
		if parameter["name"] != "format" {
			continue
		}
		values, _ := resolve(parameter["schema"])["enum"].([]any)
		for _, value := range values {
			formats = append(formats, fmt.Sprint(value))
		}
	}
	return formats
}

// targetsOf are the targets of a row, the first of them in each format of the route.
func targetsOf(t *testing.T, route string) []string {
	t.Helper()
	targets := slices.Clone(matrix[route].targets)
	if len(targets) == 0 {
		return nil
	}
	for _, format := range formatsOf(t, route) {
		target, separator := targets[0], "?"
		if strings.Contains(target, "?") {
			separator = "&"
		}
		targets = append(targets, target+separator+"format="+format)
	}
	return targets
}

func withQueries(target string, queries ...string) []string {
	targets := []string{target}
	for _, query := range queries {
		targets = append(targets, target+query)
	}
	return targets
}

// matrix has a row for each route of the specification.
var matrix = map[string]matrixRow{
	"GET /scan-results":                          {targets: []string{"/scan-results"}},
	"GET /scan-results/{imageId}":                {targets: []string{"/scan-results/IMAGE"}},
	"PUT /scan-results":                          {other: "TestMatrixOfChanges"},
	"DELETE /scan-results/{imageId}":             {other: "TestMatrixOfChanges"},
	"POST /api/v1/databases/rematch":             {other: "TestMatrixOfChanges"},
	"PUT /api/v1/images/{imageId}/sbom":          {other: "TestWhoMayDoWhat: scan pods only"},
	"GET /subscribe":                             {other: "TestMatrixOfStreams"},
	"GET /api/wds/logs":                          {other: "TestMatrixOfStreams"},
	"GET /api/v1/overview":                       {targets: []string{"/api/v1/overview"}},
	"GET /api/v1/overview/changes":               {targets: []string{"/api/v1/overview/changes?since=6h", "/api/v1/overview/changes?since=10h"}},
	"GET /api/v1/images":                         {targets: withQueries("/api/v1/images", "?pageSize=1", "?owner=common", "?text=a&sort=-severity", "?namespace=bank", "?namespace=dark", "?epss=0.1", "?overdue=true", "?base="+baseLayer+"&baseLayers=1", "?running=true", "?platform=linux/amd64")},
	"GET /api/v1/images/{imageId}":               {targets: []string{"/api/v1/images/IMAGE"}},
	"GET /api/v1/images/{imageId}/findings":      {targets: withQueries("/api/v1/images/IMAGE/findings", "?closed=true", "?closed=true&format=csv", "?pageSize=1", "?suppressed=true", "?sort=due&pageSize=1", "?overdue=true", "?dueBefore=2026-03-02T00:00:00Z", "?origin=base", "?origin=image")},
	"GET /api/v1/images/{imageId}/packages":      {targets: []string{"/api/v1/images/IMAGE/packages", "/api/v1/images/IMAGE/packages?pageSize=1", "/api/v1/images/IMAGE/packages?layer=1", "/api/v1/images/IMAGE/packages?severity=High", "/api/v1/images/IMAGE/packages?origin=base"}},
	"GET /api/v1/images/{imageId}/layers":        {targets: []string{"/api/v1/images/IMAGE/layers", "/api/v1/images/IMAGE/layers?vulnerable=true", "/api/v1/images/IMAGE/layers?origin=image"}},
	"GET /api/v1/images/{imageId}/sbom":          {targets: []string{"/api/v1/images/IMAGE/sbom"}},
	"GET /api/v1/images/{imageId}/newer-tags":    {targets: []string{"/api/v1/images/IMAGE/newer-tags", "/api/v1/images/IMAGE/newer-tags?platform=linux/amd64"}},
	"PUT /api/v1/images/{imageId}/newer-tags":    {other: "TestWhoMayDoWhat: scan pods only"},
	"POST /api/v1/images/{imageId}/scan":         {other: "TestMatrixOfChanges"},
	"GET /api/v1/images/{imageId}/presences":     {targets: []string{"/api/v1/images/IMAGE/presences", "/api/v1/images/IMAGE/presences?pageSize=1"}},
	"GET /api/v1/vulnerabilities":                {targets: withQueries("/api/v1/vulnerabilities", "?pageSize=1", "?owner=common", "?fixable=true&sort=-severity", "?overdue=true", "?text=CVE", "?namespace=bank", "?namespace=dark")},
	"GET /api/v1/vulnerabilities/{id}":           {targets: []string{"/api/v1/vulnerabilities/CVE-2024-0000", "/api/v1/vulnerabilities/CVE-2024-0001", "/api/v1/vulnerabilities/GHSA-CVE-2024-0000", "/api/v1/vulnerabilities/CVE-0"}},
	"GET /api/v1/vulnerabilities/{id}/exposures": {targets: withQueries("/api/v1/vulnerabilities/CVE-2024-0000/exposures", "?pageSize=1", "?owner=common", "?namespace=bank", "?namespace=dark")},
	"GET /api/v1/vulnerabilities/{id}/affected":  {targets: withQueries("/api/v1/vulnerabilities/CVE-2024-0000/affected", "?pageSize=1", "?owner=common", "?on=2026-03-01", "?closed=true", "?suppressed=true", "?namespace=bank")},
	"GET /api/v1/decisions":                      {targets: withQueries("/api/v1/decisions", "?pageSize=1", "?state=all", "?state=all&format=csv", "?state=all&since=2026-01-01T00:00:00Z&until=2100-01-01T00:00:00Z", "?sort=name", "?sort=expiresAt", "?status=AcceptedRisk", "?vulnerability=CVE-2024-0001", "?author=somebody")},
	"GET /api/v1/decisions/{decisionId}":         {targets: []string{"/api/v1/decisions/4503599627370000"}, other: "TestMatrixOfDecisions"},
	"GET /api/v1/packages":                       {targets: withQueries("/api/v1/packages", "?pageSize=1", "?owner=common", "?sort=-severity", "?vulnerable=true", "?overdue=true", "?name=openssl", "?namespace=bank", "?imageId=IMAGE")},
	"GET /api/v1/workloads":                      {targets: withQueries("/api/v1/workloads", "?pageSize=1", "?base="+baseLayer+"&baseLayers=1", "?owner=common", "?sort=-severity", "?namespace=bank", "?overdue=true")},
	"GET /api/v1/policies":                       {targets: []string{"/api/v1/policies"}},
	"GET /api/v1/notification-rules":             {other: "TestMatrixOfNotificationRules"},
	"POST /api/v1/notification-rules/test":       {other: "TestMatrixOfNotificationRules"},
	"GET /api/v1/bases":                          {targets: withQueries("/api/v1/bases", "?pageSize=1", "?sort=-severity", "?owner=common", "?namespace=bank", "?namespace=dark")},
	"GET /api/v1/namespaces":                     {targets: withQueries("/api/v1/namespaces", "?pageSize=1", "?sort=-severity", "?text=bank", "?due=true", "?owner=common", "?noOwner=true")},
	"GET /api/v1/owners":                         {targets: withQueries("/api/v1/owners", "?pageSize=1", "?sort=-severity", "?text=common", "?due=true", "?namespace=bank", "?namespace=dark")},
	"GET /api/v1/search":                         {targets: []string{"/api/v1/search?text=shop", "/api/v1/search?text=bank", "/api/v1/search?text=dark", "/api/v1/search?text=registry.example&limit=20", "/api/v1/search?text=openssl", "/api/v1/search?text=openssl@1", "/api/v1/search?text=common", "/api/v1/search?text=CVE-2024-000&limit=1"}},
	"GET /api/v1/coverage":                       {targets: withQueries("/api/v1/coverage", "?pageSize=1", "?owner=common", "?noOwner=true", "?state=Failed", "?text=broken", "?namespace=dark")},
	"GET /api/v1/rollouts":                       {targets: []string{"/api/v1/rollouts", "/api/v1/rollouts?pageSize=1", "/api/v1/rollouts?imageId=IMAGE", "/api/v1/rollouts?owner=common", "/api/v1/rollouts?namespace=bank"}},
	"GET /api/v1/rollouts/{rolloutId}":           {targets: []string{"/api/v1/rollouts/4503599627370000"}, other: "TestMatrixOfIDs"},
	"GET /api/v1/fixes":                          {targets: withQueries("/api/v1/fixes", "?pageSize=1", "?owner=common", "?kev=true", "?overdue=true", "?action=update", "?action=newerTag", "?action=newerBase", "?namespace=bank", "?namespace=dark", "?imageId=IMAGE")},
	"GET /api/v1/fixes/preview":                  {targets: []string{"/api/v1/fixes/preview?action=rebuild&imageId=IMAGE", "/api/v1/fixes/preview?action=update&imageId=IMAGE&packageName=openssl&packageVersion=3.0.1&packageType=apk&platform=linux/amd64", "/api/v1/fixes/preview?action=update&imageId=IMAGE&packageName=openssl&packageVersion=3.0.1&packageType=apk&fixVersion=2&packageId=" + packageOf("openssl", "3.0.1").Fingerprint}},
	"GET /api/v1/compare":                        {targets: []string{"/api/v1/compare?from=IMAGE&to=" + escape(sharedImage), "/api/v1/compare?from=" + escape(sharedImage) + "&to=IMAGE&platform=linux/amd64"}},
	"GET /api/v1/trends":                         {targets: []string{"/api/v1/trends?from=2026-02-20&to=2026-03-02", "/api/v1/trends?from=2026-02-20&to=2026-03-02&namespace=bank"}},
	"POST /api/v1/exceptions":                    {other: "TestMatrixOfExceptions"},
	"POST /api/v1/exceptions/preview":            {other: "TestMatrixOfPreviews"},
	"GET /api/v1/exceptions/{kind}/{name}":       {other: "TestMatrixOfExceptions"},
	"PUT /api/v1/exceptions/{kind}/{name}":       {other: "TestMatrixOfExceptions"},
	"DELETE /api/v1/exceptions/{kind}/{name}":    {other: "TestMatrixOfExceptions"},
	"GET /api/v1/vex":                            {other: "TestMatrixOfVEX"},
	"GET /api/v1/vex/{name}":                     {other: "TestMatrixOfVEX"},
	"PUT /api/v1/vex/{name}":                     {other: "TestMatrixOfVEX"},
	"DELETE /api/v1/vex/{name}":                  {other: "TestMatrixOfVEX"},
	"GET /api/v1/databases":                      {targets: []string{"/api/v1/databases"}},
	"GET /api/v1/databases/{build}/changes":      {targets: []string{"/api/v1/databases/BUILD/changes", "/api/v1/databases/BUILD/changes?pageSize=1", "/api/v1/databases/absent/changes"}},
	"GET /api/v1/events":                         {targets: []string{"/api/v1/events?since=0", "/api/v1/events?since=0&imageId=IMAGE", "/api/v1/events?since=0&namespace=bank", "/api/v1/events?since=7"}, other: "TestMatrixOfStreams, TestMatrixOfEventKinds"},
	"GET /api/v1/session":                        {other: "TestSessionNamespaces"},
	"POST /api/v1/session":                       {other: "TestWhoMayDoWhat: about the caller"},
	"GET /api/v1/session/sign-in":                {other: "TestSignInWithDex: no data"},
	"GET /api/v1/session/callback":               {other: "TestSignInWithDex: no data"},
	"POST /api/v1/session/provider-logout":       {other: "TestProviderEndsSessions: no data"},
	"DELETE /api/v1/session":                     {other: "TestWhoMayDoWhat: about the caller"},

	"GET /api/v1/reports/cluster":                {targets: []string{"/api/v1/reports/cluster?since=6h", "/api/v1/reports/cluster?since=24h&format=html"}},
	"GET /api/v1/reports/namespaces/{namespace}": {targets: []string{"/api/v1/reports/namespaces/shop?since=6h", "/api/v1/reports/namespaces/bank?since=10h", "/api/v1/reports/namespaces/bank?format=html", "/api/v1/reports/namespaces/dark?since=6h", "/api/v1/reports/namespaces/absent"}},
	"GET /api/v1/reports/owners/{owner}":         {targets: []string{"/api/v1/reports/owners/common?since=6h", "/api/v1/reports/owners/common?format=html", "/api/v1/reports/owners/team-shop", "/api/v1/reports/owners/absent"}},
}

// numbered is what differs between stores with and without other namespaces: numbers of rows and sealed texts.
var numbered = regexp.MustCompile(`"(id|sequence|last)":\d+|"(logId|nextPageToken|serialNumber|documentNamespace)":"[^"]*"|"age":\d+`)

// wordless is what may contain any word: what a page of a report says of colors, and sealed texts, which are random.
var wordless = regexp.MustCompile(`(?s)<style>.*</style>|<meta name="color-scheme"[^>]*>|"(logId|nextPageToken)":"[A-Za-z0-9_-]*"`)

// withoutNumbers is a body without them.
func withoutNumbers(body string) string {
	return numbered.ReplaceAllStringFunc(body, func(field string) string { name, _, _ := strings.Cut(field, ":"); return name + `:"…"` })
}

// sealedText is what has the same length whatever is in it.
var sealedText = regexp.MustCompile(`"(logId|nextPageToken)":"[^"]*"`)

// lengthsOf is what an answer tells beside its content: its headers, and the lengths of sealed texts. The length and the tag of a content with numbers of rows follow from these.
func lengthsOf(a answer) http.Header {
	headers := a.header.Clone()
	headers.Del("Date")
	if withoutNumbers(a.body) != a.body {
		headers.Del("ETag")
		headers.Del("Content-Length")
	}
	for _, text := range sealedText.FindAllString(a.body, -1) {
		headers.Add("Sealed", fmt.Sprint(len(text)))
	}
	return headers
}

// elsewhere reports whether an image is in other namespaces, too.
func elsewhere(image string, namespaces []string) bool {
	return namespaces != nil && slices.ContainsFunc(runners[image], func(name string) bool { return !slices.Contains(namespaces, name) })
}

// permissions is what an image says that its caller may do.
var permissions = regexp.MustCompile(`"permissions":\{"delete":(true|false),"update":(true|false)\},?`)

// withoutPermissions is the answer about an image that is in other namespaces, too, without what the caller may do. That this is less there is the one thing that an answer
// tells of other namespaces: TestPermissionsAreThoseOfRequests.
func withoutPermissions(t *testing.T, a answer) answer {
	t.Helper()
	if a.status != http.StatusOK {
		return a
	}
	if !permissions.MatchString(a.body) {
		t.Errorf("an image does not say what its caller may do: %s", a.body)
	}
	a.body, a.header = permissions.ReplaceAllString(a.body, ""), a.header.Clone()
	a.header.Del("ETag")
	a.header.Del("Content-Length")
	return a
}

// testName is the name of a test.
var testName = regexp.MustCompile(`\bTest[A-Z]\w+`)

// testsOf are the tests of this package.
func testsOf(t *testing.T) map[string]bool {
	t.Helper()
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`).FindAllStringSubmatch(string(content), -1) {
			known[found[1]] = true
		}
	}
	return known
}

// TestMatrix reads every route in every format as each user, beside a server that only ever held what the user sees.
func TestMatrix(t *testing.T) {
	t.Parallel()
	known := testsOf(t)
	for _, route := range specifiedRoutes(t) {
		row, found := matrix[route]
		if !found || len(row.targets) == 0 && row.other == "" {
			t.Errorf("%s has no row in the matrix of what users see: say how it is tried", route)
		}
		for _, name := range testName.FindAllString(row.other, -1) {
			if !known[name] {
				t.Errorf("%s is tried by %s, which is no test", route, name)
			}
		}
		if row.other != "" && !testName.MatchString(row.other) {
			t.Errorf("%s names no test: %s", route, row.other)
		}
	}
	clocked := func(c *server.Config) {
		c.Clock = func() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }
		c.Versions = match.Versions{}
	}
	whole := newMatrixFixture(t, nil, clocked)
	parts := map[string]*fixture{}
	for user, namespaces := range matrixUsers {
		holds := fmt.Sprint(namespaces == nil, namespaces)
		if parts[holds] == nil {
			parts[holds] = newMatrixFixture(t, namespaces, clocked)
		}
		part := parts[holds]
		for route := range matrix {
			for _, target := range targetsOf(t, route) {
				for image := range runners {
					target := strings.ReplaceAll(strings.ReplaceAll(target, "BUILD", escape(laterBuild)), "IMAGE", escape(image))
					got, want := whole.do(http.MethodGet, target, "", whole.as(user)), part.do(http.MethodGet, target, "", part.as(user))
					if strings.TrimSuffix(target, "?format=json") == "/api/v1/images/"+escape(image) && elsewhere(image, namespaces) {
						got, want = withoutPermissions(t, got), withoutPermissions(t, want)
					}
					if diff := cmp.Diff(withoutNumbers(want.body), withoutNumbers(got.body)); diff != "" {
						t.Errorf("%s as %q differs with other namespaces (-without +with):\n%s", target, user, diff)
					}
					if got.status != want.status {
						t.Errorf("%s as %q: %d, want %d (%s)", target, user, got.status, want.status, got.body)
					}
					if diff := cmp.Diff(lengthsOf(want), lengthsOf(got)); diff != "" {
						t.Errorf("%s as %q differs in headers or lengths (-without +with):\n%s", target, user, diff)
					}
					if body := wordless.ReplaceAllString(got.body, ""); user != "all" && (strings.Contains(body, "dark") && !strings.Contains(target, "dark") || strings.Contains(body, "loose") && !strings.Contains(target, "loose")) {
						t.Errorf("%s as %q tells of another namespace: %s", target, user, got.body)
					}
					if !strings.Contains(target, escape(image)) {
						break
					}
				}
			}
		}
	}
}

// TestMatrixWithoutPermissions: who has no permission sees nothing unless everybody may read.
func TestMatrixWithoutPermissions(t *testing.T) {
	t.Parallel()
	f := newMatrixFixture(t, nil, func(c *server.Config) { c.AnonymousRead = false })
	for user, status := range map[string]int{"none": http.StatusForbidden, anonymous: http.StatusUnauthorized} {
		for route, row := range matrix {
			for _, target := range row.targets {
				target = strings.ReplaceAll(strings.ReplaceAll(target, "BUILD", escape(laterBuild)), "IMAGE", escape(shopImage))
				if open := !strings.HasPrefix(target, "/api/v1/session") && f.do(http.MethodGet, target, "", f.as("all")).status < 400; !open {
					continue
				}
				if got := f.do(http.MethodGet, target, "", f.as(user)); got.status != status {
					t.Errorf("%s, %s as %q: %d, want %d: %s", route, target, user, got.status, status, got.body)
				}
			}
		}
	}
	for _, path := range []string{"/subscribe", eventsPath, deploymentsPath} {
		if connection, a := f.dialPath(path, bearer("none")); connection != nil || a.status != http.StatusForbidden {
			t.Errorf("%s: %d", path, a.status)
		}
	}
}

// TestMatrixOfPages follows the tokens of each list, and gives them to somebody else.
func TestMatrixOfPages(t *testing.T) {
	t.Parallel()
	f := newMatrixFixture(t, nil, nil)
	lists := 0
	for _, row := range matrix {
		for _, target := range row.targets {
			if !strings.HasSuffix(target, "?pageSize=1") {
				continue
			}
			target = strings.ReplaceAll(strings.ReplaceAll(target, "BUILD", escape(laterBuild)), "IMAGE", escape(sharedImage))
			rows, token := 0, ""
			for {
				var page struct {
					Items         []json.RawMessage
					Total         int
					NextPageToken string
				}
				a := f.do(http.MethodGet, target+"&pageToken="+token, "", bearer("two"))
				f.must(json.Unmarshal([]byte(a.body), &page))
				rows += len(page.Items)
				if token = page.NextPageToken; token == "" {
					if rows != page.Total || a.status != http.StatusOK {
						t.Errorf("%s: %d of %d rows, %s", target, rows, page.Total, a.body)
					}
					break
				}
				again := f.do(http.MethodGet, target, "", bearer("two"))
				if tag := f.do(http.MethodGet, target, "", bearer("two"), "If-None-Match: "+again.header.Get("ETag")); tag.status != http.StatusNotModified {
					t.Errorf("%s: the ETag is another one each time: %d", target, tag.status)
				}
				for _, user := range []string{"one", "all"} {
					if got := f.do(http.MethodGet, target+"&pageToken="+token, "", bearer(user)); got.status != http.StatusBadRequest {
						t.Errorf("%s with the token of another user: %d %s", target, got.status, got.body)
					}
				}
				lists++
			}
		}
	}
	if lists < 8 {
		t.Errorf("only %d pages have a next one", lists)
	}
}

// TestMatrixOfLargeLists exports lists that are longer than a page of the store.
func TestMatrixOfLargeLists(t *testing.T) {
	t.Parallel()
	f := newMatrixFixture(t, nil, nil)
	const many = store.MaxPageSize + 100
	var packages []model.Package
	for n := range many {
		packages = append(packages, packageOf(fmt.Sprintf("many-%04d", n), "1"))
	}
	f.scan(model.ImageKey{ImageID: shopImage, Platform: linux}, packages...)
	for _, target := range []string{"/api/v1/packages", "/api/v1/vulnerabilities", "/api/v1/images/" + escape(shopImage) + "/findings"} {
		for _, user := range []string{"one", "all"} {
			if got := f.do(http.MethodGet, target+"?format=csv", "", f.as(user)); got.status != http.StatusOK || strings.Count(got.body, "\n") <= many {
				t.Errorf("%s as %s: %d, %d lines: %.300s", target, user, got.status, strings.Count(got.body, "\n"), got.body)
			}
		}
	}
}

// TestMatrixOfIDs opens a rollout by the ID that the caller sees.
func TestMatrixOfIDs(t *testing.T) {
	t.Parallel()
	f := newMatrixFixture(t, nil, nil)
	id := func(user, namespace string) string {
		var page struct{ Items []struct{ ID int64 } }
		f.must(json.Unmarshal([]byte(f.do(http.MethodGet, "/api/v1/rollouts?namespace="+namespace, "", bearer(user)).body), &page))
		if len(page.Items) == 0 {
			t.Fatalf("%s sees no rollout in %s", user, namespace)
		}
		return fmt.Sprint(page.Items[0].ID)
	}
	shown, number := id("one", "shop"), id("all", "shop")
	if shown == number {
		t.Error("the number of the row is shown")
	}
	for _, try := range []struct {
		user, id string
		want     int
	}{{"one", shown, 200}, {"two", shown, 200}, {"all", number, 200}, {"one", number, 404}, {"all", shown, 404}} {
		if got := f.do(http.MethodGet, "/api/v1/rollouts/"+try.id, "", bearer(try.user)); got.status != try.want {
			t.Errorf("rollout %s as %s: %d, want %d", try.id, try.user, got.status, try.want)
		}
	}
	absent := f.do(http.MethodGet, "/api/v1/rollouts/123456", "", bearer("one"))
	for _, hidden := range []string{id("two", "bank"), id("all", "dark"), number} {
		if got := f.do(http.MethodGet, "/api/v1/rollouts/"+hidden, "", bearer("one")); got.status != http.StatusNotFound || got.body != absent.body {
			t.Errorf("rollout %s is not as one that is absent: %s, %s", hidden, got.body, absent.body)
		}
	}
}

// TestMatrixOfChanges asks for changes in namespaces where the caller may make them, and in others.
func TestMatrixOfChanges(t *testing.T) {
	t.Parallel()
	f := newMatrixFixture(t, nil, nil)
	const scanAgain = "POST /api/v1/images/IMAGE/scan"
	absent := "registry.example/absent"
	bodies := map[string]string{}
	for _, try := range []struct {
		user, request, image string
		want                 int
	}{
		{"none", "PUT /scan-results", shopImage, 403},
		{"one", "PUT /scan-results", shopImage, 200},
		{"one", "PUT /scan-results", bankImage, 403},
		{"one", "PUT /scan-results", sharedImage, 403},
		{"one", "PUT /scan-results", absent, 403},
		{"one", "PUT /scan-results", looseImage, 403},
		{"two", "PUT /scan-results", bankImage, 200},
		{"two", "PUT /scan-results", sharedImage, 403},
		{"all", "PUT /scan-results", sharedImage, 200},
		{signedIn, "PUT /scan-results", shopImage, 200},
		{signedIn, "PUT /scan-results", bankImage, 403},
		{signedIn, "PUT /scan-results", sharedImage, 403},
		{anonymous, "PUT /scan-results", shopImage, 401},
		{"none", "POST /api/v1/databases/rematch", "", 403},
		{"one", "POST /api/v1/databases/rematch", "", 403},
		{"two", "POST /api/v1/databases/rematch", "", 403},
		{"all", "POST /api/v1/databases/rematch", "", 202},
		{signedIn, "POST /api/v1/databases/rematch", "", 403},
		{anonymous, "POST /api/v1/databases/rematch", "", 401},
		{"none", scanAgain, shopImage, 403},
		{"one", scanAgain, bankImage, 404},
		{"one", scanAgain, absent, 404},
		{"one", scanAgain, looseImage, 404},
		{"one", scanAgain, sharedImage, 403},
		{signedIn, scanAgain, bankImage, 404},
		{anonymous, scanAgain, shopImage, 401},
		{"one", scanAgain, shopImage, 202},
		{"two", scanAgain, darkImage, 404},
		{"all", scanAgain, brokenImage, 202},
		{"all", scanAgain, sharedImage, 409},
		{"all", scanAgain, looseImage, 409},
		{"none", "DELETE /scan-results/", shopImage, 403},
		{"one", "DELETE /scan-results/", bankImage, 404},
		{"one", "DELETE /scan-results/", absent, 404},
		{"one", "DELETE /scan-results/", looseImage, 404},
		{"one", "DELETE /scan-results/", sharedImage, 403},
		{signedIn, "DELETE /scan-results/", bankImage, 404},
		{signedIn, "DELETE /scan-results/", sharedImage, 403},
		{anonymous, "DELETE /scan-results/", shopImage, 401},
		{"one", "DELETE /scan-results/", shopImage, 204},
		{"two", "DELETE /scan-results/", bankImage, 204},
		{"two", "DELETE /scan-results/", darkImage, 404},
		{"all", "DELETE /scan-results/", sharedImage, 204},
	} {
		method, target, _ := strings.Cut(try.request, " ")
		body := "{}"
		switch method {
		case http.MethodPost:
			target = strings.ReplaceAll(target, "IMAGE", escape(try.image))
		case http.MethodPut:
			body = uploadOf(try.image)
		case http.MethodDelete:
			target, body = target+escape(try.image), ""
		}
		got := f.do(method, target, body, f.as(try.user), "Content-Type: application/json")
		if got.status != try.want {
			t.Errorf("%s %s as %s: %d, want %d: %s", try.request, try.image, try.user, got.status, try.want, got.body)
		}
		// Errors do not tell what is hidden from what is absent.
		if same := try.user + try.request; got.status >= 400 && try.image != sharedImage {
			if before, found := bodies[same]; found && before != got.body {
				t.Errorf("%s as %s: %s, but %s", try.request, try.user, got.body, before)
			}
			bodies[same] = got.body
		}
	}
}
