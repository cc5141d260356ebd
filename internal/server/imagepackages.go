package server

import (
	"context"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/server/api"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// maxLocations bounds the locations of a package of an image in an answer.
const maxLocations = 100

// ListImagePackages answers a page of the packages of one image.
func (o operations) ListImagePackages(ctx context.Context, request api.ListImagePackagesRequestObject) (api.ListImagePackagesResponseObject, error) {
	var p parameters
	params := request.Params
	query := p.imagePackages(request.ImageId, api.ListImageLayersParams{
		Platform: params.Platform, Text: params.Text, Severity: params.Severity, Vulnerable: params.Vulnerable, Origin: params.Origin,
	})
	query.Layer, query.Page = params.Layer, p.page(params.PageToken, params.PageSize)
	if layer := value(params.Layer); layer < store.UnknownLayer || layer > model.MaxLayers {
		p.refuse("layer is not in the range %d to %d", store.UnknownLayer, model.MaxLayers)
	}
	if p.err != nil {
		return nil, p.err
	}
	found, err := o.s.store.ImagePackages(ctx, visible(ctx), query)
	if err != nil {
		return nil, err
	}
	answer := api.ListImagePackages200JSONResponse{
		Items: make([]api.ImagePackage, 0, len(found.Packages)), Total: found.Total, NextPageToken: optional(found.NextToken),
	}
	for i := range found.Packages {
		held := &found.Packages[i]
		answer.Items = append(answer.Items, api.ImagePackage{
			Package: toPackage(held.Package), Layer: optional(held.Layer), Path: optional(held.Path),
			Locations: toLocations(held.Locations[:min(len(held.Locations), maxLocations)]),
			Origin:    optional(api.Origin(held.Origin)), Excluded: optional(held.Excluded), Counts: toCounts(held.Counts),
		})
	}
	return answer, nil
}

// ListImageLayers answers all layers of one image.
func (o operations) ListImageLayers(ctx context.Context, request api.ListImageLayersRequestObject) (api.ListImageLayersResponseObject, error) {
	var p parameters
	query := p.imagePackages(request.ImageId, request.Params)
	if p.err != nil {
		return nil, p.err
	}
	layers, err := o.s.store.ImageLayers(ctx, visible(ctx), query)
	if err != nil {
		return nil, err
	}
	answer := api.ListImageLayers200JSONResponse{Items: make([]api.ImageLayer, 0, len(layers))}
	for i := range layers {
		layer := &layers[i]
		answer.Items = append(answer.Items, api.ImageLayer{
			Number: optional(layer.Number), DiffId: optional(layer.DiffID), Size: layer.Size, Origin: optional(api.Origin(layer.Origin)), Packages: layer.Packages, Counts: toCounts(layer.Counts),
		})
	}
	return answer, nil
}

// imagePackages reads which packages of an image are chosen.
func (p *parameters) imagePackages(imageID string, params api.ListImageLayersParams) store.ImagePackageQuery {
	query := store.ImagePackageQuery{
		Image: p.image(imageID, params.Platform), Text: p.text("text", params.Text, maxText), MinSeverity: p.severity(params.Severity),
		// "Unknown or worse" keeps packages with any finding.
		Vulnerable: value(params.Vulnerable) || params.Severity != nil,
	}
	if params.Origin != nil {
		query.Origin = choice(p, "origin", params.Origin, model.OriginBase, model.OriginImage)
	}
	return query
}
