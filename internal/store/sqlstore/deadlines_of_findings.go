package sqlstore

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// imageDeadlines is an expression for the date of finding f in an image, as a number; stillOpen if it is not due. policies are those that select the
// image where it is visible, and since is from when on it has findings. With suppressed, there are findings that decisions suppress: they are not due.
func imageDeadlines(view seen, policies []policyRow, since int64, suppressed bool) string {
	if len(policies) == 0 {
		return "(0 * f.id + " + forever + ")" // Databases take a number in an order for the place of a column.
	}
	ids := make([]string, len(policies))
	for i := range policies {
		ids[i] = strconv.FormatInt(policies[i].ID, 10)
	}
	due := fmt.Sprintf("(SELECT COALESCE(MIN(%s + pf.days * %d), %s) FROM policy_findings pf WHERE pf.finding_id = f.id AND pf.policy_pk IN (%s))",
		laterOf("pf.since", strconv.FormatInt(since, 10)), dayMicros, forever, strings.Join(ids, ","))
	if suppressed {
		due = "(CASE WHEN " + view.unsuppressedThere() + " THEN " + due + " ELSE " + forever + " END)"
	}
	return due
}

// policiesOfImage are those that select an image where something runs it which is visible, by name.
func policiesOfImage(tx *gorm.DB, in store.Namespaces, image int64) ([]policyRow, error) {
	policies, err := appliedPolicies(tx)
	if err != nil || len(policies) == 0 {
		return nil, err
	}
	var running int64
	err = within(tx.Table("image_uses AS u"), "u.namespace", in).Where("u.image_pk = ? AND u.namespace <> ''", image).Select("COUNT(*)").Scan(&running).Error
	if err != nil || running == 0 {
		return nil, err
	}
	var placed []int64
	err = within(tx.Table("policy_places AS u"), "u.namespace", in).Where("u.image_pk = ?", image).Distinct("u.policy_pk").Scan(&placed).Error
	return slices.DeleteFunc(policies, func(p policyRow) bool { return p.Placed != 0 && !slices.Contains(placed, p.ID) }), err
}

// deadlinesOf reads the deadlines of findings in an image.
func deadlinesOf(tx *gorm.DB, policies []policyRow, since, now int64, findings []int64) (map[int64]model.Deadline, error) {
	deadlines := map[int64]model.Deadline{}
	if len(policies) == 0 {
		return deadlines, nil
	}
	names := make(map[int64]string, len(policies))
	for _, p := range policies {
		names[p.ID] = p.Name
	}
	err := inParts(findings, func(part []int64) error {
		var rows []dueRow
		if err := tx.Raw("SELECT finding_id, policy_pk, days, since FROM policy_findings WHERE finding_id IN ?", part).Scan(&rows).Error; err != nil {
			return err
		}
		for _, row := range rows {
			name, applies := names[row.PolicyPk]
			if !applies {
				continue
			}
			at := max(row.Since, since) + row.Days*dayMicros
			date := model.Deadline{At: fromMicros(at), Policy: name, Overdue: at <= now}
			if known, found := deadlines[row.FindingID]; !found || cmp.Or(date.At.Compare(known.At), strings.Compare(date.Policy, known.Policy)) < 0 {
				deadlines[row.FindingID] = date
			}
		}
		return nil
	})
	return deadlines, err
}

// affectedDates has the rules of some findings, and what they are due for in some images.
type affectedDates struct {
	policies []policyRow
	findings map[int64]*dueFinding
	targets  map[int64][]*dueTarget
	now      int64
}

// affectedDates reads until when findings are due in images, without regard to what suppresses them. It returns nil if no policy applies.
func (s *Store) affectedDates(tx *gorm.DB, in store.Namespaces, findings, images []int64) (*affectedDates, error) {
	r, err := s.dueReader(tx, in)
	if err != nil || len(r.policies) == 0 {
		return nil, err
	}
	d := &affectedDates{policies: r.policies, findings: map[int64]*dueFinding{}, now: s.now()}
	if d.targets, err = r.targets(images, false); err != nil {
		return nil, err
	}
	places := make(map[int64]int, len(r.policies))
	for place := range r.policies {
		places[r.policies[place].ID] = place
	}
	err = inParts(findings, func(part []int64) error {
		var rows []dueRow
		err := tx.Raw("SELECT finding_id, policy_pk, days, since FROM policy_findings WHERE finding_id IN ?", part).Scan(&rows).Error
		for _, row := range rows {
			place, applies := places[row.PolicyPk]
			if !applies {
				continue
			}
			f := d.findings[row.FindingID]
			if f == nil {
				f = &dueFinding{id: row.FindingID}
				d.findings[row.FindingID] = f
			}
			f.rules = append(f.rules, dueRule{policy: place, since: row.Since, days: row.Days})
		}
		return err
	})
	return d, err
}

// of returns until when a finding is due in an image, nil if it is not.
func (d *affectedDates) of(image, finding int64) *model.Deadline {
	if d == nil || d.findings[finding] == nil || len(d.targets[image]) == 0 {
		return nil
	}
	at, by, due := d.findings[finding].due(d.targets[image][0])
	if !due {
		return nil
	}
	return &model.Deadline{At: fromMicros(at), Policy: d.policies[by].Name, Overdue: at <= d.now}
}

// dueFirst stands for the date of a finding in sort keys: namedDue replaces it.
const dueFirst = "due"

// namedDue replaces dueFirst in sort keys with the expression for the date.
func namedDue(keys []sqldb.SortKey, due string) []sqldb.SortKey {
	named := slices.Clone(keys)
	for i := range named {
		if named[i].Column == dueFirst {
			named[i].Column = due
		}
	}
	return named
}

// filterDue adds the conditions of a query about the date of findings.
func filterDue(tx *gorm.DB, due string, now int64, query store.FindingQuery) *gorm.DB {
	if query.Overdue {
		tx = tx.Where(due+" <= ?", now)
	}
	if !query.DueBefore.IsZero() {
		tx = tx.Where(due+" < ?", min(micros(query.DueBefore), stillOpen))
	}
	return tx
}

// addDeadlines adds the deadlines to findings of an image, but for those that decisions suppress.
func addDeadlines(tx *gorm.DB, policies []policyRow, since, now int64, rows []findingRow, findings []model.Finding) error {
	ids := make([]int64, len(rows))
	for i := range rows {
		ids[i] = rows[i].FindingID
	}
	deadlines, err := deadlinesOf(tx, policies, since, now, ids)
	for i, id := range ids {
		if deadline, found := deadlines[id]; found && !findings[i].Suppressed {
			findings[i].Deadline = &deadline
		}
	}
	return err
}
