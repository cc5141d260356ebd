package server

import (
	"context"

	"github.com/scanner-operator/scanner-operator/internal/server/api"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// ListRollouts answers a page of changes of image in workloads.
func (o operations) ListRollouts(ctx context.Context, request api.ListRolloutsRequestObject) (api.ListRolloutsResponseObject, error) {
	var p parameters
	params := request.Params
	query := store.RolloutQuery{
		Namespace: p.text("namespace", params.Namespace, maxName), Workload: p.text("workload", params.Workload, maxName),
		ImageID: p.imageID(params.ImageId), Since: value(params.Since), Until: value(params.Until),
		Page: p.page(params.PageToken, params.PageSize),
	}
	if p.err != nil {
		return nil, p.err
	}
	found, err := o.s.config.Store.ListRollouts(ctx, query)
	if err != nil {
		return nil, err
	}
	answer := api.ListRollouts200JSONResponse{
		Items: make([]api.Rollout, 0, len(found.Rollouts)), Total: found.Total, NextPageToken: optional(found.NextToken),
	}
	for _, r := range found.Rollouts {
		answer.Items = append(answer.Items, api.Rollout{
			Id: r.ID, At: r.At.UTC(), Cluster: optional(r.Cluster), Workload: toWorkload(r.Workload), Container: r.Container,
			From: toRolloutSide(r.From), To: toRolloutSide(r.To),
		})
	}
	return answer, nil
}

func toRolloutSide(side store.RolloutSide) api.RolloutSide {
	return api.RolloutSide{
		ImageId: side.Image.ImageID, Platform: side.Image.Platform.String(), State: optional(api.ImageState(side.State)),
		Counts: optionalCounts(side.Counts),
	}
}
