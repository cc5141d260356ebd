package server

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"

	"github.com/scanner-operator/scanner-operator/internal/server/seal"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// What IDs and tokens are sealed for.
const (
	sealRollouts  = "rollouts"
	sealChanges   = "changes"
	sealDecisions = "decisions"
	sealPages     = "pages"
	// Those that previous versions sealed for "events" have another form.
	sealEvents = "event numbers"
)

// sealedStore is the store as callers see it that do not see all namespaces: the row numbers in page tokens and IDs are sealed, since they tell how
// much there is of others.
type sealedStore struct {
	store.Reader

	mu     sync.Mutex
	sealer *seal.Sealer
}

// seals returns the sealer of this store.
func (s *sealedStore) seals(ctx context.Context) (*seal.Sealer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sealer != nil {
		return s.sealer, nil
	}
	key, err := s.SealKey(ctx)
	if err != nil {
		return nil, err
	}
	s.sealer, err = seal.New(key)
	return s.sealer, err
}

// purposeOf is what a text is sealed for that only who sees the same namespaces may give back.
func purposeOf(what string, in store.Namespaces) string { return what + " " + in.Digest() }

// paged calls list with the token of a page opened, and seals the next one.
func paged[T any](ctx context.Context, s *sealedStore, in store.Namespaces, page *store.Page, next func(*T) *string, list func() (T, error)) (T, error) {
	if in.All() {
		return list()
	}
	var none T
	sealer, err := s.seals(ctx)
	if err != nil {
		return none, err
	}
	purpose := purposeOf(sealPages, in)
	if page.Token != "" {
		opened, ok := sealer.Open(purpose, page.Token)
		if !ok {
			return none, fmt.Errorf("%w: it was not made for these namespaces", store.ErrInvalidToken)
		}
		page.Token = string(opened)
	}
	found, err := list()
	if err != nil {
		return none, err
	}
	if token := next(&found); *token != "" {
		*token = sealer.Same(purpose, []byte(*token))
	}
	return found, nil
}

// ListImages implements store.Reader.
func (s *sealedStore) ListImages(ctx context.Context, in store.Namespaces, query store.ImageQuery) (store.ImagePage, error) {
	return paged(ctx, s, in, &query.Page, func(p *store.ImagePage) *string { return &p.NextToken },
		func() (store.ImagePage, error) { return s.Reader.ListImages(ctx, in, query) })
}

// Findings implements store.Reader.
func (s *sealedStore) Findings(ctx context.Context, in store.Namespaces, query store.FindingQuery) (store.FindingPage, error) {
	return paged(ctx, s, in, &query.Page, func(p *store.FindingPage) *string { return &p.NextToken },
		func() (store.FindingPage, error) { return s.Reader.Findings(ctx, in, query) })
}

// ImagePackages implements store.Reader.
func (s *sealedStore) ImagePackages(ctx context.Context, in store.Namespaces, query store.ImagePackageQuery) (store.ImagePackagePage, error) {
	return paged(ctx, s, in, &query.Page, func(p *store.ImagePackagePage) *string { return &p.NextToken },
		func() (store.ImagePackagePage, error) { return s.Reader.ImagePackages(ctx, in, query) })
}

// Presences implements store.Reader.
func (s *sealedStore) Presences(ctx context.Context, in store.Namespaces, query store.PresenceQuery) (store.PresencePage, error) {
	return paged(ctx, s, in, &query.Page, func(p *store.PresencePage) *string { return &p.NextToken },
		func() (store.PresencePage, error) { return s.Reader.Presences(ctx, in, query) })
}

// ListVulnerabilities implements store.Reader.
func (s *sealedStore) ListVulnerabilities(ctx context.Context, in store.Namespaces, query store.VulnerabilityQuery) (store.VulnerabilityPage, error) {
	return paged(ctx, s, in, &query.Page, func(p *store.VulnerabilityPage) *string { return &p.NextToken },
		func() (store.VulnerabilityPage, error) { return s.Reader.ListVulnerabilities(ctx, in, query) })
}

// Affected implements store.Reader.
func (s *sealedStore) Affected(ctx context.Context, in store.Namespaces, query store.AffectedQuery) (store.AffectedPage, error) {
	return paged(ctx, s, in, &query.Page, func(p *store.AffectedPage) *string { return &p.NextToken },
		func() (store.AffectedPage, error) { return s.Reader.Affected(ctx, in, query) })
}

// Exposures implements store.Reader.
func (s *sealedStore) Exposures(ctx context.Context, in store.Namespaces, query store.ExposureQuery) (store.ExposurePage, error) {
	return paged(ctx, s, in, &query.Page, func(p *store.ExposurePage) *string { return &p.NextToken },
		func() (store.ExposurePage, error) { return s.Reader.Exposures(ctx, in, query) })
}

// ListPackages implements store.Reader.
func (s *sealedStore) ListPackages(ctx context.Context, in store.Namespaces, query store.PackageQuery) (store.PackagePage, error) {
	return paged(ctx, s, in, &query.Page, func(p *store.PackagePage) *string { return &p.NextToken },
		func() (store.PackagePage, error) { return s.Reader.ListPackages(ctx, in, query) })
}

// ListFixes implements store.Reader.
func (s *sealedStore) ListFixes(ctx context.Context, in store.Namespaces, query store.FixQuery) (store.FixPage, error) {
	return paged(ctx, s, in, &query.Page, func(p *store.FixPage) *string { return &p.NextToken },
		func() (store.FixPage, error) { return s.Reader.ListFixes(ctx, in, query) })
}

// ListWorkloads implements store.Reader.
func (s *sealedStore) ListWorkloads(ctx context.Context, in store.Namespaces, query store.WorkloadQuery) (store.WorkloadPage, error) {
	return paged(ctx, s, in, &query.Page, func(p *store.WorkloadPage) *string { return &p.NextToken },
		func() (store.WorkloadPage, error) { return s.Reader.ListWorkloads(ctx, in, query) })
}

// ListBases implements store.Reader.
func (s *sealedStore) ListBases(ctx context.Context, in store.Namespaces, query store.BaseQuery) (store.BasePage, error) {
	return paged(ctx, s, in, &query.Page, func(p *store.BasePage) *string { return &p.NextToken },
		func() (store.BasePage, error) { return s.Reader.ListBases(ctx, in, query) })
}

// ListGroups implements store.Reader.
func (s *sealedStore) ListGroups(ctx context.Context, in store.Namespaces, query store.GroupQuery) (store.GroupPage, error) {
	return paged(ctx, s, in, &query.Page, func(p *store.GroupPage) *string { return &p.NextToken },
		func() (store.GroupPage, error) { return s.Reader.ListGroups(ctx, in, query) })
}

// ListCoverage implements store.Reader.
func (s *sealedStore) ListCoverage(ctx context.Context, in store.Namespaces, query store.CoverageQuery) (store.CoveragePage, error) {
	return paged(ctx, s, in, &query.Page, func(p *store.CoveragePage) *string { return &p.NextToken },
		func() (store.CoveragePage, error) { return s.Reader.ListCoverage(ctx, in, query) })
}

// ListRollouts implements store.Reader.
func (s *sealedStore) ListRollouts(ctx context.Context, in store.Namespaces, query store.RolloutQuery) (store.RolloutPage, error) {
	page, err := paged(ctx, s, in, &query.Page, func(p *store.RolloutPage) *string { return &p.NextToken },
		func() (store.RolloutPage, error) { return s.Reader.ListRollouts(ctx, in, query) })
	for i := range page.Rollouts {
		page.Rollouts[i].ID = s.id(in, sealRollouts, page.Rollouts[i].ID)
	}
	return page, err
}

// Rollout implements store.Reader.
func (s *sealedStore) Rollout(ctx context.Context, in store.Namespaces, id int64) (store.RolloutDetail, error) {
	if in.All() {
		return s.Reader.Rollout(ctx, in, id)
	}
	sealer, err := s.seals(ctx)
	if err != nil {
		return store.RolloutDetail{}, err
	}
	found, err := s.Reader.Rollout(ctx, in, sealer.OpenID(sealRollouts, id))
	found.ID = id
	return found, err
}

// Changes implements store.Reader.
func (s *sealedStore) Changes(ctx context.Context, in store.Namespaces, query store.ChangeQuery) (store.ChangePage, error) {
	page, err := paged(ctx, s, in, &query.Page, func(p *store.ChangePage) *string { return &p.NextToken },
		func() (store.ChangePage, error) { return s.Reader.Changes(ctx, in, query) })
	for i := range page.Changes {
		page.Changes[i].ID = s.id(in, sealChanges, page.Changes[i].ID)
	}
	return page, err
}

// ListDecisions implements store.Reader.
func (s *sealedStore) ListDecisions(ctx context.Context, in store.Namespaces, query store.DecisionQuery) (store.DecisionPage, error) {
	page, err := paged(ctx, s, in, &query.Page, func(p *store.DecisionPage) *string { return &p.NextToken },
		func() (store.DecisionPage, error) { return s.Reader.ListDecisions(ctx, in, query) })
	for i := range page.Decisions {
		s.sealDecision(in, &page.Decisions[i])
	}
	return page, err
}

// Decision implements store.Reader.
func (s *sealedStore) Decision(ctx context.Context, in store.Namespaces, id int64) (store.DecisionRecord, error) {
	if in.All() {
		return s.Reader.Decision(ctx, in, id)
	}
	sealer, err := s.seals(ctx)
	if err != nil {
		return store.DecisionRecord{}, err
	}
	found, err := s.Reader.Decision(ctx, in, sealer.OpenID(sealDecisions, id))
	if err != nil {
		return store.DecisionRecord{}, err
	}
	s.sealDecision(in, &found)
	return found, nil
}

func (s *sealedStore) sealDecision(in store.Namespaces, d *store.DecisionRecord) {
	d.ID = s.id(in, sealDecisions, d.ID)
	if d.Previous != nil {
		d.Previous.ID = s.id(in, sealDecisions, d.Previous.ID)
	}
}

// id is a row number as it is shown, once the sealer is known.
func (s *sealedStore) id(in store.Namespaces, purpose string, id int64) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if in.All() || s.sealer == nil {
		return id
	}
	return s.sealer.ID(purpose, id)
}

// sealEvent is an event as it is told to who sees some namespaces.
func sealEvent(sealer *seal.Sealer, event store.Event) store.Event {
	if event.Kind != store.EventRolloutEvaluated {
		return event
	}
	var data map[string]json.RawMessage
	var id int64
	if json.Unmarshal(event.Data, &data) != nil || json.Unmarshal(data["id"], &id) != nil {
		event.Data = json.RawMessage("{}")
		return event
	}
	data["id"] = json.RawMessage(strconv.FormatInt(sealer.ID(sealRollouts, id), 10))
	content, err := json.Marshal(data)
	if err != nil {
		content = []byte("{}")
	}
	event.Data = content
	return event
}
