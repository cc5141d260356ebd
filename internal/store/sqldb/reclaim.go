package sqldb

import (
	"context"
	"fmt"
	"math"

	"gorm.io/gorm"
)

const (
	// reclaimPages is how many pages of 4 KiB a transaction returns, so that writers wait for it only briefly.
	reclaimPages = 500
	// keptShare is the share of a file that stays free for what is written next: a tenth.
	keptShare = 10
	// incremental is the mode of a file whose free pages can be returned. Files from before this program set it have another one.
	incremental = 2
)

// Reclaim returns the free pages of an SQLite file to the file system, but for a tenth of the file. It writes nothing if there are fewer. Servers
// keep the space for what is written next.
func (db *DB) Reclaim(ctx context.Context) error {
	const what = "return free space of the database to the file system"
	if db.dialect.Type() != TypeSQLite {
		return nil
	}
	for before := int64(math.MaxInt64); ; {
		var mode, free, pages int64
		err := db.Read(ctx, what, func(tx *gorm.DB) error {
			for pragma, into := range map[string]*int64{"auto_vacuum": &mode, "freelist_count": &free, "page_count": &pages} {
				if err := tx.Raw("PRAGMA " + pragma).Scan(into).Error; err != nil {
					return err
				}
			}
			return nil
		})
		// What others free meanwhile does not keep this going.
		if err != nil || mode != incremental || free <= pages/keptShare+reclaimPages || free >= before {
			return err
		}
		before = free
		err = db.Write(ctx, what, func(tx *Tx) error {
			rows, err := tx.Raw(fmt.Sprintf("PRAGMA incremental_vacuum(%d)", reclaimPages)).Rows()
			if err != nil {
				return err
			}
			defer rows.Close() //nolint:errcheck // Err tells whether all rows were read.
			for more := true; more; {
				more = rows.Next() // Each row stands for a page that was returned.
			}
			return rows.Err()
		})
		if err != nil {
			return err
		}
	}
}
