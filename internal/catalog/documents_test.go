package catalog

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/registries"
)

const openVEXPredicate = "https://openvex.dev/ns/v0.2.0"

// documentServer serves documents over TLS.
func documentServer(t *testing.T, handler http.HandlerFunc) (url, bundle string) {
	t.Helper()
	server := httptest.NewTLSServer(handler)
	t.Cleanup(server.Close)
	return server.URL, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
}

func keyOf(t *testing.T, s *signer) *registries.Key {
	t.Helper()
	key, err := registries.ParseKey(s.pem)
	if err != nil {
		t.Fatal(err)
	}
	return &key
}

func TestFetchDocument(t *testing.T) {
	const document = `{"a": 1}`
	var requests atomic.Int32
	url, bundle := documentServer(t, func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		w.Header().Set("ETag", `"v1"`)
		switch {
		case r.Header.Get("If-None-Match") == `"v1"`:
			w.WriteHeader(http.StatusNotModified)
		case r.URL.Path == "/moved":
			http.Redirect(w, r, "/vex.json", http.StatusFound)
		case r.Header.Get("Authorization") != "":
			w.WriteHeader(http.StatusTeapot)
		default:
			_, _ = w.Write([]byte(document))
		}
	})
	documents := &Documents{MaxBytes: 1 << 10}
	for _, path := range []string{"/vex.json", "/moved"} {
		got, version, err := documents.Fetch(t.Context(), DocumentRequest{URL: url + path, CABundle: bundle})
		if err != nil || len(got) != 1 || string(got[0].Content) != document || version != `"v1"` {
			t.Errorf("%s: %v, %q, %v", path, got, version, err)
		}
	}
	if _, _, err := documents.Fetch(t.Context(), DocumentRequest{URL: url + "/vex.json", CABundle: bundle, Version: `"v1"`}); !errors.Is(err, ErrNotModified) {
		t.Errorf("the same version: %v", err)
	}
	before := requests.Load()
	for name, c := range map[string]struct {
		request DocumentRequest
		want    string
	}{
		"an unknown authority": {DocumentRequest{URL: url}, "certificate"},
		"plain HTTP":           {DocumentRequest{URL: strings.Replace(url, "https", "http", 1), CABundle: bundle}, "https://HOST"},
		"a password":           {DocumentRequest{URL: strings.Replace(url, "https://", "https://a:secret@", 1), CABundle: bundle}, "without a user name"},
		"link-local":           {DocumentRequest{URL: "https://169.254.169.254/latest", CABundle: bundle}, "refused to connect to 169.254.169.254 on behalf of the host"},
		"cloud metadata":       {DocumentRequest{URL: "https://100.100.100.200/", CABundle: bundle}, "refused to connect"},
	} {
		_, _, err := documents.Fetch(t.Context(), c.request)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if requests.Load() != before {
		t.Error("a refused request has reached the server")
	}
}

// TestCredentialsOfDocuments: credentials go to the host and the path that they are for, and not to where it redirects.
func TestCredentialsOfDocuments(t *testing.T) {
	var elsewhere atomic.Int32
	other, otherBundle := documentServer(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			elsewhere.Add(1)
		}
		_, _ = w.Write([]byte("{}"))
	})
	url, bundle := documentServer(t, func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		switch {
		case r.URL.Path == "/team/moved":
			http.Redirect(w, r, other, http.StatusFound)
		case r.URL.Path == "/team/here":
			http.Redirect(w, r, "/team/vex.json", http.StatusFound)
		case user == "jane" && password == "secret":
			_, _ = w.Write([]byte(`{"a": 1}`))
		default:
			w.WriteHeader(http.StatusUnauthorized)
		}
	})
	host := strings.TrimPrefix(url, "https://")
	file := filepath.Join(t.TempDir(), "config.json")
	entry := `{"username": "jane", "password": "secret"}`
	write := func(key string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(`{"auths": {"`+key+`": `+entry+`}}`), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	documents := &Documents{MaxBytes: 1 << 10, Credentials: []string{file}}
	fetch := func(path string) error {
		_, _, err := documents.Fetch(t.Context(), DocumentRequest{URL: url + path, CABundle: bundle + otherBundle})
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the error shows a secret: %v", path, err)
		}
		return err
	}
	if err := fetch("/team/vex.json"); err == nil {
		t.Error("a file that does not exist is not a problem, and the server still refuses")
	}
	for key, want := range map[string]bool{host: true, host + "/team": true, "https://" + host: true, host + "/other": false, "127.0.0.1:1": false, "*.0.0.1" + strings.TrimPrefix(host, "127.0.0.1"): false} {
		write(key)
		if err := fetch("/team/vex.json"); (err == nil) != want || err != nil && !strings.Contains(err.Error(), "401") {
			t.Errorf("credentials for %s: %v", key, err)
		}
	}
	write(host)
	for _, path := range []string{"/team/moved", "/team/here"} {
		if err := fetch(path); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	if elsewhere.Load() > 0 {
		t.Error("credentials went to another host")
	}
	if err := os.WriteFile(file, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := fetch("/team/vex.json"); err == nil || !strings.Contains(err.Error(), "not a valid Docker configuration") {
		t.Errorf("a file that cannot be read: %v", err)
	}
}

// TestHostileServersOfDocuments: servers that answer too much, redirect elsewhere or end early cost little.
func TestHostileServersOfDocuments(t *testing.T) {
	inner, _ := documentServer(t, func(http.ResponseWriter, *http.Request) { t.Error("a redirect to plain HTTP was followed") })
	for name, c := range map[string]struct {
		handle http.HandlerFunc
		want   string
	}{
		"an endless body": {func(w http.ResponseWriter, _ *http.Request) {
			for range 1000 {
				if _, err := w.Write(make([]byte, 1<<10)); err != nil {
					return
				}
			}
		}, "larger than the limit of 1024 bytes"},
		"endless redirects": {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.Path+"x", http.StatusFound) }, "redirected more than 5 times"},
		"a redirect to metadata": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://169.254.169.254/", http.StatusFound)
		}, "refused to connect"},
		"a redirect to HTTP": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://example.com"+strings.TrimPrefix(inner, "https://127.0.0.1"), http.StatusFound)
		}, "requires plain HTTP"},
		"not modified unasked": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotModified) }, "304"},
		"an error":             {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }, "500"},
		"a body that breaks off": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte("{}"))
		}, "read the response"},
	} {
		t.Run(name, func(t *testing.T) {
			url, bundle := documentServer(t, c.handle)
			_, _, err := (&Documents{MaxBytes: 1 << 10}).Fetch(t.Context(), DocumentRequest{URL: url + "/", CABundle: bundle})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

func TestSignedDocuments(t *testing.T) {
	const document = `{"a": 1}`
	for _, kind := range []string{"ECDSA", "Ed25519", "RSA"} {
		owner, other := newSigner(t, kind), newSigner(t, kind)
		var signature atomic.Pointer[string]
		url, bundle := documentServer(t, func(w http.ResponseWriter, r *http.Request) {
			switch text := signature.Load(); {
			case r.URL.Path == "/vex.json":
				_, _ = w.Write([]byte(document))
			case r.URL.Path == "/vex.json.sig" && text != nil:
				_, _ = w.Write([]byte(*text))
			default:
				w.WriteHeader(http.StatusNotFound)
			}
		})
		sign := func(s *signer, text string) string {
			raw, err := s.Sign(t.Context(), []byte(text))
			if err != nil {
				t.Fatal(err)
			}
			return base64.StdEncoding.EncodeToString(raw) + "\n"
		}
		for name, c := range map[string]struct {
			signature *string
			want      bool
		}{
			"by the owner": {new(sign(owner, document)), true}, "by another": {new(sign(other, document)), false}, "of another document": {new(sign(owner, "{}")), false},
			"no Base64": {new("?"), false}, "none": {nil, false},
		} {
			signature.Store(c.signature)
			got, _, err := (&Documents{MaxBytes: 1 << 10}).Fetch(t.Context(), DocumentRequest{URL: url + "/vex.json", CABundle: bundle, Key: keyOf(t, owner)})
			if c.want != (err == nil && len(got) == 1) || !c.want && !errors.Is(err, ErrSignature) {
				t.Errorf("%s, signature %s: %v, %v", kind, name, got, err)
			}
		}
	}
}

func TestFetchArtifact(t *testing.T) {
	owner, other := newSigner(t, "ECDSA"), newSigner(t, "ECDSA")
	f := newRegistry(t, registry.WithReferrersSupport(true))
	documents := &Documents{MaxBytes: 1 << 10}
	fetch := func(reference, version string, key *registries.Key) ([]Document, string, error) {
		return documents.Fetch(t.Context(), DocumentRequest{Reference: f.host + "/team/app" + reference, Version: version, Key: key})
	}
	f.artifact(t, "plain", "", "application/json", []byte(`{"a": 1}`), []byte(`{"b": 2}`))
	got, version, err := fetch(":plain", "", nil)
	if err != nil || len(got) != 2 || string(got[1].Content) != `{"b": 2}` || !strings.HasPrefix(version, "sha256:") {
		t.Fatalf("%v, %q, %v", got, version, err)
	}
	if _, _, err := fetch(":plain", version, nil); !errors.Is(err, ErrNotModified) {
		t.Errorf("the same version: %v", err)
	}
	if _, _, err := fetch(":plain", "", keyOf(t, owner)); !errors.Is(err, ErrSignature) {
		t.Errorf("layers without a signature: %v", err)
	}

	image := f.artifact(t, "image", "", "application/octet-stream", []byte("a layer"))
	reference := "@" + image.Digest.String()
	if _, _, err := fetch(":image", "", nil); err == nil || !strings.Contains(err.Error(), "no layer in JSON and no attestation") {
		t.Errorf("an image: %v", err)
	}
	statement := about(f.host+"/team/app"+reference, openVEXPredicate, json.RawMessage(`{"c": 3}`))
	f.artifact(t, "", "x"+reference, typeEnvelope, encoded(t, owner.envelope(t, payloadTypeInToto, statement)))
	for _, key := range []*registries.Key{nil, keyOf(t, owner)} {
		if got, _, err := fetch(":image", "", key); err != nil || len(got) != 1 || string(got[0].Content) != `{"c":3}` {
			t.Errorf("an attestation: %v, %v", got, err)
		}
	}
	if _, _, err := fetch(reference, "", keyOf(t, other)); !errors.Is(err, ErrSignature) {
		t.Errorf("an attestation by another: %v", err)
	}
	// What somebody has signed about another image is attached to this one.
	copied := f.artifact(t, "copied", "", "application/octet-stream", []byte("another layer"))
	f.artifact(t, "", "x@"+copied.Digest.String(), typeEnvelope, encoded(t, owner.envelope(t, payloadTypeInToto, statement)))
	several := f.artifact(t, "several", "", "application/octet-stream", []byte("a third layer"))
	both := about(f.host+"/team/app"+reference, openVEXPredicate, json.RawMessage(`{"d": 4}`), "x@"+several.Digest.String())
	f.artifact(t, "", "x@"+several.Digest.String(), typeEnvelope, encoded(t, owner.envelope(t, payloadTypeInToto, both)))
	for _, key := range []*registries.Key{nil, keyOf(t, owner)} {
		if got, _, err := fetch(":copied", "", key); err == nil || !strings.Contains(err.Error(), "none of its subjects is "+copied.Digest.String()) {
			t.Errorf("an attestation about another image: %v, %v", got, err)
		}
		if got, _, err := fetch(":several", "", key); err != nil || len(got) != 1 {
			t.Errorf("an attestation about several images: %v, %v", got, err)
		}
	}

	f.artifact(t, "sbom", "", typeEnvelope, encoded(t, owner.envelope(t, payloadTypeInToto, about("x@sha256:00", predicateSPDX, json.RawMessage(`{}`)))))
	f.artifact(t, "large", "", "application/json", make([]byte, 2<<10+1))
	for reference, want := range map[string]string{
		":absent": "get manifests/absent", "@sha256:" + strings.Repeat("0", 64): "get manifests/sha256:0000", ":sbom": "no layer in JSON and no attestation", ":large": "more than the limit of 2048", ":a b": "not a reference",
	} {
		if _, _, err := fetch(reference, "", nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", reference, err, want)
		}
	}
}

// TestPartOfArtifact: of an artifact that can be read in part only, nothing is returned: what is missing may override the rest.
func TestPartOfArtifact(t *testing.T) {
	f := newRegistry(t, registry.WithReferrersSupport(true))
	image := f.artifact(t, "image", "", "application/octet-stream", []byte("a layer"))
	reference := "@" + image.Digest.String()
	owner := newSigner(t, "ECDSA")
	var attestations []string
	for _, content := range []string{`{"a":1}`, `{"b":2}`} {
		statement := about(f.host+"/team/app"+reference, openVEXPredicate, json.RawMessage(content))
		attestations = append(attestations, f.artifact(t, "", "x"+reference, typeEnvelope, encoded(t, owner.envelope(t, payloadTypeInToto, statement))).Digest.String())
	}
	fetch := func() ([]Document, error) {
		got, _, err := (&Documents{MaxBytes: 1 << 10}).Fetch(t.Context(), DocumentRequest{Reference: f.host + "/team/app" + reference})
		return got, err
	}
	if got, err := fetch(); err != nil || len(got) != 2 {
		t.Fatalf("%v, %v", got, err)
	}
	f.guard = func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "/manifests/"+attestations[1]) {
			w.WriteHeader(http.StatusNotFound)
			return false
		}
		return true
	}
	if got, err := fetch(); err == nil || len(got) > 0 || !strings.Contains(err.Error(), attestations[1]) {
		t.Errorf("without one of the attestations: %v, %v", got, err)
	}
}

// TestCredentialsOfArtifacts: a private registry gets the credentials for its host, and one that refuses them is asked without.
func TestCredentialsOfArtifacts(t *testing.T) {
	f := newRegistry(t)
	f.artifact(t, "plain", "", "application/json", []byte(`{"a": 1}`))
	fetch := func(config string) error {
		_, _, err := (&Documents{MaxBytes: 1 << 10, Credentials: []string{config}}).Fetch(t.Context(), DocumentRequest{Reference: f.host + "/team/app:plain"})
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("the error shows a secret: %v", err)
		}
		return err
	}
	right, wrong := dockerConfig(t, f.host, "robot", "hunter2"), dockerConfig(t, f.host, "robot", "hunter22")
	if err := fetch(wrong); err != nil {
		t.Errorf("credentials that nobody asks for: %v", err)
	}
	f.guard = basicAuth("robot", "hunter2")
	for config, want := range map[string]bool{right: true, wrong: false, dockerConfig(t, f.host+"/other", "robot", "hunter2"): false, dockerConfig(t, f.host+"/team", "robot", "hunter2"): true} {
		if err := fetch(config); (err == nil) != want || !want && ReasonOf(err) != model.ReasonImagePullDenied {
			t.Errorf("%v, want success: %v", err, want)
		}
	}
}

// FuzzAttestedDocument reads anything as the attestation of a document.
func FuzzAttestedDocument(f *testing.F) {
	f.Add([]byte(`{"payloadType": "application/vnd.in-toto+json", "payload": "e30=", "signatures": [{"sig": "AA=="}]}`))
	f.Add([]byte(`{"dsseEnvelope": {"payloadType": "application/vnd.in-toto+json", "payload": "e30="}}`))
	f.Fuzz(func(t *testing.T, content []byte) {
		signed, payload, err := readEnvelope(content)
		if err != nil {
			return
		}
		if _, err := signed.verify(payload, nil); err == nil {
			t.Error("a signature verifies without a key")
		}
	})
}
