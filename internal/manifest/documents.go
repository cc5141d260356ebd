package manifest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// documentReader splits a text into YAML documents. It knows separators that are followed by a comment or by content, which the reader of Kubernetes
// takes for a part of the document before: what follows would be ignored.
type documentReader struct {
	r *bufio.Reader
	// rest is what follows a separator in the same line.
	rest  []byte
	read  int
	ended bool
}

// next returns the next document that is not empty, or io.EOF.
func (d *documentReader) next() ([]byte, error) {
	for {
		document, err := d.document()
		if err != nil || len(bytes.TrimSpace(document)) > 0 {
			return document, err
		}
	}
}

func (d *documentReader) document() ([]byte, error) {
	if d.ended {
		return nil, io.EOF
	}
	document := d.rest
	d.rest = nil
	for begins := true; ; {
		part, err := d.r.ReadSlice('\n')
		if d.read += len(part); d.read > MaxBytes {
			return nil, fmt.Errorf("the text has more than %d bytes", MaxBytes)
		}
		if rest, found := separated(part); begins && found {
			d.rest = bytes.Clone(rest)
			return document, nil
		}
		if document = append(document, part...); len(document) > MaxDocumentBytes {
			return nil, fmt.Errorf("it has more than %d bytes", MaxDocumentBytes)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			begins = false
			continue
		case errors.Is(err, io.EOF):
			d.ended = true
			return document, nil
		case err != nil:
			return nil, err
		}
		begins = true
	}
}

// separated returns what follows the separator of documents at the beginning of a line.
func separated(line []byte) (rest []byte, found bool) {
	rest, found = bytes.CutPrefix(line, []byte("---"))
	if !found {
		rest, found = bytes.CutPrefix(line, []byte("..."))
	}
	return rest, found && (len(rest) == 0 || bytes.IndexByte([]byte(" \t\r\n"), rest[0]) >= 0)
}
