package sinks

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/scanner-operator/scanner-operator/internal/outbound"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// dependencyTrack delivers BOMs to projects of Dependency-Track, and makes projects inactive.
type dependencyTrack struct {
	factory *Factory
	spec    *DependencyTrack
}

func (*dependencyTrack) parts() int { return 2 }

// Names and tags of Dependency-Track have at most 255 characters.
func (*dependencyTrack) longest() int { return 255 }

func (*dependencyTrack) clean(text string) string { return text }

func (*dependencyTrack) most() int { return store.MaxReportItems }

func (d *dependencyTrack) config() string {
	return digestOf(d.spec.Credential, d.spec.ParentName, d.spec.ParentVersion)
}

// findings: Dependency-Track matches the packages itself, and ignores the vulnerabilities of a BOM.
func (*dependencyTrack) findings() bool { return false }

func (*dependencyTrack) removes() bool { return true }

func (*dependencyTrack) encode(ctx context.Context, _ *target, r *reports) ([]document, error) {
	body, err := r.bom(ctx)
	return []document{{"bom", "application/vnd.cyclonedx+json", body}}, err
}

// call sends a request with the API key.
func (d *dependencyTrack) call(ctx context.Context, q *request) (int, error) {
	key, err := outbound.Credential{Dir: d.factory.Dir, Name: d.spec.Credential}.Need(outbound.FileToken)
	if err != nil {
		return 0, unavailable(err)
	}
	q.header = http.Header{"X-Api-Key": {key}, "Accept": {"application/json"}}
	return d.factory.call(ctx, d.spec.Credential, q)
}

// deliver uploads the BOM. A form has no bound on the length of the BOM, other than JSON with the BOM as a text.
func (d *dependencyTrack) deliver(ctx context.Context, t *target, documents []document, fresh bool) error {
	name, version := t.Parts[0], t.Parts[1]
	if name == "" {
		return refusal("the name of the project is empty")
	}
	if fresh {
		// The project can be one that was made inactive before.
		if err := d.setActive(ctx, name, version, true); err != nil {
			return err
		}
	}
	fields := [][2]string{{"autoCreate", "true"}, {"projectName", name}, {"projectVersion", version}}
	var tags []string
	for _, label := range slices.Sorted(maps.Keys(t.labels)) {
		// A comma separates tags.
		tags = append(tags, strings.ReplaceAll(label, ",", "_"))
	}
	if len(tags) > 0 {
		fields = append(fields, [2]string{"projectTags", strings.Join(tags, ",")})
	}
	if d.spec.ParentName != "" {
		fields = append(fields, [2]string{"parentName", d.spec.ParentName}, [2]string{"parentVersion", d.spec.ParentVersion})
	}
	body, contentType, err := form(fields, "bom", "bom.json", "application/json", documents[0].body)
	if err != nil {
		return err
	}
	_, err = d.call(ctx, &request{method: http.MethodPost, path: "api/v1/bom", contentType: contentType, body: body})
	return err
}

// remove makes a project inactive: its history stays.
func (d *dependencyTrack) remove(ctx context.Context, t *target) error {
	return d.setActive(ctx, t.Parts[0], t.Parts[1], false)
}

// setActive makes a project active or inactive, if it exists and is not yet.
func (d *dependencyTrack) setActive(ctx context.Context, name, version string, active bool) error {
	var project struct {
		UUID     string `json:"uuid"`
		Active   *bool  `json:"active"`
		IsLatest bool   `json:"isLatest"`
	}
	query := url.Values{"name": {name}}
	if version != "" {
		query.Set("version", version)
	}
	status, err := d.call(ctx, &request{
		method: http.MethodGet, path: "api/v1/project/lookup", query: query, into: &project, accepted: []int{http.StatusNotFound},
	})
	if err != nil || status == http.StatusNotFound {
		return err
	}
	// Dependency-Track leaves out active where it is true in some versions.
	if is := project.Active == nil || *project.Active; is == active {
		return nil
	}
	if uuid.Validate(project.UUID) != nil {
		return unavailable(errors.New("the answer about the project has no UUID"))
	}
	change := map[string]bool{"active": active}
	if project.IsLatest {
		// Otherwise it would not be the latest version afterwards.
		change["isLatest"] = true
	}
	body, err := json.Marshal(change)
	if err != nil {
		return err
	}
	_, err = d.call(ctx, &request{
		method: http.MethodPatch, path: "api/v1/project/" + project.UUID, contentType: "application/json", body: body,
		// 304 says that nothing differs, and 404 that the project was deleted meanwhile.
		accepted: []int{http.StatusNotModified, http.StatusNotFound},
	})
	return err
}
