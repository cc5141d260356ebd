package notify

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"flag"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

var update = flag.Bool("update", false, "write the golden files")

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// example is a message with all that a message can have.
func example() *Message {
	m := &Message{Rule: "shop/exploited", Group: "shop", Link: "https://scanner.example/database"}
	m.addFinding(Finding{
		Kind: KEVAdded, VulnerabilityID: "CVE-2026-1", Severity: model.SeverityHigh, KEV: true, EPSS: 0.9, Package: "openssl", Version: "3.0.1", FixedIn: "3.0.2",
		Images: 2, Image: "registry.example/shop@sha256:1",
	}, noon.Add(-time.Minute))
	m.addFinding(Finding{
		Kind: FindingOpened, VulnerabilityID: "CVE-2026-2", Severity: model.SeverityCritical, Package: "zlib\nSubject: forged", Version: "1.3", Images: 1,
	}, noon)
	m.addFinding(Finding{Kind: FindingClosed, VulnerabilityID: "CVE-2025-3", Severity: model.SeverityCritical, Package: "bash", Version: "5.2", Images: 1}, noon)
	m.addOther(Other{Kind: ScanFailed, Text: "registry.example/cart@sha256:2: RegistryUnavailable"}, model.SeverityCounts{}, noon)
	m.addWorkloads([]string{"shop/Deployment/cart", "shop/Deployment/web"})
	return m
}

// golden compares a text with a file.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		must(t, os.WriteFile(path, []byte(got), 0o600))
	}
	want, err := os.ReadFile(path)
	must(t, err)
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

func TestTexts(t *testing.T) {
	few, many := &Message{Rule: "r"}, &Message{Rule: "r", Combined: true}
	few.addOther(Other{Kind: DatabaseUpdated, Text: "the vulnerability database of 2026-11-21 06:00:00 is in use"}, model.SeverityCounts{}, noon)
	for i := range 12 {
		name := string(rune('a' + i))
		many.addFinding(Finding{Kind: FindingOpened, VulnerabilityID: "CVE-2026-1" + name, Severity: model.SeverityLow, Package: name, Version: "1", Images: 3}, noon)
		many.addWorkloads([]string{"n/Deployment/" + name})
	}
	tested := &Message{Rule: "shop/exploited", Test: true, From: noon, To: noon}
	digested := &Message{Rule: "r", Group: "shop"}
	digested.addFinding(Finding{Kind: FindingOpened, VulnerabilityID: "CVE-2026-1", Severity: model.SeverityLow, Package: "a", Version: "1", Images: 1}, noon.Add(-24*time.Hour))
	digested.addOther(Other{Kind: CoverageLost, Text: "shop/Deployment/web, container c: Failed, ImageNotFound"}, model.SeverityCounts{}, noon)
	closed := &Message{Rule: "r", Group: "shop"}
	closed.addFinding(Finding{Kind: FindingClosed, VulnerabilityID: "CVE-2025-3", Severity: model.SeverityCritical, Package: "bash", Version: "5.2", Images: 1}, noon)
	many = many.forReceivers()
	for name, m := range map[string]*Message{"closed": closed, "example": example(), "few": few, "many": many, "test": tested, "digest": digested} {
		golden(t, name+".txt", Title(m)+"\n\n"+defaultTexts.Text(m))
	}
	golden(t, "example.html", defaultTexts.Page(example()))
	golden(t, "many.html", defaultTexts.Page(many))
}

// The texts for chats have the markup of the chat, and none of what images and rules are called.
func TestTextsOfChats(t *testing.T) {
	for name, m := range map[string]*Message{"example": example(), "hostile": hostile()} {
		golden(t, name+".slack.txt", defaultTexts.Slack(m))
		golden(t, name+".teams.txt", defaultTexts.Teams(m))
	}
}

// hostile is a message with names that are markup.
func hostile() *Message {
	const name = "*a* _b_ [c](https://evil.example) <https://evil.example|d> & `e`\r\n- f\u202e"
	m := &Message{Rule: name, Group: name, Link: "https://scanner.example/database"}
	m.addFinding(Finding{Kind: FindingOpened, VulnerabilityID: name, Severity: model.SeverityHigh, Package: name, Version: name, FixedIn: name, Images: 1}, noon)
	m.addOther(Other{Kind: ScanFailed, Text: name}, model.SeverityCounts{}, noon)
	m.addWorkloads([]string{name})
	return m
}

// An administrator replaces texts. A template that cannot work is refused when the operator starts, and one that fails later does not hold up messages.
func TestTemplatesOfTheAdministrator(t *testing.T) {
	config, err := ParseConfig(`{templates: {slack: "{{title .}}{{range .Worst}} {{.VulnerabilityID}} {{fix .}}{{end}}", text: "{{if eq .Rule \"shop/exploited\"}}{{index .Workloads 100}}{{end}}custom"}}`)
	must(t, err)
	r := &Receivers{Config: config}
	if got, want := r.texts().Slack(example()), Title(example())+" CVE-2026-1 fixed in 3.0.2 CVE-2026-2 no fix CVE-2025-3 closed"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := r.texts().Text(example()); got != defaultTexts.Text(example()) {
		t.Errorf("a template that fails is replaced by %q", got)
	}
	quiet, err := ParseConfig(`{templates: {text: "{{if ne .Group \"cart\"}}custom{{end}} \n", mail: "{{if ne .Group \"cart\"}}custom{{end}} \n"}}`)
	must(t, err)
	inCart := example()
	inCart.Group = "cart"
	if text, page := quiet.texts.Text(inCart), quiet.texts.Page(inCart); text != defaultTexts.Text(inCart) || page != defaultTexts.Page(inCart) {
		t.Errorf("templates that write nothing are replaced by %q and %q", text, page)
	}
	if got := r.texts().Teams(example()); got != defaultTexts.Teams(example()) {
		t.Errorf("a template that is not replaced is %q", got)
	}
	for text, want := range map[string]string{
		`{templates: {slack: "{{.Nothing}}"}}`:                                               "templates.slack: with an example",
		`{templates: {mail: "{{if}}"}}`:                                                      "templates.mail: ",
		`{templates: {teams: " {{/* nothing */}} "}}`:                                        "it writes nothing",
		`{templates: {slack: "{{if or .Worst .Test .Report}}{{title .}}{{end}}"}}`:           "it writes nothing",
		`{templates: {text: "{{range 100000000}}0123456789{{end}}"}}`:                        "it writes more than 262144 bytes",
		`{templates: {text: "{{call .Rule}}"}}`:                                              "templates.text: ",
		`{templates: {title: "x"}}`:                                                          "decode",
		`{templates: {mail: "` + strings.Repeat("é", maxTemplate+1) + `"}}`:                  "templates.mail: 16385 characters, the maximum is 16384",
		`{templates: {text: "{{define \"x\"}}{{template \"x\"}}{{end}}{{template \"x\"}}"}}`: "templates.text: ",
	} {
		if _, err := ParseConfig(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// received is a request as a receiver got it.
type received struct {
	path   string
	header http.Header
	body   string
}

// receiver is a server with TLS that answers with a status.
func receiver(t *testing.T, status int) (*httptest.Server, chan received) {
	t.Helper()
	got := make(chan received, 10)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- received{r.URL.Path, r.Header, string(body)}
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "an answer with a secret")
	}))
	t.Cleanup(server.Close)
	return server, got
}

// receivers returns a sender with a credential named "c" that has these files.
func receivers(t *testing.T, files map[string]string) *Receivers {
	t.Helper()
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "c"), 0o700))
	for name, content := range files {
		must(t, os.WriteFile(filepath.Join(dir, "c", name), []byte(content), 0o600))
	}
	config, err := ParseConfig(`{credentials: [{name: c, namespaces: [shop]}]}`)
	must(t, err)
	return &Receivers{Config: config, Dir: dir, Source: "prod", Clock: clocktesting.NewFakeClock(noon)}
}

// caOf is the certificate of a server in PEM.
func caOf(server *httptest.Server) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
}

func TestRequests(t *testing.T) {
	for _, sinkType := range []Type{Webhook, Alertmanager, Slack, Teams} {
		server, got := receiver(t, http.StatusOK)
		r := receivers(t, map[string]string{"url": server.URL + "/in\n", "token": "t0ken\n", "key": "whsec_c2VjcmV0", "ca.crt": caOf(server)})
		must(t, r.Send(t.Context(), &Sink{Type: sinkType, Credential: "c"}, "key-1", example()))
		one := <-got
		var content any
		must(t, json.Unmarshal([]byte(one.body), &content))
		golden(t, string(sinkType)+".json", asJSON(t, content)+"\n")
		if auth := one.header.Get("Authorization"); auth != "Bearer t0ken" {
			t.Errorf("%s: Authorization is %q", sinkType, auth)
		}
		wantPath := map[Type]string{Alertmanager: "/in/api/v2/alerts"}[sinkType]
		if wantPath == "" {
			wantPath = "/in"
		}
		if one.path != wantPath {
			t.Errorf("%s: the path is %s, want %s", sinkType, one.path, wantPath)
		}
		if sinkType != Webhook {
			continue
		}
		signature, err := sign("secret", "key-1", one.header.Get("Webhook-Timestamp"), []byte(one.body))
		must(t, err)
		if one.header.Get("Webhook-Signature") != signature || one.header.Get("Webhook-Id") != "key-1" || one.header.Get("Content-Type") != "application/cloudevents+json" {
			t.Errorf("headers %v, want the signature %s", one.header, signature)
		}
	}
}

// The example of the specification of Standard Webhooks.
func TestSignature(t *testing.T) {
	got, err := sign("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", []byte(`{"test": 2432232314}`))
	must(t, err)
	if want := "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if _, err := sign("whsec_%", "", "", nil); err == nil || strings.Contains(err.Error(), "%") {
		t.Errorf("a bad key: %v", err)
	}
}

// Answers decide whether a message is sent again. Errors contain neither the URL nor the answer.
func TestAnswers(t *testing.T) {
	for status, want := range map[int]struct {
		refused bool
		text    string
	}{
		http.StatusFound: {false, "redirects are not followed"}, http.StatusInternalServerError: {false, "status 500"}, http.StatusTooManyRequests: {false, "status 429"},
		http.StatusBadRequest: {true, "status 400"}, http.StatusRequestEntityTooLarge: {true, "status 413"}, http.StatusNotFound: {false, "status 404"},
	} {
		server, got := receiver(t, status)
		r := receivers(t, map[string]string{"url": server.URL + "/s3cret", "ca.crt": caOf(server)})
		err := r.Send(t.Context(), &Sink{Type: Slack, Credential: "c"}, "k", example())
		if err == nil || errors.Is(err, ErrRefused) != want.refused || !strings.Contains(err.Error(), want.text) {
			t.Errorf("%d: %v", status, err)
		}
		if err != nil && (strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "127.0.0.1")) {
			t.Errorf("%d: %q tells too much", status, err)
		}
		if requests := len(got); requests != 1 {
			t.Errorf("%d: %d requests, want 1", status, requests)
		}
	}
}

// A receiver that never answers holds a message until the attempt ends, and no longer.
func TestReceiverThatNeverAnswers(t *testing.T) {
	release, reached := make(chan struct{}), make(chan struct{}, 1)
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		reached <- struct{}{}
		<-release
	}))
	defer server.Close()
	defer close(release)
	r := receivers(t, map[string]string{"url": server.URL, "ca.crt": caOf(server)})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- r.Send(ctx, &Sink{Type: Webhook, Credential: "c"}, "k", example()) }()
	<-reached
	cancel()
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "canceled") {
		t.Errorf("got %v", err)
	}
}

// The name is resolved before the address is checked, and the credential of another namespace is not used.
func TestRuleReachesNoServiceOfTheMachine(t *testing.T) {
	server, got := receiver(t, http.StatusOK)
	for _, url := range []string{server.URL, strings.Replace(server.URL, "127.0.0.1", "localhost", 1)} {
		err := receivers(t, nil).Send(t.Context(), &Sink{Type: Webhook, URL: url}, "k", example())
		if err == nil || !strings.Contains(err.Error(), "notifications.allowedNetworks") {
			t.Errorf("%s: %v", url, err)
		}
	}
	if len(got) > 0 {
		t.Error("the receiver was reached")
	}
}

func TestRulesAreChecked(t *testing.T) {
	config, err := ParseConfig(`{credentials: [{name: shop, namespaces: [shop]}, {name: all, namespaces: ["*"]}, {name: cluster}]}`)
	must(t, err)
	for name, c := range map[string]struct {
		d    Definition
		want string
	}{
		"valid":                           {Definition{Namespace: "shop", Sinks: []Sink{{Name: "s", Credential: "shop"}}}, ""},
		"for all":                         {Definition{Namespace: "other", Sinks: []Sink{{Name: "s", Credential: "all"}}}, ""},
		"of the cluster":                  {Definition{Sinks: []Sink{{Name: "s", Credential: "cluster"}}}, ""},
		"the credential of others":        {Definition{Namespace: "other", Sinks: []Sink{{Name: "s", Credential: "shop"}}}, `sinks: s: the chart value notifications.credentials has no entry "shop" for the namespace other`},
		"the credential of the cluster":   {Definition{Namespace: "shop", Sinks: []Sink{{Name: "s", Credential: "cluster"}}}, "no entry"},
		"no credential":                   {Definition{Sinks: []Sink{{Name: "s", Credential: "../shop"}}}, "no entry"},
		"an expression":                   {Definition{When: "change.kind == 1"}, "when: line 1"},
		"mixed":                           {Definition{When: `finding.kev || workload.owner == ""`}, "create a rule for each case"},
		"a severity":                      {Definition{MinSeverity: "Terrible"}, "minSeverity"},
		"a window":                        {Definition{Window: 25 * time.Hour}, "group.window"},
		"a URL with a password":           {Definition{Sinks: []Sink{{Name: "s", URL: "https://u:p@h/"}}}, "without a user name"},
		"another scheme":                  {Definition{Sinks: []Sink{{Name: "s", URL: "file:///etc/passwd"}}}, "http://"},
		"a recipient that adds a header":  {Definition{Sinks: []Sink{{Name: "s", Credential: "cluster", To: []string{"a@b\r\nBcc: c@d"}}}}, "not an email address"},
		"a recipient with a display name": {Definition{Sinks: []Sink{{Name: "s", Credential: "cluster", To: []string{"A <a@b>"}}}}, "not an email address"},
	} {
		_, err := NewRule(c.d, config)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestConfigs(t *testing.T) {
	for text, want := range map[string]string{
		"": "", `{"credentials":[{"name":"a","namespaces":["*"]}],"allowedNetworks":["10.0.0.0/8"]}`: "",
		`{allowedNetworks: ["10.0.0.1"]}`: `allowedNetworks: "10.0.0.1" is not a network`, `{credentials: [{name: ../a}]}`: "not a DNS label",
		`{credentials: [{name: a}, {name: a}]}`: "two entries", `{secret: x}`: "decode", strings.Repeat("#", maxConfigBytes+1): "the maximum is",
	} {
		_, err := ParseConfig(text)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), strings.Replace(want, "the maximum is", "maximum", 1)) {
			t.Errorf("%.40s: %v, want %q", text, err, want)
		}
	}
}

// The kinds have a place in messages and a name.
func TestKinds(t *testing.T) {
	if len(Kinds()) != len(nouns) || !slices.Equal(slices.Sorted(slices.Values(Kinds())), slices.Sorted(maps.Keys(nouns))) {
		t.Errorf("%v have names, the kinds are %v", slices.Sorted(maps.Keys(nouns)), Kinds())
	}
}
