package server

import (
	"context"
	"slices"
	"strings"
	"time"

	openapi_types "github.com/oapi-codegen/runtime/types"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/report"
	"github.com/scanner-operator/scanner-operator/internal/server/api"
	"github.com/scanner-operator/scanner-operator/internal/server/auth"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// permissionsPatience bounds the check of permissions that an answer about an image states.
const permissionsPatience = 2 * time.Second

// ListImages answers a page of images.
func (o operations) ListImages(ctx context.Context, request api.ListImagesRequestObject) (api.ListImagesResponseObject, error) {
	query, err := imageQuery(request.Params)
	if err != nil {
		return nil, err
	}
	format, err := formatOf(requestOf(ctx), request.Params.Format, exportFormats...)
	if err != nil {
		return nil, err
	}
	if format != report.FormatJSON {
		return o.s.exportImages(ctx, query, format)
	}
	images, err := o.s.store.ListImages(ctx, visible(ctx), query)
	if err != nil {
		return nil, err
	}
	answer := api.ListImages200JSONResponse{
		Items: make([]api.Image, 0, len(images.Images)), Total: images.Total, NextPageToken: optional(images.NextToken),
	}
	for _, image := range images.Images {
		answer.Items = append(answer.Items, o.s.toImage(image))
	}
	return answer, nil
}

// GetImage answers one image.
func (o operations) GetImage(ctx context.Context, request api.GetImageRequestObject) (api.GetImageResponseObject, error) {
	key, err := imageKey(request.ImageId, request.Params.Platform)
	if err != nil {
		return nil, err
	}
	format, err := formatOf(requestOf(ctx), request.Params.Format, exportFormats...)
	if err != nil {
		return nil, err
	}
	if format != report.FormatJSON {
		return o.s.exportImage(ctx, key, format)
	}
	image, err := o.s.store.Image(ctx, visible(ctx), key)
	if err != nil {
		return nil, err
	}
	answer := o.s.toImage(image)
	answer.Permissions = o.s.permissionsOf(ctx, key.ImageID)
	return api.GetImage200JSONResponse(answer), nil
}

// permissionsOf says what the caller may do with an image, as mayChange and the store decide about a request; nil while that cannot be checked: who may read must not wait for
// it. Namespaces that the caller does not see count too, so this tells that the image is there, as the refusal of a request would.
func (s *Server) permissionsOf(ctx context.Context, imageID string) *api.ImagePermissions {
	ctx, cancel := context.WithTimeout(ctx, permissionsPatience)
	defer cancel()
	names, err := s.store.ImageNamespaces(ctx, imageID)
	if err != nil {
		return nil
	}
	// Who does not see a namespace seldom may change anything there. MayInAll asks about the first one before the others, which can be thousands.
	if hidden := slices.IndexFunc(names, func(name string) bool { return !visible(ctx).Contains(name) }); hidden > 0 {
		names[0], names[hidden] = names[hidden], names[0]
	}
	var may api.ImagePermissions
	for verb, allowed := range map[string]*bool{auth.VerbDelete: &may.Delete, auth.VerbUpdate: &may.Update} {
		if *allowed, err = s.guard.MayInAll(ctx, verb, names); err != nil {
			return nil
		}
	}
	return &may
}

// ListPresences answers a page of where and when an image ran.
func (o operations) ListPresences(ctx context.Context, request api.ListPresencesRequestObject) (api.ListPresencesResponseObject, error) {
	var p parameters
	query := store.PresenceQuery{
		Image: p.image(request.ImageId, request.Params.Platform), Page: p.page(request.Params.PageToken, request.Params.PageSize),
	}
	if p.err != nil {
		return nil, p.err
	}
	presences, err := o.s.store.Presences(ctx, visible(ctx), query)
	if err != nil {
		return nil, err
	}
	answer := api.ListPresences200JSONResponse{
		Items: make([]api.Presence, 0, len(presences.Presences)), Total: presences.Total, NextPageToken: optional(presences.NextToken),
	}
	for _, presence := range presences.Presences {
		answer.Items = append(answer.Items, api.Presence{
			ImageId: presence.Image.ImageID, Platform: presence.Image.Platform.String(), Cluster: optional(presence.Cluster),
			Workload: toWorkload(presence.Workload), Container: presence.Container,
			Since: presence.Since.UTC(), Until: optionalTime(presence.Until),
		})
	}
	return answer, nil
}

func (s *Server) toImage(image store.Image) api.Image {
	return api.Image{
		ImageId:       image.Key.ImageID,
		Platform:      image.Key.Platform.String(),
		State:         api.ImageState(image.State),
		Reason:        optional(api.FailureReason(image.Reason)),
		Message:       optional(image.Message),
		Attempts:      image.Attempts,
		NextAttempt:   optionalTime(image.NextAttempt),
		SizeClass:     optional(api.ImageSizeClass(image.SizeClass)),
		Distro:        optional(image.Distro),
		Distribution:  s.toDistribution(image),
		Created:       optionalTime(image.Created),
		Size:          image.Size,
		Packages:      image.PackageCount,
		Counts:        toCounts(image.Counts),
		Database:      toBuild(image.Database),
		FirstSeen:     image.FirstSeen.UTC(),
		CatalogedAt:   optionalTime(image.CatalogedAt),
		MatchedAt:     optionalTime(image.MatchedAt),
		ScannedIn:     optional(image.ScannedIn),
		Cataloger:     optional(image.Cataloger),
		Source:        optional(api.ImageSource(image.Source)),
		Partial:       optional(image.Partial()),
		Unreadable:    optional(image.Unreadable),
		LayersUnknown: optional(image.LayersUnknown),
		AttestedBy:    optional(image.AttestedBy),
		FromReport:    optional(image.FromReport),
		Reported:      optionalCounts(image.Reported),
		Overdue:       optional(image.Overdue),
		Owners:        optionalList(image.Owners),
		Base:          toBase(image.Base),
	}
}

// toDistribution is the distribution of an image, nil when it has none.
func (s *Server) toDistribution(image store.Image) *api.Distribution {
	name, version, _ := strings.Cut(image.Distro, ":")
	if name == "" {
		return nil
	}
	distribution := &api.Distribution{
		Name: name, Version: optional(version),
		EndOfSupport: optionalDate(image.Lifecycle.EndOfSupport), EndOfLife: optionalDate(image.Lifecycle.EndOfLife),
	}
	if distribution.EndOfLife != nil {
		ended := image.Lifecycle.Ended(s.clock())
		distribution.EndOfLifeReached = &ended
	}
	return distribution
}

func optionalDate(t time.Time) *openapi_types.Date {
	if t.IsZero() {
		return nil
	}
	return &openapi_types.Date{Time: t}
}

func optionalCounts(c *store.Counts) *api.Counts {
	if c == nil {
		return nil
	}
	counts := toCounts(*c)
	return &counts
}

func toCounts(c store.Counts) api.Counts {
	return api.Counts{
		Critical: c.Critical, High: c.High, Medium: c.Medium, Low: c.Low, Negligible: c.Negligible, Unknown: c.Unknown,
		Kev: c.KEV, Fixable: c.Fixable,
	}
}

func toBuild(build *model.DatabaseBuild) *api.DatabaseBuild {
	if build == nil {
		return nil
	}
	return &api.DatabaseBuild{
		Id: build.ID, SchemaVersion: build.SchemaVersion, Built: build.Built.UTC(), Source: api.DatabaseBuildSource(build.Source),
	}
}
