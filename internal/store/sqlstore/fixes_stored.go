package sqlstore

import (
	"fmt"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// stored adds the conditions of the query to a selection of rows x of image_fixes.
func (r *fixReader) stored(rows *gorm.DB) *gorm.DB {
	if r.chosen.everywhere() {
		rows = rows.Where("EXISTS (SELECT 1 FROM image_uses u WHERE u.image_pk = x.image_pk)")
	} else {
		rows = rows.Where("x.image_pk IN (?)", r.running())
	}
	if len(r.live) > 0 { // Of decisions with places.
		rows = rows.Where("x.image_pk NOT IN (?)", r.closed())
	}
	return rows
}

// storedTotal counts the entries of images that are not live.
func (r *fixReader) storedTotal() (int, error) {
	number := "x.findings"
	if r.query.KEV {
		number = "x.kev"
	}
	one := fmt.Sprintf("CASE WHEN x.action = %d THEN %s WHEN %s > 0 THEN 1 ELSE 0 END", fixSummary, number, number)
	rows := r.stored(r.tx.Table("image_fixes AS x"))
	if r.query.Kind != "" {
		actions := []int64{fixActions[r.query.Kind]}
		if r.query.Kind == store.FixUpdate {
			actions = append(actions, fixSummary)
		}
		rows = rows.Where("x.action IN ?", actions)
	}
	var total int
	err := rows.Select("COALESCE(SUM(" + one + "), 0)").Scan(&total).Error
	return total, err
}

// storedRows selects the rows x of image_fixes that are entries.
func (r *fixReader) storedRows() *gorm.DB {
	rows := r.stored(r.tx.Table("image_fixes AS x")).Where("x.action <> ? AND x.findings > 0", fixSummary)
	if r.query.Kind != "" {
		rows = rows.Where("x.action = ?", fixActions[r.query.Kind])
	}
	if r.query.KEV {
		rows = rows.Where("x.kev > 0")
	}
	return rows
}

// storedEntries reads the entries of a page that have rows.
func (r *fixReader) storedEntries() ([]fixEntry, error) {
	rows, err := r.upToPage(r.storedRows().Joins("JOIN images i ON i.id = x.image_pk").Select("x.*, i.image_id, i.platform"))
	if err != nil {
		return nil, err
	}
	chosen, err := fromToken(r.tx.Table("(?) AS l", rows), r.query.Token, r.token, fixOrder)
	if err != nil {
		return nil, err
	}
	var entries []fixEntry
	err = chosen.Select("l.*").Order(sqldb.OrderBy(fixOrder)).Limit(r.query.Limit() + 1).Scan(&entries).Error
	return entries, err
}

// indexedFixOrder are the columns of fixOrder that an index of image_fixes has in order.
const indexedFixOrder = 3

// upToPage leaves out rows x that come after those of the page, whatever the names of their images are: MariaDB would otherwise look up the images of all rows of the cluster
// and sort them, because the order of the index ends before the names. Conditions on rows would have it read many of them for the last row of the page.
func (r *fixReader) upToPage(rows *gorm.DB) (*gorm.DB, error) {
	if r.s.db.Dialect().Type() != sqldb.TypeMySQL || !r.chosen.everywhere() || r.query.KEV || r.query.Kind != "" {
		return rows, nil
	}
	indexed := ofTable("x", fixOrder[:indexedFixOrder])
	behind := r.storedRows()
	if r.after != nil { // Rows with the order of the token may be on earlier pages.
		values := make([]string, len(indexed))
		for i := range values {
			values[i] = r.after.value(fixOrder[i].Column)
		}
		condition, arguments, err := sqldb.After(indexed, values)
		if err != nil {
			return nil, err
		}
		behind = behind.Where(condition, arguments...)
	}
	var last []imageFix
	err := behind.Select("x.waits, x.risk_micros, x.fingerprint").Order(sqldb.OrderBy(indexed)).Offset(r.query.Limit()).Limit(1).Scan(&last).Error
	if err != nil || len(last) == 0 {
		return rows, err
	}
	fix := &last[0] // MariaDB finds the range of the index in this form, but not in what is not after the row.
	return rows.Where("(x.waits < ? OR x.waits = ? AND x.risk_micros > ? OR x.waits = ? AND x.risk_micros = ? AND x.fingerprint <= ?)",
		fix.Waits, fix.Waits, fix.RiskMicros, fix.Waits, fix.RiskMicros, fix.Fingerprint), nil
}
