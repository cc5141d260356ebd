package server

import (
	"github.com/scanner-operator/scanner-operator/internal/server/api"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/vuln"
)

// Bounds of query parameters, as the specification states them.
const (
	maxPageToken    = 4096
	maxImageText    = 512
	maxFindingText  = 256
	maxImageStates  = 5
	maxChangeKinds  = 3
	maxBuildID      = 128
	minimumPageSize = 1
)

// page reads the paging parameters.
func page(token *api.PageToken, size *api.PageSize) (store.Page, error) {
	p := store.Page{Token: value(token), Size: store.DefaultPageSize}
	if size != nil {
		p.Size = *size
	}
	switch {
	case p.Size < minimumPageSize || p.Size > store.MaxPageSize:
		return store.Page{}, badRequest("pageSize is not between %d and %d", minimumPageSize, store.MaxPageSize)
	case len(p.Token) > maxPageToken:
		return store.Page{}, badRequest("pageToken has more than %d bytes", maxPageToken)
	}
	return p, nil
}

// severity reads a severity parameter; without one nothing is filtered.
func severity(name *api.Severity) (vuln.Severity, error) {
	switch {
	case name == nil:
		return vuln.SeverityUnknown, nil
	case !name.Valid():
		return vuln.SeverityUnknown, badRequest("severity %.40q is not one of Critical, High, Medium, Low, Negligible, Unknown", string(*name))
	}
	parsed, err := vuln.ParseSeverity(string(*name))
	if err != nil {
		return vuln.SeverityUnknown, badRequest("%v", err)
	}
	return parsed, nil
}

// text reads a search text.
func text(text *string, limit int) (string, error) {
	if len(value(text)) > limit {
		return "", badRequest("text has more than %d bytes", limit)
	}
	return value(text), nil
}

// imageQuery reads the parameters of a list of images.
func imageQuery(params api.ListImagesParams) (query store.ImageQuery, err error) {
	if query.Page, err = page(params.PageToken, params.PageSize); err != nil {
		return query, err
	}
	if query.Text, err = text(params.Text, maxImageText); err != nil {
		return query, err
	}
	if query.MinSeverity, err = severity(params.Severity); err != nil {
		return query, err
	}
	states := value(params.State)
	if len(states) > maxImageStates {
		return query, badRequest("there are more than %d states", maxImageStates)
	}
	for _, state := range states {
		if !state.Valid() {
			return query, badRequest("state %.40q is not one of Pending, Failed, Catalogued, Scanned, Reported", string(state))
		}
		query.States = append(query.States, store.State(state))
	}
	query.Sort = store.SortImageID
	if params.Sort != nil {
		if !params.Sort.Valid() {
			return query, badRequest("sort %.40q is not one of imageId, -severity", string(*params.Sort))
		}
		query.Sort = store.ImageSort(*params.Sort)
	}
	return query, nil
}

// findingQuery reads the parameters of a list of findings.
func findingQuery(imageID string, params api.ListFindingsParams) (query store.FindingQuery, err error) {
	if query.Image, err = imageKey(imageID, params.Platform); err != nil {
		return query, err
	}
	if query.Page, err = page(params.PageToken, params.PageSize); err != nil {
		return query, err
	}
	if query.Text, err = text(params.Text, maxFindingText); err != nil {
		return query, err
	}
	if query.MinSeverity, err = severity(params.Severity); err != nil {
		return query, err
	}
	query.Fixable, query.KEV = value(params.Fixable), value(params.Kev)
	query.Sort = store.SortFindingRisk
	if params.Sort != nil {
		if !params.Sort.Valid() {
			return query, badRequest("sort %.40q is not one of -risk, -severity, package", string(*params.Sort))
		}
		query.Sort = store.FindingSort(*params.Sort)
	}
	return query, nil
}

// changeQuery reads the parameters of a list of changes.
func changeQuery(build string, params api.ListChangesParams) (query store.ChangeQuery, err error) {
	if query.Build, err = buildID(build); err != nil {
		return query, err
	}
	if query.Page, err = page(params.PageToken, params.PageSize); err != nil {
		return query, err
	}
	if query.Text, err = text(params.Text, maxFindingText); err != nil {
		return query, err
	}
	if query.MinSeverity, err = severity(params.Severity); err != nil {
		return query, err
	}
	if params.ImageId != nil {
		key, err := imageKey(*params.ImageId, nil)
		if err != nil {
			return query, err
		}
		query.ImageID = key.ImageID
	}
	if params.Generation != nil {
		if *params.Generation < 1 {
			return query, badRequest("generation is less than 1")
		}
		query.Generation = *params.Generation
	}
	query.Kinds, err = changeKinds(value(params.Kind))
	query.KEV = value(params.Kev)
	return query, err
}

// buildID checks the bounds of the ID of a database build.
func buildID(id string) (string, error) {
	if len(id) > maxBuildID {
		return "", badRequest("the build ID has %d bytes, more than the limit of %d", len(id), maxBuildID)
	}
	for _, r := range id {
		if r <= ' ' || r > '~' {
			return "", badRequest("the build ID holds the character %q; only printable ASCII without spaces is allowed", r)
		}
	}
	return id, nil
}

func changeKinds(names []api.ChangeKind) ([]store.ChangeKind, error) {
	if len(names) > maxChangeKinds {
		return nil, badRequest("there are more than %d kinds", maxChangeKinds)
	}
	var kinds []store.ChangeKind
	for _, name := range names {
		if !name.Valid() {
			return nil, badRequest("kind %.40q is not one of opened, closed, changed", string(name))
		}
		kinds = append(kinds, store.ChangeKind(name))
	}
	return kinds, nil
}
