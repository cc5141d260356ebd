package sqlstore

import (
	"context"
	"crypto/rand"
	"strings"
	"time"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// deletedBy is the user for whom the object of decision d was deleted, empty if that is not known: of the last request within an hour before the end of the
// decision. Whoever deletes the object later, after a request that failed without an answer, is not known. The view decision_history has the same.
const deletedBy = `COALESCE((SELECT x.author FROM decision_deletions x WHERE x.decision_pk = d.id AND d.ended_by = '` + endDeleted + `'
	AND x.requested_at >= d.until_time - 3600000000 ORDER BY x.requested_at DESC, x.author LIMIT 1), '')`

// deletionWithin is how long after a request to delete the object of a decision another decision of this object is taken for a change from before the request,
// which is applied late. A later one was changed because the request failed, and somebody else may delete it.
const deletionWithin = time.Minute

// maxUID is how much of a UID a request has. Those of Kubernetes are as long.
const maxUID = 36

// findForgotten finds the requests to delete objects of decisions that were deleted and created again: with another UID, they are other objects.
func (p *decisionPlan) findForgotten(tx *gorm.DB, source string, decisions []store.Decision) error {
	var rows []struct{ Request, Kind, Namespace, Name string }
	err := tx.Raw(`SELECT x.request, d.kind, d.namespace, d.name FROM decision_deletions x JOIN decisions d ON d.id = x.decision_pk
		WHERE d.source = ? AND d.until_time = ? ORDER BY x.request`, source, int64(stillOpen)).Scan(&rows).Error
	if err != nil || len(rows) == 0 {
		return err
	}
	uids := make(map[store.DecisionObject]string, len(decisions))
	for i := range decisions {
		uids[decisions[i].Object] = sqldb.Truncate(decisions[i].UID, maxUID)
	}
	for _, row := range rows {
		_, deleted, _ := strings.Cut(row.Request, "/")
		uid := uids[store.DecisionObject{Kind: row.Kind, Namespace: row.Namespace, Name: row.Name}]
		if uid != "" && deleted != "" && uid != deleted {
			p.forgotten = append(p.forgotten, row.Request)
		}
	}
	return nil
}

// keepDeletions forgets the requests of objects that are no more, and has the requests to delete objects whose decisions are replaced count for the new decisions.
func (t *txn) keepDeletions(plan *decisionPlan) error {
	err := inParts(plan.forgotten, func(part []string) error { return t.Execute("DELETE FROM decision_deletions WHERE request IN ?", part) })
	if err != nil {
		return err
	}
	changed := make(map[store.DecisionObject]int64, len(plan.end[endChanged]))
	ids := make([]int64, 0, len(plan.end[endChanged]))
	for i := range plan.end[endChanged] {
		row := &plan.end[endChanged][i]
		changed[row.object()] = row.ID
		ids = append(ids, row.ID)
	}
	asked := map[int64]bool{}
	err = inParts(ids, func(part []int64) error {
		var found []int64
		err := t.Raw("SELECT DISTINCT x.decision_pk FROM decision_deletions x WHERE x.decision_pk IN ? AND x.requested_at >= ?", part, t.now-deletionWithin.Microseconds()).
			Scan(&found).Error
		for _, id := range found {
			asked[id] = true
		}
		return err
	})
	if err != nil || len(asked) == 0 {
		return err
	}
	for _, n := range plan.begin {
		id := changed[n.row.object()]
		if n.over || !asked[id] {
			continue
		}
		err := t.Execute("UPDATE decision_deletions SET decision_pk = ? WHERE decision_pk = ? AND requested_at >= ?", n.row.ID, id, t.now-deletionWithin.Microseconds())
		if err != nil {
			return err
		}
	}
	return nil
}

// RecordDeletion implements store.Reader.
func (s *Store) RecordDeletion(ctx context.Context, source string, object store.DecisionObject, uid, author string) (string, error) {
	request := rand.Text() + "/" + sqldb.Truncate(uid, maxUID)
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

// decisionsOfVEX selects the decisions d of a source of VEX documents that apply.
const decisionsOfVEX = "SELECT d.id FROM decisions d WHERE d.source = '" + store.DecisionSourceVEX + "' AND d.kind = ? AND d.name = ? AND d.until_time = ?"

// recordVEXDeletion keeps who has deleted a source of VEX documents, "" for nobody who is known, until its decisions end.
func (t *txn) recordVEXDeletion(kind, name, author string) error {
	if author == "" {
		return nil
	}
	var ids []int64
	if err := t.Raw(decisionsOfVEX+" ORDER BY d.id", kind, name, int64(stillOpen)).Scan(&ids).Error; err != nil {
		return err
	}
	var values []any
	for _, id := range ids {
		values = append(values, rand.Text(), id, sqldb.Truncate(author, maxIdentifier), t.now)
	}
	return t.Insert("decision_deletions", []string{"request", "decision_pk", "author", "requested_at"}, values, "")
}

// forgetVEXDeletion takes back recordVEXDeletion.
func (t *txn) forgetVEXDeletion(kind, name string) error {
	return t.Execute("DELETE FROM decision_deletions WHERE decision_pk IN ("+decisionsOfVEX+")", kind, name, int64(stillOpen))
}
