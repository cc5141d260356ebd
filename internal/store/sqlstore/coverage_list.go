package sqlstore

import (
	"context"
	"slices"
	"strconv"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// coverageOrder is by workload and container.
var coverageOrder = []sqldb.SortKey{
	{Column: "c.namespace"}, {Column: "c.kind"}, {Column: "c.name"}, {Column: "c.container"}, {Column: "c.id", Number: true},
}

// coverageToken is what a page token of containers belongs to.
type coverageToken struct {
	List, Namespace, Workload string
	Ownership                 store.Ownership
	States                    []string
	Reason, Text              string
}

// firstScope is the condition that no scope before, by name, tells of the same container of the same workload.
const firstScope = `NOT EXISTS (SELECT 1 FROM container_coverage o WHERE o.namespace = c.namespace AND o.kind = c.kind AND o.name = c.name
	AND o.container = c.container AND o.scope < c.scope)`

// ListCoverage implements store.Coverage.
func (s *Store) ListCoverage(ctx context.Context, in store.Namespaces, query store.CoverageQuery) (store.CoveragePage, error) {
	token := coverageToken{"coverage", query.Namespace, query.Workload, query.Ownership, query.States, query.Reason, query.Text}
	var page store.CoveragePage
	err := s.read(ctx, "list the coverage of containers", func(tx *gorm.DB) error {
		page = store.CoveragePage{Containers: []store.ContainerCoverage{}, Counts: map[string]int{}}
		filtered := within(tx.Table("container_coverage AS c"), "c.namespace", in)
		// Mostly there is one scope. With MariaDB, looking for others takes most of the time.
		var scopes struct{ First, Last string }
		if err := tx.Raw("SELECT COALESCE((SELECT MIN(scope) FROM container_coverage), '') AS first, COALESCE((SELECT MAX(scope) FROM container_coverage), '') AS last").Scan(&scopes).Error; err != nil {
			return err
		}
		if scopes.First != scopes.Last {
			filtered = filtered.Where(firstScope)
		}
		if query.Namespace != "" {
			filtered = filtered.Where("c.namespace = ?", query.Namespace)
		}
		if query.Workload != "" {
			filtered = filtered.Where("c.name = ?", query.Workload)
		}
		filtered = ownedBy(filtered, "c", query.Ownership)
		filtered = contains(filtered, s.db.Dialect(), query.Text, "c.reference", "c.image_id", "c.name", "c.container").Session(&gorm.Session{})
		if err := countCoverage(filtered, query, &page); err != nil {
			return err
		}
		if len(query.States) > 0 {
			filtered = filtered.Where("c.state IN ?", query.States)
		}
		if query.Reason != "" {
			filtered = filtered.Where("c.reason = ?", query.Reason)
		}
		behind, err := fromToken(filtered, query.Token, token, coverageOrder)
		if err != nil {
			return err
		}
		return readCoverage(tx, behind, in, query.Limit(), token, &page)
	})
	if err != nil {
		return store.CoveragePage{}, err
	}
	return page, nil
}

// countCoverage fills in the total of the query and the pods by state.
func countCoverage(filtered *gorm.DB, query store.CoverageQuery, page *store.CoveragePage) error {
	var rows []struct {
		State, Reason string
		Containers    int
		Pods          int
	}
	err := filtered.Select("c.state, c.reason, COUNT(*) AS containers, COALESCE(SUM(c.pods), 0) AS pods").Group("c.state, c.reason").Scan(&rows).Error
	if err != nil {
		return err
	}
	for _, row := range rows {
		page.Counts[row.State] += row.Pods
		if (len(query.States) == 0 || slices.Contains(query.States, row.State)) && (query.Reason == "" || query.Reason == row.Reason) {
			page.Total += row.Containers
		}
	}
	return nil
}

// limitMessages removes messages about images that were not scanned yet, which can reveal attempts for other namespaces.
func limitMessages(tx *gorm.DB, in store.Namespaces, rows []coverageRow) error {
	if in.All() {
		return nil
	}
	var failed []string
	for i := range rows {
		if rows[i].State == "Failed" && rows[i].ImageID != "" {
			failed = append(failed, rows[i].ImageID)
		}
	}
	slices.Sort(failed)
	own := map[imageName]bool{}
	err := inParts(slices.Compact(failed), func(part []string) error {
		var images []imageRow
		err := tx.Raw("SELECT y.image_id, y.platform FROM images y JOIN image_failures x ON x.image_pk = y.id WHERE y.image_id IN ? AND "+
			isWithin("x.namespace", in)+ofVisible("y.id", in), part).Scan(&images).Error
		for i := range images {
			own[imageName{images[i].ImageID, images[i].Platform}] = true
		}
		return err
	})
	for i := range rows {
		row := &rows[i]
		if row.ImageID != "" && (row.State == "Pending" || row.State == "Failed" && !own[imageName{row.ImageID, row.Platform}]) {
			row.Message = ""
		}
	}
	return err
}

// readCoverage fills in the containers of a page.
func readCoverage(tx, behind *gorm.DB, in store.Namespaces, limit int, token coverageToken, page *store.CoveragePage) error {
	var rows []coverageRow
	err := behind.Select("c.id, c.namespace, c.kind, c.name, c.container, c.image_id, c.platform, c.reference, c.pods, c.state, c.reason, c.message, c.next_attempt_at, c.since").
		Order(sqldb.OrderBy(coverageOrder)).Limit(limit + 1).Scan(&rows).Error
	if err != nil {
		return err
	}
	if len(rows) > limit {
		rows = rows[:limit]
		last := &rows[limit-1]
		page.NextToken, err = store.EncodeToken(token, last.Namespace, last.Kind, last.Name, last.Container, strconv.FormatInt(last.ID, 10))
		if err != nil {
			return err
		}
	}
	if err := limitMessages(tx, in, rows); err != nil {
		return err
	}
	sources, err := readSources(tx, rows)
	if err != nil {
		return err
	}
	for i := range rows {
		row := &rows[i]
		key, err := keyOf(row.ImageID, row.Platform)
		if err != nil {
			return err
		}
		page.Containers = append(page.Containers, store.ContainerCoverage{
			Workload: store.Workload{Namespace: row.Namespace, Kind: row.Kind, Name: row.Name}, Container: row.Container, Image: key,
			Reference: row.Reference, Pods: int(row.Pods), State: row.State, Reason: row.Reason, Message: row.Message,
			NextAttempt: fromMicros(row.NextAttemptAt), Since: fromMicros(row.Since),
			Source: sources[imageName{row.ImageID, row.Platform}],
		})
	}
	return setOwners(tx, workloadsIn(page.Containers, func(c *store.ContainerCoverage) *store.Workload { return &c.Workload }))
}

// readSources reads how the images of containers were read for their SBOMs.
func readSources(tx *gorm.DB, containers []coverageRow) (map[imageName]model.ImageSource, error) {
	ids := make([]string, len(containers))
	for i := range containers {
		ids[i] = containers[i].ImageID
	}
	slices.Sort(ids)
	sources := map[imageName]model.ImageSource{}
	err := inParts(slices.Compact(ids), func(part []string) error {
		var rows []struct{ ImageID, Platform, Source string }
		err := tx.Raw("SELECT i.image_id, i.platform, w.source FROM images i JOIN sbom_sources w ON w.image_pk = i.id WHERE i.image_id IN ?", part).Scan(&rows).Error
		for _, row := range rows {
			sources[imageName{row.ImageID, row.Platform}] = model.ImageSource(row.Source)
		}
		return err
	})
	return sources, err
}
