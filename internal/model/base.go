package model

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// The annotations and labels of an image that state its base image, as of the OCI Image Format Specification 1.1 (annotations.md).
const (
	AnnotationBaseName   = "org.opencontainers.image.base.name"
	AnnotationBaseDigest = "org.opencontainers.image.base.digest"
)

// MaxLayers bounds the layers of an image that are compared with those of others. Container runtimes mount at most 128.
const MaxLayers = 512

// MaxStated bounds each field of a StatedBase, in bytes.
const MaxStated = 1024

// MaxLayersUnknown bounds the text that says why the layers of an image are not known, in bytes.
const MaxLayersUnknown = 600

// StatedBase is what an image states about the image that it was built on. Both fields are optional.
type StatedBase struct {
	// Name is a reference, such as docker.io/library/debian:12; Digest is that of its manifest, such as sha256:… .
	Name, Digest string
}

// ChainIDs returns the chain ID of each layer, the lowest first, as of the OCI Image Format Specification 1.1 (config.md, "Layer ChainID"): two images with the
// same chain ID have the same layers up to there. It returns none if a diff ID is not a SHA-256 digest, or for more than MaxLayers layers.
func ChainIDs(layers []string) []string {
	if len(layers) > MaxLayers {
		return nil
	}
	const prefix = "sha256:"
	chain := make([]string, len(layers))
	for i, layer := range layers {
		digest, found := strings.CutPrefix(layer, prefix)
		if raw, err := hex.DecodeString(digest); !found || err != nil || len(raw) != sha256.Size || digest != strings.ToLower(digest) {
			return nil
		}
		if chain[i] = layer; i > 0 {
			sum := sha256.Sum256([]byte(chain[i-1] + " " + layer))
			chain[i] = prefix + hex.EncodeToString(sum[:])
		}
	}
	return chain
}
