package vex

import (
	"errors"
	"fmt"
	"io"

	"github.com/google/uuid"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/truncate"
)

// Export is what a document states: what was decided about the findings of images.
type Export struct {
	// Author makes the statements, at most 500 bytes.
	Author string
	// Images calls yield for each image until yield fails, and returns that error.
	Images func(yield func(Image) error) error
}

// Image is an image with its findings.
type Image struct {
	Key model.ImageKey
	// Findings calls yield for each finding of the image until yield fails, and returns that error. They include those that nothing was decided
	// about: no statement may match them.
	Findings func(yield func(model.Finding) error) error
	// Chosen says which findings the document is about; nil means all.
	Chosen func(*model.Finding) bool
}

// ErrNoDecision says that there is nothing to state. The formats have no documents without statements.
var ErrNoDecision = errors.New("no decision applies to these findings")

// tool names this program in documents.
const tool = "scanner-operator"

// namespace is the UUID of the version 5 UUIDs of documents.
var namespace = uuid.NewSHA1(uuid.NameSpaceURL, []byte("https://scanner.zoltankerezsi.xyz/vex"))

// Write writes a document in the format OpenVEX or CycloneDX that states what was decided about findings. Read reads it, and its statements give
// the same decisions for the same images. The same decisions give the same bytes, whatever the order of images and findings. A decision is left
// out if no statement can express it without being about other findings, too. The error is ErrNoDecision if nothing is left, and wraps ErrLimit
// if Read would refuse the document; then nothing was written.
func Write(w io.Writer, format Format, export Export) error {
	c := &collector{limits: Limits{}.withDefaults(), images: map[string]*writtenImage{}, statements: map[statementKey]products{}}
	if err := export.Images(c.add); err != nil {
		return err
	}
	if len(c.statements) == 0 {
		return ErrNoDecision
	}
	var write func(*collector, string) ([]byte, error)
	switch format {
	case FormatOpenVEX:
		write = writeOpenVEX
	case FormatCycloneDX:
		write = writeCycloneDX
	case FormatCSAF:
	}
	if write == nil {
		return fmt.Errorf("documents in the format %s cannot be written; use %s or %s", format, FormatOpenVEX, FormatCycloneDX)
	}
	data, err := write(c, truncate.Text(export.Author, maxID))
	if err != nil {
		return err
	}
	if int64(len(data)) > c.limits.Bytes {
		return limitf("it would be larger than %d bytes; select fewer images or findings", c.limits.Bytes)
	}
	if err := checkBounds(data, c.limits); err != nil {
		return err
	}
	_, err = w.Write(data)
	return err
}
