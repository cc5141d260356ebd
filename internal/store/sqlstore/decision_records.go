package sqlstore

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// expiryOrLast is the end of decisions d for sorting: those without one come last.
const expiryOrLast = "CASE WHEN d.expires_at = 0 THEN 9223372036854775807 ELSE d.expires_at END"

var decisionSorts = map[store.DecisionSort][]sqldb.SortKey{
	store.SortDecisionSince:  {{Column: "d.since", Number: true, Descending: true}, {Column: "d.id", Number: true, Descending: true}},
	store.SortDecisionExpiry: {{Column: expiryOrLast, Number: true}, {Column: "d.id", Number: true}},
	store.SortDecisionName:   {{Column: "d.namespace"}, {Column: "d.kind"}, {Column: "d.name"}, {Column: "d.id", Number: true, Descending: true}},
}

// decisionToken is what a page token of decisions belongs to.
type decisionToken struct {
	List                  string
	State                 store.DecisionState
	Statuses              []model.DecisionStatus
	Source                string
	Object                store.DecisionObject
	Vulnerability, Author string
	ExpiringWithin        *int
	Since, Until          int64
	Sort                  store.DecisionSort
}

// recordRow is a row of decisions.
type recordRow struct {
	ID                                                                                              int64
	Source, Kind, Namespace, Name, Status, Spec, Justification, Comment, Author, EndedBy, DeletedBy string
	Suppresses, Unfixed, ExpiresAt, Since, UntilTime                                                int64
}

const recordColumns = `d.id, d.source, d.kind, d.namespace, d.name, d.status, d.spec, d.justification, d.comment, d.author, d.ended_by,
	d.suppresses, d.unfixed, d.expires_at, d.since, d.until_time, ` + deletedBy + ` AS deleted_by`

// value is the sort value of a column.
func (r *recordRow) value(column string) string {
	switch column {
	case "d.since":
		return strconv.FormatInt(r.Since, 10)
	case expiryOrLast:
		return strconv.FormatInt(cmp.Or(r.ExpiresAt, math.MaxInt64), 10)
	case "d.namespace":
		return r.Namespace
	case "d.kind":
		return r.Kind
	case "d.name":
		return r.Name
	}
	return strconv.FormatInt(r.ID, 10)
}

// content is what the decision says. Who sees some namespaces does not see who decided and how images and places are selected, unless the object is in one of them:
// patterns and selectors can name what others run.
func (r *recordRow) content(in store.Namespaces) (store.DecisionContent, error) {
	var spec decisionSpec
	if err := fromJSON(r.Spec, &spec); err != nil {
		return store.DecisionContent{}, err
	}
	content := store.DecisionContent{
		ID: r.ID, Status: model.DecisionStatus(r.Status), Suppresses: r.Suppresses != 0, Vulnerabilities: spec.Vulnerabilities, Packages: spec.Packages,
		Unfixed: r.Unfixed != 0, Justification: r.Justification, Comment: r.Comment, ExpiresAt: fromMicros(r.ExpiresAt), Since: fromMicros(r.Since),
	}
	if in.All() || r.Namespace != "" {
		content.Author, content.StatedAuthor, content.DeletedBy = r.Author, spec.StatedAuthor, r.DeletedBy
		content.Images, content.Places = spec.Images, spec.Places
	}
	if r.UntilTime != stillOpen {
		content.Until, content.EndedBy = fromMicros(r.UntilTime), store.DecisionEnd(r.EndedBy)
	}
	return content, nil
}

// visibleDecisions selects the decisions d that are visible: those of objects in visible namespaces, and those of objects of the cluster that match findings of visible images
// now. What others matched when they ended is not known.
func (s *Store) visibleDecisions(tx *gorm.DB, in store.Namespaces) (*gorm.DB, error) {
	chosen := tx.Table("decisions AS d")
	if in.All() {
		return chosen, nil
	}
	matching, err := s.matchingDecisions(tx, in)
	return chosen.Where("(" + isWithin("d.namespace", in) + " OR d.id IN (" + matching + "))"), err
}

// matchingDecisions lists the IDs of the decisions of objects of the cluster that match findings of visible images, as literals: there may be more than a statement has values.
func (s *Store) matchingDecisions(tx *gorm.DB, in store.Namespaces) (string, error) {
	current, err := currentNumber(tx)
	if err != nil {
		return "", err
	}
	held := tx.Table("image_packages AS ip").Joins("JOIN images im ON im.id = ip.image_pk").Where("ip.excluded = 0 AND im.matched_at > 0 AND ip.image_pk IN (?)", visibleImages(tx, in)).
		Select("ip.package_pk")
	var rows []struct{ ID, Reach int64 }
	err = tx.Table("decisions AS d").Where("d.namespace = '' AND d.until_time = ? AND d.id IN (?)", int64(stillOpen),
		tx.Table("decision_findings AS m").Joins("JOIN findings f ON f.id = m.finding_id").Where(shown, current, current).Where("f.package_pk IN (?)", held).Select("m.decision_pk"),
	).Select("d.id, d.reach").Order("d.id").Scan(&rows).Error
	if err != nil {
		return "", err
	}
	var limited []int64
	for _, row := range rows {
		if row.Reach != everywhere {
			limited = append(limited, row.ID)
		}
	}
	matched := map[int64]int{}
	err = inParts(limited, func(part []int64) error {
		counts, err := s.matchesOf(tx, in, current, part...)
		maps.Copy(matched, counts)
		return err
	})
	ids := []string{"0"}
	for _, row := range rows {
		if row.Reach == everywhere || matched[row.ID] > 0 {
			ids = append(ids, strconv.FormatInt(row.ID, 10))
		}
	}
	return strings.Join(ids, ","), err
}

// namedVulnerabilities is an expression for the specification of decisions d up to the end of its list of vulnerabilities, if there is one: what follows can have
// texts that the reader may not see. In JSON, no list of texts contains the characters between two lists, unless an ID ends in "],".
func namedVulnerabilities(dialect sqldb.Dialect) string {
	end := dialect.Position("d.spec", `'],"'`)
	return "CASE WHEN " + end + " = 0 THEN d.spec ELSE SUBSTR(d.spec, 1, " + end + ") END"
}

// filterDecisions selects the visible decisions d that a query keeps.
func (s *Store) filterDecisions(tx *gorm.DB, in store.Namespaces, query store.DecisionQuery) (*gorm.DB, error) {
	chosen, err := s.visibleDecisions(tx, in)
	if err != nil {
		return nil, err
	}
	switch query.State {
	case store.DecisionStanding:
		chosen = chosen.Where("d.until_time = ?", int64(stillOpen))
	case store.DecisionEnded:
		chosen = chosen.Where("d.until_time < ?", int64(stillOpen))
	}
	if len(query.Statuses) > 0 {
		chosen = chosen.Where("d.status IN ?", query.Statuses)
	}
	chosen = equals(chosen, "d.source", query.Source)
	chosen = equals(chosen, "d.kind", query.Object.Kind)
	chosen = equals(chosen, "d.namespace", query.Object.Namespace)
	chosen = equals(chosen, "d.name", query.Object.Name)
	if query.Author != "" && !in.All() {
		chosen = chosen.Where("d.namespace <> ''")
	}
	chosen = equals(chosen, "d.author", query.Author)
	if query.ExpiringWithin != nil {
		until := s.now() + (time.Duration(*query.ExpiringWithin) * day).Microseconds()
		chosen = chosen.Where("d.expires_at > 0 AND d.expires_at <= ?", until)
	}
	if !query.Since.IsZero() {
		chosen = chosen.Where("d.since >= ?", micros(query.Since))
	}
	if !query.Until.IsZero() {
		chosen = chosen.Where("d.since < ?", micros(query.Until))
	}
	if query.Vulnerability == "" {
		return chosen, nil
	}
	if spellings(query.Vulnerability) == nil {
		return chosen.Where("1 = 0"), nil // No decision names it so.
	}
	// The rows of decisions that have ended have the names in the specification only. A comma or the end of the list follows them, a colon the keys.
	quoted, err := json.Marshal(query.Vulnerability)
	if err != nil {
		return nil, err
	}
	fresh := tx.Session(&gorm.Session{NewDB: true})
	listed := namedVulnerabilities(s.db.Dialect())
	named := sqldb.Contains(fresh, s.db.Dialect(), string(quoted)+",", listed)
	return chosen.Where("d.spec LIKE '%\"vulnerabilities\":[%'").Where(sqldb.Contains(fresh, s.db.Dialect(), string(quoted)+"]", listed).Or(named)), nil
}

// ListDecisions implements store.Reader.
func (s *Store) ListDecisions(ctx context.Context, in store.Namespaces, query store.DecisionQuery) (store.DecisionPage, error) {
	const what = "list decisions"
	query.Sort = cmp.Or(query.Sort, store.SortDecisionSince)
	keys, known := decisionSorts[query.Sort]
	if !known {
		return store.DecisionPage{}, fmt.Errorf("%s: unknown sort order %q", what, query.Sort)
	}
	token := decisionToken{
		"decisions", query.State, query.Statuses, query.Source, query.Object, query.Vulnerability, query.Author, query.ExpiringWithin,
		micros(query.Since), micros(query.Until), query.Sort,
	}
	var page store.DecisionPage
	err := s.read(ctx, what, func(tx *gorm.DB) error {
		page = store.DecisionPage{}
		filtered, err := s.filterDecisions(tx, in, query)
		if err != nil {
			return err
		}
		filtered = filtered.Session(&gorm.Session{})
		var total int64
		if err := filtered.Count(&total).Error; err != nil {
			return err
		}
		page.Total = int(total)
		behind, err := fromToken(filtered, query.Token, token, keys)
		if err != nil {
			return err
		}
		var rows []recordRow
		if err := behind.Select(recordColumns).Order(sqldb.OrderBy(keys)).Limit(query.Limit() + 1).Scan(&rows).Error; err != nil {
			return err
		}
		if rows, page.NextToken, err = cutPage(rows, query.Limit(), token, keys, (*recordRow).value); err != nil {
			return err
		}
		page.Decisions, err = s.records(tx, in, rows)
		return err
	})
	if err != nil {
		return store.DecisionPage{}, err
	}
	return page, nil
}

// Decision implements store.Reader.
func (s *Store) Decision(ctx context.Context, in store.Namespaces, id int64) (store.DecisionRecord, error) {
	var record store.DecisionRecord
	err := s.read(ctx, "read a decision", func(tx *gorm.DB) error {
		chosen, err := s.visibleDecisions(tx, in)
		if err != nil {
			return err
		}
		var rows []recordRow
		if err := chosen.Where("d.id = ?", id).Select(recordColumns).Scan(&rows).Error; err != nil {
			return err
		}
		if len(rows) == 0 {
			return store.ErrNotFound
		}
		records, err := s.records(tx, in, rows)
		if err == nil {
			record = records[0]
		}
		return err
	})
	return record, err
}

// records adds to rows what they match and what the objects said before.
func (s *Store) records(tx *gorm.DB, in store.Namespaces, rows []recordRow) ([]store.DecisionRecord, error) {
	ids := make([]int64, len(rows))
	var standing []int64
	for i := range rows {
		if ids[i] = rows[i].ID; rows[i].UntilTime == stillOpen {
			standing = append(standing, rows[i].ID)
		}
	}
	previous, err := previousDecisions(tx, in, ids)
	if err != nil {
		return nil, err
	}
	current, err := currentNumber(tx)
	if err != nil {
		return nil, err
	}
	matched := make(map[int64]int, len(standing))
	err = inParts(standing, func(part []int64) error {
		counts, err := s.matchesOf(tx, in, current, part...)
		maps.Copy(matched, counts)
		return err
	})
	if err != nil {
		return nil, err
	}
	records := make([]store.DecisionRecord, len(rows))
	for i := range rows {
		row := &rows[i]
		content, err := row.content(in)
		if err != nil {
			return nil, err
		}
		r := store.DecisionRecord{
			DecisionContent: content, Source: row.Source, Object: store.DecisionObject{Kind: row.Kind, Namespace: row.Namespace, Name: row.Name},
			Previous: previous[row.ID],
		}
		if r.Matched = matched[row.ID]; r.Suppresses {
			r.Suppressed = r.Matched
		}
		records[i] = r
	}
	return records, nil
}

// beforeDecision is the ID of the decision of the same object before d.
const beforeDecision = `(SELECT b.id FROM decisions b WHERE b.source = d.source AND b.namespace = d.namespace AND b.name = d.name AND b.kind = d.kind AND b.id < d.id
	ORDER BY b.id DESC LIMIT 1)`

// linkedDecisions are decisions with the ones of the same objects before them. VEX documents have many decisions each, which do not replace one another.
const linkedDecisions = "SELECT l.id, l.earlier FROM (SELECT d.id, " + beforeDecision + " AS earlier FROM decisions d WHERE d.id IN ? AND d.source <> '" +
	store.DecisionSourceVEX + "') l WHERE l.earlier IS NOT NULL"

// previousDecisions reads what the objects of decisions said before. Who sees some namespaces does not see that of objects of the cluster: it may have been about others.
func previousDecisions(tx *gorm.DB, in store.Namespaces, ids []int64) (map[int64]*store.DecisionContent, error) {
	previous := make(map[int64]*store.DecisionContent, len(ids))
	err := inParts(ids, func(part []int64) error {
		var links []struct{ ID, Earlier int64 }
		err := tx.Raw(linkedDecisions, part).Scan(&links).Error
		if err != nil {
			return err
		}
		next := make(map[int64]int64, len(links))
		for _, link := range links {
			next[link.Earlier] = link.ID
		}
		var rows []recordRow
		earlier := make([]int64, 0, len(next))
		for id := range next {
			earlier = append(earlier, id)
		}
		slices.Sort(earlier)
		if err := tx.Table("decisions AS d").Where("d.id IN ?", earlier).Select(recordColumns).Scan(&rows).Error; err != nil {
			return err
		}
		for i := range rows {
			if rows[i].Namespace == "" && !in.All() {
				continue
			}
			content, err := rows[i].content(in)
			if err != nil {
				return err
			}
			previous[next[rows[i].ID]] = &content
		}
		return nil
	})
	return previous, err
}
