package server

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
)

// maxTagged bounds the bodies that are held to be tagged, in bytes. Larger ones are sent without a tag.
const maxTagged = 16 << 20

// tagged gives answers in JSON an ETag, and answers 304 to who has them already. The tag is a weak one: it stays the same however
// the body is compressed.
func tagged(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		t := &tagWriter{ResponseWriter: w}
		next(t, r)
		t.finish(r)
	}
}

// tagWriter holds an answer until it is complete.
type tagWriter struct {
	http.ResponseWriter
	body bytes.Buffer
	// held says that the answer has begun and is held; passing that it goes its way.
	held, passing bool
}

// Unwrap lets http.ResponseController reach the connection.
func (t *tagWriter) Unwrap() http.ResponseWriter { return t.ResponseWriter }

// WriteHeader holds what is worth a tag.
func (t *tagWriter) WriteHeader(status int) {
	if !t.passing && status == http.StatusOK && t.Header().Get("Content-Type") == "application/json" {
		t.held = true
		return
	}
	// What was held is replaced, by a problem.
	t.held, t.passing = false, true
	t.body.Reset()
	t.ResponseWriter.WriteHeader(status)
}

// Write holds the body as long as it is not too large.
func (t *tagWriter) Write(data []byte) (int, error) {
	if !t.held && !t.passing {
		t.WriteHeader(http.StatusOK)
	}
	if t.held && t.body.Len()+len(data) <= maxTagged {
		return t.body.Write(data)
	}
	if t.held {
		t.held, t.passing = false, true
		t.ResponseWriter.WriteHeader(http.StatusOK)
		if _, err := t.body.WriteTo(t.ResponseWriter); err != nil {
			return 0, err
		}
	}
	return t.ResponseWriter.Write(data)
}

// finish sends what is held.
func (t *tagWriter) finish(r *http.Request) {
	if !t.held {
		return
	}
	sum := sha256.Sum256(t.body.Bytes())
	tag := `W/"` + base64.RawURLEncoding.EncodeToString(sum[:18]) + `"`
	h := t.Header()
	h.Set("ETag", tag)
	// Kept by the browser alone, and asked about each time.
	h.Set("Cache-Control", "private, no-cache")
	h.Add("Vary", "Accept")
	if matches(r.Header.Values("If-None-Match"), tag) {
		h.Del("Content-Type")
		t.ResponseWriter.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Length", strconv.Itoa(t.body.Len()))
	t.ResponseWriter.WriteHeader(http.StatusOK)
	_, _ = t.body.WriteTo(t.ResponseWriter) // a client that is gone gets nothing
}

// matches compares tags as RFC 9110, section 13.1.2 has it.
func matches(headers []string, tag string) bool {
	for candidate := range strings.SplitSeq(strings.Join(headers, ","), ",") {
		candidate = strings.TrimSpace(candidate)
		if candidate == "*" || strings.TrimPrefix(candidate, "W/") == strings.TrimPrefix(tag, "W/") {
			return true
		}
	}
	return false
}
