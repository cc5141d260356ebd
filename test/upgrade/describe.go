// Package upgrade tests that this version takes over what the previous one left: its database and its chart.
package upgrade

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// Day is the first day of a recorded database.
var Day = time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)

// Describe writes what a store returns as text, one line for each thing, so that two versions can be compared.
func Describe(ctx context.Context, s store.Store, w io.Writer) error {
	images, err := s.ListImages(ctx, store.AllNamespaces(), store.ImageQuery{Page: store.Page{Size: store.MaxPageSize}})
	if err != nil {
		return err
	}
	for _, image := range images.Images {
		database := "-"
		if image.Database != nil {
			database = image.Database.ID
		}
		fmt.Fprintf(w, "image %s %s\n  state=%s reason=%q message=%q attempts=%d next=%s\n", image.Key.ImageID, image.Key.Platform,
			image.State, image.Reason, image.Message, image.Attempts, at(image.NextAttempt))
		fmt.Fprintf(w, "  distro=%s size=%d packages=%d database=%s first=%s cataloged=%s matched=%s sizeClass=%s report=%t\n", image.Distro, image.Size,
			image.PackageCount, database, at(image.FirstSeen), at(image.CatalogedAt), at(image.MatchedAt), image.SizeClass, image.HasReport)
		fmt.Fprintf(w, "  counts=%s\n", asJSON(image.Counts))
		if err := describeImage(ctx, s, image, w); err != nil {
			return fmt.Errorf("%s: %w", image.Key, err)
		}
	}
	for _, describe := range []func(context.Context, store.Store, io.Writer) error{describeLists, describeHistory, describeEvents} {
		if err := describe(ctx, s, w); err != nil {
			return err
		}
	}
	return nil
}

// describeImage writes the SBOM, the packages, the findings and the report of an image.
func describeImage(ctx context.Context, s store.Store, image store.Image, w io.Writer) error {
	if image.SBOMSHA256 != "" {
		sbom, err := s.SBOM(ctx, store.AllNamespaces(), image.Key)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "  sbom %s %s %d %q\n", sbom.MediaType, sbom.SHA256, sbom.Size, sbom.Content)
	}
	err := s.Packages(ctx, store.AllNamespaces(), image.Key, func(held model.HeldPackage) error {
		_, err := fmt.Fprintf(w, "  package %s %s %s %s %s %s %s %s %s\n", held.Package.Name, held.Package.Version, held.Package.Type,
			held.Package.PURL, held.Package.Distro, asJSON(held.Package.Licenses), asJSON(held.Package.CPEs), held.Package.MatchInput, asJSON(held.Locations))
		return err
	})
	if err != nil {
		return err
	}
	for _, closed := range []bool{false, true} {
		findings, err := s.Findings(ctx, store.AllNamespaces(), store.FindingQuery{Image: image.Key, Closed: closed})
		if err != nil {
			return err
		}
		for _, f := range findings.Findings {
			fmt.Fprintf(w, "  finding in %s first=%s fixed=%s: %s\n", f.Package.Name, at(f.FirstSeen), at(f.FixedAt), asJSON(f.PackageFinding))
		}
	}
	presences, err := s.Presences(ctx, store.AllNamespaces(), store.PresenceQuery{Image: image.Key})
	if err != nil {
		return err
	}
	for _, p := range presences.Presences {
		fmt.Fprintf(w, "  presence %s %s %s from %s until %s\n", p.Cluster, asJSON(p.Workload), p.Container, at(p.Since), at(p.Until))
	}
	if image.HasReport {
		report, err := s.Report(ctx, store.AllNamespaces(), image.Key.ImageID)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "  report %q\n", report)
	}
	return nil
}

// describeLists writes what spans images: sums, vulnerabilities, coverage and changes.
func describeLists(ctx context.Context, s store.Store, w io.Writer) error {
	overview, err := s.Overview(ctx, store.AllNamespaces())
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "overview running=%d packages=%d counts=%s\n", overview.Running, overview.Packages, asJSON(overview.Counts))
	vulnerabilities, err := s.ListVulnerabilities(ctx, store.AllNamespaces(), store.VulnerabilityQuery{})
	if err != nil {
		return err
	}
	for _, v := range vulnerabilities.Vulnerabilities {
		fmt.Fprintf(w, "vulnerability %s %s\n", v.ID, v.Severity)
	}
	containers, err := s.ListCoverage(ctx, store.AllNamespaces(), store.CoverageQuery{})
	if err != nil {
		return err
	}
	for _, c := range containers.Containers {
		fmt.Fprintf(w, "container %s %s %s %s %d\n", asJSON(c.Workload), c.Container, c.State, c.Reason, c.Pods)
	}
	changes, err := s.Changes(ctx, store.AllNamespaces(), store.ChangeQuery{})
	if err != nil {
		return err
	}
	for _, c := range changes.Changes {
		fmt.Fprintf(w, "change %s %s in %s: %s to %s at %s\n", c.Kind, c.VulnerabilityID, c.Package.Name, c.PreviousBuild, c.Build, at(c.At))
	}
	return nil
}

// describeHistory writes the sums of days and the rollouts.
func describeHistory(ctx context.Context, s store.Store, w io.Writer) error {
	trend, err := s.Trend(ctx, store.AllNamespaces(), store.TrendQuery{From: Day, To: Day.AddDate(0, 0, 2)})
	if err != nil {
		return err
	}
	for _, day := range trend {
		fmt.Fprintf(w, "day %s images=%d scanned=%d\n", at(day.Day), day.Images, day.Scanned)
	}
	rollouts, err := s.ListRollouts(ctx, store.AllNamespaces(), store.RolloutQuery{})
	if err != nil {
		return err
	}
	for _, r := range rollouts.Rollouts {
		fmt.Fprintf(w, "rollout %s %s %s from %s to %s at %s\n", r.Cluster, asJSON(r.Workload), r.Container, r.From.Image, r.To.Image, at(r.At))
	}
	return nil
}

func describeEvents(ctx context.Context, s store.Store, w io.Writer) error {
	events, err := s.EventsSince(ctx, store.AllNamespaces(), 0, store.MaxKeys)
	if err != nil {
		return err
	}
	for _, e := range events {
		fmt.Fprintf(w, "event %d %s %s %s %s %s\n", e.Sequence, at(e.At), e.Kind, e.ImageID, e.Platform, e.Data)
	}
	return nil
}

func asJSON(v any) string {
	content, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(content)
}

func at(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}
