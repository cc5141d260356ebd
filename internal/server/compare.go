package server

import (
	"context"
	"errors"
	"net/http"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/server/api"
	"github.com/scanner-operator/scanner-operator/internal/server/problem"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// CompareImages answers what another image opens and closes.
func (o operations) CompareImages(ctx context.Context, request api.CompareImagesRequestObject) (api.CompareImagesResponseObject, error) {
	params := request.Params
	from, err := comparedImage("from", params.From, params.Platform)
	if err != nil {
		return nil, err
	}
	to, err := comparedImage("to", params.To, params.Platform)
	if err != nil {
		return nil, err
	}
	found, err := o.s.store.Compare(ctx, visible(ctx), from, to)
	if errors.Is(err, store.ErrNotFound) {
		return nil, problem.New(http.StatusNotFound, "one of the images was not found; both must run, or have run within the retention period")
	}
	if errors.Is(err, store.ErrNoCommonPlatform) {
		return nil, problem.BadRequest("the images have no platform in common; compare two images that run on the same platform")
	}
	if err != nil {
		return nil, err
	}
	evaluated := &store.Rollout{From: found.From, To: found.To, Evaluation: found.Evaluation}
	return api.CompareImages200JSONResponse{
		From: toRolloutSide(found.From), To: toRolloutSide(found.To), Evaluation: toEvaluation(evaluated),
		Opened: toRolloutFindings(found.WorstOpened), Closed: toRolloutFindings(found.WorstClosed),
	}, nil
}

// comparedImage reads an image that a parameter names.
func comparedImage(name, id string, platform *string) (model.ImageKey, error) {
	key := model.ImageKey{ImageID: id}
	if err := key.Validate(); err != nil {
		return key, problem.BadRequest("%s: %v", name, err)
	}
	return imageKey(id, platform)
}
