package matching

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/scanner-operator/scanner-operator/internal/candidates"
	"github.com/scanner-operator/scanner-operator/internal/match"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/truncate"
)

// tagBatch is how many images of newer tags are matched until other work is looked for.
const tagBatch = 10

const (
	// maxTagName is the longest name of a package of a newer tag, in bytes, as the store has it of images; more is cut.
	maxTagName = 1 << 10
	// maxTagFindingsText bounds the names of packages and vulnerabilities of one image together, in bytes.
	maxTagFindingsText = 2 << 20
)

// IngestNewerTags keeps the result of a lookup of newer tags that a Job delivers, a candidates.Report. An SBOM that cannot be read becomes the problem of its
// tag. Errors: ErrRefused, ErrBusy, store.ErrAttemptClosed when the Job may not deliver it (any more), and those of the store.
func (a *Matcher) IngestNewerTags(ctx context.Context, delivery store.Delivery, body io.Reader) (err error) {
	ctx, end := a.trace(ctx, "ingest newer tags")
	defer end(&err)
	content, err := io.ReadAll(body) // The caller bounds it.
	if err != nil {
		return fmt.Errorf("read newer tags: %w", err)
	}
	report, err := a.readReport(ctx, content)
	if err != nil {
		return err
	}
	digest := sha256.Sum256(content)
	result := store.TagResult{
		SHA256: hex.EncodeToString(digest[:]), Source: report.Source, Listed: report.Listed, Incomplete: report.Incomplete,
		Reason: string(report.Reason), Message: report.Message,
	}
	for i := range report.Tags {
		reported := &report.Tags[i]
		tag := store.TagOfResult{Tag: reported.Tag, Kind: string(reported.Kind), Digest: reported.Digest, Problem: reported.Problem}
		if reported.SBOM != nil {
			err := a.decompressed(ctx, MediaTypeSyft, reported.SBOM, func(document io.Reader) error {
				sbom, catalog, err := decode(document)
				sbom.Content = reported.SBOM
				tag.SBOM, tag.Cataloger = &sbom, catalog.Cataloger
				return err
			})
			if errors.Is(err, ErrRefused) {
				tag.SBOM, tag.Problem = nil, err.Error()
			} else if err != nil {
				return err
			}
		}
		result.Tags = append(result.Tags, tag)
	}
	if err := a.store.SaveTagLookup(ctx, delivery.Job, result); err != nil {
		return fmt.Errorf("save newer tags: %w", err)
	}
	a.Wake()
	return nil
}

// readReport decodes a report while the memory is reserved that this takes.
func (a *Matcher) readReport(ctx context.Context, content []byte) (*candidates.Report, error) {
	document, err := weigh(MediaTypeSyft, bytes.NewReader(content))
	if err != nil {
		return nil, fmt.Errorf("read newer tags: %w", err)
	}
	release, err := a.reserve(ctx, document)
	if err != nil {
		return nil, err
	}
	defer release()
	report, err := candidates.ReadReport(content)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return report, nil
}

// matchNewerTags matches images of newer tags with the current database, a few at a time and after everything else: nothing runs them.
func (r *runner) matchNewerTags(ctx context.Context) error {
	current, found, err := r.store.CurrentResultSet(ctx) // A pass can make another one current.
	if err != nil {
		return fmt.Errorf("read the current result set: %w", err)
	}
	if !found {
		return nil
	}
	if r.current = r.exchange(r.current, r.next, current.Build.ID); r.current == nil {
		return nil
	}
	ids, err := r.store.UnmatchedTagImages(ctx, current.Number, tagBatch)
	if err != nil {
		return fmt.Errorf("list the images of newer tags: %w", err)
	}
	for _, id := range ids {
		err := r.matchNewerTag(ctx, current, id)
		switch {
		case errors.Is(err, ErrBusy):
			return nil // Uploads need the memory. The next pass tries again.
		case err != nil && !isGone(err):
			return err
		}
		if target, found := r.target(current); found && target.Build.ID != current.Build.ID {
			break
		}
	}
	if len(ids) == tagBatch {
		r.Wake()
	}
	return nil
}

// compareNewerTags compares newer tags that a transaction of this pass, or of another process, left out.
func (r *runner) compareNewerTags(ctx context.Context) error {
	more, err := r.store.CompareNewerTags(ctx)
	if err != nil {
		return fmt.Errorf("compare newer tags: %w", err)
	}
	if more {
		r.Wake()
	}
	return nil
}

// matchNewerTag matches one image. What cannot be matched has a problem until the next database.
func (r *runner) matchNewerTag(ctx context.Context, current store.ResultSet, id string) error {
	sbom, err := r.store.TagImageSBOM(ctx, id)
	if err != nil {
		return err
	}
	found := store.TagFindings{Build: current.Build.ID}
	catalog, err := r.readSBOM(ctx, sbom, r.imports())
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, ErrBusy):
		return err
	case err != nil:
		found.Problem = err.Error()
	default:
		if found.Findings, found.Problem, err = tagFindings(ctx, r.current, catalog.Packages); err != nil {
			return err
		}
	}
	err = r.store.SaveTagFindings(ctx, id, sbom.SHA256, current.Number, found)
	if isOfOneRow(ctx, err) {
		r.log.Error(err, "Cannot save the findings of a newer tag", "image", id)
		found = store.TagFindings{Build: current.Build.ID, Problem: "the findings cannot be saved"}
		err = r.store.SaveTagFindings(ctx, id, sbom.SHA256, current.Number, found)
	}
	return err
}

// tagFindings matches packages. The problem says why that cannot be trusted to be complete: a comparison would count what is missing as closed.
func tagFindings(ctx context.Context, database *match.Database, held []model.HeldPackage) (findings []store.TagFinding, problem string, err error) {
	type key struct{ id, name string }
	at, size := map[key]int{}, 0
	for part := range slices.Chunk(slices.DeleteFunc(slices.Clone(held), func(h model.HeldPackage) bool { return h.Excluded }), batchPackages) {
		packages := make([]model.Package, len(part))
		for i := range part {
			packages[i] = part[i].Package
		}
		answers, err := database.MatchPackages(ctx, packages)
		if err != nil {
			return nil, "", fmt.Errorf("%w: %w", errMatch, err)
		}
		for i := range packages {
			p := &packages[i]
			answer := answers[p.Fingerprint]
			if answer.Failure != "" {
				return nil, fmt.Sprintf("the package %s %s cannot be matched: %s", p.Name, p.Version, answer.Failure), nil
			}
			for _, f := range answer.Findings {
				k := key{f.Vulnerability.ID, truncate.Text(p.Name, maxTagName)}
				n, known := at[k]
				if !known {
					n = len(findings)
					at[k] = n
					size += len(k.id) + len(k.name)
					findings = append(findings, store.TagFinding{VulnerabilityID: k.id, Package: k.name})
				}
				one := &findings[n]
				one.Severity, one.Risk = max(one.Severity, f.Vulnerability.Severity), max(one.Risk, f.Vulnerability.Risk)
				one.KEV, one.Fixable = one.KEV || len(f.Vulnerability.KEV) > 0, one.Fixable || f.Fix.State == model.FixStateFixed
			}
			if len(findings) > store.MaxTagFindings || size > maxTagFindingsText {
				return nil, fmt.Sprintf("the image has more findings than the limit of %d, or their names have more than %d bytes", store.MaxTagFindings, maxTagFindingsText), nil
			}
		}
	}
	return findings, "", nil
}
