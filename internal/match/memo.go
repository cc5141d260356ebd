package match

import (
	"encoding/json"
	"fmt"
	"slices"

	v6 "github.com/anchore/grype/grype/db/v6"
	"gorm.io/gorm"
	"gorm.io/gorm/callbacks"
	"gorm.io/gorm/clause"
)

const (
	// maxVulnerabilities bounds the vulnerabilities that are remembered, at some three KB each.
	maxVulnerabilities = 8_000
	// maxRows bounds the rows of other tables that are remembered, by ID, at some 200 bytes each.
	maxRows = 10_000
	// maxSmall bounds the rows that are remembered of tables that hold a few hundred: names that stand for others, releases
	// of operating systems, providers.
	maxSmall = 5_000
)

// memo answers, in place of the database, the questions that Grype asks again for every package. The rows that it
// hands out are copies; what they point to is shared and only read.
type memo struct {
	db              *gorm.DB
	vulnerabilities *cache[v6.ID, v6.VulnerabilityHandle]
	packages        *cache[v6.ID, v6.Package]
	cpes            *cache[v6.ID, v6.Cpe]
	systems         *cache[v6.ID, v6.OperatingSystem]
	small           *cache[string, any]
	// expect receives the CVEs of vulnerabilities that were read; Grype queries their decorations next, one by one.
	expect func(cves []string) error
}

func newMemo(db *gorm.DB, expect func(cves []string) error) *memo {
	return &memo{
		db:              db,
		expect:          expect,
		vulnerabilities: newCache[v6.ID, v6.VulnerabilityHandle](maxVulnerabilities),
		packages:        newCache[v6.ID, v6.Package](maxRows),
		cpes:            newCache[v6.ID, v6.Cpe](maxRows),
		systems:         newCache[v6.ID, v6.OperatingSystem](maxSmall),
		small:           newCache[string, any](maxSmall),
	}
}

func (m *memo) clear() {
	m.vulnerabilities.clear()
	m.packages.clear()
	m.cpes.clear()
	m.systems.clear()
	m.small.clear()
}

// install puts the memo in front of all queries of the database.
func (m *memo) install() error {
	if err := m.db.Callback().Query().Replace("gorm:query", m.query); err != nil {
		return fmt.Errorf("install the cache of database queries: %w", err)
	}
	return nil
}

// query implements a gorm callback.
func (m *memo) query(tx *gorm.DB) {
	switch into := tx.Statement.Dest.(type) {
	case *[]v6.VulnerabilityHandle:
		if ids, ok := wantedIDs(tx); ok {
			byID(tx, m.vulnerabilities, ids, into, m.readVulnerabilities)
			return
		}
	case *[]v6.Package:
		if ids, ok := wantedIDs(tx); ok {
			byID(tx, m.packages, ids, into, read(m.db, func(p *v6.Package) v6.ID { return p.ID }))
			return
		}
	case *[]v6.Cpe:
		if ids, ok := wantedIDs(tx); ok {
			byID(tx, m.cpes, ids, into, read(m.db, func(c *v6.Cpe) v6.ID { return c.ID }))
			return
		}
	case *[]v6.OperatingSystem:
		if ids, ok := wantedIDs(tx); ok {
			byID(tx, m.systems, ids, into, read(m.db, func(s *v6.OperatingSystem) v6.ID { return s.ID }))
			return
		}
		remember(tx, m.small, into)
		return
	case *[]v6.OperatingSystemSpecifierOverride:
		remember(tx, m.small, into)
		return
	case *[]v6.PackageSpecifierOverride:
		remember(tx, m.small, into)
		return
	case *[]v6.Provider:
		remember(tx, m.small, into)
		return
	}
	callbacks.Query(tx)
}

// wantedIDs recognises the one way in which Grype completes records.
func wantedIDs(tx *gorm.DB) ([]v6.ID, bool) {
	where, ok := tx.Statement.Clauses["WHERE"].Expression.(clause.Where)
	if !ok || len(where.Exprs) != 1 || len(tx.Statement.Clauses) != 1 || len(tx.Statement.Preloads) > 0 {
		return nil, false
	}
	expression, ok := where.Exprs[0].(clause.Expr)
	if !ok || expression.SQL != "id IN (?)" || len(expression.Vars) != 1 {
		return nil, false
	}
	ids, ok := expression.Vars[0].([]v6.ID)
	return ids, ok
}

// byID answers with the rows of a table that have one of the IDs, in no particular order, and reads those that are not
// remembered.
func byID[T any](tx *gorm.DB, known *cache[v6.ID, T], ids []v6.ID, into *[]T, read func([]v6.ID) (map[v6.ID]T, error)) {
	out := make([]T, 0, len(ids))
	var missing []v6.ID
	for _, id := range ids {
		if row, ok := known.get(id); ok {
			out = append(out, row)
		} else {
			missing = append(missing, id)
		}
	}
	for batch := range slices.Chunk(missing, cveBatch) {
		rows, err := read(batch)
		if err != nil {
			_ = tx.AddError(err)
			return
		}
		for id, row := range rows {
			known.put(id, row, 1)
			out = append(out, row)
		}
	}
	*into = out
	tx.RowsAffected = int64(len(out))
}

// read returns rows by ID.
func read[T any](db *gorm.DB, id func(*T) v6.ID) func([]v6.ID) (map[v6.ID]T, error) {
	return func(ids []v6.ID) (map[v6.ID]T, error) {
		var rows []T
		if err := db.Where("id IN ?", ids).Find(&rows).Error; err != nil {
			return nil, err
		}
		out := make(map[v6.ID]T, len(rows))
		for i := range rows {
			out[id(&rows[i])] = rows[i]
		}
		return out, nil
	}
}

// readVulnerabilities returns vulnerabilities with their blobs, which Grype then does not read once more.
func (m *memo) readVulnerabilities(ids []v6.ID) (map[v6.ID]v6.VulnerabilityHandle, error) {
	handles, err := read(m.db, func(v *v6.VulnerabilityHandle) v6.ID { return v.ID })(ids)
	if err != nil {
		return nil, err
	}
	blobIDs := make([]v6.ID, 0, len(handles))
	for _, handle := range handles {
		blobIDs = append(blobIDs, handle.BlobID)
	}
	blobs, err := read(m.db, func(b *v6.Blob) v6.ID { return b.ID })(blobIDs)
	if err != nil {
		return nil, err
	}
	var cves []string
	for id, handle := range handles {
		value := blobs[handle.BlobID].Value
		if value == "" {
			continue
		}
		handle.BlobValue = &v6.VulnerabilityBlob{}
		if err := json.Unmarshal([]byte(value), handle.BlobValue); err != nil {
			return nil, fmt.Errorf("read the record of %s: %w", handle.Name, err)
		}
		handles[id] = handle
		cves = append(cves, cvesOf(&handle)...)
	}
	return handles, m.expect(cves)
}

// remember answers from memory what was asked before in the same words.
func remember[T any](tx *gorm.DB, known *cache[string, any], into *[]T) {
	callbacks.BuildQuerySQL(tx)
	question := fmt.Sprintf("%T %s %q", into, tx.Statement.SQL.String(), tx.Statement.Vars)
	if answer, ok := known.get(question); ok {
		if rows, ok := answer.([]T); ok {
			*into = slices.Clone(rows)
			tx.RowsAffected = int64(len(rows))
			return
		}
	}
	callbacks.Query(tx)
	if tx.Error == nil {
		known.put(question, slices.Clone(*into), 1+len(*into))
	}
}
