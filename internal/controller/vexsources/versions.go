package vexsources

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	scannerv1alpha1 "github.com/scanner-operator/scanner-operator/api/scanner/v1alpha1"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// subjectLength is the length of a subject. No version of an earlier version of the operator has a slash there.
var subjectLength = base64.RawURLEncoding.EncodedLen(sha256.Size)

// subjectOf identifies which documents are meant and trusted: by which object, where they are, in which formats, and with which signature. Those of another
// subject are not those of the source, whatever its name is.
func subjectOf(source *scannerv1alpha1.VEXSource) (string, error) {
	spec := &source.Spec
	content, err := json.Marshal(struct {
		UID       types.UID
		HTTP      *scannerv1alpha1.VEXSourceHTTP
		OCI       *scannerv1alpha1.VEXSourceOCI
		ConfigMap *scannerv1alpha1.VEXSourceConfigMap
		Formats   []scannerv1alpha1.VEXFormat
		Signature *scannerv1alpha1.VEXSourceSignature
	}{source.UID, spec.HTTP, spec.OCI, spec.ConfigMap, slices.Sorted(slices.Values(spec.Formats)), spec.Signature})
	if err != nil {
		return "", fmt.Errorf("identify the documents of %s: %w", source.Name, err)
	}
	digest := sha256.Sum256(content)
	return base64.RawURLEncoding.EncodeToString(digest[:]), nil
}

// storedVersion is the version that the store keeps: that of the fetcher behind the subject.
func storedVersion(subject, version string) string { return subject + "/" + version }

// splitVersion returns the parts of a version that the store has. The subject is "" if an earlier version of the operator has stored it.
func splitVersion(stored string) (subject, version string) {
	subject, version, found := strings.Cut(stored, "/")
	if !found || len(subject) != subjectLength {
		return "", ""
	}
	return subject, version
}

// isOf reports whether stored documents are those of a subject. An earlier version of the operator did not store the subject: then they are if that version has fetched valid
// ones for the spec as it is now. Otherwise they can be those of the spec before.
func isOf(stored *store.VEXSource, subject string, source *scannerv1alpha1.VEXSource) bool {
	known, _ := splitVersion(stored.Version)
	return known == subject || known == "" && valid(source)
}
