package sinks

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/report"
	"github.com/scanner-operator/scanner-operator/test/s3server"
)

var s3Server = sync.OnceValues(func() (*s3server.Server, error) {
	return s3server.Start("../../test/s3", "reports", "retained", "crashes")
})

func startedS3(t *testing.T) *s3server.Server {
	t.Helper()
	server, err := s3Server()
	must(t, err)
	return server
}

// fetch reads an object, "" if there is none.
func fetch(t *testing.T, server *s3server.Server, path string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/"+path, nil)
	must(t, err)
	accessKey{id: s3server.AccessKeyID, secret: s3server.SecretAccessKey}.sign(r, nil, "us-east-1", time.Now())
	answer, err := http.DefaultClient.Do(r)
	must(t, err)
	defer answer.Body.Close() //nolint:errcheck // It is only read.
	content, err := io.ReadAll(answer.Body)
	must(t, err)
	switch answer.StatusCode {
	case http.StatusOK:
		return string(content)
	case http.StatusNotFound:
		return ""
	default:
		t.Fatalf("%s: status %d: %s", path, answer.StatusCode, content)
		return ""
	}
}

func s3Files(server *s3server.Server) map[string]string {
	return map[string]string{"url": server.URL, fileAccessKeyID: s3server.AccessKeyID, fileSecretAccessKey: s3server.SecretAccessKey}
}

// vulnerabilities lists "ID state" of a CycloneDX document.
func vulnerabilities(t *testing.T, document string) []string {
	t.Helper()
	var content struct {
		Vulnerabilities []struct {
			ID       string
			Analysis struct{ State string }
		}
	}
	if err := json.Unmarshal([]byte(document), &content); err != nil {
		t.Fatalf("%v in %.200q", err, document)
	}
	all := []string{}
	for _, v := range content.Vulnerabilities {
		all = append(all, strings.TrimSpace(v.ID+" "+v.Analysis.State))
	}
	return all
}

// A real server verifies the signatures. Objects have stable keys, follow the findings, and are deleted if that is asked for.
func TestS3(t *testing.T) {
	server := startedS3(t)
	f := newFixture(t, s3Files(server))
	web := image("team/web")
	f.catalog(t, web, "1", "openssl", "zlib")
	f.run(t, web, workload("shop", "web", "team a+b")) // characters that are escaped
	f.update(t, map[string][]model.PackageFinding{"openssl": {finding("CVE-1", model.SeverityHigh)}})
	e, results := f.engine(t, f.Store)
	formats := []report.Format{report.FormatCycloneDX, report.FormatSPDX, report.FormatSARIF, report.FormatCSV}
	definition := Definition{S3: &S3{Credential: "c", Bucket: "reports", Region: "us-east-1", Key: "{owner}/{digest}/{platform}", Formats: formats, Delete: true}}
	use(t, e, f.sink(t, definition))
	f.settle(t, e)
	results.expect(t, "s3 delivered 1")
	key := "reports/team%20a%2Bb/" + strings.Replace(digest("team/web"), ":", "%3A", 1) + "/linux/amd64"
	expectState(t, "first", vulnerabilities(t, fetch(t, server, key+".cdx.json")), "CVE-1")
	for extension, text := range map[string]string{".spdx.json": `"SPDX-2.3"`, ".sarif.json": `"2.1.0"`, ".csv": "CVE-1"} {
		if content := fetch(t, server, key+extension); !strings.Contains(content, text) {
			t.Errorf("%s: %.200s", extension, content)
		}
	}
	f.update(t, map[string][]model.PackageFinding{"openssl": {finding("CVE-2", model.SeverityHigh)}})
	f.settle(t, e)
	// The number of findings of each severity is the same.
	expectState(t, "after an update", vulnerabilities(t, fetch(t, server, key+".cdx.json")), "CVE-2")
	f.decide(t, "CVE-2")
	f.settle(t, e)
	expectState(t, "suppressed", vulnerabilities(t, fetch(t, server, key+".cdx.json")), "CVE-2 not_affected")
	if content := fetch(t, server, key+".csv"); strings.Contains(content, "CVE-2") {
		t.Errorf("CSV has the suppressed finding: %s", content)
	}
	f.run(t, web)
	f.settle(t, e)
	for _, extension := range extensions {
		if content := fetch(t, server, key+extension[0]); content != "" {
			t.Errorf("%s is still there", extension[0])
		}
	}
	results.expect(t, "s3 delivered 2", "s3 removed 1")
}

// Objects are kept where that is asked for, and an object can have several images.
func TestS3KeepsObjects(t *testing.T) {
	server := startedS3(t)
	f := newFixture(t, s3Files(server))
	web, cart := image("web"), image("cart")
	f.catalog(t, web, "1", "openssl")
	f.catalog(t, cart, "1", "openssl", "zlib")
	f.run(t, web, workload("shop", "web", ""))
	f.run(t, cart, workload("shop", "cart", ""))
	f.update(t, map[string][]model.PackageFinding{"openssl": {finding("CVE-1", model.SeverityHigh)}})
	e, _ := f.engine(t, f.Store)
	use(t, e, f.sink(t, Definition{S3: &S3{Credential: "c", Bucket: "retained", Region: "us-east-1", Key: "{namespace}", Formats: []report.Format{report.FormatCycloneDX}}}))
	f.settle(t, e)
	expectState(t, "two images", vulnerabilities(t, fetch(t, server, "retained/shop.cdx.json")), "CVE-1", "CVE-1")
	f.run(t, web)
	f.settle(t, e)
	expectState(t, "one image", vulnerabilities(t, fetch(t, server, "retained/shop.cdx.json")), "CVE-1")
	f.run(t, cart)
	f.settle(t, e)
	expectState(t, "none", vulnerabilities(t, fetch(t, server, "retained/shop.cdx.json")), "CVE-1")
	if items := len(e.lanes["uid-"].items); items != 0 {
		t.Errorf("%d items, want none", items)
	}
}

// A wrong key and a bucket that does not exist are problems of the sink: it waits, and goes on when they are repaired.
func TestS3Refuses(t *testing.T) {
	server := startedS3(t)
	f := newFixture(t, s3Files(server))
	web := image("web")
	f.catalog(t, web, "1", "openssl")
	f.run(t, web, workload("shop", "web", ""))
	definition := func(bucket string) Definition {
		return Definition{S3: &S3{Credential: "c", Bucket: bucket, Region: "us-east-1", Key: "refused", Formats: []report.Format{report.FormatCSV}}}
	}
	e, results := f.engine(t, f.Store)
	use(t, e, f.sink(t, definition("absent")))
	f.settle(t, e)
	if problem := e.States()["uid-"].Problem; !strings.Contains(problem, "status 404") {
		t.Errorf("without a bucket: %q", problem)
	}
	use(t, e, f.sink(t, definition("reports")))
	f.credential(t, map[string]string{fileSecretAccessKey: "wrong"})
	f.clock.move(4 * retryFirst)
	f.settle(t, e)
	if problem := e.States()["uid-"].Problem; !strings.Contains(problem, "status 403") || strings.Contains(problem, "wrong") {
		t.Errorf("with a wrong key: %q", problem)
	}
	f.credential(t, s3Files(server))
	f.clock.move(4 * retryFirst)
	f.settle(t, e)
	if state := e.States()["uid-"]; state.Problem != "" || state.Pending != 0 {
		t.Errorf("repaired: %+v", state)
	}
	if content := fetch(t, server, "reports/refused.csv"); content == "" {
		t.Error("nothing was delivered")
	}
	results.expect(t, "s3 delivered 1", "s3 failed 2")
}

// TestSignature is the example "PUT Object" of the documentation of Amazon S3 about Signature Version 4.
func TestSignature(t *testing.T) {
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "https://examplebucket.s3.amazonaws.com/"+escapePath("test$file.text"), nil)
	must(t, err)
	r.Header.Set("Date", "Fri, 24 May 2013 00:00:00 GMT")
	r.Header.Set("X-Amz-Storage-Class", "REDUCED_REDUNDANCY")
	accessKey{id: "AKIAIOSFODNN7EXAMPLE", secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"}.sign(
		r, []byte("Welcome to Amazon S3."), "us-east-1", time.Date(2013, 5, 24, 0, 0, 0, 0, time.UTC))
	const want = "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, " +
		"SignedHeaders=date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class, Signature=98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"
	if got := r.Header.Get("Authorization"); got != want {
		t.Errorf("got %s", got)
	}
}

// The keys of an object and of its bucket are escaped in one way only, whatever they contain.
func FuzzEscapePath(f *testing.F) {
	f.Add("a/b c+d:ä%20")
	f.Fuzz(func(t *testing.T, path string) {
		escaped := escapePath(path)
		if strings.ContainsFunc(escaped, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune("?#:+", r) }) {
			t.Errorf("%q becomes %q", path, escaped)
		}
		request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://h/"+escaped, nil)
		if err != nil || request.URL.Path != "/"+path || request.URL.RawQuery != "" {
			t.Errorf("%q becomes %q: %v", path, escaped, err)
		}
	})
}
