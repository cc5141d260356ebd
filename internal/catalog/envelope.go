package catalog

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/scanner-operator/scanner-operator/internal/registries"
)

const (
	// payloadTypeInToto is the only type of payload that is read.
	payloadTypeInToto = "application/vnd.in-toto+json"
	// maxSignatures bounds the signatures of an envelope.
	maxSignatures = 16
)

// The predicate types that Syft and cosign give to SBOMs of Syft: that of Syft, and what "syft attest" makes of the formats "syft-json" and
// "json".
const (
	predicateSyft   = "https://syft.dev/bom"
	predicateCosign = "https://cosign.sigstore.dev/attestation/v1"
	predicateSPDX   = "https://spdx.dev/Document"
)

var statementTypes = []string{"https://in-toto.io/Statement/v0.1", "https://in-toto.io/Statement/v1"}

// envelope is one of DSSE. Key IDs are hints that nobody signs; they are not read.
type envelope struct {
	PayloadType string `json:"payloadType"`
	Payload     string `json:"payload"`
	Signatures  []struct {
		Sig string `json:"sig"`
	} `json:"signatures"`
}

// statement is one of in-toto.
type statement struct {
	Type    string `json:"_type"`
	Subject []struct {
		Digest map[string]string `json:"digest"`
	} `json:"subject"`
	PredicateType string          `json:"predicateType"`
	Predicate     json.RawMessage `json:"predicate"`
}

// isAbout reports whether a digest is that of one of the subjects.
func (s *statement) isAbout(digest string) bool {
	for _, subject := range s.Subject {
		if "sha256:"+strings.ToLower(subject.Digest["sha256"]) == digest {
			return true
		}
	}
	return false
}

// openEnvelope verifies that an envelope, or the one in a Sigstore bundle, is signed with one of the keys, and returns what it states about
// the one image that it is about: its digest and a document of Syft.
func openEnvelope(content []byte, keys []registries.Key) (digest string, document []byte, key registries.Key, err error) {
	signed, payload, err := readEnvelope(content)
	if err != nil {
		return "", nil, key, err
	}
	if key, err = signed.verify(payload, keys); err != nil {
		return "", nil, key, err
	}
	digest, document, err = readStatement(payload)
	return digest, document, key, err
}

// readEnvelope returns an envelope, or the one in a Sigstore bundle, and its payload, which is not verified.
func readEnvelope(content []byte) (signed *envelope, payload []byte, err error) {
	var outer struct {
		envelope
		Bundled *envelope `json:"dsseEnvelope"`
	}
	if err := json.Unmarshal(content, &outer); err != nil {
		return nil, nil, errors.New("it is no DSSE envelope in JSON")
	}
	signed = &outer.envelope
	if outer.Bundled != nil {
		signed = outer.Bundled
	}
	if signed.PayloadType != payloadTypeInToto {
		return nil, nil, fmt.Errorf("its payload has the type %q, not %s", quoteText(signed.PayloadType, 100), payloadTypeInToto)
	}
	if payload, err = base64.StdEncoding.DecodeString(signed.Payload); err != nil {
		return nil, nil, errors.New("its payload is not in Base64")
	}
	return signed, payload, nil
}

// verify returns the key with which the payload is signed.
func (e *envelope) verify(payload []byte, keys []registries.Key) (registries.Key, error) {
	if len(e.Signatures) > maxSignatures {
		return registries.Key{}, fmt.Errorf("it has %d signatures, more than the limit of %d", len(e.Signatures), maxSignatures)
	}
	// The pre-authentication encoding of DSSE.
	message := fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(e.PayloadType), e.PayloadType, len(payload), payload)
	for i := range e.Signatures {
		signature, err := base64.StdEncoding.DecodeString(e.Signatures[i].Sig)
		if err != nil {
			continue
		}
		for _, key := range keys {
			if key.Verify(message, signature) {
				return key, nil
			}
		}
	}
	return registries.Key{}, errors.New("no configured key verifies it")
}

// readStatement returns the digest of the one image that a statement is about, and the document of Syft that it holds.
func readStatement(payload []byte) (digest string, document []byte, err error) {
	var s statement
	if err := json.Unmarshal(payload, &s); err != nil {
		return "", nil, errors.New("its payload is no in-toto statement in JSON")
	}
	if !slices.Contains(statementTypes, s.Type) {
		return "", nil, fmt.Errorf("its payload has the type %q, which is no in-toto statement", quoteText(s.Type, 100))
	}
	if len(s.Subject) != 1 {
		return "", nil, fmt.Errorf("it is about %d subjects, expected one image", len(s.Subject))
	}
	digest = "sha256:" + strings.ToLower(s.Subject[0].Digest["sha256"])
	switch s.PredicateType {
	case predicateSyft, predicateSPDX:
		return digest, s.Predicate, nil
	case predicateCosign:
		var custom struct{ Data string }
		if err := json.Unmarshal(s.Predicate, &custom); err != nil {
			return "", nil, errors.New("its predicate holds no text")
		}
		return digest, []byte(custom.Data), nil
	}
	return "", nil, fmt.Errorf("its predicate has the type %q, which is no SBOM of Syft", quoteText(s.PredicateType, 100))
}
