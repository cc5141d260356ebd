package catalog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/anchore/syft/syft/cataloging"
	"github.com/anchore/syft/syft/format/syftjson"
	"github.com/anchore/syft/syft/pkg"
	"github.com/anchore/syft/syft/sbom"
	"github.com/anchore/syft/syft/source"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/registries"
)

const (
	// attestationTimeout bounds the search for an attested SBOM; the image is pulled afterwards.
	attestationTimeout = 2 * time.Minute
	// maxAttestations bounds the documents that are read for an image, maxAttestationBytes the size of one, and maxAttestationTotal that of all.
	maxAttestations     = 20
	maxAttestationBytes = 32 << 20
	maxAttestationTotal = 64 << 20
)

// The types of attestations in registries. Those of Sigstore bundles differ in their version only.
const (
	typeEnvelope = "application/vnd.dsse.envelope.v1+json"
	typeInToto   = "application/vnd.in-toto+json"
	typeBundle   = "application/vnd.dev.sigstore.bundle"
)

var errManyAttestations = fmt.Errorf("it has more attestations than the limit of %d", maxAttestations)

// typeAnnotations name the predicate type of an attestation. They are not signed, and only spare a download.
var typeAnnotations = []string{"predicateType", "dev.sigstore.bundle.predicateType", "in-toto.io/predicate-type"}

// AttestedBy is the key in the configuration of an SBOM's descriptor under which the ID of the key is that verified the SBOM.
const AttestedBy = "attestedBy"

// attestedSBOM is an SBOM that somebody else made of an image.
type attestedSBOM struct {
	content  []byte
	packages int
	// key is the ID of the registries.Key that verified it.
	key string
}

// findAttested returns the SBOM that is attested in the repository from which an image is pulled, nil if there is none whose signature and
// content are right. The key must be trusted for the repository of the image, also if it is pulled from another one: a user who can create a
// pod named that. Nothing that goes wrong fails the scan: the image is pulled.
func findAttested(ctx context.Context, request Request, img *resolved) *attestedSBOM {
	if img.registry == nil || len(request.Registries.Attestations) == 0 {
		return nil
	}
	reference, err := name.ParseReference(request.Image)
	if err != nil {
		return nil
	}
	search := &attestationSearch{
		request: request, img: img, predicates: []string{predicateSyft, predicateCosign, predicateSPDX}, keys: request.Registries.Keys(reference.Context()), client: img.registry,
	}
	if len(search.keys) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, attestationTimeout)
	defer cancel()
	for _, digest := range img.digests() {
		// Both the referrers of OCI and the tag that cosign gave to attestations before.
		for _, list := range []func(context.Context, string) ([]v1.Descriptor, error){search.referrers, search.tagged} {
			descriptors, err := list(ctx, digest)
			if err != nil {
				search.warn(err)
			}
			for i := range descriptors {
				found, err := search.read(ctx, descriptors[i])
				if err == nil {
					return found
				}
				search.warn(err)
				if errors.Is(err, errManyAttestations) {
					return nil
				}
			}
		}
	}
	return nil
}

// digests are those that a statement about the image may name: that of its manifest, and that of the index in the reference.
func (r *resolved) digests() []string {
	digests := []string{r.manifestDigest}
	for _, repoDigest := range r.repoDigests {
		if _, digest, _ := strings.Cut(repoDigest, "@"); !slices.Contains(digests, digest) {
			digests = append(digests, digest)
		}
	}
	return digests
}

type attestationSearch struct {
	request Request
	img     *resolved
	keys    []registries.Key
	client  *registryClient
	// predicates are the types of predicates that are looked for.
	predicates []string
	// skipped is called with why something is left out; by default the request is told.
	skipped func(error)
	// documents and bytes count what was read.
	documents int
	bytes     int64
}

func (s *attestationSearch) warn(err error) {
	if s.skipped != nil {
		s.skipped(err)
		return
	}
	s.request.warn("No attested SBOM of %s: %v", s.request.Image, err)
}

// referrers lists the attestations that refer to a digest, by the API of OCI or by its tag for registries without it.
func (s *attestationSearch) referrers(ctx context.Context, digest string) ([]v1.Descriptor, error) {
	raw, _, err := s.client.read(ctx, "referrers/"+digest, string(types.OCIImageIndex), maxManifestBytes)
	if err != nil && ReasonOf(err) == model.ReasonImageNotFound {
		raw, _, err = s.client.read(ctx, "manifests/"+strings.Replace(digest, ":", "-", 1), string(types.OCIImageIndex), maxManifestBytes)
	}
	if err != nil {
		return nil, notFoundIsNone(err)
	}
	index, err := v1.ParseIndexManifest(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("the list of referrers of %s cannot be read: %w", digest, err)
	}
	var found []v1.Descriptor
	for i := range index.Manifests {
		referrer := &index.Manifests[i]
		if !isAttestation(referrer.ArtifactType) || !s.mayHold(referrer) {
			continue
		}
		if err := s.admit(); err != nil {
			return found, err
		}
		raw, _, err := s.client.read(ctx, "manifests/"+referrer.Digest.String(), string(types.OCIManifestSchema1), maxManifestBytes)
		if err == nil {
			err = verify(raw, referrer.Digest, "manifest of an attestation")
		}
		var layers []v1.Descriptor
		if err == nil {
			layers, err = s.layersOf(raw)
		}
		if err != nil {
			s.warn(err)
		}
		found = append(found, layers...)
	}
	return found, nil
}

// tagged lists the attestations in the image that cosign tags sha256-DIGEST.att.
func (s *attestationSearch) tagged(ctx context.Context, digest string) ([]v1.Descriptor, error) {
	raw, _, err := s.client.read(ctx, "manifests/"+strings.Replace(digest, ":", "-", 1)+".att", acceptedManifests, maxManifestBytes)
	if err != nil {
		return nil, notFoundIsNone(err)
	}
	return s.layersOf(raw)
}

// notFoundIsNone leaves out the error of a list that does not exist.
func notFoundIsNone(err error) error {
	if ReasonOf(err) == model.ReasonImageNotFound {
		return nil
	}
	return err
}

// layersOf lists the attestations in a manifest.
func (s *attestationSearch) layersOf(raw []byte) ([]v1.Descriptor, error) {
	manifest, err := v1.ParseManifest(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("the manifest of an attestation cannot be read: %w", err)
	}
	return slices.DeleteFunc(manifest.Layers, func(d v1.Descriptor) bool { return !isAttestation(string(d.MediaType)) || !s.mayHold(&d) }), nil
}

func isAttestation(mediaType string) bool {
	return mediaType == typeEnvelope || mediaType == typeInToto || strings.HasPrefix(mediaType, typeBundle)
}

// mayHold reports whether an attestation has one of the predicates that are looked for, or does not say.
func (s *attestationSearch) mayHold(d *v1.Descriptor) bool {
	for _, key := range typeAnnotations {
		if predicate := d.Annotations[key]; predicate != "" {
			return slices.Contains(s.predicates, predicate)
		}
	}
	return true
}

// admit counts one more document that is read.
func (s *attestationSearch) admit() error {
	if s.documents++; s.documents > maxAttestations {
		return errManyAttestations
	}
	return nil
}

// read returns the SBOM in one attestation.
func (s *attestationSearch) read(ctx context.Context, descriptor v1.Descriptor) (*attestedSBOM, error) {
	content, err := s.blob(ctx, descriptor)
	if err != nil {
		return nil, err
	}
	subject, document, key, err := openEnvelope(content, s.keys)
	if err != nil {
		return nil, fmt.Errorf("the attestation %s is not used: %w", descriptor.Digest, err)
	}
	if !slices.Contains(s.img.digests(), subject) {
		return nil, fmt.Errorf("the attestation %s is not used: it is about %s", descriptor.Digest, quoteText(subject, 100))
	}
	found, err := s.adopt(document, subject, key.ID)
	if err != nil {
		return nil, fmt.Errorf("the attestation %s is not used: %w", descriptor.Digest, err)
	}
	return found, nil
}

// blob reads an attestation.
func (s *attestationSearch) blob(ctx context.Context, descriptor v1.Descriptor) ([]byte, error) {
	if err := s.admit(); err != nil {
		return nil, err
	}
	if descriptor.Size < 0 || descriptor.Size > maxAttestationBytes || s.bytes+descriptor.Size > maxAttestationTotal {
		return nil, fmt.Errorf("the attestation %s has %d bytes, more than the limit of %d, or of %d for all", descriptor.Digest, descriptor.Size, maxAttestationBytes, maxAttestationTotal)
	}
	s.bytes += descriptor.Size
	content, _, err := s.client.read(ctx, "blobs/"+descriptor.Digest.String(), "", descriptor.Size)
	if err != nil {
		return nil, err
	}
	return content, verify(content, descriptor.Digest, "attestation")
}

// adopt makes of a document of Syft what a scan of the image would have made.
func (s *attestationSearch) adopt(document []byte, subject, key string) (found *attestedSBOM, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("syft panicked: %v\n%s", p, debug.Stack())
		}
	}()
	bom, _, _, err := syftjson.NewFormatDecoder().Decode(bytes.NewReader(document))
	if err != nil {
		return nil, fmt.Errorf("it holds no SBOM in the JSON format of Syft: %w", err)
	}
	metadata, isImage := bom.Source.Metadata.(source.ImageMetadata)
	if !isImage {
		return nil, fmt.Errorf("its SBOM describes a %T, not an image", bom.Source.Metadata)
	}
	// A statement about an index may hold the SBOM of any image in it.
	if subject != s.img.manifestDigest && metadata.ManifestDigest != s.img.manifestDigest {
		return nil, fmt.Errorf("it is about the index %s, and its SBOM describes the image %s instead of %s",
			subject, quoteText(metadata.ManifestDigest, 100), s.img.manifestDigest)
	}
	metadata.UserInput, metadata.ManifestDigest = s.request.Image, s.img.manifestDigest
	metadata.RepoDigests, metadata.Tags, metadata.RawConfig = s.img.repoDigests, s.img.tags, s.img.rawConfig
	bom.Source.Metadata = metadata
	bom.Source.Name, bom.Source.Version, _ = strings.Cut(s.request.Image, "@")
	bom.Descriptor.Configuration = map[string]any{AttestedBy: key}
	dropWithoutVersion(bom)
	slim(bom)
	content, err := encode(bom)
	if err != nil {
		return nil, err
	}
	return &attestedSBOM{content: content, packages: bom.Artifacts.Packages.PackageCount(), key: key}, nil
}

// dropWithoutVersion drops packages without a version, as syftConfig does.
func dropWithoutVersion(bom *sbom.SBOM) {
	kept := pkg.NewCollection()
	for _, p := range bom.Artifacts.Packages.Sorted() {
		if p.Version != "" && p.Version != cataloging.UnknownStubValue {
			kept.Add(p)
		}
	}
	bom.Artifacts.Packages = kept
}
