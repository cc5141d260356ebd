package sqlstore

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

var vexParts = parts{"vex_document_parts", "document_pk"}

// SaveVEX implements store.VEXDocuments.
func (s *Store) SaveVEX(ctx context.Context, source store.VEXSource, documents []store.VEXContent) error {
	const what = "save VEX documents"
	if source.Kind != store.VEXKindSource && source.Kind != store.VEXKindUpload {
		return fmt.Errorf("%s: %q is not a kind of source", what, source.Kind)
	}
	if err := checkIdentifier("the name of the source", source.Name); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if len(documents) == 0 {
		return fmt.Errorf("%s of %s: there is none", what, source.Name)
	}
	contents, digests := make([][]byte, len(documents)), make([]string, len(documents))
	for i := range documents {
		d := &documents[i]
		if err := checkIdentifier("the name of the document", d.Name); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		if len(d.Content) > store.MaxVEXDocumentBytes {
			return fmt.Errorf("%s: %s has %d bytes, the maximum is %d: %w", what, d.Name, len(d.Content), store.MaxVEXDocumentBytes, store.ErrVEXTooMany)
		}
		digest := sha256.Sum256(d.Content)
		contents[i], digests[i] = s.encoder.EncodeAll(d.Content, nil), hex.EncodeToString(digest[:])
	}
	author, version := sqldb.Truncate(source.Author, maxIdentifier), sqldb.Truncate(source.Version, maxIdentifier)
	return s.write(ctx, what, func(tx *txn) error {
		if same, err := sameVEX(tx.DB, &source, author, documents, digests); err != nil {
			return err
		} else if same {
			return tx.Execute("UPDATE vex_sources SET version = ? WHERE kind = ? AND name = ? AND version <> ?", version, source.Kind, source.Name, version)
		}
		tx.changed = true
		id, err := tx.saveVEXSource(&source, author, version)
		if err != nil {
			return err
		}
		for i := range documents {
			if err := saveVEXDocument(tx, id, &documents[i], digests[i], contents[i]); err != nil {
				return err
			}
		}
		return boundVEX(tx, source.Kind)
	})
}

// saveVEXSource writes the row of a source, and removes its documents. A source that exists keeps its place among the others.
func (t *txn) saveVEXSource(source *store.VEXSource, author, version string) (id int64, err error) {
	const find = "SELECT id FROM vex_sources WHERE kind = ? AND name = ?"
	if err := t.Raw(find, source.Kind, source.Name).Scan(&id).Error; err != nil {
		return 0, err
	}
	if id > 0 {
		err := t.Execute("UPDATE vex_sources SET author = ?, version = ?, saved_at = ? WHERE id = ?", author, version, t.now, id)
		if err != nil {
			return 0, err
		}
		for _, table := range []string{"vex_documents", "vex_exported_decisions"} {
			if err := t.Execute("DELETE FROM "+table+" WHERE source_pk = ?", id); err != nil {
				return 0, err
			}
		}
	} else {
		// What was deleted under this name before its decisions ended goes on.
		if err := t.forgetVEXDeletion(source.Kind, source.Name); err != nil {
			return 0, err
		}
		err = t.Insert("vex_sources", []string{"kind", "name", "author", "version", "saved_at"}, []any{source.Kind, source.Name, author, version, t.now}, "")
		if err != nil {
			return 0, err
		}
		if err := t.Raw(find, source.Kind, source.Name).Scan(&id).Error; err != nil {
			return 0, err
		}
	}
	if source.ExportedDecisions {
		err = t.Insert("vex_exported_decisions", []string{"source_pk"}, []any{id}, "")
	}
	return id, err
}

// exportedVEX joins vex_sources v with those whose decisions apply in full.
const exportedVEX = "LEFT JOIN vex_exported_decisions e ON e.source_pk = v.id"

// sameVEX reports whether a source has these documents by this author already, in any order, and applies them in the same way.
func sameVEX(tx *gorm.DB, source *store.VEXSource, author string, documents []store.VEXContent, digests []string) (bool, error) {
	var rows []vexRow
	err := tx.Raw("SELECT v.author, d.name AS document, d.sha256, e.source_pk AS exported FROM vex_sources v JOIN vex_documents d ON d.source_pk = v.id "+exportedVEX+
		" WHERE v.kind = ? AND v.name = ?", source.Kind, source.Name).Scan(&rows).Error
	if err != nil || len(rows) != len(documents) {
		return false, err
	}
	known := make(map[string]string, len(rows))
	for _, row := range rows {
		if row.Author != author || (row.Exported != nil) != source.ExportedDecisions {
			return false, nil
		}
		known[row.Document] = row.Sha256
	}
	for i := range documents {
		if known[documents[i].Name] != digests[i] {
			return false, nil
		}
	}
	return true, nil
}

func saveVEXDocument(tx *txn, source int64, d *store.VEXContent, digest string, content []byte) error {
	err := tx.Insert("vex_documents", []string{"source_pk", "name", "sha256", "size"}, []any{source, d.Name, digest, len(d.Content)}, "")
	if err != nil {
		return err
	}
	var id int64
	if err := tx.Raw("SELECT id FROM vex_documents WHERE source_pk = ? AND name = ?", source, d.Name).Scan(&id).Error; err != nil {
		return err
	}
	return vexParts.save(tx, id, content)
}

// boundVEX fails when there is more than the bounds allow. Uploads have bounds of their own, so that they leave room for objects.
func boundVEX(tx *txn, kind string) error {
	const sum = "SELECT COUNT(*), COALESCE(SUM(d.size), 0) FROM vex_documents d"
	var count, size int64
	if kind == store.VEXKindUpload {
		err := tx.Raw(sum+" JOIN vex_sources v ON v.id = d.source_pk WHERE v.kind = ?", store.VEXKindUpload).Row().Scan(&count, &size)
		if err != nil {
			return err
		}
		if count > store.MaxVEXUploads || size > store.MaxVEXUploadBytes {
			return fmt.Errorf("%d uploaded VEX documents with %d bytes; the maximum is %d and %d: delete others first: %w",
				count, size, store.MaxVEXUploads, int64(store.MaxVEXUploadBytes), store.ErrVEXTooMany)
		}
	}
	if err := tx.Raw(sum).Row().Scan(&count, &size); err != nil {
		return err
	}
	if count > store.MaxVEXDocuments || size > store.MaxVEXBytes {
		return fmt.Errorf("%d VEX documents with %d bytes; the maximum of all sources is %d and %d: delete others first: %w",
			count, size, store.MaxVEXDocuments, int64(store.MaxVEXBytes), store.ErrVEXTooMany)
	}
	return nil
}

// DeleteVEX implements store.VEXDocuments.
func (s *Store) DeleteVEX(ctx context.Context, kind, name, author string) (bool, error) {
	const what = "delete VEX documents"
	var found []int64
	read := func(tx *gorm.DB) error {
		return tx.Raw("SELECT v.id FROM vex_sources v WHERE v.kind = ? AND v.name = ?", kind, name).Scan(&found).Error
	}
	if err := s.read(ctx, what, read); err != nil || len(found) == 0 {
		return false, err
	}
	err := s.write(ctx, what, func(tx *txn) error {
		if err := read(tx.DB); err != nil {
			return err
		}
		if tx.changed = len(found) > 0; !tx.changed {
			return nil
		}
		if err := tx.recordVEXDeletion(kind, name, author); err != nil {
			return err
		}
		return tx.Execute("DELETE FROM vex_sources WHERE kind = ? AND name = ?", kind, name)
	})
	return len(found) > 0, err
}

// vexRow is a document with its source.
type vexRow struct {
	Kind, Name, Author, Version, Document string
	Sha256                                string `gorm:"column:sha256"`
	SavedAt, Size                         int64
	// Exported is not nil if the decisions of the source apply in full.
	Exported *int64
}

// VEX implements store.VEXDocuments.
func (s *Store) VEX(ctx context.Context) (sources []store.VEXSource, revision string, err error) {
	err = s.read(ctx, "list VEX documents", func(tx *gorm.DB) (err error) {
		sources, revision, err = listVEX(tx)
		return err
	})
	return sources, revision, err
}

func listVEX(tx *gorm.DB) (sources []store.VEXSource, revision string, err error) {
	var rows []vexRow
	err = tx.Raw("SELECT v.kind, v.name, v.author, v.version, v.saved_at, d.name AS document, d.sha256, d.size, e.source_pk AS exported " +
		"FROM vex_sources v JOIN vex_documents d ON d.source_pk = v.id " + exportedVEX + " ORDER BY v.id, d.id").Scan(&rows).Error
	if err != nil {
		return nil, "", err
	}
	var texts []string
	for _, row := range rows {
		texts = append(texts, row.Kind, row.Name, strconv.FormatInt(row.SavedAt, 10), row.Document, row.Sha256)
		if row.Exported != nil {
			texts = append(texts, "exported decisions")
		}
		if last := len(sources) - 1; last >= 0 && sources[last].Kind == row.Kind && sources[last].Name == row.Name {
			one := &sources[last]
			one.Documents++
			one.Bytes += row.Size
			sum := sha256.Sum256([]byte(one.SHA256 + row.Sha256))
			one.SHA256 = hex.EncodeToString(sum[:])
			continue
		}
		sources = append(sources, store.VEXSource{
			Kind: row.Kind, Name: row.Name, Author: row.Author, Version: row.Version, ExportedDecisions: row.Exported != nil,
			SavedAt: fromMicros(row.SavedAt), Documents: 1, Bytes: row.Size, SHA256: row.Sha256,
		})
	}
	return sources, contentDigest(texts...), nil
}

// VEXContent implements store.VEXDocuments.
func (s *Store) VEXContent(ctx context.Context, kind, name string) ([]store.VEXContent, error) {
	const what = "read VEX documents"
	var documents []store.VEXContent
	err := s.read(ctx, what, func(tx *gorm.DB) error {
		documents = nil
		var rows []struct {
			ID   int64
			Name string
		}
		err := tx.Raw("SELECT d.id, d.name FROM vex_sources v JOIN vex_documents d ON d.source_pk = v.id WHERE v.kind = ? AND v.name = ? ORDER BY d.id",
			kind, name).Scan(&rows).Error
		for i := 0; i < len(rows) && err == nil; i++ {
			var content []byte
			content, err = vexParts.load(tx, rows[i].ID)
			documents = append(documents, store.VEXContent{Name: rows[i].Name, Content: content})
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(documents) == 0 {
		return nil, fmt.Errorf("%s of %s %q: %w", what, kind, name, store.ErrNotFound)
	}
	for i := range documents {
		content, err := s.decoder.DecodeAll(documents[i].Content, nil)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("%s of %s %q: decompress", what, kind, name), err)
		}
		documents[i].Content = content
	}
	return documents, nil
}
