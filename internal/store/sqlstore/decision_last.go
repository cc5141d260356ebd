package sqlstore

import (
	"maps"
	"slices"
	"strings"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// endedPerQuery is how many objects one query for decisions that have ended names.
const endedPerQuery = 100

// lastDecisions reads the decisions of a source that apply, and the last decision of each object that has one that applies, or that is wanted and not over. Those of
// all other objects are history, which only grows. What is over only ends what applies, so that any number of objects whose time is over costs no query.
func lastDecisions(tx *gorm.DB, source string, wanted []store.Decision, now int64) (applied []decisionRow, last map[store.DecisionObject]*decisionRow, err error) {
	err = tx.Raw("SELECT "+decisionColumns+" FROM decisions d WHERE d.source = ? AND d.until_time = ? ORDER BY d.id", source, int64(stillOpen)).Scan(&applied).Error
	if err != nil {
		return nil, nil, err
	}
	last = make(map[store.DecisionObject]*decisionRow, len(applied))
	for i := range applied {
		last[applied[i].object()] = &applied[i]
	}
	type name struct{ namespace, name string }
	missing := map[name]bool{}
	for i := range wanted {
		// Databases refuse some texts, and no object is stored with these.
		object := &wanted[i].Object
		if !wanted[i].Refused && !overAt(endOf(wanted[i].ExpiresAt), now) && last[*object] == nil && sqldb.Clean(object.Namespace) == object.Namespace && sqldb.Clean(object.Name) == object.Name {
			missing[name{object.Namespace, object.Name}] = true
		}
	}
	for part := range slices.Chunk(slices.Collect(maps.Keys(missing)), endedPerQuery) {
		var conditions []string
		args := []any{source}
		for _, of := range part {
			conditions = append(conditions, "l.namespace = ? AND l.name = ?")
			args = append(args, of.namespace, of.name)
		}
		var ended []decisionRow
		err := tx.Raw("SELECT "+decisionColumns+" FROM decisions d JOIN (SELECT MAX(l.id) AS id FROM decisions l WHERE l.source = ? AND ("+
			strings.Join(conditions, " OR ")+") GROUP BY l.kind, l.namespace, l.name) n ON n.id = d.id", args...).Scan(&ended).Error
		if err != nil {
			return nil, nil, err
		}
		for i := range ended {
			if object := ended[i].object(); last[object] == nil {
				last[object] = &ended[i]
			}
		}
	}
	return applied, last, nil
}

// overAt reports whether an end, as of endOf, has passed.
func overAt(end, now int64) bool { return end > 0 && end <= now }
