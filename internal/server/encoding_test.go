package server_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"testing"
)

// A body that a client has is not sent again, until it is another one.
func TestETag(t *testing.T) {
	f := newFixture(t, nil)
	f.seed()
	for _, target := range []string{"/api/v1/overview", "/api/v1/images", "/api/v1/images/" + escape(scannedID) + "/findings", "/scan-results/" + escape(scannedID)} {
		first := f.do(http.MethodGet, target, "")
		tag := first.header.Get("ETag")
		if !strings.HasPrefix(tag, `W/"`) || first.header.Get("Cache-Control") != "private, no-cache" || !strings.Contains(strings.Join(first.header.Values("Vary"), ","), "Accept") {
			t.Fatalf("%s: %v", target, first.header)
		}
		for _, header := range []string{tag, `"other", ` + tag, strings.TrimPrefix(tag, "W/"), "*"} {
			a := f.do(http.MethodGet, target, "", "If-None-Match: "+header)
			if a.status != http.StatusNotModified || a.body != "" || a.header.Get("ETag") != tag || a.header.Get("Content-Type") != "" {
				t.Errorf("%s with %s: %d %v %q", target, header, a.status, a.header, a.body)
			}
			a.secure(t)
		}
		if a := f.do(http.MethodGet, target, "", `If-None-Match: W/"other"`); a.status != http.StatusOK || a.body != first.body {
			t.Errorf("%s with another tag: %d", target, a.status)
		}
		compressed := f.do(http.MethodGet, target, "", "Accept-Encoding: gzip", "If-None-Match: "+tag)
		if compressed.status != http.StatusNotModified {
			t.Errorf("%s compressed: %d", target, compressed.status)
		}
		head := f.do(http.MethodHead, target, "")
		if head.status != http.StatusOK || head.body != "" || head.header.Get("ETag") != tag || head.header.Get("Content-Length") != first.header.Get("Content-Length") {
			t.Errorf("HEAD %s: %d %v", target, head.status, head.header)
		}
		if head = f.do(http.MethodHead, target, "", "If-None-Match: "+tag); head.status != http.StatusNotModified {
			t.Errorf("HEAD %s with its tag: %d", target, head.status)
		}
	}
	overview := f.do(http.MethodGet, "/api/v1/overview", "").header.Get("ETag")
	if a := f.do(http.MethodDelete, "/scan-results/"+escape(scannedID), ""); a.status != http.StatusNoContent || a.header.Get("ETag") != "" {
		t.Fatalf("%d %v", a.status, a.header)
	}
	if a := f.do(http.MethodGet, "/api/v1/overview", "", "If-None-Match: "+overview); a.status != http.StatusOK || a.header.Get("ETag") == overview {
		t.Errorf("after a change: %d %v", a.status, a.header)
	}
	// Who signs in is nobody else's business, and a stream is not held.
	for _, target := range []string{"/api/v1/session", "/scan-results"} {
		if a := f.do(http.MethodGet, target, ""); a.header.Get("ETag") != "" || a.header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %v", target, a.header)
		}
	}
	// What cannot be answered has no tag.
	if a := f.do(http.MethodGet, "/api/v1/images/"+escape(unknownID), "", "If-None-Match: *"); a.status != http.StatusNotFound || a.header.Get("ETag") != "" {
		t.Errorf("%d %v", a.status, a.header)
	}
}

func TestCompression(t *testing.T) {
	f := newFullFixture(t)
	image := "/api/v1/images/" + escape(scannedID)
	for _, target := range []string{"/api/v1/images", image + "/findings", "/scan-results", image + "?format=sarif", "/api/v1/images?format=csv&pageSize=1", image + "?format=cyclonedx-json"} {
		plain := f.do(http.MethodGet, target, "")
		if plain.header.Get("Content-Encoding") != "" || plain.status != http.StatusOK || len(plain.body) < 1024 {
			t.Fatalf("%s: %d, %d bytes, %v", target, plain.status, len(plain.body), plain.header)
		}
		zipped := f.do(http.MethodGet, target, "", "Accept-Encoding: gzip")
		reader, err := gzip.NewReader(strings.NewReader(zipped.body))
		if err != nil {
			t.Fatalf("%s: %v", target, err)
		}
		content, err := io.ReadAll(reader)
		if err != nil || string(content) != plain.body || zipped.header.Get("Content-Encoding") != "gzip" || len(zipped.body) >= len(plain.body) {
			t.Errorf("%s in gzip: %v, %v", target, zipped.header, err)
		}
		zstandard := f.do(http.MethodGet, target, "", "Accept-Encoding: gzip, zstd")
		if zstandard.header.Get("Content-Encoding") != "zstd" || decompressed(t, []byte(zstandard.body)) != plain.body {
			t.Errorf("%s in zstd: %v", target, zstandard.header)
		}
		zstandard.secure(t)
	}
	// A stored SBOM is compressed once, whatever else the client takes; and a small answer is not worth it.
	sbom := f.do(http.MethodGet, image+"/sbom", "", "Accept-Encoding: gzip, zstd")
	if sbom.header.Get("Content-Encoding") != "zstd" || decompressed(t, []byte(sbom.body)) != sbomText {
		t.Errorf("SBOM: %v", sbom.header)
	}
	if a := f.do(http.MethodGet, "/api/v1/session", "", "Accept-Encoding: zstd"); a.header.Get("Content-Encoding") != "" {
		t.Errorf("a small answer: %v", a.header)
	}
	f.do(http.MethodGet, "/api/v1/images?epss=x", "", "Accept-Encoding: gzip").problem(t, http.StatusBadRequest, "epss")
}
