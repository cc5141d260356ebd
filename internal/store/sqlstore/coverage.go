package sqlstore

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// coverageColumns are the columns of coverageRow that are written.
var coverageColumns = []string{
	"scope", "row_key", "namespace", "kind", "name", "container", "image_id", "platform", "reference", "pods", "state", "reason", "message",
	"next_attempt_at", "since",
}

// coverageRow is a row of container_coverage.
type coverageRow struct {
	ID                               int64
	RowKey                           string
	Namespace, Kind, Name, Container string
	ImageID, Platform, Reference     string
	Pods                             int64
	State, Reason, Message           string
	NextAttemptAt, Since             int64
}

func newCoverageRow(c *store.ContainerCoverage) coverageRow {
	platform := c.Image.Platform.String()
	if _, err := model.ParsePlatform(platform); err != nil {
		platform = "" // It could not be read again.
	}
	row := coverageRow{
		Namespace: sqldb.Truncate(c.Workload.Namespace, maxIdentifier), Kind: sqldb.Truncate(c.Workload.Kind, maxIdentifier), Name: sqldb.Truncate(c.Workload.Name, maxIdentifier),
		Container: sqldb.Truncate(c.Container, maxIdentifier), ImageID: sqldb.Truncate(c.Image.ImageID, model.MaxImageIDLength), Platform: platform,
		Reference: sqldb.Truncate(c.Reference, maxName), Pods: int64(c.Pods), State: sqldb.Truncate(c.State, maxIdentifier), Reason: sqldb.Truncate(c.Reason, maxIdentifier),
		Message: sqldb.Truncate(c.Message, maxMessage), NextAttemptAt: micros(c.NextAttempt),
	}
	row.RowKey = contentDigest(row.Namespace, row.Kind, row.Name, row.Container, row.ImageID, row.Platform, row.Reference, row.State, row.Reason)
	return row
}

// add counts the pods of another row of the same key.
func (r *coverageRow) add(o *coverageRow) {
	r.Pods += o.Pods
	if o.NextAttemptAt != 0 && (r.NextAttemptAt == 0 || o.NextAttemptAt < r.NextAttemptAt) {
		r.NextAttemptAt = o.NextAttemptAt
	}
}

// sameFigures tells whether nothing of a row of the same key has to be written.
func (r *coverageRow) sameFigures(o *coverageRow) bool {
	return r.Pods == o.Pods && r.Message == o.Message && r.NextAttemptAt == o.NextAttemptAt
}

// standing is a container in a state.
type standing struct{ namespace, kind, name, container, state string }

func (r *coverageRow) standing() standing {
	return standing{r.Namespace, r.Kind, r.Name, r.Container, r.State}
}

// coverageDiff is what a scope's rows lack, have with other figures, and have too many.
type coverageDiff struct {
	added, changed []coverageRow
	gone           []int64
	// lost are those of added whose containers were covered before.
	lost []coverageRow
}

// RecordCoverage implements store.Coverage.
func (s *Store) RecordCoverage(ctx context.Context, scope string, containers []store.ContainerCoverage) error {
	const what = "record the coverage of containers"
	if err := checkIdentifier("the scope", scope); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if len(containers) > store.MaxUses {
		return fmt.Errorf("%s: %d containers, the maximum is %d", what, len(containers), store.MaxUses)
	}
	workloads := make([]store.Workload, len(containers))
	for i := range containers {
		workloads[i] = containers[i].Workload
	}
	wanted := coverageRows(containers)
	var diff coverageDiff
	var owners []ownerChange
	err := s.read(ctx, what, func(tx *gorm.DB) error {
		var err error
		if diff, err = compareCoverage(tx, scope, wanted); err != nil {
			return err
		}
		owners, err = compareOwners(tx, workloads)
		return err
	})
	if err != nil || len(diff.added)+len(diff.changed)+len(diff.gone)+len(owners) == 0 {
		return err
	}
	return s.write(ctx, what, func(tx *txn) error {
		diff, err := compareCoverage(tx.DB, scope, wanted)
		if err != nil {
			return err
		}
		if err := recordOwners(tx, workloads); err != nil {
			return err
		}
		if err := tx.writeCoverageEvents(diff.lost); err != nil {
			return err
		}
		return writeCoverage(tx, scope, diff)
	})
}

// coverageRows joins containers whose rows have the same key.
func coverageRows(containers []store.ContainerCoverage) []coverageRow {
	rows := make([]coverageRow, 0, len(containers))
	index := make(map[string]int, len(containers))
	for i := range containers {
		row := newCoverageRow(&containers[i])
		if at, found := index[row.RowKey]; found {
			rows[at].add(&row)
			continue
		}
		index[row.RowKey] = len(rows)
		rows = append(rows, row)
	}
	return rows
}

func compareCoverage(tx *gorm.DB, scope string, wanted []coverageRow) (coverageDiff, error) {
	var rows []coverageRow
	err := tx.Raw(`SELECT id, row_key, namespace, kind, name, container, pods, state, message, next_attempt_at, since FROM container_coverage
		WHERE scope = ?`, scope).Scan(&rows).Error
	if err != nil {
		return coverageDiff{}, err
	}
	known := make(map[string]*coverageRow, len(rows))
	since := make(map[standing]int64, len(rows))
	for i := range rows {
		row := &rows[i]
		known[row.RowKey] = row
		if first, found := since[row.standing()]; !found || row.Since < first {
			since[row.standing()] = row.Since
		}
	}
	var diff coverageDiff
	before := maps.Clone(known)
	for i := range wanted {
		row := wanted[i]
		row.Since = since[row.standing()]
		switch before := known[row.RowKey]; {
		case before == nil:
			diff.added = append(diff.added, row)
		case !row.sameFigures(before):
			row.ID = before.ID
			diff.changed = append(diff.changed, row)
		}
		delete(known, row.RowKey)
	}
	for _, row := range known {
		diff.gone = append(diff.gone, row.ID)
	}
	slices.Sort(diff.gone)
	diff.lost = lostCoverage(before, diff.added)
	return diff, nil
}

func writeCoverage(tx *txn, scope string, diff coverageDiff) error {
	for part := range slices.Chunk(diff.gone, sqldb.MaxIn) {
		if err := tx.Execute("DELETE FROM container_coverage WHERE id IN ?", part); err != nil {
			return err
		}
	}
	for i := range diff.changed {
		row := &diff.changed[i]
		err := tx.Execute("UPDATE container_coverage SET pods = ?, message = ?, next_attempt_at = ? WHERE id = ?",
			row.Pods, row.Message, row.NextAttemptAt, row.ID)
		if err != nil {
			return err
		}
	}
	values := make([]any, 0, len(coverageColumns)*len(diff.added))
	for i := range diff.added {
		row := &diff.added[i]
		if row.Since == 0 {
			row.Since = tx.now
		}
		values = append(values, scope, row.RowKey, row.Namespace, row.Kind, row.Name, row.Container, row.ImageID, row.Platform, row.Reference,
			row.Pods, row.State, row.Reason, row.Message, row.NextAttemptAt, row.Since)
	}
	return tx.Insert("container_coverage", coverageColumns, values, "")
}
