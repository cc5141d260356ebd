package sinks

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"
	"time"
)

// signAlgorithm is AWS Signature Version 4.
const signAlgorithm = "AWS4-HMAC-SHA256"

// accessKey signs requests to a bucket. session is "" for keys without one.
type accessKey struct{ id, secret, session string }

// sign adds the headers of AWS Signature Version 4 to a request without a query, whose path is escaped as escapePath does it.
func (k accessKey) sign(call *http.Request, body []byte, region string, now time.Time) {
	at, hash := now.UTC().Format("20060102T150405Z"), hexHash(body)
	call.Header.Set("X-Amz-Date", at)
	call.Header.Set("X-Amz-Content-Sha256", hash)
	if k.session != "" {
		call.Header.Set("X-Amz-Security-Token", k.session)
	}
	values := map[string]string{"host": call.URL.Host}
	for name := range call.Header {
		if lower := strings.ToLower(name); lower == "content-type" || lower == "date" || strings.HasPrefix(lower, "x-amz-") {
			values[lower] = strings.TrimSpace(call.Header.Get(name))
		}
	}
	var names []string
	for name := range values {
		names = append(names, name)
	}
	slices.Sort(names)
	var headers strings.Builder
	for _, name := range names {
		headers.WriteString(name + ":" + values[name] + "\n")
	}
	signed := strings.Join(names, ";")
	request := strings.Join([]string{call.Method, call.URL.EscapedPath(), "", headers.String(), signed, hash}, "\n")
	scope := strings.Join([]string{at[:8], region, "s3", "aws4_request"}, "/")
	text := strings.Join([]string{signAlgorithm, at, scope, hexHash([]byte(request))}, "\n")
	key := []byte("AWS4" + k.secret)
	for _, part := range []string{at[:8], region, "s3", "aws4_request", text} {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(part))
		key = mac.Sum(nil)
	}
	call.Header.Set("Authorization", signAlgorithm+" Credential="+k.id+"/"+scope+", SignedHeaders="+signed+", Signature="+hex.EncodeToString(key))
}

func hexHash(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}
