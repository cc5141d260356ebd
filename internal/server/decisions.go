package server

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/server/api"
	"github.com/scanner-operator/scanner-operator/internal/server/problem"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// allDecisions asks for decisions in any state.
const allDecisions store.DecisionState = "all"

// decisionQuery reads the parameters of a list of decisions.
func decisionQuery(params api.ListDecisionsParams) (store.DecisionQuery, error) {
	var p parameters
	query := store.DecisionQuery{
		State: choice(&p, "state", params.State, store.DecisionStanding, store.DecisionEnded, allDecisions),
		Statuses: choices(&p, "status", params.Status, maxDecisionStatuses, model.DecisionNotAffected, model.DecisionFalsePositive,
			model.DecisionAcceptedRisk, model.DecisionUnderInvestigation, model.DecisionFixed, model.DecisionAffected),
		Source: p.text("source", params.Source, maxName),
		Object: store.DecisionObject{
			Kind: p.text("kind", params.Kind, maxKind), Namespace: p.text("namespace", params.Namespace, maxName), Name: p.text("name", params.Name, maxName),
		},
		Vulnerability: p.text("vulnerability", params.Vulnerability, maxVulnerabilityID), Author: p.text("author", params.Author, maxName),
		ExpiringWithin: params.ExpiringWithin, Since: value(params.Since), Until: value(params.Until),
		Sort: choice(&p, "sort", params.Sort, store.SortDecisionSince, store.SortDecisionExpiry, store.SortDecisionName),
		Page: p.page(params.PageToken, params.PageSize),
	}
	p.days("expiringWithin", params.ExpiringWithin, 0)
	if query.State == allDecisions {
		query.State = ""
	}
	return query, p.err
}

// ListDecisions answers a page of decisions.
func (o operations) ListDecisions(ctx context.Context, request api.ListDecisionsRequestObject) (api.ListDecisionsResponseObject, error) {
	query, err := decisionQuery(request.Params)
	if err != nil {
		return nil, err
	}
	if query.Author != "" && !visible(ctx).All() {
		return nil, problem.New(http.StatusForbidden, "the parameter author requires the permission to list scanresults in the whole cluster")
	}
	asCSV, err := wantsCSV(requestOf(ctx), request.Params.Format)
	if err != nil {
		return nil, err
	}
	if asCSV {
		return o.s.exportDecisions(ctx, query)
	}
	found, err := o.s.store.ListDecisions(ctx, visible(ctx), query)
	if err != nil {
		return nil, err
	}
	answer := api.ListDecisions200JSONResponse{
		Items: make([]api.DecisionRecord, 0, len(found.Decisions)), Total: found.Total, NextPageToken: optional(found.NextToken),
	}
	for i := range found.Decisions {
		answer.Items = append(answer.Items, toDecisionRecord(&found.Decisions[i]))
	}
	return answer, nil
}

// GetDecision answers one decision.
func (o operations) GetDecision(ctx context.Context, request api.GetDecisionRequestObject) (api.GetDecisionResponseObject, error) {
	if request.DecisionId < 1 {
		return nil, problem.BadRequest("decisionId: %d is not a positive number", request.DecisionId)
	}
	found, err := o.s.store.Decision(ctx, visible(ctx), request.DecisionId)
	if errors.Is(err, store.ErrNotFound) {
		return nil, problem.New(http.StatusNotFound, "decision not found")
	}
	if err != nil {
		return nil, err
	}
	return api.GetDecision200JSONResponse(toDecisionRecord(&found)), nil
}

func (s *Server) exportDecisions(ctx context.Context, query store.DecisionQuery) (*export, error) {
	return csvExport(ctx, s, csvList[store.DecisionRecord]{
		name: "decisions",
		columns: []string{
			"source", "kind", "namespace", "name", "state", "status", "suppresses", "vulnerabilities", "packages", "images", "places", "expire_when_fixed", "justification", "comment",
			"author", "since", "until", "ended_by", "expires_at", "matched_findings", "suppressed_findings", "previous_status", "previous_justification",
			"previous_comment", "previous_expires_at", "previous_places", "deleted_by", "stated_author",
		},
		page: func(ctx context.Context, page store.Page) ([]store.DecisionRecord, string, int, error) {
			query.Page = page
			found, err := s.store.ListDecisions(ctx, visible(ctx), query)
			return found.Decisions, found.NextToken, found.Total, err
		},
		row: func(d store.DecisionRecord) []string {
			matched, suppressed := "", ""
			if d.State() == store.DecisionStanding {
				matched, suppressed = strconv.Itoa(d.Matched), strconv.Itoa(d.Suppressed)
			}
			var before store.DecisionContent
			if d.Previous != nil {
				before = *d.Previous
			}
			return []string{
				d.Source, d.Object.Kind, d.Object.Namespace, d.Object.Name, string(d.State()), string(d.Status), yes(d.Suppresses),
				strings.Join(d.Vulnerabilities, " "), strings.Join(d.Packages, " "), strings.Join(d.Images, " "), d.Places, yes(d.Unfixed), d.Justification, d.Comment, d.Author, timeCell(d.Since),
				timeCell(d.Until), string(d.EndedBy), timeCell(d.ExpiresAt), matched, suppressed, string(before.Status), before.Justification, before.Comment,
				timeCell(before.ExpiresAt), before.Places, d.DeletedBy, d.StatedAuthor,
			}
		},
	})
}

func toDecisionRecord(d *store.DecisionRecord) api.DecisionRecord {
	content := toDecisionContent(&d.DecisionContent)
	out := api.DecisionRecord{
		Id: content.Id, Source: d.Source, Object: api.DecisionObject{Kind: d.Object.Kind, Namespace: optional(d.Object.Namespace), Name: d.Object.Name},
		State: api.DecisionRecordState(d.State()), Status: content.Status, Suppresses: content.Suppresses, Match: content.Match,
		ExpireWhenFixed: content.ExpireWhenFixed, Justification: content.Justification, Comment: content.Comment, Author: content.Author,
		ExpiresAt: content.ExpiresAt, Since: content.Since, Until: content.Until, EndedBy: content.EndedBy, DeletedBy: content.DeletedBy, StatedAuthor: content.StatedAuthor,
	}
	if d.State() == store.DecisionStanding {
		out.MatchedFindings, out.SuppressedFindings = &d.Matched, &d.Suppressed
	}
	if d.Previous != nil {
		previous := toDecisionContent(d.Previous)
		out.Previous = &previous
	}
	return out
}

func toDecisionContent(d *store.DecisionContent) api.DecisionContent {
	return api.DecisionContent{
		Id: d.ID, Status: api.DecisionStatus(d.Status), Suppresses: d.Suppresses,
		Match: api.DecisionMatch{
			Vulnerabilities: optionalList(d.Vulnerabilities), Packages: optionalList(d.Packages), Images: optionalList(d.Images), Places: optional(d.Places),
		},
		ExpireWhenFixed: optional(d.Unfixed), Justification: optional(d.Justification), Comment: optional(d.Comment), Author: optional(d.Author),
		ExpiresAt: optionalTime(d.ExpiresAt), Since: d.Since.UTC(), Until: optionalTime(d.Until), EndedBy: optional(api.DecisionEnd(d.EndedBy)),
		DeletedBy: optional(d.DeletedBy), StatedAuthor: optional(d.StatedAuthor),
	}
}
