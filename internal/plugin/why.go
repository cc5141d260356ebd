package plugin

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/scanner-operator/scanner-operator/internal/server/api"
)

const (
	// maxRecords bounds the IDs that a vulnerability is searched under, maxFindings the findings under each.
	maxRecords, maxFindings = 20, 1000
	// maxPlaces bounds the containers that are named as running an image.
	maxPlaces = 100
)

// NotAffectedError is the error of the command why for an image that does not have the vulnerability: main ends with another exit code.
type NotAffectedError struct{ image, vulnerability string }

func (e NotAffectedError) Error() string {
	return fmt.Sprintf("the image %s does not have %s", printable(e.image), printable(e.vulnerability))
}

func (o *options) whyCommand() *cobra.Command {
	var platform string
	cmd := &cobra.Command{
		Use:   "why IMAGE CVE",
		Short: "Explain why an image has a vulnerability, and where it runs",
		Long: `Explain why an image has a vulnerability: the packages, their locations and layers, how they were matched, what fixes them, and which containers run
the image. IMAGE is as for "findings"; CVE is the ID or an alias of the vulnerability. -o wide adds due dates, decisions and owners.

The exit code is 2 if the image does not have the vulnerability.`,
		Example: `  kubectl scanner why nginx:1.27 CVE-2024-0001
  kubectl scanner why sha256:1e42bbe25081 GHSA-jfh8-c2jp-5v3q -o yaml`,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: o.completeArguments(o.completeImages, o.completeVulnerabilities),
	}
	cmd.Flags().StringVar(&platform, "platform", "", "Platform of IMAGE, for example linux/amd64. If absent, a scanned platform is selected")
	cmd.RunE = o.run(func(ctx context.Context, c *client, namespace string, arguments []string) error {
		id, err := c.resolve(ctx, namespace, arguments[0])
		if err != nil {
			return err
		}
		findings, err := c.findingsOf(ctx, id, platform, arguments[1])
		if err != nil {
			return err
		}
		if len(findings.items) == 0 {
			return NotAffectedError{id, arguments[1]}
		}
		query := url.Values{}
		set(query, "platform", platform)
		places, err := list[api.Presence](ctx, c, maxPlaces, query, "api", "v1", "images", id, "presences")
		if err != nil {
			return err
		}
		places = running(places)
		if o.output == "json" || o.output == "yaml" {
			return o.document(map[string]any{"imageId": id, "findings": findings.raw, "presences": places.raw})
		}
		o.explain(id, findings.items, places.items)
		return nil
	})
	return cmd
}

// findingsOf returns the findings of an image that are a vulnerability, under its ID or an alias.
func (c *client) findingsOf(ctx context.Context, image, platform, vulnerability string) (rows[api.Finding], error) {
	ids := []string{vulnerability}
	var details api.VulnerabilityDetails
	err := c.get(ctx, &details, nil, "api", "v1", "vulnerabilities", vulnerability)
	if err != nil && statusOf(err) != http.StatusNotFound {
		return rows[api.Finding]{}, err
	}
	for _, record := range details.Records {
		if len(ids) <= maxRecords && !slices.Contains(ids, record.Id) {
			ids = append(ids, record.Id)
		}
	}
	var found rows[api.Finding]
	for _, id := range ids {
		query := url.Values{"text": {id}}
		set(query, "platform", platform)
		findings, err := list[api.Finding](ctx, c, maxFindings, query, findingsOf(image)...)
		if err != nil {
			return rows[api.Finding]{}, err
		}
		for i, f := range findings.items {
			// The text may also be a part of another ID or of a name.
			if strings.EqualFold(f.Vulnerability.Id, id) {
				found.items, found.raw = append(found.items, f), append(found.raw, findings.raw[i])
			}
		}
	}
	return found, nil
}

// running keeps what has not ended.
func running(all rows[api.Presence]) rows[api.Presence] {
	kept := rows[api.Presence]{raw: []json.RawMessage{}}
	for i, p := range all.items {
		if p.Until == nil {
			kept.items, kept.raw = append(kept.items, p), append(kept.raw, all.raw[i])
		}
	}
	return kept
}

// explain writes for people what the findings of an image are.
func (o *options) explain(image string, findings []api.Finding, places []api.Presence) {
	linef(o.out, "Image:          %s", image)
	for _, f := range findings {
		v := f.Vulnerability
		linef(o.out, "")
		linef(o.out, "Vulnerability:  %s%s", v.Id, aliases(v.Aliases))
		linef(o.out, "Severity:       %s", rating(v))
		if v.Kev != nil {
			for _, k := range *v.Kev {
				linef(o.out, "In KEV:         since %s, due %s", orNone(value(k.DateAdded)), orNone(value(k.DueDate)))
			}
		}
		linef(o.out, "Package:        %s %s (%s)", f.Package.Name, f.Package.Version, f.Package.Type)
		linef(o.out, "Fixed in:       %s", orNone(fixedIn(f.Fix)))
		if o.output == "wide" {
			o.explainDecisions(f)
		}
		for _, l := range f.Locations {
			linef(o.out, "Location:       %s%s", l.Path, inLayer(l))
		}
		for _, d := range f.Details {
			linef(o.out, "Matched by:     %s, %s", d.Matcher, d.Type)
			linef(o.out, "  searched for  %s", raw(d.SearchedBy))
			linef(o.out, "  found         %s", raw(d.Found))
		}
		if f.FirstSeen != nil {
			linef(o.out, "First seen:     %s ago", o.age(f.FirstSeen))
		}
		if v.DataSource != nil {
			linef(o.out, "Source:         %s", *v.DataSource)
		}
		if v.Description != nil {
			linef(o.out, "Description:    %s", *v.Description)
		}
	}
	linef(o.out, "")
	if len(places) == 0 {
		linef(o.out, "Runs in:        %s", none)
		return
	}
	linef(o.out, "Runs in:")
	for _, p := range places {
		owner := ""
		if o.output == "wide" {
			owner = ", owner: " + orNone(value(p.Workload.Owner))
		}
		linef(o.out, "  %s/%s (container %s) for %s%s", p.Workload.Namespace, workload(p.Workload), p.Container, o.age(&p.Since), owner)
	}
	if len(places) == maxPlaces {
		linef(o.out, "  … and possibly more")
	}
}

// explainDecisions writes until when a finding is due, and what was decided about it.
func (o *options) explainDecisions(f api.Finding) {
	until := orNone(due(f.Due))
	if f.Due != nil {
		until += ", by the policy " + f.Due.Policy
	}
	linef(o.out, "Due:            %s", until)
	if f.Decisions == nil {
		return
	}
	for _, d := range *f.Decisions {
		name := d.Object.Name
		if d.Object.Namespace != nil {
			name = *d.Object.Namespace + "/" + name
		}
		suppresses := ""
		if d.Suppresses {
			suppresses = ", suppresses it"
		}
		linef(o.out, "Decision:       %s (%s %s)%s", string(d.Status), d.Object.Kind, name, suppresses)
	}
}

func aliases(list *[]string) string {
	if list == nil || len(*list) == 0 {
		return ""
	}
	return " (" + strings.Join(*list, ", ") + ")"
}

func rating(v api.Vulnerability) string {
	parts := []string{string(v.Severity)}
	if v.Cvss != nil {
		for _, c := range *v.Cvss {
			parts = append(parts, "CVSS "+c.Version+" "+decimal(c.Score))
		}
	}
	if v.Epss != nil {
		parts = append(parts, "EPSS "+percent(v.Epss.Score))
	}
	return strings.Join(append(parts, "risk "+decimal(v.Risk)), ", ")
}

func inLayer(l api.Location) string {
	if l.Layer == nil {
		return ""
	}
	return " (layer " + *l.Layer + ")"
}

func raw(message *json.RawMessage) string {
	if message == nil {
		return none
	}
	return string(*message)
}

func orNone(s string) string {
	if s == "" {
		return none
	}
	return s
}
