package sqlstore

import (
	"context"
	"crypto/rand"

	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// deletedBy is the user for whom the object of decision d was deleted, empty if that is not known: of the last request within an hour before the end of the
// decision. Whoever deletes the object later, after a request that failed without an answer, is not known. The view decision_history has the same.
const deletedBy = `COALESCE((SELECT x.author FROM decision_deletions x WHERE x.decision_pk = d.id AND d.ended_by = '` + endDeleted + `'
	AND x.requested_at >= d.until_time - 3600000000 ORDER BY x.requested_at DESC, x.author LIMIT 1), '')`

// RecordDeletion implements store.Reader.
func (s *Store) RecordDeletion(ctx context.Context, source string, object store.DecisionObject, author string) (string, error) {
	request := rand.Text()
	err := s.write(ctx, "record who deletes an exception", func(tx *txn) error {
		var ids []int64
		err := tx.Raw("SELECT d.id FROM decisions d WHERE d.source = ? AND d.kind = ? AND d.namespace = ? AND d.name = ? AND d.until_time = ? ORDER BY d.id LIMIT 1",
			source, object.Kind, object.Namespace, object.Name, int64(stillOpen)).Scan(&ids).Error
		if err != nil || len(ids) == 0 {
			return err
		}
		return tx.Insert("decision_deletions", []string{"request", "decision_pk", "author", "requested_at"},
			[]any{request, ids[0], sqldb.Truncate(author, maxIdentifier), tx.now}, "")
	})
	return request, err
}

// ForgetDeletion implements store.Reader.
func (s *Store) ForgetDeletion(ctx context.Context, request string) error {
	return s.write(ctx, "forget who wanted to delete an exception", func(tx *txn) error {
		return tx.Execute("DELETE FROM decision_deletions WHERE request = ?", request)
	})
}
