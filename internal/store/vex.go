package store

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// DecisionSourceVEX is the source of decisions that are statements of VEX documents.
const DecisionSourceVEX = "vex"

// The kinds of sources of VEX documents, as DecisionObject has them.
const (
	// VEXKindSource is an object of the cluster.
	VEXKindSource = "VEXSource"
	// VEXKindUpload is a document that a user has uploaded.
	VEXKindUpload = "VEXDocument"
)

// Bounds of VEX documents.
const (
	// MaxVEXDocuments is the most documents of all sources, MaxVEXDocumentBytes the size of one, and MaxVEXBytes that of all together.
	MaxVEXDocuments     = 100
	MaxVEXDocumentBytes = 16 << 20
	MaxVEXBytes         = 32 << 20
	// MaxVEXUploads is the most documents that users have uploaded, and MaxVEXUploadBytes their size together.
	MaxVEXUploads     = MaxVEXDocuments / 2
	MaxVEXUploadBytes = 24 << 20
	// MaxVEXDecisions is the most decisions of VEX documents that apply at a time, and MaxVEXRuleBytes the length of their rules together. It leaves
	// room for others.
	MaxVEXDecisions = MaxDecisions / 2
	MaxVEXRuleBytes = 64 << 20
)

// The errors about VEX documents.
var (
	// ErrVEXChanged says that the documents are no longer those that the decisions follow from.
	ErrVEXChanged = errors.New("the VEX documents have changed")
	// ErrVEXTooMany says that a bound does not permit more; the message names it.
	ErrVEXTooMany = errors.New("too many VEX documents or statements")
)

// VEXWorkError says that it would take too much work to find out which findings the statements of all sources match. It is an ErrVEXTooMany.
type VEXWorkError struct {
	// Kind and Name are those of the source whose statements take the most.
	Kind, Name string
	// Limit is the bound, in comparisons of versions.
	Limit int
}

// Error says what to do.
func (e *VEXWorkError) Error() string {
	return fmt.Sprintf("it takes more than %d comparisons of versions to find out which findings the statements of all sources match, and those of %s %s take the most: "+
		"state fewer ranges of versions", e.Limit, e.Kind, e.Name)
}

// Unwrap returns ErrVEXTooMany.
func (e *VEXWorkError) Unwrap() error { return ErrVEXTooMany }

// VEXRoomError says that a bound of all decisions leaves no room for the statements of all sources. It is an ErrVEXTooMany.
type VEXRoomError struct {
	// Bound says what there would be too much of, and Limit how much there may be.
	Bound string
	Limit int
}

// Error says what to do.
func (e *VEXRoomError) Error() string {
	return fmt.Sprintf("with it, %s; the maximum is %d: delete some VEX documents or exceptions", e.Bound, e.Limit)
}

// Unwrap returns ErrVEXTooMany.
func (e *VEXRoomError) Unwrap() error { return ErrVEXTooMany }

// VEXDocuments is the part of the store about VEX documents, and about the decisions that follow from them.
type VEXDocuments interface {
	// SaveVEX makes these the documents of a source. If it has the same already, and the same ExportedDecisions, only the version is replaced, and the
	// revision stays.
	SaveVEX(ctx context.Context, source VEXSource, documents []VEXContent) error
	// DeleteVEX deletes a source with its documents, and tells whether there was one. Its decisions are then deleted by the author, a user, or "" for nobody
	// who is known, unless documents are saved under its name before SyncVEX.
	DeleteVEX(ctx context.Context, kind, name, author string) (bool, error)
	// VEX lists the sources, the oldest first, with a revision that is another one when anything has changed.
	VEX(ctx context.Context) (sources []VEXSource, revision string, err error)
	// VEXContent returns the documents of a source, ErrNotFound if there is none.
	VEXContent(ctx context.Context, kind, name string) ([]VEXContent, error)
	// SyncVEX makes these the decisions of VEX documents that apply; the list is complete, and each has a Rule. Of the rules that match a finding
	// one decides, and the finding has that decision only, besides those whose rules are independent. A decision whose time is over does not begin to
	// apply. The error is ErrVEXChanged if the documents have another revision, and ErrVEXTooMany if
	// the bounds do not permit it, which is a VEXWorkError if one source is the reason, and a VEXRoomError if other decisions leave no room; then nothing
	// changes. What ends statements only is never refused. When nothing differs it only reads.
	SyncVEX(ctx context.Context, revision string, decisions []Decision) error
}

// VEXSource is where VEX documents come from.
type VEXSource struct {
	// Kind is VEXKindSource or VEXKindUpload, Name that of the object or the one that the user gave.
	Kind, Name string
	// Author is the user who uploaded the documents, "" for objects.
	Author string
	// Version says what was fetched, such as an ETag; opaque to the store.
	Version string
	// ExportedDecisions says that the decisions that the documents state apply in full, as vex.Document has it.
	ExportedDecisions bool
	// SavedAt, Documents, Bytes and SHA256 are set by the store. SHA256 is that of the document, or of the digests of all.
	SavedAt   time.Time
	Documents int
	Bytes     int64
	SHA256    string
}

// VEXContent is a document of a source.
type VEXContent struct {
	// Name tells the documents of a source apart.
	Name    string
	Content []byte
}
