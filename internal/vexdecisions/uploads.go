package vexdecisions

import (
	"context"
	"fmt"
	"slices"

	"github.com/scanner-operator/scanner-operator/internal/store"
)

// uploaded is the name of the document of an upload.
const uploaded = "document"

// Upload is a document that a user uploads.
type Upload struct {
	// Name is the one that the user gave it, Author is the user.
	Name, Author string
	Content      []byte
	// ExportedDecisions is that of vex.Document.
	ExportedDecisions bool
}

// Upload keeps an uploaded document in place of the one with its name, and applies it. The error wraps vex.ErrFormat or vex.ErrLimit if the document cannot
// be read, and store.ErrVEXTooMany if the bounds of all documents do not permit it; then nothing changes. After any other error the document may be stored,
// and then it is applied later.
func (a *Applier) Upload(ctx context.Context, upload Upload) (Applied, error) {
	one := store.VEXContent{Name: uploaded, Content: upload.Content}
	document, err := Read(store.VEXKindUpload, upload.Name, one)
	if err != nil {
		return Applied{}, err
	}
	source := store.VEXSource{Kind: store.VEXKindUpload, Name: upload.Name, Author: upload.Author, ExportedDecisions: upload.ExportedDecisions}
	if err := a.store.SaveVEX(ctx, source, []store.VEXContent{one}); err != nil {
		return Applied{}, err
	}
	all, err := a.Apply(ctx)
	if err != nil {
		return Applied{}, err
	}
	n := slices.IndexFunc(all, func(one Applied) bool { return one.Kind == store.VEXKindUpload && one.Name == upload.Name })
	if n < 0 {
		return Applied{}, fmt.Errorf("the VEX document %s was deleted while it was applied: %w", upload.Name, store.ErrVEXChanged)
	}
	all[n].Statements = len(document.Statements)
	return all[n], nil
}

// Content returns the document of an upload, store.ErrNotFound if there is none.
func (a *Applier) Content(ctx context.Context, name string) ([]byte, error) {
	contents, err := a.store.VEXContent(ctx, store.VEXKindUpload, name)
	if err != nil {
		return nil, err
	}
	return contents[0].Content, nil
}

// Delete deletes an upload for a user, ends its statements, and tells whether there was one.
func (a *Applier) Delete(ctx context.Context, name, author string) (bool, error) {
	deleted, err := a.store.DeleteVEX(ctx, store.VEXKindUpload, name, author)
	if err != nil || !deleted {
		return deleted, err
	}
	return true, a.Sync(ctx)
}
