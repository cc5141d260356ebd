package vulndb

import (
	"fmt"
	"math"

	"github.com/cespare/xxhash/v2"
)

// field is a value of a row. Its text is valid as long as the row.
type field struct {
	kind  fieldKind
	bits  uint64
	bytes []byte
}

// fieldKind is what a field holds: nothing, a number in bits, or text in bytes.
type fieldKind uint8

const (
	null fieldKind = iota
	integer
	float
	content
)

// Scan implements sql.Scanner.
func (f *field) Scan(value any) error {
	switch v := value.(type) {
	case nil:
		*f = field{}
	case int64:
		*f = field{kind: integer, bits: uint64(v)} //nolint:gosec // the bits of it
	case float64:
		*f = field{kind: float, bits: math.Float64bits(v)}
	case string:
		*f = field{kind: content, bytes: append(f.bytes[:0], v...)}
	case []byte:
		*f = field{kind: content, bytes: append(f.bytes[:0], v...)}
	default:
		return fmt.Errorf("a value of the type %T", value)
	}
	return nil
}

// number is an ID in a row, 0 when there is none.
func (f *field) number() int64 {
	if f.kind != integer {
		return 0
	}
	return int64(f.bits) //nolint:gosec // the bits of it
}

// text is a name in a row, empty when there is none.
func (f *field) text() []byte {
	if f.kind != content {
		return nil
	}
	return f.bytes
}

// hash is the digest of the value.
func (f *field) hash() uint64 {
	switch f.kind {
	case null:
		return 0
	case content:
		return xxhash.Sum64(f.bytes)
	default:
		return mix(uint64(f.kind), f.bits)
	}
}
