package server

import (
	"context"
	"errors"
	"net/http"

	"github.com/scanner-operator/scanner-operator/internal/coverage"
	"github.com/scanner-operator/scanner-operator/internal/server/api"
	"github.com/scanner-operator/scanner-operator/internal/server/problem"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// reasonNotKnown is why a rollout waits for an image that the store does not know any more.
const reasonNotKnown = "NotKnown"

// ListRollouts answers a page of changes of image in workloads.
func (o operations) ListRollouts(ctx context.Context, request api.ListRolloutsRequestObject) (api.ListRolloutsResponseObject, error) {
	var p parameters
	params := request.Params
	query := store.RolloutQuery{
		Namespace: p.text("namespace", params.Namespace, maxName), Workload: p.text("workload", params.Workload, maxName),
		Ownership: p.ownership(params.Owner, params.NoOwner),
		ImageID:   p.imageID(params.ImageId), Since: value(params.Since), Until: value(params.Until),
		Page: p.page(params.PageToken, params.PageSize),
	}
	if p.err != nil {
		return nil, p.err
	}
	found, err := o.s.store.ListRollouts(ctx, visible(ctx), query)
	if err != nil {
		return nil, err
	}
	answer := api.ListRollouts200JSONResponse{
		Items: make([]api.Rollout, 0, len(found.Rollouts)), Total: found.Total, NextPageToken: optional(found.NextToken),
	}
	for i := range found.Rollouts {
		answer.Items = append(answer.Items, toRollout(&found.Rollouts[i]))
	}
	return answer, nil
}

// GetRollout answers one change of image.
func (o operations) GetRollout(ctx context.Context, request api.GetRolloutRequestObject) (api.GetRolloutResponseObject, error) {
	if request.RolloutId < 1 {
		return nil, problem.BadRequest("rolloutId: %d is not a positive number", request.RolloutId)
	}
	found, err := o.s.store.Rollout(ctx, visible(ctx), request.RolloutId)
	if errors.Is(err, store.ErrNotFound) {
		return nil, problem.New(http.StatusNotFound, "rollout not found, or its retention period has ended")
	}
	if err != nil {
		return nil, err
	}
	r := toRollout(&found.Rollout)
	return api.GetRollout200JSONResponse{
		Id: r.Id, At: r.At, Cluster: r.Cluster, Workload: r.Workload, Container: r.Container, From: r.From, To: r.To, Evaluation: r.Evaluation,
		Opened: toRolloutFindings(found.WorstOpened), Closed: toRolloutFindings(found.WorstClosed),
	}, nil
}

func toRollout(r *store.Rollout) api.Rollout {
	return api.Rollout{
		Id: r.ID, At: r.At.UTC(), Cluster: optional(r.Cluster), Workload: toWorkload(r.Workload), Container: r.Container,
		From: toRolloutSide(r.From), To: toRolloutSide(r.To), Evaluation: toEvaluation(r),
	}
}

func toRolloutSide(side store.RolloutSide) api.RolloutSide {
	return api.RolloutSide{
		ImageId: side.Image.ImageID, Platform: side.Image.Platform.String(), State: optional(api.ImageState(side.State)),
		Counts: optionalCounts(side.Counts),
	}
}

// toEvaluation says what a rollout did, or what it waits for.
func toEvaluation(r *store.Rollout) api.RolloutEvaluation {
	evaluation := api.RolloutEvaluation{State: api.RolloutEvaluationState(r.Evaluation.State), At: optionalTime(r.Evaluation.At)}
	switch r.Evaluation.State {
	case store.RolloutEvaluated:
		opened, closed := toSeverityCounts(r.Evaluation.Opened), toSeverityCounts(r.Evaluation.Closed)
		evaluation.Opened, evaluation.Closed = &opened, &closed
	case store.RolloutWaiting:
		var waits []api.RolloutWait
		for _, side := range []store.RolloutSide{r.From, r.To} {
			if !side.Scanned() {
				waits = append(waits, api.RolloutWait{
					ImageId: side.Image.ImageID, Platform: side.Image.Platform.String(), Reason: waitReason(side), Message: optional(side.Message),
				})
			}
		}
		evaluation.WaitingFor = optionalList(waits)
	case store.RolloutTimedOut:
	}
	return evaluation
}

// waitReason says why an image is not scanned, in the words of coverage.
func waitReason(side store.RolloutSide) string {
	switch {
	case side.State == "":
		return reasonNotKnown
	case side.Reason != "":
		return string(side.Reason)
	case side.State == store.StateCataloged:
		return coverage.ReasonNotMatched
	default:
		return coverage.ReasonNotCataloged
	}
}

func toRolloutFindings(findings []store.RolloutFinding) []api.RolloutFinding {
	list := make([]api.RolloutFinding, 0, len(findings))
	for _, f := range findings {
		list = append(list, api.RolloutFinding{
			VulnerabilityId: f.VulnerabilityID, Package: f.Package, Severity: api.Severity(f.Severity.String()), Kev: f.KEV, Fixable: f.Fixable,
		})
	}
	return list
}
