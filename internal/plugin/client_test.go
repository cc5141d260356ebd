package plugin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
)

// images answers with a page of images that the query asks for, of so many in total.
func images(total int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		from, _ := strconv.Atoi(r.URL.Query().Get("pageToken"))
		size, _ := strconv.Atoi(r.URL.Query().Get("pageSize"))
		var items []map[string]any
		for i := from; i < min(from+size, total); i++ {
			items = append(items, map[string]any{"imageId": fmt.Sprintf("image-%04d", i), "state": "Scanned"})
		}
		page := map[string]any{"items": items, "total": total}
		if from+size < total {
			page["nextPageToken"] = strconv.Itoa(from + size)
		}
		_ = json.NewEncoder(w).Encode(page)
	}
}

func TestPages(t *testing.T) {
	c := newCluster(t, images(2500))
	for _, test := range []struct {
		limit    string
		rows     int
		requests int
		note     string
	}{
		{"3000", 2500, 3, ""},
		{"1500", 1500, 2, "Showing 1500 of 2500 images. Use --limit to show more.\n"},
		{"7", 7, 1, "Showing 7 of 2500 images. Use --limit to show more.\n"},
	} {
		c.proxied = nil
		out, errOut, err := c.run("images", "--no-headers", "--limit", test.limit)
		if rows := strings.Count(out, "\n"); err != nil || rows != test.rows || len(c.proxied) != test.requests || errOut != test.note {
			t.Errorf("--limit %s: %d rows with %d requests, %q, %v; want %d with %d, %q", test.limit, rows, len(c.proxied), errOut, err, test.rows, test.requests, test.note)
		}
	}
	for _, limit := range []string{"0", "-1", "100001"} {
		if _, _, err := c.run("images", "--limit", limit); err == nil || !strings.Contains(err.Error(), "between 1 and 100000") {
			t.Errorf("--limit %s: %v", limit, err)
		}
	}
}

// TestBodies expects that a response is read no further than the limit.
func TestBodies(t *testing.T) {
	chunk := []byte(strings.Repeat(" ", 1<<20))
	var read atomic.Int64
	c := newCluster(t, func(w http.ResponseWriter, _ *http.Request) {
		for range 2 * maxBody >> 20 {
			if _, err := w.Write(chunk); err != nil {
				return
			}
			read.Add(int64(len(chunk)))
		}
	})
	_, _, err := c.run("images")
	// The request is over when the next one is answered.
	if _, _, again := c.run("images"); err == nil || !strings.Contains(err.Error(), "exceeds the limit of 67108864 bytes") || again == nil || read.Load() > 3*maxBody {
		t.Errorf("a body that is too large: %v, %v, after %d bytes in two responses", err, again, read.Load())
	}
	for name, body := range map[string]string{"no JSON": "<html>", "another shape": `{"items":{"a":1}}`, "another item": `{"items":[1],"total":1}`} {
		c.operator = func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) }
		if _, _, err := c.run("images"); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
	// A server that repeats pages without rows does not hold the command.
	c.operator = func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"items":[],"total":9,"nextPageToken":"x"}`))
	}
	if _, errOut, err := c.run("images"); err != nil || errOut != "No images found in shop namespace.\n" {
		t.Errorf("pages without rows: %q %v", errOut, err)
	}
}

// TestTokensStayHere expects that a token goes to the Service alone, in the header that the API server passes on.
func TestTokensStayHere(t *testing.T) {
	var stolen []string
	thief := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { stolen = append(stolen, fmt.Sprint(r.Header)) }))
	defer thief.Close()
	c := newCluster(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, thief.URL, http.StatusTemporaryRedirect)
	})
	if _, _, err := c.run("images"); err == nil || !strings.Contains(err.Error(), "status 307") {
		t.Errorf("a redirect: %v", err)
	}
	if len(stolen) > 0 {
		t.Errorf("the redirect was followed with %v", stolen)
	}
	if got := c.headers[0].Get(proxiedHeader); got != "Bearer token-1" {
		t.Errorf("the header is %q", got)
	}

	c.operator, c.services[0].Spec.Ports[0].Name = images(1), schemeHTTP
	c.headers = nil
	if _, _, err := c.run("images"); err == nil || !strings.Contains(err.Error(), "plain HTTP") || len(c.headers) > 0 {
		t.Errorf("a token for a Service without TLS: %v, %d requests", err, len(c.headers))
	}
	if out, _, err := c.runBare("images", "--no-headers"); err != nil || !strings.HasPrefix(out, "image-0000") || c.headers[0].Get(proxiedHeader) != "" {
		t.Errorf("without a token: %q %v", out, err)
	}

	for address, want := range map[string]string{
		"http://example.com": "must begin with https", "https://user:password@example.com": "must have the form", "https://example.com?x": "must have the form", "example.com": "must have the form",
	} {
		if _, _, err := c.run("images", "--url", address); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("--url %s: %v", address, err)
		}
	}
	// Whoever listens on a port of this machine gets no token of the kubeconfig.
	if _, _, err := c.runBare("images", "--url", thief.URL); err == nil || len(stolen) != 1 || strings.Contains(stolen[0], "own-token") {
		t.Errorf("plain HTTP on this machine: %v, %v", err, stolen)
	}
}

func TestFindService(t *testing.T) {
	labeled := func(namespaces ...string) (services []corev1.Service) {
		for _, namespace := range namespaces {
			services = append(services, serviceNamed(namespace, "x-api-service", schemeHTTPS), serviceNamed(namespace, "x-metrics-service", schemeHTTPS))
		}
		return services
	}
	for _, test := range []struct {
		name      string
		services  []corev1.Service
		forbidden bool
		more      string
		arguments []string
		want      string
		note      string
		fails     string
	}{
		{name: "default", services: append(labeled("a"), serviceNamed(defaultServiceNamespace, defaultServiceName, schemeHTTPS)), want: "scanner-system/services/https:scanner-controller-manager-api-service:https"},
		{name: "labels", services: labeled("a"), want: "a/services/https:x-api-service:https", note: "Using the Service x-api-service in the namespace a."},
		{name: "several", services: labeled("a", "b"), fails: "a/x-api-service, b/x-api-service"},
		{name: "one of too many", services: labeled("a"), more: "next", fails: "more than 100 Services"},
		{name: "none", fails: "no Service of the operator was found"},
		{name: "named", services: labeled("a", "b"), arguments: []string{"--service-namespace", "b", "--service-name", "x-api-service"}, want: "b/services/https:x-api-service:https"},
		{name: "named, absent", services: labeled("a"), arguments: []string{"--service-name", "y"}, fails: "there is no Service y in the namespace scanner-system"},
		{name: "forbidden", forbidden: true, want: "scanner-system/services/https:scanner-controller-manager-api-service:https"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newCluster(t, images(1))
			c.services, c.more, c.forbidden = test.services, test.more, test.forbidden
			_, errOut, err := c.run(append(test.arguments, "images")...)
			if test.fails != "" {
				if err == nil || !strings.Contains(err.Error(), test.fails) || c.tokens != 0 {
					t.Errorf("%v after %d tokens, want %q", err, c.tokens, test.fails)
				}
				return
			}
			if err != nil || !strings.Contains(errOut, test.note) || test.note == "" && errOut != "" {
				t.Fatalf("%v, %q", err, errOut)
			}
			if want := "/api/v1/namespaces/" + test.want + "/proxy/api/v1/images"; c.proxied[0] != want {
				t.Errorf("asked %s, want %s", c.proxied[0], want)
			}
		})
	}
}

// TestRefusals expects that the operator's and the API server's refusals say what to do.
func TestRefusals(t *testing.T) {
	for name, test := range map[string]struct {
		operator  http.HandlerFunc
		arguments []string
		want      string
	}{
		"no identity": {problem(401, "a bearer token is required"), nil, "--service-account [NAMESPACE/]NAME"},
		"no right":    {problem(403, `user "x" is not allowed`), nil, `operator: user "x" is not allowed (status 403)`},
		"closed":      {images(1), []string{"--closed"}, "require IMAGE"},
		"suppressed":  {images(1), []string{"--suppressed"}, "require IMAGE"},
		"overdue":     {images(1), []string{"--overdue"}, "require IMAGE"},
		"due within":  {images(1), []string{"--due-within", "0"}, "require IMAGE"},
		"workload":    {images(1), []string{"x@sha256:" + digest, "--workload", "web"}, "cannot be combined with IMAGE"},
		"owner":       {images(1), []string{"x@sha256:" + digest, "--owner", "a"}, "cannot be combined with IMAGE"},
		"no owner":    {images(1), []string{"--owner", "a", "--no-owner"}, "none of the others can be"},
		"severity":    {images(1), []string{"--severity", "bad"}, `--severity "bad" is not one of Critical`},
		"format":      {images(1), []string{"-o", "xml"}, `--output "xml" is not one of json, yaml, wide`},
		"account":     {images(1), []string{"--service-account", "a/b/c"}, "[NAMESPACE/]NAME"},
		"CA":          {images(1), []string{"--ca-file", "x"}, "--ca-file is for --url"},
	} {
		c := newCluster(t, test.operator)
		if _, _, err := c.runBare(append([]string{"findings"}, test.arguments...)...); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}

func problem(status int, detail string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(map[string]any{"status": status, "title": http.StatusText(status), "detail": detail})
	}
}

// TestRetries expects that a request is sent again when a server asks for it, and not without end.
func TestRetries(t *testing.T) {
	requests := 0
	c := newCluster(t, nil)
	c.operator = func(w http.ResponseWriter, r *http.Request) {
		if requests++; requests == 1 {
			w.Header().Set("Retry-After", "1")
			problem(503, "still checking")(w, r)
			return
		}
		images(1)(w, r)
	}
	if out, _, err := c.run("images", "--no-headers"); err != nil || out == "" || requests != 2 {
		t.Errorf("%q, %v after %d requests", out, err, requests)
	}
	requests = 1
	c.operator = func(w http.ResponseWriter, r *http.Request) {
		requests++
		w.Header().Set("Retry-After", "3600")
		problem(503, "not today")(w, r)
	}
	if _, _, err := c.run("images"); err == nil || !strings.Contains(err.Error(), "not today") || requests != 2 {
		t.Errorf("%v after %d requests", err, requests-1)
	}
}

func TestTokensAreRenewed(t *testing.T) {
	c := newCluster(t, images(1))
	command, o := newCommand(executable)
	at := now
	o.now = func() time.Time { return at }
	command.SetArgs([]string{"--kubeconfig", c.kubeconfig(), "--service-account", "viewer"})
	if err := command.ParseFlags([]string{"--kubeconfig", c.kubeconfig(), "--service-account", "viewer"}); err != nil {
		t.Fatal(err)
	}
	connected, err := o.connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var tokens []string
	for _, after := range []time.Duration{0, 7 * time.Minute, 8*time.Minute + time.Second} {
		at = now.Add(after)
		token, err := connected.tokens.get(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		tokens = append(tokens, token)
	}
	if diff := cmp.Diff([]string{"token-1", "token-1", "token-2"}, tokens); diff != "" {
		t.Error(diff)
	}
}

// TestWatchContinues breaks the connection, answers with errors and removes events, and expects each event once and the position to be kept.
func TestWatchContinues(t *testing.T) {
	step := 0
	var asked []string
	event := func(sequence int) string {
		return fmt.Sprintf(`{"type":"event","sequence":%d,"logId":"l%d","at":"2026-11-23T11:00:00Z","kind":"database.updated","data":{}}`, sequence, sequence)
	}
	page := func(last int, events ...string) string {
		return fmt.Sprintf(`{"sequence":%d,"last":%d,"logId":"l%d","items":[%s]}`, last, last, last, strings.Join(events, ","))
	}
	c := newCluster(t, func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Query().Get("since")+" "+r.URL.Query().Get("logId"))
		step++
		switch step {
		case 1:
			_, _ = w.Write([]byte(page(5)))
		case 2:
			_, _ = w.Write([]byte(page(6, event(6))))
		case 3:
			panic(http.ErrAbortHandler)
		case 4:
			problem(500, "restarting")(w, r)
		case 5:
			w.Header().Set("Content-Length", "1000")
			_, _ = w.Write([]byte(`{"sequence":99,`))
		case 6:
			_, _ = w.Write([]byte(page(7, event(7))))
		case 7:
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusGone)
			_, _ = w.Write([]byte(`{"status":410,"title":"Gone","sequence":40,"logId":"l40"}`))
		default:
			_, _ = w.Write([]byte(page(41, event(41))))
		}
	})
	out, errOut, err := c.run("watch", "--limit", "3", "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{" ", "5 l5", "6 l6", "6 l6", "6 l6", "6 l6", "7 l7", "40 l40"}, asked); diff != "" {
		t.Error(diff)
	}
	if strings.Count(out, "\n") != 3 || !strings.Contains(out, `"sequence":41`) || !strings.Contains(errOut, "trying again") || strings.Count(errOut, "trying again") != 1 || !strings.Contains(errOut, "Events are missing") {
		t.Errorf("got %s%s", out, errOut)
	}
	c.operator = problem(403, "no")
	if _, _, err := c.run("watch"); err == nil || !strings.Contains(err.Error(), "403") {
		t.Errorf("without the right: %v", err)
	}
}

// TestWatchNamespace expects the events of what is in the namespace, and no others.
func TestWatchNamespace(t *testing.T) {
	kinds := []struct {
		data, image string
		shown       bool
	}{
		{`{"workload":{"kind":"Deployment","namespace":"shop","name":"a"}}`, "", true},
		{`{"workload":{"kind":"Deployment","namespace":"other","name":"a"}}`, "", false},
		{`{"object":{"namespace":"shop","name":"a"}}`, "", true},
		{`{"object":{"namespace":"other","name":"a"}}`, "", false},
		{`{}`, "image-0000", true},
		{`{}`, "elsewhere", false},
		{`{"images":["elsewhere","image-0000"]}`, "", true},
		{`{"images":["elsewhere"]}`, "", false},
	}
	var events []string
	want := 0
	for i, k := range kinds {
		image := ""
		if k.image != "" {
			image = `"imageId":"` + k.image + `",`
		}
		events = append(events, fmt.Sprintf(`{"type":"event","sequence":%d,"logId":"l","at":"2026-11-23T11:00:00Z","kind":"k%d",%s"data":%s}`, i+1, i, image, k.data))
		if k.shown {
			want++
		}
	}
	events = append(events, `{"type":"event","sequence":99,"logId":"l","at":"2026-11-23T11:00:00Z","kind":"database.updated","data":{}}`)
	lists := 0
	c := newCluster(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/v1/images" {
			lists++
			if r.URL.Query().Get("namespace") != "shop" {
				t.Errorf("the images of %q were asked for", r.URL.Query().Get("namespace"))
			}
			images(1)(w, r)
			return
		}
		_, _ = fmt.Fprintf(w, `{"sequence":99,"last":99,"logId":"l","items":[%s]}`, strings.Join(events, ","))
	})
	out, _, err := c.run("watch", "--limit", strconv.Itoa(want+1))
	if err != nil || lists != 1 {
		t.Fatalf("%v after %d lists of images", err, lists)
	}
	for i, k := range kinds {
		if strings.Contains(out, fmt.Sprintf("  k%d ", i)) != k.shown {
			t.Errorf("%+v: %s", k, out)
		}
	}
}

// TestCommand starts the executable under the names that kubectl uses.
func TestCommand(t *testing.T) {
	c := newCluster(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"total":3,"items":[{"imageId":"r.example/a"},{"imageId":"r.example/$(reboot)"},{"imageId":"r.example/b\nc"},{"imageId":"other"}]}`))
	})
	for _, test := range []struct{ name, arguments, want string }{
		{"/usr/local/bin/kubectl-scanner", "--help", "kubectl scanner [command]"},
		{"/usr/bin/scanner-operator", "kubectl coverage --help", "scanner-operator kubectl coverage [TEXT]"},
		{`kubectl-scanner.exe`, "images --help", "kubectl scanner images [TEXT]"},
		{"kubectl_complete-scanner", "cov", "coverage\tList containers"},
		{"kubectl_complete-scanner", "findings --severity ", "Critical\nHigh\n"},
		{"kubectl_complete-scanner", "decisions --status ", "NotAffected\nFalsePositive\n"},
		{"kubectl_complete-scanner", "findings --service-account viewer --kubeconfig " + c.kubeconfig() + " r.", "r.example/a\n:4\n"},
	} {
		command := Command(test.name, strings.Split(test.arguments, " "))
		var out strings.Builder
		command.SetOut(&out)
		command.SetErr(&out)
		if err := command.ExecuteContext(t.Context()); err != nil || !strings.Contains(out.String(), test.want) {
			t.Errorf("%s %s: %q, %v; want %q", test.name, test.arguments, out.String(), err, test.want)
		}
	}
	if command := Command("scanner-operator", []string{"scan", "kubectl"}); command != nil {
		t.Error("the operator itself is taken for the plugin")
	}
	checkExamples(t, NewCommand(executable))
}

// checkExamples expects of every command an example.
func checkExamples(t *testing.T, command *cobra.Command) {
	t.Helper()
	if command.Example == "" || command.Short == "" {
		t.Errorf("%s has no example or no description", command.CommandPath())
	}
	for _, sub := range command.Commands() {
		checkExamples(t, sub)
	}
}

// TestSince expects that rollouts take the same times as reports.
func TestSince(t *testing.T) {
	asked := ""
	c := newCluster(t, func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.Query().Get("since")
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"items":[],"total":0}`))
	})
	for text, ago := range map[string]time.Duration{"7d": 7 * 24 * time.Hour, "2w": 14 * 24 * time.Hour, "36h": 36 * time.Hour, now.Add(-time.Minute).Format(time.RFC3339): time.Minute} {
		if _, _, err := c.run("rollouts", "--since", text); err != nil || asked != now.Add(-ago).UTC().Format(time.RFC3339) {
			t.Errorf("--since %s: %v, asked for rollouts since %s", text, err, asked)
		}
	}
	if _, _, err := c.run("rollouts"); err != nil || asked != "" {
		t.Errorf("without --since: %v, asked for rollouts since %s", err, asked)
	}
	for text, want := range map[string]string{"-1h": `--since: "-1h" is in the future`, "soon": `--since: "soon" is neither a duration such as 7d`} {
		if _, _, err := c.run("rollouts", "--since="+text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("--since %s: %v, want %q", text, err, want)
		}
	}
}

// TestOwnerFlags expects that each list is filtered by owner.
func TestOwnerFlags(t *testing.T) {
	for _, command := range [][]string{{"images"}, {"findings"}, {"affected", "CVE-2021-44228"}, {"coverage"}, {"rollouts"}} {
		for want, flags := range map[string][]string{"owner=Team+Shop": {"--owner", "Team Shop"}, "noOwner=true": {"--no-owner"}} {
			var queries []string
			c := newCluster(t, func(w http.ResponseWriter, r *http.Request) {
				queries = append(queries, r.URL.RawQuery)
				w.Header().Set("Content-Type", "application/json")
				_, _ = w.Write([]byte(`{"items":[],"total":0,"summary":{}}`))
			})
			if _, _, err := c.runBare(append(command, flags...)...); err != nil || len(queries) == 0 || !strings.Contains(queries[len(queries)-1], want) {
				t.Errorf("%v %v: %v, asked for %q", command, flags, err, queries)
			}
		}
	}
}
