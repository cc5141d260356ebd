package server

import (
	"context"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	openapi_types "github.com/oapi-codegen/runtime/types"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/server/api"
	"github.com/scanner-operator/scanner-operator/internal/server/problem"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// Bounds of query parameters, as the specification states them.
const (
	maxImageText        = 512
	maxText             = 256
	maxName             = 253
	maxPackageName      = 512
	maxConstraint       = 256
	maxWord             = 64
	maxKind             = 63
	maxStates           = 5
	maxCoverageStates   = 6
	maxChangeKinds      = 3
	maxDecisionStatuses = 6
	maxBuildID          = 128
	maxVulnerabilityID  = 255
	minimumPageSize     = 1
)

// parameters reads query parameters. The first one that is refused stays as the error; what is read after it is of no use.
type parameters struct{ err error }

func (p *parameters) refuse(format string, args ...any) {
	if p.err == nil {
		p.err = problem.BadRequest(format, args...)
	}
}

// page reads the paging parameters.
func (p *parameters) page(token *api.PageToken, size *api.PageSize) store.Page {
	page := store.Page{Token: value(token), Size: store.DefaultPageSize}
	if size != nil {
		page.Size = *size
	}
	switch {
	case page.Size < minimumPageSize || page.Size > store.MaxPageSize:
		p.refuse("pageSize is not in the range %d to %d", minimumPageSize, store.MaxPageSize)
	case len(page.Token) > store.MaxTokenLength:
		p.refuse("pageToken exceeds the limit of %d bytes", store.MaxTokenLength)
	}
	return page
}

// severity reads a severity; without one nothing is filtered.
func (p *parameters) severity(name *api.Severity) model.Severity {
	switch {
	case name == nil:
		return model.SeverityUnknown
	case !name.Valid():
		p.refuse("severity %.40q is not one of Critical, High, Medium, Low, Negligible, Unknown", string(*name))
		return model.SeverityUnknown
	}
	parsed, err := model.ParseSeverity(string(*name))
	if err != nil {
		p.refuse("%v", err)
	}
	return parsed
}

// text reads a text of at most limit bytes without control characters.
func (p *parameters) text(name string, text *string, limit int) string {
	t := value(text)
	switch {
	case len(t) > limit:
		p.refuse("%s exceeds the limit of %d bytes", name, limit)
	case !utf8.ValidString(t):
		p.refuse("%s is not valid UTF-8", name)
	case strings.ContainsFunc(t, func(r rune) bool { return r < ' ' || r == 0x7f }):
		p.refuse("%s contains a control character", name)
	}
	return t
}

// chainID reads the chain ID of layers.
func (p *parameters) chainID(name string, id *string) string {
	if id != nil && len(model.ChainIDs([]string{*id})) == 0 {
		p.refuse("%s %.80q is not a chain ID, which is sha256: and 64 hexadecimal digits in lower case", name, *id)
	}
	return value(id)
}

// baseLayers reads of how many layers the chain ID of a base image is; 0 stands for any number.
func (p *parameters) baseLayers(base *string, number *int) int {
	if number != nil && (base == nil || *number < 1 || *number > model.MaxLayers) {
		p.refuse("baseLayers is not in the range 1 to %d, or comes without base", model.MaxLayers)
	}
	return value(number)
}

// probability reads a number from 0 to 1.
func (p *parameters) probability(name string, number *float64) float64 {
	if n := value(number); !(n >= 0 && n <= 1) { //nolint:staticcheck // the other way round lets NaN pass
		p.refuse("%s is not in the range 0 to 1", name)
	}
	return value(number)
}

// days checks a number of days, unless there is none.
func (p *parameters) days(name string, number *int, least int) {
	if number != nil && (*number < least || *number > store.MaxDays) {
		p.refuse("%s is not in the range %d to %d", name, least, store.MaxDays)
	}
}

// where reads what chooses by workload.
func (p *parameters) where(namespace *api.Namespace, workload *api.WorkloadName, kind *api.WorkloadKind, owned store.Ownership) store.Where {
	return store.Where{
		Namespace: p.text("namespace", namespace, maxName), Workload: p.text("workload", workload, maxName),
		WorkloadKind: p.text("workloadKind", kind, maxKind), Ownership: owned,
	}
}

// ownership reads what chooses by owner.
func (p *parameters) ownership(owner *api.Owner, none *api.NoOwner) store.Ownership {
	owned := store.Ownership{Owner: p.text("owner", owner, store.MaxOwner), None: value(none)}
	if owned.Owner != "" && owned.None {
		p.refuse("owner and noOwner are mutually exclusive")
	}
	return owned
}

// imageID reads an image ID, "" for none.
func (p *parameters) imageID(id *string) string {
	if id == nil {
		return ""
	}
	key, err := imageKey(*id, nil)
	if err != nil && p.err == nil {
		p.err = err
	}
	return key.ImageID
}

// image reads the image of a path, and the platform that is asked for.
func (p *parameters) image(id string, platform *string) model.ImageKey {
	key, err := imageKey(id, platform)
	if err != nil && p.err == nil {
		p.err = err
	}
	return key
}

// platform reads a platform, "" for none.
func (p *parameters) platform(text *string) string {
	if value(text) == "" {
		return ""
	}
	platform, err := model.ParsePlatform(*text)
	if err != nil {
		p.refuse("platform: %v", err)
	}
	return platform.String()
}

// day reads a day of UTC, the zero time for none.
func day(date *openapi_types.Date) time.Time {
	if date == nil {
		return time.Time{}
	}
	return date.UTC()
}

// choice reads one of some words; without any it is the first of them.
func choice[To, From ~string](p *parameters, name string, word *From, allowed ...To) To {
	if word == nil {
		return allowed[0]
	}
	if !slices.Contains(allowed, To(*word)) {
		p.refuse("%s %.40q is not one of %s", name, string(*word), joined(allowed))
	}
	return To(*word)
}

// choices reads at most limit of some words.
func choices[To, From ~string](p *parameters, name string, words *[]From, limit int, allowed ...To) []To {
	if len(value(words)) > limit {
		p.refuse("%s is repeated more than %d times", name, limit)
		return nil
	}
	var list []To
	for _, word := range value(words) {
		list = append(list, choice(p, name, &word, allowed...))
	}
	return list
}

func joined[T ~string](words []T) string {
	list := make([]string, len(words))
	for i, word := range words {
		list[i] = string(word)
	}
	return strings.Join(list, ", ")
}

// identifier reads an ID in a path: printable ASCII without spaces.
func (p *parameters) identifier(what, id string, limit int) string {
	if len(id) > limit {
		p.refuse("the %s has %d bytes, which exceeds the limit of %d", what, len(id), limit)
		return ""
	}
	for _, r := range id {
		if r <= ' ' || r > '~' {
			p.refuse("the %s contains the character %q; only printable ASCII without spaces is allowed", what, r)
		}
	}
	return id
}

// imageQuery reads the parameters of a list of images.
func imageQuery(params api.ListImagesParams) (store.ImageQuery, error) {
	var p parameters
	query := store.ImageQuery{
		Text: p.text("text", params.Text, maxImageText), MinSeverity: p.severity(params.Severity),
		States: choices(&p, "state", params.State, maxStates,
			store.StatePending, store.StateFailed, store.StateCataloged, store.StateScanned, store.StateReported),
		Fixable: value(params.Fixable), KEV: value(params.Kev), MinEPSS: p.probability("epss", params.Epss),
		Partial: value(params.Partial), EndOfLifeWithin: params.EndOfLifeWithin, OlderThan: value(params.OlderThan),
		Overdue: value(params.Overdue), Base: p.chainID("base", params.Base), BaseLayers: p.baseLayers(params.Base, params.BaseLayers),
		Running: value(params.Running), Platform: p.platform(params.Platform),
		Where: p.where(params.Namespace, params.Workload, params.WorkloadKind, p.ownership(params.Owner, params.NoOwner)),
		Sort:  choice(&p, "sort", params.Sort, store.SortImageID, store.SortSeverity, store.SortCreated),
		Page:  p.page(params.PageToken, params.PageSize),
	}
	p.days("endOfLifeWithin", params.EndOfLifeWithin, 0)
	p.days("olderThan", params.OlderThan, 1)
	if params.Source != nil {
		query.Source = choice(&p, "source", params.Source, model.SourceRegistry, model.SourceImageVolume)
	}
	return query, p.err
}

// findingQuery reads the parameters of a list of findings.
func findingQuery(imageID string, params api.ListFindingsParams) (store.FindingQuery, error) {
	var p parameters
	query := store.FindingQuery{
		Image: p.image(imageID, params.Platform),
		Text:  p.text("text", params.Text, maxText), MinSeverity: p.severity(params.Severity),
		Fixable: value(params.Fixable), KEV: value(params.Kev), MinEPSS: p.probability("epss", params.Epss), Closed: value(params.Closed),
		Suppressed: value(params.Suppressed), Overdue: value(params.Overdue), DueBefore: value(params.DueBefore),
		Sort: choice(&p, "sort", params.Sort, store.SortFindingRisk, store.SortFindingSeverity, store.SortFindingPackage, store.SortFindingDue),
		Page: p.page(params.PageToken, params.PageSize),
	}
	if params.Origin != nil {
		query.Origin = choice(&p, "origin", params.Origin, model.OriginBase, model.OriginImage)
	}
	if query.Closed && (query.Overdue || !query.DueBefore.IsZero()) {
		p.refuse("closed findings are not due; use overdue and dueBefore without closed")
	}
	return query, p.err
}

// changeQuery reads the parameters of a list of changes.
func changeQuery(build string, params api.ListChangesParams) (store.ChangeQuery, error) {
	var p parameters
	if params.Generation != nil && *params.Generation < 1 {
		p.refuse("generation is less than 1")
	}
	query := store.ChangeQuery{
		Build: p.identifier("build ID", build, maxBuildID), ResultSet: value(params.Generation),
		Text: p.text("text", params.Text, maxText), MinSeverity: p.severity(params.Severity), ImageID: p.imageID(params.ImageId),
		Kinds: choices(&p, "kind", params.Kind, maxChangeKinds, store.ChangeOpened, store.ChangeClosed, store.ChangeChanged),
		KEV:   value(params.Kev),
		Page:  p.page(params.PageToken, params.PageSize),
	}
	return query, p.err
}

// refuseUnknown refuses query parameters that an operation under /api/v1 does not know: a filter that is misspelt would be left
// out, and the answer would be one to another question. An identity provider may add parameters of its own when it sends a browser back.
func refuseUnknown(next api.StrictHandlerFunc, operation string) api.StrictHandlerFunc {
	return func(ctx context.Context, w http.ResponseWriter, r *http.Request, request any) (any, error) {
		if strings.HasPrefix(r.URL.Path, "/api/v1/") && operation != "FinishSignIn" {
			if err := unknownParameter(r, request); err != nil {
				return nil, err
			}
		}
		return next(ctx, w, r, request)
	}
}

// unknownParameter compares a query with the fields of the parameters in a generated request object.
func unknownParameter(r *http.Request, request any) error {
	if r.URL.RawQuery == "" {
		return nil
	}
	var known []string
	if params := reflect.ValueOf(request).FieldByName("Params"); params.IsValid() {
		for field := range params.Type().Fields() {
			if name, _, _ := strings.Cut(field.Tag.Get("form"), ","); name != "" {
				known = append(known, name)
			}
		}
	}
	for name := range r.URL.Query() {
		if slices.Contains(known, name) {
			continue
		}
		slices.Sort(known)
		allowed := "it has none"
		if len(known) > 0 {
			allowed = "its parameters are " + strings.Join(known, ", ")
		}
		return problem.BadRequest("%.40q is not a query parameter of this resource; %s", name, allowed)
	}
	return nil
}
