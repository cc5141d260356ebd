package sqlstore

import (
	"fmt"
	"time"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/store"
)

// overduePlaces selects the images x with an open finding whose date has passed, where something runs them which is visible, with the uses u that
// it is for.
func (s *Store) overduePlaces(tx *gorm.DB, in store.Namespaces, current int64, placed bool) *gorm.DB {
	now := s.now()
	return duePlaces(tx, policyFindings(tx, current, now).Joins("CROSS JOIN image_packages ip"), place{in: in}, placed, now)
}

// policyFindings selects the findings f that are not suppressed everywhere, that policies pl select and that can be due at a time or before, with the rows pf that say so.
func policyFindings(tx *gorm.DB, current, until int64) *gorm.DB {
	return tx.Table("policy_findings AS pf").Joins("CROSS JOIN policies pl").Joins("CROSS JOIN findings f").
		Where("pl.id = pf.policy_pk AND pl.applies = 1 AND f.id = pf.finding_id AND "+shown+" AND "+unsuppressed, current, current).
		Where("pf.since + pf.days * ? <= ?", dayMicros, until)
}

// duePlaces adds to packages ip the images x and the uses u that are chosen, where a finding of policyFindings is open and due at a time or before.
func duePlaces(tx, found *gorm.DB, chosen place, placed bool, until int64) *gorm.DB {
	since := "x.first_seen"
	found = found.Joins("CROSS JOIN images x")
	if !chosen.in.All() {
		found = found.Joins("JOIN (?) n ON n.image_pk = x.id", visibleSince(tx, chosen.in))
		since = laterOf("n.since", "x.matched_at")
	}
	found = found.Joins("CROSS JOIN image_uses u")
	if placed {
		found = found.Where("NOT EXISTS (SELECT 1 FROM finding_suppressions hs JOIN reached_namespaces y ON y.reach = hs.reach" +
			" WHERE hs.finding_id = f.id AND y.image_pk = u.image_pk AND y.namespace = u.namespace AND " + hasWorkload + ")")
	}
	return uses(found, chosen).
		Where("ip.package_pk = f.package_pk AND ip.excluded = 0 AND x.id = ip.image_pk AND x.matched_at > 0 AND u.image_pk = x.id AND u.namespace <> '' AND "+unsuppressedThere).
		Where(fmt.Sprintf("(%s) + pf.days * %d <= ?", since, dayMicros), until).
		Where(`(pl.placed = 0 OR EXISTS (SELECT 1 FROM policy_places q WHERE q.policy_pk = pl.id AND q.image_pk = x.id
			AND q.namespace = u.namespace AND q.kind = u.kind AND q.name = u.name))`)
}

// dueFilter asks for findings by their dates. Zero fields do not filter.
type dueFilter struct {
	overdue bool
	before  time.Time
}

// until is the last date that is asked for; filters is false if all findings are.
func (d dueFilter) until(now int64) (until int64, filters bool) {
	until = stillOpen
	if d.overdue {
		until = now
	}
	if !d.before.IsZero() {
		until = min(until, micros(d.before)-1)
	}
	return until, d.overdue || !d.before.IsZero()
}

// dueFindings selects the findings f with a date that is asked for in a package ip, which holders select, where it is chosen.
func dueFindings(tx, holders *gorm.DB, chosen place, current, until int64) (*gorm.DB, error) {
	placed, err := somePlaced(tx)
	if err != nil {
		return nil, err
	}
	return policyFindings(tx, current, until).Where("EXISTS (?)", duePlaces(tx, holders.Select("1"), chosen, placed, until)), nil
}
