package server

import (
	"context"
	"errors"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/server/api"
	"github.com/scanner-operator/scanner-operator/internal/server/auth"
	"github.com/scanner-operator/scanner-operator/internal/server/problem"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/truncate"
	"github.com/scanner-operator/scanner-operator/internal/vex"
	"github.com/scanner-operator/scanner-operator/internal/vexdecisions"
)

const (
	// vexUploads names VEX documents that users have uploaded in the audit, vexSources the resource whose permissions hold for them.
	vexUploads = "vexdocuments"
	vexSources = "vexsources"
	// vexTimeout is how long the statements of documents may take to be applied.
	vexTimeout = 2 * time.Minute
	// maxVEXText bounds a text of a document in bytes, maxVEXMessage a message about one.
	maxVEXText    = 255
	maxVEXMessage = 1 << 10
)

// vexName is what names of VEX documents look like: as those of objects in Kubernetes.
var vexName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`)

// VEXDocuments keeps the VEX documents of all sources, and applies their statements. vexdecisions.Applier implements it.
type VEXDocuments interface {
	// Apply applies all documents, and returns what became of each source.
	Apply(ctx context.Context) ([]vexdecisions.Applied, error)
	// Upload keeps a document in place of the one with its name, and applies it. The error wraps vex.ErrFormat or vex.ErrLimit if the document cannot be
	// read, and store.ErrVEXTooMany if there is no room for it.
	Upload(ctx context.Context, upload vexdecisions.Upload) (vexdecisions.Applied, error)
	// Content returns the document of an upload, store.ErrNotFound if there is none.
	Content(ctx context.Context, name string) ([]byte, error)
	// Delete deletes an upload, and tells whether there was one.
	Delete(ctx context.Context, name, author string) (bool, error)
}

// ListVEX answers the sources of VEX documents, with what became of their statements.
func (o operations) ListVEX(ctx context.Context, _ api.ListVEXRequestObject) (api.ListVEXResponseObject, error) {
	if err := o.s.admitVEX(ctx, auth.Access{Verb: auth.VerbList, Resource: vexSources}); err != nil {
		return nil, err
	}
	bounded, cancel := context.WithTimeout(ctx, o.s.limits.WriteTimeout)
	defer cancel()
	all, err := o.s.config.VEX.Apply(bounded)
	if err != nil {
		return nil, err
	}
	answer := api.ListVEX200JSONResponse{Items: make([]api.VEXDocument, 0, len(all))}
	for i := range all {
		answer.Items = append(answer.Items, toVEXDocument(ctx, &all[i]))
	}
	return answer, nil
}

// PutVEX keeps an uploaded VEX document, and applies its statements.
func (o operations) PutVEX(ctx context.Context, request api.PutVEXRequestObject) (api.PutVEXResponseObject, error) {
	r := requestOf(ctx)
	changeObject(ctx, vexUploads, request.Name)
	// Who may do both needs no answer to whether the document exists, which may change meanwhile.
	err := o.s.admitVEX(ctx, auth.Access{Verb: verbCreate, Resource: vexSources}, auth.Access{Verb: auth.VerbUpdate, Resource: vexSources, Name: request.Name})
	if err != nil {
		return nil, err
	}
	if err := checkVEXName(request.Name); err != nil {
		return nil, err
	}
	var p parameters
	exported := choice(&p, "exportedDecisions", request.Params.ExportedDecisions, api.ExportedDecisionsStatusOnly, api.ExportedDecisionsFull)
	if p.err != nil {
		return nil, p.err
	}
	if encoding := r.Header.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return nil, problem.New(http.StatusUnsupportedMediaType, "Content-Encoding %.40q is not supported for this resource; send the body uncompressed", encoding)
	}
	if r.ContentLength > o.s.limits.VEXBody {
		return nil, &http.MaxBytesError{Limit: o.s.limits.VEXBody}
	}
	release, err := o.s.uploadSlot(ctx, r.ContentLength, o.s.limits.VEXBody)
	if err != nil {
		return nil, err
	}
	defer release()
	content, err := readBody(request.Body, r.ContentLength)
	if err != nil {
		return nil, err
	}
	// What is read of a document takes more memory than the document.
	releaseReport, err := o.s.reportSlot(ctx)
	if err != nil {
		return nil, err
	}
	defer releaseReport()
	applied, err := o.s.config.VEX.Upload(ctx, vexdecisions.Upload{
		Name: request.Name, Author: callerName(ctx), Content: content, ExportedDecisions: exported == api.ExportedDecisionsFull,
	})
	switch {
	case errors.Is(err, vex.ErrLimit):
		return nil, problem.New(http.StatusRequestEntityTooLarge, "%s", truncate.Ellipsis(err.Error(), maxVEXMessage))
	case errors.Is(err, vex.ErrFormat):
		return nil, problem.New(http.StatusUnprocessableEntity, "%s", truncate.Ellipsis(err.Error(), maxVEXMessage))
	case errors.Is(err, store.ErrVEXTooMany):
		return nil, problem.New(http.StatusConflict, "%s", truncate.Ellipsis(err.Error(), maxVEXMessage))
	case errors.Is(err, store.ErrVEXChanged):
		return nil, problem.Unavailable(err, "the VEX documents change all the time; try again")
	case err != nil:
		return nil, err
	}
	return api.PutVEX200JSONResponse(toVEXDocument(ctx, &applied)), nil
}

// GetVEX answers a VEX document as it was uploaded.
func (o operations) GetVEX(ctx context.Context, request api.GetVEXRequestObject) (api.GetVEXResponseObject, error) {
	if err := o.s.admitVEX(ctx, auth.Access{Verb: auth.VerbGet, Resource: vexSources, Name: request.Name}); err != nil {
		return nil, err
	}
	release, err := o.s.exportSlot(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	content, err := o.s.config.VEX.Content(ctx, request.Name)
	if errors.Is(err, store.ErrNotFound) {
		return nil, noVEX(request.Name)
	}
	if err != nil {
		return nil, err
	}
	return vexContent(content), memoryOf(ctx).take(int64(len(content)))
}

// DeleteVEX deletes a VEX document that was uploaded.
func (o operations) DeleteVEX(ctx context.Context, request api.DeleteVEXRequestObject) (api.DeleteVEXResponseObject, error) {
	changeObject(ctx, vexUploads, request.Name)
	if err := o.s.admitVEX(ctx, auth.Access{Verb: auth.VerbDelete, Resource: vexSources, Name: request.Name}); err != nil {
		return nil, err
	}
	deleted, err := o.s.config.VEX.Delete(ctx, request.Name, callerName(ctx))
	if err != nil {
		return nil, err
	}
	if !deleted {
		return nil, noVEX(request.Name)
	}
	return api.DeleteVEX204Response{}, nil
}

// admitVEX refuses a caller who may not do all of this in the Kubernetes API.
func (s *Server) admitVEX(ctx context.Context, needed ...auth.Access) error {
	for _, access := range needed {
		allowed, err := s.guard.Allowed(ctx, access)
		if err != nil {
			return err
		}
		if !allowed {
			return problem.New(http.StatusForbidden, "user %q needs %s", callerName(ctx), access)
		}
	}
	if s.config.VEX == nil {
		return problem.New(http.StatusNotImplemented, "VEX documents are not available in this process")
	}
	return nil
}

// checkVEXName refuses names that no object could have.
func checkVEXName(name string) error {
	if !vexName.MatchString(name) {
		return problem.BadRequest("%.253q is not a name: use at most 253 of the characters a-z, 0-9, - and ., with a letter or a digit at the beginning and the end", name)
	}
	return nil
}

func noVEX(name string) error {
	return problem.New(http.StatusNotFound, "no VEX document %.253q was uploaded", name)
}

// vexContent writes a VEX document.
type vexContent []byte

// VisitGetVEXResponse writes the answer.
func (c vexContent) VisitGetVEXResponse(w http.ResponseWriter) error {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Disposition", `attachment; filename="vex.json"`)
	w.Header().Set("Content-Length", strconv.Itoa(len(c)))
	w.WriteHeader(http.StatusOK)
	_, err := w.Write(c)
	return err
}

// toVEXDocument is a source as the API shows it to the caller. Which statements decide about a finding is counted in the whole cluster, so who sees some namespaces gets only
// the statements that could match nothing in any cluster.
func toVEXDocument(ctx context.Context, a *vexdecisions.Applied) api.VEXDocument {
	out := api.VEXDocument{
		Kind: api.VEXDocumentKind(a.Kind), Name: a.Name, Author: optional(truncate.Text(a.Author, maxVEXText)), SavedAt: a.SavedAt.UTC(), Documents: a.Documents,
		Bytes: a.Bytes, Sha256: a.SHA256, Statements: a.Statements, Applied: a.Problem == nil, UnmatchedStatements: make([]api.UnmatchedVEXStatement, 0, len(a.Examples)),
		ExportedDecisions: api.ExportedDecisionsStatusOnly,
	}
	if a.ExportedDecisions {
		out.ExportedDecisions = api.ExportedDecisionsFull
	}
	if a.Problem != nil {
		out.Problem = &api.VEXProblem{Reason: api.VEXProblemReason(a.Problem.Reason), Message: truncate.Ellipsis(a.Problem.Message, maxVEXMessage)}
		return out
	}
	examples := a.NotApplied
	if visible(ctx).All() {
		examples = a.Examples
		out.Matched, out.Unmatched, out.SuppressedFindings = &a.Matched, &a.Unmatched, &a.Suppressed
	}
	for _, u := range examples {
		out.UnmatchedStatements = append(out.UnmatchedStatements, api.UnmatchedVEXStatement{
			Document: truncate.Ellipsis(u.Document, maxVEXText), Position: truncate.Ellipsis(u.Position, maxVEXText),
			Vulnerability: truncate.Ellipsis(u.Vulnerability, maxVEXText), Reason: api.UnmatchedVEXStatementReason(u.Reason),
		})
	}
	return out
}
