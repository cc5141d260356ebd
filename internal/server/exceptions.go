package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	kjson "sigs.k8s.io/json"

	scannerv1alpha1 "github.com/scanner-operator/scanner-operator/api/scanner/v1alpha1"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/places"
	"github.com/scanner-operator/scanner-operator/internal/server/api"
	"github.com/scanner-operator/scanner-operator/internal/server/auth"
	"github.com/scanner-operator/scanner-operator/internal/server/exceptions"
	"github.com/scanner-operator/scanner-operator/internal/server/problem"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// verbCreate is the verb for new exceptions.
const verbCreate = "create"

// CreateException creates an exception for a caller who may do so in the Kubernetes API.
func (o operations) CreateException(ctx context.Context, request api.CreateExceptionRequestObject) (api.CreateExceptionResponseObject, error) {
	var body api.NewException
	if err := decodeStrictly(requestOf(ctx), request.Body, &body); err != nil {
		return nil, err
	}
	ref, err := exceptions.NewRef(string(body.Kind), value(body.Namespace), body.Name)
	if err != nil {
		return nil, err
	}
	if body.Name == "" {
		return nil, problem.BadRequest("name is required")
	}
	if _, err := endOf(&body.Spec); err != nil {
		return nil, err
	}
	if err := o.s.admitDecision(ctx, verbCreate, ref); err != nil {
		return nil, err
	}
	created, err := o.s.config.Exceptions.Create(ctx, ref, body.Spec, callerName(ctx), false)
	if err != nil {
		return nil, err
	}
	return api.CreateException201JSONResponse(o.s.toException(ctx, created)), nil
}

// GetException reads an exception for a caller who may do so in the Kubernetes API.
func (o operations) GetException(ctx context.Context, request api.GetExceptionRequestObject) (api.GetExceptionResponseObject, error) {
	ref, err := exceptions.NewRef(string(request.Kind), value(request.Params.Namespace), request.Name)
	if err != nil {
		return nil, err
	}
	if err := o.s.admitDecision(ctx, auth.VerbGet, ref); err != nil {
		return nil, err
	}
	found, err := o.s.config.Exceptions.Get(ctx, ref)
	if err != nil {
		return nil, err
	}
	return api.GetException200JSONResponse(o.s.toException(ctx, found)), nil
}

// ReplaceException changes an exception for a caller who may do so in the Kubernetes API.
func (o operations) ReplaceException(ctx context.Context, request api.ReplaceExceptionRequestObject) (api.ReplaceExceptionResponseObject, error) {
	ref, err := exceptions.NewRef(string(request.Kind), value(request.Params.Namespace), request.Name)
	if err != nil {
		return nil, err
	}
	var body api.ChangedException
	if err := decodeStrictly(requestOf(ctx), request.Body, &body); err != nil {
		return nil, err
	}
	if _, err := endOf(&body.Spec); err != nil {
		return nil, err
	}
	if err := o.s.admitDecision(ctx, auth.VerbUpdate, ref); err != nil {
		return nil, err
	}
	change := exceptions.Change{Version: body.Version, OverrideManager: value(body.OverrideManager)}
	changed, err := o.s.config.Exceptions.Update(ctx, ref, body.Spec, callerName(ctx), change)
	if err != nil {
		return nil, err
	}
	return api.ReplaceException200JSONResponse(o.s.toException(ctx, changed)), nil
}

// DeleteException deletes an exception for a caller who may do so in the Kubernetes API.
func (o operations) DeleteException(ctx context.Context, request api.DeleteExceptionRequestObject) (api.DeleteExceptionResponseObject, error) {
	ref, err := exceptions.NewRef(string(request.Kind), value(request.Params.Namespace), request.Name)
	if err != nil {
		return nil, err
	}
	if err := o.s.admitDecision(ctx, auth.VerbDelete, ref); err != nil {
		return nil, err
	}
	change := exceptions.Change{Version: request.Params.Version, OverrideManager: value(request.Params.OverrideManager)}
	if err := o.s.deleteException(ctx, ref, change); err != nil {
		return nil, err
	}
	return api.DeleteException204Response{}, nil
}

// forgetTimeout bounds the removal of the record of a deletion that was refused.
const forgetTimeout = 5 * time.Second

// deleteException deletes an exception, and records who did so: the object says nothing about that when it is gone.
func (s *Server) deleteException(ctx context.Context, ref exceptions.Ref, change exceptions.Change) error {
	object, author := store.DecisionObject{Kind: ref.Kind.Name, Namespace: ref.Namespace, Name: ref.Name}, callerName(ctx)
	request := ""
	forget := func() error {
		if request == "" {
			return nil
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), forgetTimeout)
		defer cancel()
		return s.store.ForgetDeletion(ctx, request)
	}
	err := s.config.Exceptions.Delete(ctx, ref, change, func(ctx context.Context, uid string) (err error) {
		if author == "" {
			return nil
		}
		// The previous attempt did not delete it.
		if err := forget(); err != nil {
			return err
		}
		request, err = s.store.RecordDeletion(ctx, store.DecisionSourceKubernetes, object, uid, author)
		return err
	})
	if refused, isRefused := errors.AsType[*problem.Error](err); isRefused && refused.Status < http.StatusInternalServerError {
		return errors.Join(err, forget())
	}
	return err
}

// PreviewException computes what an exception would do.
func (o operations) PreviewException(ctx context.Context, request api.PreviewExceptionRequestObject) (api.PreviewExceptionResponseObject, error) {
	var body api.PreviewedException
	if err := decodeStrictly(requestOf(ctx), request.Body, &body); err != nil {
		return nil, err
	}
	ref, err := exceptions.NewRef(string(body.Kind), value(body.Namespace), value(body.Name))
	if err != nil {
		return nil, err
	}
	if err := o.s.admitPreview(ctx, ref); err != nil {
		return nil, err
	}
	release, err := o.s.reportSlot(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	found, err := o.s.preview(ctx, ref, &body.Spec)
	if err != nil {
		return nil, err
	}
	answer := toPreview(&found)
	if err := o.s.previewSaving(ctx, ref, &body.Spec, &answer); err != nil {
		return nil, err
	}
	return api.PreviewException200JSONResponse(answer), nil
}

// admitPreview refuses a caller who sees no namespace and may not save the exception either. Who may, because it is for a namespace that there is nothing of yet, gets a
// preview of nothing, with what the API server thinks of the exception.
func (s *Server) admitPreview(ctx context.Context, ref exceptions.Ref) error {
	if seen := visible(ctx); seen.All() || len(seen.Names()) > 0 {
		return nil
	}
	access := accessToSave(ref)
	allowed, err := s.guard.Allowed(ctx, access)
	if err == nil && !allowed {
		err = problem.New(http.StatusForbidden, "user %q needs %s", callerName(ctx), access)
	}
	return err
}

// Places resolves a selection in some namespaces.
type Places func(ctx context.Context, selection *places.Selection, in func(namespace string) bool) (*store.DecisionPlaces, error)

// preview computes what an exception would do in what the caller sees.
func (s *Server) preview(ctx context.Context, ref exceptions.Ref, spec *scannerv1alpha1.ExceptionSpec) (store.DecisionPreview, error) {
	selection, err := places.Of(ref.Namespace, &spec.Match)
	if err != nil {
		//nolint:nilerr // What is wrong is the answer.
		return store.DecisionPreview{Problem: &store.DecisionProblem{Reason: store.DecisionInvalid, Message: err.Error()}}, nil
	}
	decision, err := decisionOf(ref, spec)
	if err != nil {
		return store.DecisionPreview{}, err
	}
	in := reachOf(ctx, ref)
	if selection != nil {
		if decision.Places, err = s.placesOf(ctx, selection, in); err != nil {
			return store.DecisionPreview{}, err
		}
	}
	return s.store.PreviewDecision(ctx, in, store.DecisionSourceKubernetes, decision)
}

// placesOf resolves a selection in the namespaces that the caller sees. What others have does not matter for the caller, and is not read.
func (s *Server) placesOf(ctx context.Context, selection *places.Selection, in store.Namespaces) (*store.DecisionPlaces, error) {
	if !selection.SelectsNamespaces() && !selection.SelectsWorkloads() {
		return (&places.Resolver{In: in.Contains}).Resolve(ctx, selection)
	}
	const unavailable = "the labels of namespaces and pods cannot be read, which a preview with selectors needs; try again, or preview without selectors"
	if s.config.Places == nil {
		return nil, problem.New(http.StatusServiceUnavailable, unavailable)
	}
	ctx, cancel := context.WithTimeout(ctx, placesTimeout)
	defer cancel()
	found, err := s.config.Places(ctx, selection, in.Contains)
	switch {
	case errors.Is(err, places.ErrTooManyPods):
		return nil, problem.New(http.StatusUnprocessableEntity, "no preview: %v; select fewer namespaces, or save with mode DryRun and read the status", err)
	case err != nil && !errors.Is(err, context.Canceled):
		return nil, problem.Unavailable(err, unavailable)
	default:
		return found, err
	}
}

// placesTimeout bounds how long the labels of namespaces and pods are read for a preview.
const placesTimeout = 10 * time.Second

// reachOf are the namespaces that the caller sees and an exception can concern.
func reachOf(ctx context.Context, ref exceptions.Ref) store.Namespaces {
	seen := visible(ctx)
	switch {
	case !ref.Kind.Namespaced:
		return seen
	case seen.Contains(ref.Namespace):
		return store.OnlyNamespaces(ref.Namespace)
	default:
		return store.OnlyNamespaces()
	}
}

// previewSaving adds to a preview whether the caller may save the exception and, if so, what the API server thinks of it.
func (s *Server) previewSaving(ctx context.Context, ref exceptions.Ref, spec *scannerv1alpha1.ExceptionSpec, preview *api.ExceptionPreview) error {
	refuse := func(reason api.ExceptionSavingReason, message string) {
		preview.Save = api.ExceptionSaving{Reason: &reason, Message: &message}
	}
	if s.config.Exceptions == nil {
		refuse(api.Disabled, exceptionsDisabled)
		return nil
	}
	if admitted, found := auth.AdmissionOf(ctx); found && admitted.Anonymous {
		refuse(api.NotSignedIn, "sign in to save the exception")
		return nil
	}
	access := accessToSave(ref)
	allowed, err := s.guard.Allowed(ctx, access)
	if err != nil {
		return err
	}
	if !allowed {
		refuse(api.NotPermitted, "you need "+access.String())
		return nil
	}
	preview.Save.Allowed = true
	err = s.validateException(ctx, ref, spec)
	refused, ok := errors.AsType[*problem.Error](err)
	switch {
	case ok && refused.Status == http.StatusUnprocessableEntity:
		preview.Problems = append(preview.Problems, api.ExceptionProblem{Reason: api.ExceptionProblemReasonInvalid, Message: refused.Detail})
		return nil
	case ok && refused.Status == http.StatusNotFound:
		// It was deleted meanwhile. Saving it says so.
		return nil
	default:
		return err
	}
}

// validateException has the API server validate an exception.
func (s *Server) validateException(ctx context.Context, ref exceptions.Ref, spec *scannerv1alpha1.ExceptionSpec) error {
	if ref.Name == "" {
		_, err := s.config.Exceptions.Create(ctx, ref, *spec, callerName(ctx), true)
		return err
	}
	_, err := s.config.Exceptions.Update(ctx, ref, *spec, callerName(ctx), exceptions.Change{DryRun: true})
	return err
}

const exceptionsDisabled = "the operator may not write exceptions (chart value api.writeExceptions): apply the manifest with kubectl or from Git"

func accessTo(verb string, ref exceptions.Ref) auth.Access {
	access := auth.Access{Verb: verb, Resource: ref.Kind.Resource, Namespace: ref.Namespace}
	if verb != verbCreate {
		access.Name = ref.Name
	}
	return access
}

// accessToSave is what saving an exception needs, which is a new one if it has no name.
func accessToSave(ref exceptions.Ref) auth.Access {
	if ref.Name == "" {
		return accessTo(verbCreate, ref)
	}
	return accessTo(auth.VerbUpdate, ref)
}

// admitDecision refuses a caller who may not use a verb on an exception in the Kubernetes API, and names the exception for the audit.
func (s *Server) admitDecision(ctx context.Context, verb string, ref exceptions.Ref) error {
	changeObject(ctx, ref.Kind.Resource, ref.String())
	access := accessTo(verb, ref)
	allowed, err := s.guard.Allowed(ctx, access)
	if err != nil {
		return err
	}
	if !allowed {
		return problem.New(http.StatusForbidden, "user %q needs %s", callerName(ctx), access)
	}
	if s.config.Exceptions == nil {
		return problem.New(http.StatusNotImplemented, exceptionsDisabled)
	}
	return nil
}

// callerName is the user name of the caller as Kubernetes knows it, "" without authentication.
func callerName(ctx context.Context) string {
	admitted, _ := auth.AdmissionOf(ctx)
	return admitted.User
}

// decodeStrictly reads a JSON document into a value. Unknown fields, fields that occur twice and fields in other cases are refused: what a
// field with an error limits would otherwise be without a limit.
func decodeStrictly(r *http.Request, body io.Reader, into any) error {
	if mediaType, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || mediaType != "application/json" {
		return problem.New(http.StatusUnsupportedMediaType, "the body must have the Content-Type application/json")
	}
	content, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	strict, err := kjson.UnmarshalStrict(content, into)
	if err != nil {
		return problem.BadRequest("the body is not the JSON document of an exception: %.500v", err)
	}
	if len(strict) > 0 {
		texts := make([]string, 0, maxStrictErrors)
		for _, one := range strict[:min(len(strict), maxStrictErrors)] {
			texts = append(texts, fmt.Sprintf("%.200v", one))
		}
		return problem.BadRequest("the body has invalid fields: %s", strings.Join(texts, "; "))
	}
	return nil
}

// maxStrictErrors is the most errors about fields that a problem lists.
const maxStrictErrors = 5

// endOf is when an exception ends, the zero time if it has no end.
func endOf(spec *scannerv1alpha1.ExceptionSpec) (time.Time, error) {
	end, err := spec.End()
	if err != nil {
		return time.Time{}, problem.BadRequest("spec.expiresAt: %v", err)
	}
	return end, nil
}

// decisionOf is what the controller makes of an exception.
func decisionOf(ref exceptions.Ref, spec *scannerv1alpha1.ExceptionSpec) (store.Decision, error) {
	end, err := endOf(spec)
	if err != nil {
		return store.Decision{}, err
	}
	return store.Decision{
		Object:          store.DecisionObject{Kind: ref.Kind.Name, Namespace: ref.Namespace, Name: ref.Name},
		Vulnerabilities: spec.Match.Vulnerabilities, Packages: spec.Match.Packages, Images: spec.Match.Images, Status: model.DecisionStatus(spec.Status),
		Justification: string(spec.Justification), Comment: spec.Comment, ExpiresAt: end, Unfixed: spec.ExpireWhenFixed, DryRun: spec.Mode == scannerv1alpha1.ModeDryRun,
	}, nil
}

// may says whether the caller may use a verb on an exception; no, if the API server cannot be asked.
func (s *Server) may(ctx context.Context, verb string, ref exceptions.Ref) bool {
	allowed, err := s.guard.Allowed(ctx, accessTo(verb, ref))
	return err == nil && allowed
}

// toException is an exception as the API shows it to the caller.
func (s *Server) toException(ctx context.Context, e exceptions.Exception) api.Exception {
	out := api.Exception{
		Kind: api.ExceptionKind(e.Ref.Kind.Name), Namespace: optional(e.Ref.Namespace), Name: e.Ref.Name, Version: e.Version, CreatedAt: e.CreatedAt.UTC(),
		Author: optional(e.Author), Spec: e.Spec, Managers: make([]api.FieldManager, 0, len(e.Managers)), ManagedBy: make([]api.ManagingTool, 0, len(e.ManagedBy)),
	}
	for _, m := range e.Managers {
		out.Managers = append(out.Managers, api.FieldManager{Name: m.Name, At: optionalTime(m.At)})
	}
	for _, tool := range e.ManagedBy {
		out.ManagedBy = append(out.ManagedBy, api.ManagingTool{Tool: tool.Name, Source: optional(tool.Source)})
	}
	out.MayUpdate, out.MayDelete = s.may(ctx, auth.VerbUpdate, e.Ref), s.may(ctx, auth.VerbDelete, e.Ref)
	return out
}

func toPreview(p *store.DecisionPreview) api.ExceptionPreview {
	out := api.ExceptionPreview{
		Suppresses: p.Suppresses, Findings: p.Findings, Images: p.Images, Suppressed: p.Suppressed, Closed: p.Closed, Reopened: p.Reopened,
		Workloads: make([]api.PreviewedWorkload, 0, len(p.Workloads)), WorkloadCount: p.WorkloadCount,
		Namespaces: make([]api.PreviewedNamespace, 0, len(p.Namespaces)), NamespaceCount: p.NamespaceCount, Problems: []api.ExceptionProblem{},
	}
	for _, w := range p.Workloads {
		out.Workloads = append(out.Workloads, api.PreviewedWorkload{
			Namespace: w.Workload.Namespace, Kind: w.Workload.Kind, Name: w.Workload.Name, Owner: optional(w.Workload.Owner), Images: w.Images, Findings: w.Findings,
		})
	}
	for _, n := range p.Namespaces {
		out.Namespaces = append(out.Namespaces, api.PreviewedNamespace{Namespace: n.Namespace, Workloads: n.Workloads, Findings: n.Findings})
	}
	if p.Problem != nil {
		out.Problems = append(out.Problems, api.ExceptionProblem{Reason: api.ExceptionProblemReason(p.Problem.Reason), Message: p.Problem.Message})
	}
	return out
}
