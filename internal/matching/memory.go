package matching

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/scanner-operator/scanner-operator/internal/match"
)

const (
	// DefaultDecodeMemory is the limit of Matcher.LimitDecoding when nothing else is asked for.
	DefaultDecodeMemory = 1 << 30
	// decodePatience bounds the wait for other documents to be decoded.
	decodePatience = 20 * time.Second
	// byteCost, elementCost and memberCost are how many bytes of memory decoding takes at most for each byte, each element of an array
	// and each member of an object. They were measured with documents that consist of little else.
	byteCost, elementCost, memberCost = 4, 340, 100
)

// ErrBusy says that a document had to wait too long for others to be decoded. Sending it again later helps.
var ErrBusy = errors.New("too many large documents are being decoded at the same time; try again")

// LimitDecoding bounds the memory that documents of all kinds take together while they are decoded and saved, in bytes, by an estimate
// from their sizes. One that takes more alone is refused. It must not be called once anything was ingested.
func (a *Matcher) LimitDecoding(memory int64) {
	a.decodeMemory, a.decodes = memory, semaphore.NewWeighted(memory)
}

// reserve waits until the memory is free that decoding a document takes. It returns ErrBusy after decodePatience, and ErrRefused for a
// document that takes more than all.
func (a *Matcher) reserve(ctx context.Context, document weight) (release func(), err error) {
	memory := document.memory()
	if memory > a.decodeMemory {
		return nil, fmt.Errorf("%w: decoding its %d bytes with %d values takes about %d MiB of memory, more than the limit of %d MiB; increase the memory limit of the operator",
			ErrRefused, document.bytes, document.elements+document.members, memory>>20, a.decodeMemory>>20)
	}
	bounded, cancel := context.WithTimeout(ctx, a.patience)
	defer cancel()
	if err := a.decodes.Acquire(bounded, memory); err != nil {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("wait for other documents: %w", ctx.Err())
		}
		return nil, ErrBusy
	}
	return func() { a.decodes.Release(memory) }, nil
}

// weight is what the memory depends on that decoding a document takes.
type weight struct {
	xml bool
	// elements are those of arrays, members those of objects; in XML, tags and attributes.
	bytes, elements, members int64
	// Where the document was left: in a string, behind a backslash, in arrays (1) and objects (0), of which the last bit is the innermost.
	inString, escaped bool
	nesting           uint64
}

func (w *weight) memory() int64 {
	return w.bytes*byteCost + w.elements*elementCost + w.members*memberCost
}

// Write adds a part of the document. What is not well-formed is weighed anyhow, and refused when it is decoded.
func (w *weight) Write(part []byte) (int, error) {
	w.bytes += int64(len(part))
	if w.xml {
		w.elements += int64(bytes.Count(part, []byte("<")))
		w.members += int64(bytes.Count(part, []byte("=")))
		return len(part), nil
	}
	for _, c := range part {
		switch {
		case w.escaped:
			w.escaped = false
		case w.inString:
			w.escaped, w.inString = c == '\\', c != '"'
		default:
			w.structure(c)
		}
	}
	return len(part), nil
}

// structure adds a byte outside of strings.
func (w *weight) structure(c byte) {
	switch c {
	case '"':
		w.inString = true
	case '[':
		w.nesting = w.nesting<<1 | 1
		w.elements++
	case '{':
		w.nesting <<= 1
		w.members++
	case ']', '}':
		w.nesting >>= 1
	case ',':
		if w.nesting&1 == 1 {
			w.elements++
		} else {
			w.members++
		}
	}
}

// weigh reads a document to its end, or to where decoding refuses it as too large.
func weigh(mediaType string, document io.Reader) (weight, error) {
	w := weight{xml: mediaType == match.MediaTypeCycloneDXXML}
	_, err := io.Copy(&w, io.LimitReader(document, match.DefaultDecodeLimits().Bytes+1))
	return w, err
}
