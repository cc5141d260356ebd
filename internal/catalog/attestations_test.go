package catalog

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/secure-systems-lab/go-securesystemslib/dsse"

	"github.com/scanner-operator/scanner-operator/internal/registries"
)

const bundleType = "application/vnd.dev.sigstore.bundle.v0.3+json"

// signer signs as cosign does.
type signer struct {
	key crypto.Signer
	pem string
}

func newSigner(t *testing.T, kind string) *signer {
	t.Helper()
	var key crypto.Signer
	var err error
	switch kind {
	case "ECDSA":
		key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case "Ed25519":
		_, key, err = ed25519.GenerateKey(rand.Reader)
	case "RSA":
		key, err = rsa.GenerateKey(rand.Reader, 2048)
	}
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	return &signer{key, string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))}
}

// Sign implements dsse.Signer.
func (s *signer) Sign(_ context.Context, message []byte) ([]byte, error) {
	if _, plain := s.key.(ed25519.PrivateKey); plain {
		return s.key.Sign(rand.Reader, message, crypto.Hash(0))
	}
	digest := sha256.Sum256(message)
	return s.key.Sign(rand.Reader, digest[:], crypto.SHA256)
}

// KeyID implements dsse.Signer.
func (*signer) KeyID() (string, error) { return "a hint", nil }

// envelope signs a payload with the reference implementation of DSSE.
func (s *signer) envelope(t *testing.T, payloadType string, payload any) *dsse.Envelope {
	t.Helper()
	envelopes, err := dsse.NewEnvelopeSigner(s)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := envelopes.SignPayload(t.Context(), payloadType, encoded(t, payload))
	if err != nil {
		t.Fatal(err)
	}
	return signed
}

func encoded(t *testing.T, value any) []byte {
	t.Helper()
	if text, is := value.(string); is {
		return []byte(text)
	}
	content, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// about states something about an image.
func about(reference, predicateType string, predicate any, more ...string) map[string]any {
	var subjects []any
	for _, of := range append([]string{reference}, more...) {
		_, digest, _ := strings.Cut(of, "@sha256:")
		subjects = append(subjects, map[string]any{"name": "app", "digest": map[string]string{"sha256": digest}})
	}
	return map[string]any{"_type": "https://in-toto.io/Statement/v0.1", "predicateType": predicateType, "subject": subjects, "predicate": predicate}
}

// artifact stores documents in the repository as the layers of a manifest, under a tag or as a referrer of an image.
func (f *fakeRegistry) artifact(t *testing.T, tag, subject string, mediaType types.MediaType, documents ...[]byte) v1.Descriptor {
	t.Helper()
	repository, err := name.NewRepository(f.host + "/team/app")
	if err != nil {
		t.Fatal(err)
	}
	write := func(content []byte, mediaType types.MediaType) v1.Descriptor {
		layer := static.NewLayer(content, mediaType)
		if err := remote.WriteLayer(repository, layer); err != nil {
			t.Fatal(err)
		}
		return v1.Descriptor{MediaType: mediaType, Size: int64(len(content)), Digest: hashOf(content)}
	}
	manifest := v1.Manifest{SchemaVersion: 2, MediaType: types.OCIManifestSchema1, Config: write([]byte("{}"), mediaType)}
	for _, document := range documents {
		manifest.Layers = append(manifest.Layers, write(document, mediaType))
	}
	if subject != "" {
		hash, err := v1.NewHash(strings.Split(subject, "@")[1])
		if err != nil {
			t.Fatal(err)
		}
		manifest.Subject = &v1.Descriptor{MediaType: types.OCIManifestSchema1, Digest: hash}
	}
	return f.store(t, tag, types.OCIManifestSchema1, manifest)
}

// store puts a manifest or index under a tag, or under its digest.
func (f *fakeRegistry) store(t *testing.T, tag string, mediaType types.MediaType, manifest any) v1.Descriptor {
	t.Helper()
	raw := encoded(t, manifest)
	if tag == "" {
		tag = hashOf(raw).String()
	}
	f.putAs(t, tag, mediaType, raw)
	return v1.Descriptor{MediaType: mediaType, Size: int64(len(raw)), Digest: hashOf(raw), ArtifactType: bundleType}
}

// tagOf is how digests are written in tags.
func tagOf(reference string) string {
	return strings.Replace(strings.Split(reference, "@")[1], ":", "-", 1)
}

// stated is an SBOM of the image of debian with another name for one of its packages, and without layers it can only come from an attestation.
func stated(t *testing.T, registry *fakeRegistry, reference string) (sbom string, want []string) {
	t.Helper()
	result, err := runIn(t, t.Context(), Request{Image: reference})
	if err != nil {
		t.Fatal(err)
	}
	want = names(t, result)
	first, _, _ := strings.Cut(want[0], " ")
	want[0] = strings.Replace(want[0], first, "a-stated-name", 1)
	sbom = strings.ReplaceAll(string(result.SBOM), `"name":"`+first+`"`, `"name":"a-stated-name"`)
	return strings.ReplaceAll(sbom, registry.host+"/team", "build.example/other"), want
}

func trusting(keys ...*signer) registries.Config {
	var config registries.Config
	for _, key := range keys {
		config.Attestations = append(config.Attestations, registries.Attestation{PublicKey: key.pem})
	}
	return config
}

// TestAttestedSBOM: an SBOM that is attested with a configured key is used, and no layer is pulled.
func TestAttestedSBOM(t *testing.T) {
	for name, attest := range map[string]struct {
		kind    string
		options []registry.Option
		push    func(*testing.T, *fakeRegistry, *signer, string, string)
	}{
		"cosign attest --type https://syft.dev/bom": {"ECDSA", nil, func(t *testing.T, f *fakeRegistry, s *signer, reference, sbom string) {
			envelope := s.envelope(t, payloadTypeInToto, about(reference, predicateSyft, json.RawMessage(sbom)))
			f.artifact(t, tagOf(reference)+".att", "", typeEnvelope, []byte("{}"), encoded(t, envelope))
		}},
		"syft attest -o syft-json": {"RSA", nil, func(t *testing.T, f *fakeRegistry, s *signer, reference, sbom string) {
			envelope := s.envelope(t, payloadTypeInToto, about(reference, predicateCosign, map[string]string{"Data": sbom, "Timestamp": "2026-11-23T00:00:00Z"}))
			f.artifact(t, tagOf(reference)+".att", "", typeEnvelope, encoded(t, envelope))
		}},
		"a bundle of Sigstore as a referrer": {"Ed25519", []registry.Option{registry.WithReferrersSupport(true)}, func(t *testing.T, f *fakeRegistry, s *signer, reference, sbom string) {
			statement := about(reference, predicateSPDX, json.RawMessage(sbom))
			statement["_type"] = "https://in-toto.io/Statement/v1"
			bundle := map[string]any{"mediaType": bundleType, "dsseEnvelope": s.envelope(t, payloadTypeInToto, statement)}
			f.artifact(t, "", reference, "application/vnd.dev.cosign.simplesigning.v1+json", []byte("a signature"))
			f.artifact(t, "", reference, bundleType, encoded(t, bundle))
		}},
		"a referrer by its tag": {"ECDSA", nil, func(t *testing.T, f *fakeRegistry, s *signer, reference, sbom string) {
			envelope := s.envelope(t, payloadTypeInToto, about(reference, predicateSyft, json.RawMessage(sbom)))
			referrer := f.artifact(t, "", reference, typeEnvelope, encoded(t, envelope))
			referrer.ArtifactType = typeEnvelope
			f.store(t, tagOf(reference), types.OCIImageIndex, v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex, Manifests: []v1.Descriptor{referrer}})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			registry, signer := newRegistry(t, attest.options...), newSigner(t, attest.kind)
			image := debian(t)
			reference := registry.push(t, image)
			sbom, want := stated(t, registry, reference)
			attest.push(t, registry, signer, reference, sbom)
			layers, err := image.Layers()
			if err != nil {
				t.Fatal(err)
			}
			digest, err := layers[0].Digest()
			if err != nil {
				t.Fatal(err)
			}
			var pulled atomic.Int64
			registry.guard = func(_ http.ResponseWriter, r *http.Request) bool {
				if strings.HasSuffix(r.URL.Path, "/blobs/"+digest.String()) {
					pulled.Add(1)
				}
				return true
			}
			result, err := runIn(t, t.Context(), Request{Image: reference, Registries: trusting(newSigner(t, "ECDSA"), signer)})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, names(t, result)); diff != "" {
				t.Errorf("packages (-want +got):\n%s", diff)
			}
			if pulled.Load() > 0 || result.AttestedBy == "" || !strings.Contains(string(result.SBOM), `"attestedBy":"`+result.AttestedBy+`"`) {
				t.Errorf("pulled %d layers, attested by %q", pulled.Load(), result.AttestedBy)
			}
			if strings.Contains(string(result.SBOM), "build.example") || !strings.Contains(string(result.SBOM), `"repoDigests":["`+reference) {
				_, source, _ := bytes.Cut(result.SBOM, []byte(`"source":`))
				t.Errorf("the SBOM names another image: %.2000s", source)
			}
		})
	}
}

// TestAttestedIndex: a statement about an index is used for the image in it that its SBOM describes.
func TestAttestedIndex(t *testing.T) {
	registry, signer := newRegistry(t), newSigner(t, "ECDSA")
	reference := registry.push(t, mutate.AppendManifests(empty.Index, mutate.IndexAddendum{
		Add: debian(t), Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "amd64"}},
	}))
	sbom, want := stated(t, registry, reference)
	attest := func(sbom string) {
		envelope := signer.envelope(t, payloadTypeInToto, about(reference, predicateSyft, json.RawMessage(sbom)))
		registry.artifact(t, tagOf(reference)+".att", "", typeEnvelope, encoded(t, envelope))
	}
	request := Request{Image: reference, Registries: trusting(signer)}
	attest(sbom)
	if result, err := runIn(t, t.Context(), request); err != nil || result.AttestedBy == "" || !cmp.Equal(want, names(t, result)) {
		t.Errorf("%v, %v", result, err)
	}
	attest(strings.Replace(sbom, `"manifestDigest":"sha256:`, `"manifestDigest":"sha256:0`, 1))
	if result, err := runIn(t, t.Context(), request); err != nil || result.AttestedBy != "" {
		t.Errorf("the SBOM of another image of the index is used: %v", err)
	}
}

// TestAttestationsOfFallbacks: a key that is trusted for the repository that a pod names says nothing about an image of another one.
func TestAttestationsOfFallbacks(t *testing.T) {
	registry, signer := newRegistry(t), newSigner(t, "ECDSA")
	reference := registry.push(t, debian(t))
	sbom, want := stated(t, registry, reference)
	envelope := signer.envelope(t, payloadTypeInToto, about(reference, predicateSyft, json.RawMessage(sbom)))
	registry.artifact(t, tagOf(reference)+".att", "", typeEnvelope, encoded(t, envelope))
	image := unreachable + "/base@" + strings.Split(reference, "@")[1]
	for trusted, used := range map[string]bool{registry.host + "/team": false, unreachable + "/base": true} {
		config := registries.Config{Attestations: []registries.Attestation{{PublicKey: signer.pem, Repositories: []string{trusted}}}}
		result, err := runIn(t, t.Context(), Request{Image: image, Fallbacks: []string{registry.host + "/team/app"}, Registries: config})
		if err != nil {
			t.Fatal(err)
		}
		if (result.AttestedBy != "") != used || cmp.Equal(want, names(t, result)) != used {
			t.Errorf("with a key for %s: attested by %q, %v", trusted, result.AttestedBy, names(t, result))
		}
	}
}

// TestHostileAttestations: what is not exactly right is not used, says why, and the image is pulled.
func TestHostileAttestations(t *testing.T) {
	registry := newRegistry(t)
	reference := registry.push(t, debian(t))
	sbom, _ := stated(t, registry, reference)
	trusted, other := newSigner(t, "ECDSA"), newSigner(t, "Ed25519")
	another := registry.host + "/team/app@sha256:" + strings.Repeat("0", 64)
	right := about(reference, predicateSyft, json.RawMessage(sbom))
	sign := func(statement any) func(*testing.T) []byte {
		return func(t *testing.T) []byte { return encoded(t, trusted.envelope(t, payloadTypeInToto, statement)) }
	}
	changed := func(change func(*dsse.Envelope)) func(*testing.T) []byte {
		return func(t *testing.T) []byte {
			envelope := trusted.envelope(t, payloadTypeInToto, right)
			change(envelope)
			return encoded(t, envelope)
		}
	}
	for name, tt := range map[string]struct {
		document func(*testing.T) []byte
		config   registries.Config
		says     string
	}{
		"of another key": {func(t *testing.T) []byte { return encoded(t, other.envelope(t, payloadTypeInToto, right)) }, trusting(trusted), "no configured key verifies it"},
		"of a key for other repositories": {sign(right), registries.Config{Attestations: []registries.Attestation{
			{PublicKey: trusted.pem, Repositories: []string{registry.host + "/tea", "docker.io"}}, {PublicKey: other.pem},
		}}, "no configured key verifies it"},
		"of another image":   {sign(about(another, predicateSyft, json.RawMessage(sbom))), trusting(trusted), "it is about sha256:0000"},
		"of several images":  {sign(about(reference, predicateSyft, json.RawMessage(sbom), another)), trusting(trusted), "2 subjects"},
		"of nothing":         {sign(map[string]any{"_type": statementTypes[0], "predicateType": predicateSyft}), trusting(trusted), "0 subjects"},
		"another type":       {sign(about(reference, "https://slsa.dev/provenance/v1", map[string]any{})), trusting(trusted), "no SBOM of Syft"},
		"an SBOM of SPDX":    {sign(about(reference, predicateSPDX, map[string]any{"spdxVersion": "SPDX-2.3"})), trusting(trusted), "no SBOM in the JSON format of Syft"},
		"no SBOM":            {sign(about(reference, predicateSyft, nil)), trusting(trusted), "no SBOM in the JSON format of Syft"},
		"no text":            {sign(about(reference, predicateCosign, "text")), trusting(trusted), "holds no text"},
		"of a directory":     {sign(about(reference, predicateSyft, json.RawMessage(strings.Replace(sbom, `"type":"image"`, `"type":"directory"`, 1)))), trusting(trusted), "not an image"},
		"deep":               {sign(about(reference, predicateCosign, map[string]string{"Data": strings.Repeat("[", 1<<20)})), trusting(trusted), "no SBOM in the JSON format of Syft"},
		"no statement":       {sign("hello"), trusting(trusted), "no in-toto statement in JSON"},
		"another statement":  {sign(map[string]any{"_type": "https://example.com", "subject": right["subject"]}), trusting(trusted), "no in-toto statement"},
		"no envelope":        {func(*testing.T) []byte { return []byte("[]") }, trusting(trusted), "no DSSE envelope"},
		"changed afterwards": {changed(func(e *dsse.Envelope) { e.Payload = e.Payload[:len(e.Payload)-8] + "ICAgICB9" }), trusting(trusted), "no configured key verifies it"},
		"no payload":         {changed(func(e *dsse.Envelope) { e.Payload = "?" }), trusting(trusted), "not in Base64"},
		"not signed":         {changed(func(e *dsse.Envelope) { e.Signatures = nil }), trusting(trusted), "no configured key verifies it"},
		"signed badly": {changed(func(e *dsse.Envelope) {
			e.Signatures = []dsse.Signature{{Sig: "?"}, {Sig: ""}, {KeyID: "a hint", Sig: "MAYCAQACAQA="}}
		}), trusting(trusted, other), "no configured key verifies it"},
		"many signatures":         {changed(func(e *dsse.Envelope) { e.Signatures = make([]dsse.Signature, 17) }), trusting(trusted), "17 signatures"},
		"another type of payload": {func(t *testing.T) []byte { return encoded(t, trusted.envelope(t, "text/plain", right)) }, trusting(trusted), "payload has the type"},
		"a type changed afterwards": {func(t *testing.T) []byte {
			e := trusted.envelope(t, "text/plain", right)
			e.PayloadType = payloadTypeInToto
			return encoded(t, e)
		}, trusting(trusted), "no configured key verifies it"},
		"two envelopes, one trusted": {func(t *testing.T) []byte {
			bundle := map[string]any{"dsseEnvelope": other.envelope(t, payloadTypeInToto, right)}
			signed := trusted.envelope(t, payloadTypeInToto, right)
			bundle["payload"], bundle["payloadType"], bundle["signatures"] = signed.Payload, signed.PayloadType, signed.Signatures
			return encoded(t, bundle)
		}, trusting(trusted), "no configured key verifies it"},
	} {
		t.Run(name, func(t *testing.T) {
			registry.artifact(t, tagOf(reference)+".att", "", typeEnvelope, tt.document(t))
			var warnings []string
			result, err := runIn(t, t.Context(), Request{Image: reference, Registries: tt.config, Warn: func(text string) { warnings = append(warnings, text) }})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(wantDebian, names(t, result)); diff != "" || result.AttestedBy != "" {
				t.Errorf("attested by %q, packages (-want +got):\n%s", result.AttestedBy, diff)
			}
			if all := strings.Join(warnings, "\n"); !strings.Contains(all, tt.says) || len(all) > 4096 {
				t.Errorf("warnings: %.4096q, want %q", all, tt.says)
			}
		})
	}
}

// TestBoundsOfAttestations: what a registry lists is read within bounds, and what it does not serve does not fail the scan.
func TestBoundsOfAttestations(t *testing.T) {
	signer := newSigner(t, "ECDSA")
	descriptors := func(n int, size int64) []v1.Descriptor {
		var list []v1.Descriptor
		for i := range n {
			list = append(list, v1.Descriptor{MediaType: typeEnvelope, ArtifactType: bundleType, Size: size, Digest: hashOf([]byte(fmt.Sprint(i)))})
		}
		return list
	}
	listed := map[string]bool{}
	for _, d := range descriptors(1000, 3) {
		listed[d.Digest.String()] = true
	}
	manifest := func(d []v1.Descriptor) string {
		return string(encoded(t, v1.Manifest{SchemaVersion: 2, Config: d[0], Layers: d}))
	}
	index := func(d []v1.Descriptor) string {
		return string(encoded(t, v1.IndexManifest{SchemaVersion: 2, Manifests: d}))
	}
	for name, tt := range map[string]struct {
		part, body string
		status     int
		says       string
		most       int64
	}{
		"many layers":      {".att", manifest(descriptors(1000, 3)), 200, "more attestations than the limit of 20", maxAttestations},
		"many referrers":   {"/referrers/", index(descriptors(1000, 3)), 200, "more attestations than the limit of 20", maxAttestations},
		"a large layer":    {".att", manifest(descriptors(1, maxAttestationBytes+1)), 200, "more than the limit", 0},
		"a negative size":  {".att", manifest(descriptors(1, -1)), 200, "more than the limit", 0},
		"a large list":     {"/referrers/", strings.Repeat(" ", maxManifestBytes+1), 200, "larger than the limit", 0},
		"no manifest":      {".att", "<html>", 200, "cannot be read", 0},
		"no list":          {"/referrers/", "<html>", 200, "cannot be read", 0},
		"no access":        {"/referrers/", "", 403, "403", 0},
		"trouble":          {".att", "", 500, "500", 0},
		"another document": {"/blobs/" + hashOf([]byte("0")).String(), "xyz", 200, "modified in transit", 1},
	} {
		t.Run(name, func(t *testing.T) {
			registry := newRegistry(t)
			reference := registry.push(t, debian(t))
			var read atomic.Int64
			registry.guard = func(w http.ResponseWriter, r *http.Request) bool {
				if listed[r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]] {
					read.Add(1)
				}
				status, body := tt.status, tt.body
				switch {
				case strings.Contains(r.URL.Path, tt.part):
				case name == "another document" && strings.HasSuffix(r.URL.Path, ".att"):
					status, body = http.StatusOK, manifest(descriptors(1, 3))
				default:
					return true
				}
				w.WriteHeader(status)
				_, _ = io.WriteString(w, body)
				return false
			}
			var warnings []string
			request := Request{Image: reference, Registries: trusting(signer), Warn: func(text string) { warnings = append(warnings, text) }}
			result, err := runIn(t, t.Context(), request)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(wantDebian, names(t, result)); diff != "" || read.Load() > tt.most {
				t.Errorf("%d documents were read; packages (-want +got):\n%s", read.Load(), diff)
			}
			if all := strings.Join(warnings, "\n"); !strings.Contains(all, tt.says) || len(warnings) > maxAttestations+1 {
				t.Errorf("%d warnings: %.2048q, want %q", len(warnings), all, tt.says)
			}
		})
	}
}
