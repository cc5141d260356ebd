package store

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

// FindingKeys are keys of findings in ascending order. Each stands for a vulnerability and a package as long as the database has this package. In JSON they
// are Base64.
type FindingKeys []uint64

// keyBytes is the length of a key before it is encoded.
const keyBytes = 8

// MarshalText implements encoding.TextMarshaler.
func (k FindingKeys) MarshalText() ([]byte, error) {
	content := make([]byte, 0, keyBytes*len(k))
	for _, key := range k {
		content = binary.BigEndian.AppendUint64(content, key)
	}
	return base64.StdEncoding.AppendEncode(nil, content), nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (k *FindingKeys) UnmarshalText(text []byte) error {
	content, err := base64.StdEncoding.AppendDecode(nil, text)
	if err != nil || len(content)%keyBytes != 0 {
		return fmt.Errorf("%d characters are not the keys of findings", len(text))
	}
	*k = nil
	for ; len(content) > 0; content = content[keyBytes:] {
		*k = append(*k, binary.BigEndian.Uint64(content))
	}
	return nil
}

// Has reports whether a key is one of them.
func (k FindingKeys) Has(key uint64) bool {
	_, found := slices.BinarySearch(k, key)
	return found
}

// OverdueFinding is a finding of an image that is overdue.
type OverdueFinding struct {
	// Key is that of FindingKeys. Several records of a vulnerability may have the same.
	Key      uint64
	Severity model.Severity
}
