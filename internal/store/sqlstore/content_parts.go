package sqlstore

import (
	"database/sql"
	"errors"

	"gorm.io/gorm"
)

// partSize is how much of an SBOM or a report one row holds. A statement with it is below the limit of every database, also
// when the driver doubles what it has to escape: MariaDB takes 16 MiB by default.
const partSize = 4 << 20

// parts is a table that holds long content in rows of partSize bytes, in order.
type parts struct{ table, owner string }

var (
	sbomParts   = parts{"sbom_parts", "image_pk"}
	reportParts = parts{"report_parts", "report_pk"}
	tagParts    = parts{"tag_image_parts", "image"}
)

// save writes the content of an owner that has none yet. The owner is a primary key.
func (p parts) save(tx *txn, owner any, content []byte) error {
	for number := 0; len(content) > 0; number++ {
		part := content[:min(partSize, len(content))]
		if err := tx.Insert(p.table, []string{p.owner, "part", "content"}, []any{owner, number, part}, ""); err != nil {
			return err
		}
		content = content[len(part):]
	}
	return nil
}

// load returns the content of an owner.
func (p parts) load(tx *gorm.DB, owner any) (content []byte, err error) {
	rows, err := tx.Raw("SELECT content FROM "+p.table+" WHERE "+p.owner+" = ? ORDER BY part", owner).Rows()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var part sql.RawBytes
		if err := rows.Scan(&part); err != nil {
			return nil, err
		}
		content = append(content, part...)
	}
	return content, rows.Err()
}
