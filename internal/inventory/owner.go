package inventory

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

// OwnerKeys are the keys of labels and annotations that name the owner of a workload, in order of preference.
type OwnerKeys []string

// Of returns the owner that the metadata of an object names: the value of the first key with a value, of its label rather than of its annotation. It is
// "" if there is none. A value that cannot be the name of an owner counts as none; invalid lists the keys of such values.
func (k OwnerKeys) Of(labels, annotations map[string]string) (owner string, invalid []string) {
	for _, key := range k {
		for _, values := range []map[string]string{labels, annotations} {
			switch value := strings.TrimSpace(values[key]); {
			case value == "":
			case validOwner(value):
				return value, invalid
			default:
				invalid = append(invalid, key)
			}
		}
	}
	return "", invalid
}

// validOwner reports whether a value is text of at most model.MaxOwner bytes without control characters and invisible ones.
func validOwner(value string) bool {
	return len(value) <= model.MaxOwner && utf8.ValidString(value) && strings.IndexFunc(value, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
}
