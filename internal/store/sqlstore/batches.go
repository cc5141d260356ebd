package sqlstore

import "context"

// batchRows bounds the rows that one transaction of inBatches changes, so that writers wait for it only briefly.
const batchRows = 2000

// batchChange deletes or changes many rows in short transactions.
type batchChange struct {
	// action is the statement without its WHERE; what it changes must not meet the condition any more.
	action string
	// table, column and condition choose the rows, column cuts them into pieces. Rows of a piece that have the same value of
	// column stay together.
	table, column, condition string
	values                   []any
}

func (s *Store) inBatches(ctx context.Context, what string, w batchChange) error {
	for more := true; more; {
		err := s.write(ctx, what, func(tx *txn) error {
			var last *int64
			err := tx.Raw("SELECT MAX(c.value) FROM (SELECT "+w.column+" AS value FROM "+w.table+" WHERE "+w.condition+
				" ORDER BY "+w.column+" LIMIT ?) c", append(append([]any{}, w.values...), batchRows)...).Scan(&last).Error
			if more = last != nil; err != nil || !more {
				return err
			}
			return tx.Execute(w.action+" WHERE "+w.condition+" AND "+w.column+" <= ?", append(append([]any{}, w.values...), *last)...)
		})
		if err != nil {
			return err
		}
	}
	return nil
}
