package sqlstore

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/klauspost/compress/zstd"
	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// maxTagFindingsBytes bounds the findings of the image of a newer tag as JSON.
const maxTagFindingsBytes = 16 << 20

var (
	newerTagColumns = []string{"lookup", "position", "tag", "kind", "digest", "problem", "image"}
	tagImageColumns = []string{
		"id", "scope", "scanned_in", "repository", "platform", "digest", "cataloger", "media_type", "sbom_sha256", "sbom_size", "saved_at", "result_set", "build", "findings", "problem",
	}
)

// tagImageOf says which image of a newer tag a Job cataloged: those of Jobs in other namespaces are others, so that no namespace decides for another one.
type tagImageOf struct{ scope, scannedIn, repository, platform string }

func (o *tagImageOf) id(digest string) string {
	return contentDigest(o.scope, o.scannedIn, o.repository, o.platform, digest)
}

// KnownTagDigests implements store.TagLookups.
func (s *Store) KnownTagDigests(ctx context.Context, scope, namespace, repository string, platform model.Platform, cataloger string, limit int) ([]string, error) {
	var digests []string
	err := s.read(ctx, "list the images of newer tags", func(tx *gorm.DB) error {
		return tx.Raw("SELECT digest FROM tag_images WHERE scope = ? AND scanned_in = ? AND repository = ? AND platform = ? AND cataloger = ? ORDER BY saved_at DESC, digest LIMIT ?",
			scope, namespace, repository, platform.String(), cataloger, max(limit, 0)).Scan(&digests).Error
	})
	return digests, err
}

// SaveTagLookup implements store.TagLookups.
func (s *Store) SaveTagLookup(ctx context.Context, job string, result store.TagResult) error {
	const what = "save newer tags"
	if err := checkTagResult(&result); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return s.write(ctx, what, func(tx *txn) error {
		from, err := delivered(tx, job, result.SHA256, "result")
		switch {
		case err != nil || from == nil:
			return err
		case from.Lookup == "":
			return fmt.Errorf("%w: Job %s/%s looks up no tags", store.ErrAttemptClosed, from.Namespace, from.Name)
		}
		var rows []struct{ Scope, Repository, Platform string }
		if err := tx.Raw("SELECT scope, repository, platform FROM tag_lookups WHERE id = ?", from.Lookup).Scan(&rows).Error; err != nil {
			return err
		}
		of := tagImageOf{rows[0].Scope, from.Namespace, rows[0].Repository, rows[0].Platform} // That of an open Job is there.
		err = tx.Execute(`UPDATE tag_lookups SET attempts = attempts + 1, failures = 0, next_at = 0, looked_up_at = ?, source = ?, listed = ?, incomplete = ?, reason = ?, message = ?,
			failed_reason = '', failed_message = '', for_namespace = ? WHERE id = ?`, tx.now, sqldb.Truncate(result.Source, maxIdentifier), result.Listed,
			sqldb.Truncate(result.Incomplete, store.MaxTagText), sqldb.Truncate(result.Reason, maxIdentifier), sqldb.Truncate(result.Message, store.MaxTagText), from.For, from.Lookup)
		if err != nil {
			return err
		}
		if err := tx.Execute("DELETE FROM newer_tags WHERE lookup = ?", from.Lookup); err != nil {
			return err
		}
		var values []any
		for i := range result.Tags {
			tag, image := &result.Tags[i], ""
			if tag.Digest != "" && tag.Problem == "" {
				image = of.id(tag.Digest)
				if err := saveTagImage(tx, &of, tag); err != nil {
					return err
				}
			}
			values = append(values, from.Lookup, i, tag.Tag, tag.Kind, tag.Digest, sqldb.Truncate(tag.Problem, store.MaxTagText), image)
		}
		if err := tx.Insert("newer_tags", newerTagColumns, values, ""); err != nil {
			return err
		}
		tx.changed = true
		tx.noteTags([]string{from.Lookup}, nil)
		return forgetTagImages(tx, of.scope)
	})
}

func checkTagResult(result *store.TagResult) error {
	if len(result.Tags) > store.MaxNewerTags {
		return fmt.Errorf("%d newer tags, the maximum is %d", len(result.Tags), store.MaxNewerTags)
	}
	if result.SHA256 == "" || len(result.SHA256) > maxIdentifier || result.Listed < 0 {
		return fmt.Errorf("a digest of %d bytes for %d tags", len(result.SHA256), result.Listed)
	}
	for i := range result.Tags {
		tag := &result.Tags[i]
		if tag.Tag == "" || len(tag.Tag) > store.MaxTag || len(tag.Kind) > 32 || len(tag.Digest) > maxIdentifier {
			return fmt.Errorf("a newer tag of %d bytes, kind of %d and digest of %d", len(tag.Tag), len(tag.Kind), len(tag.Digest))
		}
	}
	return nil
}

// saveTagImage keeps the SBOM of the image of a newer tag. A tag without one has a problem if the image is not known.
func saveTagImage(tx *txn, of *tagImageOf, tag *store.TagOfResult) error {
	id := of.id(tag.Digest)
	if tag.SBOM == nil {
		var ids []string
		if err := tx.Raw("SELECT id FROM tag_images WHERE id = ?", id).Scan(&ids).Error; err != nil {
			return err
		}
		if len(ids) == 0 {
			tag.Problem = "its SBOM was deleted meanwhile; the next lookup generates it again"
		}
		return nil
	}
	if err := tx.Execute("DELETE FROM tag_images WHERE id = ?", id); err != nil {
		return err
	}
	if err := tx.noteTagsOf(id); err != nil { // It is not matched any more.
		return err
	}
	err := tx.Insert("tag_images", tagImageColumns, []any{
		id, of.scope, of.scannedIn, of.repository, of.platform, tag.Digest, sqldb.Truncate(tag.Cataloger, maxIdentifier), tag.SBOM.MediaType, tag.SBOM.SHA256, tag.SBOM.Size, tx.now, 0, "", []byte{}, "",
	}, "")
	if err != nil {
		return err
	}
	return tagParts.save(tx, id, tag.SBOM.Content)
}

// UnmatchedTagImages implements store.TagLookups.
func (s *Store) UnmatchedTagImages(ctx context.Context, resultSet int64, limit int) ([]string, error) {
	var ids []string
	err := s.read(ctx, "list the images of newer tags that are not matched", func(tx *gorm.DB) error {
		return tx.Raw("SELECT id FROM tag_images WHERE result_set <> ? ORDER BY id LIMIT ?", resultSet, max(limit, 0)).Scan(&ids).Error
	})
	return ids, err
}

// TagImageSBOM implements store.TagLookups.
func (s *Store) TagImageSBOM(ctx context.Context, id string) (store.SBOM, error) {
	var sbom store.SBOM
	err := s.read(ctx, "read the SBOM of a newer tag", func(tx *gorm.DB) (err error) {
		var rows []struct {
			MediaType  string
			SbomSha256 string `gorm:"column:sbom_sha256"`
			SbomSize   int64
		}
		if err := tx.Raw("SELECT media_type, sbom_sha256, sbom_size FROM tag_images WHERE id = ?", id).Scan(&rows).Error; err != nil {
			return err
		}
		if len(rows) == 0 {
			return fmt.Errorf("the image of a newer tag: %w", store.ErrNotFound)
		}
		sbom = store.SBOM{MediaType: rows[0].MediaType, SHA256: rows[0].SbomSha256, Size: rows[0].SbomSize}
		sbom.Content, err = tagParts.load(tx, id)
		return err
	})
	return sbom, err
}

// SaveTagFindings implements store.TagLookups.
func (s *Store) SaveTagFindings(ctx context.Context, id, sbomSHA256 string, resultSet int64, found store.TagFindings) error {
	const what = "save the findings of a newer tag"
	if len(found.Findings) > store.MaxTagFindings {
		return fmt.Errorf("%s: %d findings, the maximum is %d", what, len(found.Findings), store.MaxTagFindings)
	}
	content, err := encodeTagFindings(found.Findings)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return s.write(ctx, what, func(tx *txn) error {
		var ids []string
		if err := tx.Raw("SELECT id FROM tag_images WHERE id = ? AND sbom_sha256 = ?", id, sbomSHA256).Scan(&ids).Error; err != nil {
			return err
		}
		if len(ids) == 0 {
			return fmt.Errorf("the image of a newer tag: %w", store.ErrNotFound)
		}
		if err := tx.noteTagsOf(id); err != nil {
			return err
		}
		return tx.Execute("UPDATE tag_images SET result_set = ?, build = ?, findings = ?, problem = ? WHERE id = ?",
			resultSet, found.Build, content, sqldb.Truncate(found.Problem, store.MaxTagText), id)
	})
}

func encodeTagFindings(findings []store.TagFinding) ([]byte, error) {
	plain, err := json.Marshal(findings)
	if err != nil {
		return nil, err
	}
	if len(plain) > maxTagFindingsBytes {
		return nil, fmt.Errorf("the findings have %d bytes, the maximum is %d", len(plain), maxTagFindingsBytes)
	}
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	return encoder.EncodeAll(plain, nil), encoder.Close()
}

func decodeTagFindings(content []byte) (findings []store.TagFinding, err error) {
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxTagFindingsBytes))
	if err != nil {
		return nil, err
	}
	defer decoder.Close()
	plain, err := decoder.DecodeAll(content, nil)
	if err != nil {
		return nil, err
	}
	return findings, json.Unmarshal(plain, &findings)
}

// newerTagRow is a row of newer_tags with the image of the tag.
type newerTagRow struct {
	Lookup, Tag, Kind, Digest, Problem string
	ResultSet                          int64
	Build                              string
	Findings                           []byte
	NotMatched                         string
}

// NewerTags implements store.Reader.
func (s *Store) NewerTags(ctx context.Context, in store.Namespaces, key model.ImageKey) ([]store.TagLookup, error) {
	var lookups []store.TagLookup
	err := s.read(ctx, "read the newer tags of an image", func(tx *gorm.DB) error {
		lookups = nil
		seen := within(tx.Table("tag_lookup_places AS p").Select("1").Where("p.lookup = l.id"), "p.namespace", in)
		var rows []tagLookupRow
		err := tx.Table("tag_lookups AS l").Select(tagLookupColumns).Where("l.image_id = ? AND l.platform = ? AND l.unwanted_since = 0 AND EXISTS (?)",
			key.ImageID, key.Platform.String(), seen).Order("l.repository, l.tag, l.id").Limit(store.MaxTagLookupsOfImage).Scan(&rows).Error
		if err != nil {
			return err
		}
		if err := cutTagTimes(tx, in, key, rows); err != nil {
			return err
		}
		read := 0
		for i := range rows {
			lookup, err := rows[i].lookup()
			if err != nil {
				return err
			}
			if lookup.Tags, err = newerTagsOf(tx, lookup.ID, &read); err != nil {
				return err
			}
			lookups = append(lookups, lookup)
		}
		return nil
	})
	return lookups, err
}

// cutTagTimes makes the times of lookups not earlier than since when their image is visible: earlier ones would show when others ran it.
func cutTagTimes(tx *gorm.DB, in store.Namespaces, key model.ImageKey, rows []tagLookupRow) error {
	if in.All() {
		return nil
	}
	var since []int64
	err := tx.Table("(?) AS v", visibleSince(tx, in)).Joins("JOIN images i ON i.id = v.image_pk").Where("i.image_id = ? AND i.platform = ?", key.ImageID, key.Platform.String()).
		Pluck("v.since", &since).Error
	for i := range rows {
		if len(since) > 0 && rows[i].LookedUpAt > 0 {
			rows[i].LookedUpAt = max(rows[i].LookedUpAt, since[0])
		}
	}
	return err
}

// newerTagsOf reads the newer tags of a lookup. read counts the findings that were read.
func newerTagsOf(tx *gorm.DB, lookup string, read *int) ([]store.NewerTag, error) {
	var rows []newerTagRow
	err := tx.Raw(`SELECT t.lookup, t.tag, t.kind, t.digest, t.problem, COALESCE(m.result_set, 0) AS result_set, COALESCE(m.build, '') AS build, m.findings,
		COALESCE(m.problem, '') AS not_matched FROM newer_tags t LEFT JOIN tag_images m ON m.id = t.image WHERE t.lookup = ? ORDER BY t.position`, lookup).Scan(&rows).Error
	if err != nil {
		return nil, err
	}
	tags := make([]store.NewerTag, len(rows))
	for i := range rows {
		r := &rows[i]
		tags[i] = store.NewerTag{Tag: r.Tag, Kind: r.Kind, Digest: r.Digest, Problem: r.Problem, Matched: r.ResultSet != 0}
		if !tags[i].Matched {
			continue
		}
		tags[i].Findings = store.TagFindings{Build: r.Build, Problem: r.NotMatched}
		if *read >= store.MaxTagFindingsRead {
			tags[i].Findings.Problem = fmt.Sprintf("the newer tags of the image have more than %d findings together", store.MaxTagFindingsRead)
			continue
		}
		if tags[i].Findings.Findings, err = decodeTagFindings(r.Findings); err != nil {
			return nil, fmt.Errorf("findings of the tag %s in the database: %w", r.Tag, err)
		}
		*read += len(tags[i].Findings.Findings)
	}
	return tags, nil
}
