package catalog

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/registries"
	"github.com/scanner-operator/scanner-operator/internal/truncate"
)

const (
	// documentTimeout bounds one fetch of documents.
	documentTimeout = 2 * time.Minute
	// maxSignatureBytes bounds a detached signature.
	maxSignatureBytes = 16 << 10
	// maxVersion bounds an ETag in bytes; a longer one is not used.
	maxVersion = 200
)

// predicatesVEX are the predicate types of attestations that are OpenVEX documents.
var predicatesVEX = []string{"https://openvex.dev/ns", "https://openvex.dev/ns/v0.2.0", "https://openvex.dev/ns/v0.0.1"}

// The errors of Documents.
var (
	// ErrNotModified says that the documents are those of the version in the request.
	ErrNotModified = errors.New("not modified")
	// ErrSignature says that no signature of a document verifies.
	ErrSignature = errors.New("the signature does not verify")
)

// Documents fetches documents that are not images, by HTTP or from registries, as images are pulled: without access to the machine's own services
// and to those of its cloud.
type Documents struct {
	// Registries says how to reach registries, and which proxy and certificate authorities to use in general.
	Registries registries.Config
	// PlainHTTP lists registries, as host or host:port, that may be asked without TLS; loopback always may.
	PlainHTTP []string
	// MaxBytes bounds each document.
	MaxBytes int64
	// Credentials are Docker configuration files, which are read for each fetch. Their entries are used for the hosts that they name without wildcards:
	// anyone who chooses what is fetched could choose a host that a wildcard matches.
	Credentials []string
}

// DocumentRequest says what to fetch.
type DocumentRequest struct {
	// URL is that of a document, with the scheme https, or Reference that of an artifact, as REGISTRY/REPOSITORY and a tag or a digest.
	URL, Reference string
	// CABundle holds certificate authorities in PEM that are trusted for URL as well.
	CABundle string
	// Key is what documents have to be signed with, nil if they need not be. The signature of a URL is at the same URL with the suffix ".sig".
	Key *registries.Key
	// Version is that of the documents that are known, "" for none.
	Version string
}

// Document is a document that was fetched.
type Document struct {
	Name    string
	Content []byte
}

// Fetch returns documents with their version, which is "" if it is not known. The error is ErrNotModified if they have the version of the request,
// and ErrSignature if a signature does not verify. It contains no secret.
func (d *Documents) Fetch(ctx context.Context, request DocumentRequest) (documents []Document, version string, err error) {
	ctx, cancel := context.WithTimeout(ctx, documentTimeout)
	defer cancel()
	if request.Reference != "" {
		return d.artifact(ctx, &request)
	}
	return d.download(ctx, &request)
}

// download fetches the document at a URL.
func (d *Documents) download(ctx context.Context, request *DocumentRequest) ([]Document, string, error) {
	target, err := url.Parse(request.URL)
	if err != nil || target.Scheme != "https" || target.Hostname() == "" || target.User != nil {
		return nil, "", errors.New("the URL is not https://HOST/PATH without a user name")
	}
	config := d.Registries
	if request.CABundle != "" {
		config.CABundle += "\n" + request.CABundle
	}
	client, err := newHTTPClient(hostRules{registry: target.Host, what: "the host"}, config, "")
	if err != nil {
		return nil, "", err
	}
	defer client.CloseIdleConnections()
	access := credentialsFor(d.Credentials, target.Host, strings.Trim(target.Path, "/"), true)
	if access.problem != nil {
		return nil, "", access.problem
	}
	from := origin{client, access.found[0].basic()}
	content, header, err := from.get(ctx, target.String(), request.Version, d.MaxBytes)
	if err != nil {
		return nil, "", err
	}
	if request.Key != nil {
		signed := *target
		signed.Path, signed.RawPath = target.Path+".sig", ""
		text, _, err := from.get(ctx, signed.String(), "", maxSignatureBytes)
		if err != nil {
			return nil, "", fmt.Errorf("%w: fetch the signature: %w", ErrSignature, err)
		}
		signature, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(text)))
		if err != nil || !request.Key.Verify(content, signature) {
			return nil, "", fmt.Errorf("%w: the key in spec.signature did not make the signature of the document", ErrSignature)
		}
	}
	return []Document{{Name: "document", Content: content}}, versionOf(header), nil
}

// origin is a server of documents.
type origin struct {
	client *http.Client
	// authorization is a header, "" for none. Redirects to other hosts do not get it.
	authorization string
}

// get reads a document of at most limit bytes.
func (s origin) get(ctx context.Context, target, version string, limit int64) ([]byte, http.Header, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return nil, nil, err
	}
	request.Header.Set("User-Agent", userAgent)
	request.Header.Set("Accept", "application/json, */*;q=0.5")
	if modified, found := strings.CutPrefix(version, "modified "); found {
		request.Header.Set("If-Modified-Since", modified)
	} else if version != "" {
		request.Header.Set("If-None-Match", version)
	}
	if s.authorization != "" {
		request.Header.Set("Authorization", s.authorization)
	}
	response, err := s.client.Do(request)
	if err != nil {
		return nil, nil, withoutURL(err)
	}
	defer func() { _ = response.Body.Close() }()
	switch {
	case response.StatusCode == http.StatusNotModified && version != "":
		return nil, nil, ErrNotModified
	case response.StatusCode != http.StatusOK:
		return nil, nil, fmt.Errorf("the server responded with %d %s", response.StatusCode, http.StatusText(response.StatusCode))
	}
	content, err := io.ReadAll(io.LimitReader(response.Body, limit+1))
	if err != nil {
		return nil, nil, fmt.Errorf("read the response: %w", err)
	}
	if int64(len(content)) > limit {
		return nil, nil, fmt.Errorf("the response is larger than the limit of %d bytes", limit)
	}
	return content, response.Header, nil
}

// versionOf is the version that a response states.
func versionOf(header http.Header) string {
	version := header.Get("ETag")
	if modified := header.Get("Last-Modified"); version == "" && modified != "" {
		version = "modified " + modified
	}
	if len(version) > maxVersion {
		return ""
	}
	return version
}

// artifact fetches the documents of an artifact: its layers in JSON, and OpenVEX attestations that are its layers or its referrers.
func (d *Documents) artifact(ctx context.Context, request *DocumentRequest) ([]Document, string, error) {
	reference, err := name.ParseReference(request.Reference)
	if err != nil {
		return nil, "", fmt.Errorf("%q is not a reference: %w", truncate.Ellipsis(request.Reference, 300), err)
	}
	repository := reference.Context()
	rules := hostRules{registry: repository.RegistryStr(), plainHTTP: slices.Concat(d.PlainHTTP, d.Registries.PlainHTTP())}
	client, err := newHTTPClient(rules, d.Registries, "")
	if err != nil {
		return nil, "", err
	}
	defer client.CloseIdleConnections()
	access := credentialsFor(d.Credentials, repository.RegistryStr(), repository.RepositoryStr(), true)
	if access.problem != nil {
		return nil, "", access.problem
	}
	var refusal error
	for _, c := range access.found {
		registry := &registryClient{http: client, rules: rules, repository: repository, scheme: "https", credential: c, sleep: sleepContext}
		documents, version, err := d.artifactFrom(ctx, registry, reference, request)
		if ReasonOf(err) != model.ReasonImagePullDenied {
			return documents, version, err
		}
		if refusal == nil {
			refusal = err
		}
	}
	return nil, "", refusal
}

// artifactFrom fetches the documents of an artifact with one credential.
func (d *Documents) artifactFrom(ctx context.Context, registry *registryClient, reference name.Reference, request *DocumentRequest) ([]Document, string, error) {
	s := &attestationSearch{client: registry, predicates: predicatesVEX}
	var skipped []error
	s.skipped = func(err error) { skipped = append(skipped, err) }
	layers, err := s.documentLayers(ctx, reference)
	if err != nil {
		return nil, "", err
	}
	if len(skipped) > 0 {
		// What could not be read may be newer than the rest.
		return nil, "", errors.Join(skipped...)
	}
	digests := make([]string, len(layers))
	for i := range layers {
		digests[i] = layers[i].Digest.String()
	}
	slices.Sort(digests)
	version := digestOf([]byte(strings.Join(digests, "\n")))
	if len(layers) > 0 && version == request.Version {
		return nil, "", ErrNotModified
	}
	var documents []Document
	for i := range layers {
		content, err := s.document(ctx, layers[i], request.Key, d.MaxBytes)
		switch {
		case err != nil:
			return nil, "", fmt.Errorf("the layer %s: %w", layers[i].Digest, err)
		case content != nil:
			documents = append(documents, Document{Name: layers[i].Digest.String(), Content: content})
		}
	}
	if len(documents) == 0 {
		return nil, "", errors.New("the artifact has no layer in JSON and no attestation with an OpenVEX document")
	}
	return documents, version, nil
}

func digestOf(content []byte) string {
	digest, _, err := v1.SHA256(bytes.NewReader(content))
	if err != nil {
		return ""
	}
	return digest.String()
}

// documentLayer is a layer that may be a document.
type documentLayer struct {
	v1.Descriptor
	// attachedTo is the digest of the artifact that it is attached to as an attestation, "" for a layer of the artifact itself.
	attachedTo string
}

// documentLayers lists what may be a document, each once.
func (s *attestationSearch) documentLayers(ctx context.Context, reference name.Reference) ([]documentLayer, error) {
	raw, _, err := s.client.read(ctx, "manifests/"+reference.Identifier(), acceptedManifests, maxManifestBytes)
	if err != nil {
		return nil, err
	}
	digest := digestOf(raw)
	if wanted, err := v1.NewHash(reference.Identifier()); err == nil && wanted.String() != digest {
		return nil, failf(model.ReasonCatalogFailed, "the manifest has the digest %s instead of %s", digest, wanted)
	}
	var layers []documentLayer
	for _, list := range []func(context.Context, string) ([]v1.Descriptor, error){s.referrers, s.tagged} {
		more, err := list(ctx, digest)
		if err != nil {
			return nil, err
		}
		for i := range more {
			layers = append(layers, documentLayer{more[i], digest})
		}
	}
	if manifest, err := v1.ParseManifest(bytes.NewReader(raw)); err == nil {
		for i := range manifest.Layers {
			if d := &manifest.Layers[i]; (isJSON(d.MediaType) || isAttestation(string(d.MediaType))) && s.mayHold(d) {
				layers = append(layers, documentLayer{Descriptor: *d})
			}
		}
	}
	seen := map[v1.Hash]bool{}
	layers = slices.DeleteFunc(layers, func(d documentLayer) bool {
		again := seen[d.Digest]
		seen[d.Digest] = true
		return again
	})
	if len(layers) > maxAttestations {
		return nil, errManyAttestations
	}
	return layers, nil
}

func isJSON(mediaType types.MediaType) bool { return strings.HasSuffix(string(mediaType), "json") }

// document returns the document in a layer, nil if the layer is an attestation of something else.
func (s *attestationSearch) document(ctx context.Context, layer documentLayer, key *registries.Key, limit int64) ([]byte, error) {
	if layer.Size > 2*limit {
		return nil, fmt.Errorf("it has %d bytes, more than the limit of %d", layer.Size, 2*limit)
	}
	content, err := s.blob(ctx, layer.Descriptor)
	if err != nil {
		return nil, err
	}
	if !isAttestation(string(layer.MediaType)) {
		if key != nil {
			return nil, fmt.Errorf("%w: it is not an attestation; with a key, documents must be signed attestations", ErrSignature)
		}
		return content, nil
	}
	payload := content // BuildKit does not put statements into envelopes.
	if layer.MediaType != typeInToto || key != nil {
		var signed *envelope
		if signed, payload, err = readEnvelope(content); err != nil {
			return nil, err
		}
		if key != nil {
			if _, err := signed.verify(payload, []registries.Key{*key}); err != nil {
				return nil, fmt.Errorf("%w: the key in spec.signature did not sign the attestation", ErrSignature)
			}
		}
	}
	var in statement
	if err := json.Unmarshal(payload, &in); err != nil || !slices.Contains(statementTypes, in.Type) {
		return nil, errors.New("its payload is no in-toto statement in JSON")
	}
	if !slices.Contains(predicatesVEX, in.PredicateType) {
		return nil, nil
	}
	if layer.attachedTo != "" && !in.isAbout(layer.attachedTo) {
		// Who may push could attach what was signed about another artifact.
		return nil, fmt.Errorf("the attestation is not about the artifact that it is attached to: none of its subjects is %s; attach it to its subject, or attest the document for this artifact", layer.attachedTo)
	}
	return in.Predicate, nil
}
