package server

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/scanner-operator/scanner-operator/internal/advice"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/server/api"
	"github.com/scanner-operator/scanner-operator/internal/server/problem"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// notVisible takes the place of texts about a lookup that was made for the workload of a namespace that the caller does not see: they can name Secrets there.
const notVisible = "the lookup was made for a namespace that you cannot see; its users see the details"

// PutNewerTags hands newer tags on to the ingester.
func (o operations) PutNewerTags(ctx context.Context, request api.PutNewerTagsRequestObject) (api.PutNewerTagsResponseObject, error) {
	key, err := imageKey(request.ImageId, request.Params.Platform)
	if err != nil {
		return nil, err
	}
	r := requestOf(ctx)
	delivery, err := o.s.guard.AuthorizeUpload(r, key)
	if err != nil {
		return nil, err
	}
	if delivery.Lookup == "" {
		// Before the body is read.
		return nil, problem.UploadForbidden(errors.New("the Job of the pod looks up no newer tags"))
	}
	keepConnection(ctx)
	admitChange(ctx)
	release, err := o.s.uploadSlot(ctx, r.ContentLength, o.s.limits.SBOMBody)
	if err != nil {
		return nil, err
	}
	defer release()
	if err := o.s.config.Ingest.IngestNewerTags(ctx, delivery, request.Body); err != nil {
		return nil, err
	}
	return api.PutNewerTags204Response{}, nil
}

// GetNewerTags answers the newer tags of an image, compared with it.
func (o operations) GetNewerTags(ctx context.Context, request api.GetNewerTagsRequestObject) (api.GetNewerTagsResponseObject, error) {
	key, err := imageKey(request.ImageId, request.Params.Platform)
	if err != nil {
		return nil, err
	}
	answer := api.GetNewerTags200JSONResponse{}
	_, err = o.s.steadily(ctx, key, func(image store.Image) ([]byte, error) {
		lookups, err := o.s.store.NewerTags(ctx, visible(ctx), image.Key)
		if err != nil {
			return nil, err
		}
		present, err := o.s.comparedFindings(ctx, &image, lookups)
		if err != nil {
			return nil, err
		}
		answer.Items = make([]api.TagLookup, len(lookups))
		for i := range lookups {
			answer.Items[i] = toTagLookup(&lookups[i], &image, present, visible(ctx))
		}
		return nil, nil
	})
	if err != nil {
		return nil, err
	}
	return answer, nil
}

// comparedFindings reads the findings of an image if a newer tag can be compared with them.
func (s *Server) comparedFindings(ctx context.Context, image *store.Image, lookups []store.TagLookup) (findings []model.Finding, err error) {
	if !slices.ContainsFunc(lookups, func(l store.TagLookup) bool {
		return slices.ContainsFunc(l.Tags, func(t store.NewerTag) bool { return canCompare(&t, image) })
	}) {
		return nil, nil
	}
	query := store.FindingQuery{Image: image.Key, Suppressed: true, Sort: store.SortFindingPackage}
	err = s.eachFinding(ctx, query, func(f model.Finding) error {
		if len(findings) == maxPreviewedFindings {
			return problem.New(http.StatusUnprocessableEntity, "the image has more findings than the limit of %d for a comparison", maxPreviewedFindings)
		}
		findings = append(findings, compared(&f))
		return nil
	})
	return findings, err
}

// canCompare reports whether a newer tag was matched with the database of the findings of an image.
func canCompare(tag *store.NewerTag, image *store.Image) bool {
	return tag.Problem == "" && tag.Matched && tag.Findings.Problem == "" && image.Database != nil && !image.MatchedAt.IsZero() && tag.Findings.Build == image.Database.ID
}

func toTagLookup(lookup *store.TagLookup, image *store.Image, present []model.Finding, in store.Namespaces) api.TagLookup {
	out := api.TagLookup{
		Repository: lookup.Repository, Tag: lookup.Tag, State: api.TagLookupStateLookedUp, LookedUpAt: optionalTime(lookup.LookedUpAt), NextAttemptAt: optionalTime(lookup.NextAttempt),
		Source: optional(lookup.Source), Listed: lookup.Listed, Reason: optional(lookup.Reason), Message: optional(lookup.Message),
		FailureReason: optional(string(lookup.Failure.Reason)), Tags: make([]api.NewerTag, len(lookup.Tags)),
	}
	detail := func(text string) *string {
		if text != "" && lookup.For != "" && !in.Contains(lookup.For) {
			text = notVisible
		}
		return optional(text)
	}
	out.Incomplete, out.FailureMessage = detail(lookup.Incomplete), detail(lookup.Failure.Message)
	switch {
	case !lookup.Failure.Succeeded():
		out.State = api.TagLookupStateFailed
	case lookup.LookedUpAt.IsZero():
		out.State = api.TagLookupStatePending
	}
	upgrades := make([]*advice.Upgrade, len(lookup.Tags))
	for i := range lookup.Tags {
		tag := &lookup.Tags[i]
		one := api.NewerTag{Tag: tag.Tag, Kind: api.NewerTagKind(tag.Kind), Digest: optional(tag.Digest), State: api.NewerTagStatePending}
		switch {
		case tag.Problem != "":
			one.State, one.Message = api.NewerTagStateFailed, detail(tag.Problem)
		case tag.Findings.Problem != "":
			one.State, one.Message = api.NewerTagStateFailed, optional(tag.Findings.Problem)
		case canCompare(tag, image):
			upgrade := advice.UpgradeOf(present, findingsOf(tag.Findings.Findings))
			upgrades[i] = &upgrade
			setUpgrade(&one, &upgrade)
		}
		out.Tags[i] = one
	}
	if best := advice.Best(upgrades); best >= 0 {
		out.Tags[best].Recommended = true
	}
	return out
}

func setUpgrade(tag *api.NewerTag, u *advice.Upgrade) {
	counts := func(changes []advice.Change) *api.SeverityCounts {
		c := toSeverityCounts(advice.Count(changes))
		return &c
	}
	removed := float32(float64(u.Removed) / 1e6)
	closed, opened := toChanges(u.Closed), toChanges(u.Opened)
	tag.State, tag.RiskRemoved = api.NewerTagStateCompared, &removed
	tag.Closed, tag.Remaining, tag.Opened = counts(u.Closed), counts(u.Remaining), counts(u.Opened)
	tag.ClosedFindings, tag.OpenedFindings = &closed, &opened
}

// findingsOf makes findings that can be compared.
func findingsOf(found []store.TagFinding) []model.Finding {
	findings := make([]model.Finding, len(found))
	for i := range found {
		findings[i] = found[i].Finding()
	}
	return findings
}
