package sqlstore

import (
	"maps"
	"slices"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/vuln"
)

// vulnerabilityNames are the IDs under which a vulnerability is known, each once: its own and its aliases. Those that no index takes
// are cut.
func vulnerabilityNames(v *vuln.Vulnerability) []string {
	names := []string{v.ID}
	for _, alias := range v.Aliases {
		if name := cut(alias, maxIdentifier); name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// saveVulnerabilities records those that are not known and returns the ids of all, by digest.
func (w *answerWriter) saveVulnerabilities(all map[string]*vulnerabilityContent) (map[string]int64, error) {
	digests := slices.Sorted(maps.Keys(all))
	ids, early, err := knownVulnerabilities(w.DB, digests, w.current)
	if err != nil {
		return nil, err
	}
	if w.target == w.current {
		for digest, id := range early {
			if err := w.takeEarly(id, all[digest].scores); err != nil {
				return nil, err
			}
		}
	}
	var values []any
	var added []string
	for _, digest := range digests {
		if _, known := ids[digest]; known {
			continue
		}
		v := all[digest]
		added = append(added, digest)
		values = append(append(values, digest, v.id, v.namespace, v.severity, w.target), v.scores.values()...)
	}
	if len(added) == 0 {
		return ids, nil
	}
	columns := append([]string{"digest", "vulnerability_id", "namespace", "severity", "from_gen"}, scoreColumns...)
	if err := w.insert("vulnerabilities", columns, values, ""); err != nil {
		return nil, err
	}
	fresh, _, err := knownVulnerabilities(w.DB, added, w.current)
	if err != nil {
		return nil, err
	}
	maps.Copy(ids, fresh)
	details := make([]any, 0, 2*len(added))
	for _, digest := range added {
		details = append(details, ids[digest], all[digest].detail)
	}
	if err := w.insert("vulnerability_details", []string{"vulnerability_pk", "detail"}, details, ""); err != nil {
		return nil, err
	}
	return ids, w.insertNames(added, all, ids)
}

// insertNames records under which IDs the vulnerabilities of the digests are known.
func (w *answerWriter) insertNames(added []string, all map[string]*vulnerabilityContent, ids map[string]int64) error {
	var values []any
	for _, digest := range added {
		for _, name := range all[digest].names {
			values = append(values, name, ids[digest])
		}
	}
	return w.insert("vulnerability_names", []string{"name", "vulnerability_pk"}, values, "")
}

// knownVulnerabilities returns the ids of those that are stored, by digest. early are those among them that only the next
// generation has named so far.
func knownVulnerabilities(tx *gorm.DB, digests []string, current int64) (ids, early map[string]int64, err error) {
	ids, early = make(map[string]int64, len(digests)), map[string]int64{}
	for part := range slices.Chunk(digests, maxIn) {
		var rows []struct {
			ID, FromGen int64
			Digest      string
		}
		if err := tx.Raw("SELECT id, digest, from_gen FROM vulnerabilities WHERE digest IN ?", part).Scan(&rows).Error; err != nil {
			return nil, nil, err
		}
		for _, row := range rows {
			if ids[row.Digest] = row.ID; row.FromGen > current {
				early[row.Digest] = row.ID
			}
		}
	}
	return ids, early, nil
}

// takeEarly gives a vulnerability that the next generation named first the scores of the current one, and keeps those that
// it had for the switch.
func (w *answerWriter) takeEarly(id int64, now scoresRow) error {
	if w.next != 0 {
		err := w.exec(`INSERT INTO staged_scores (vulnerability_pk, epss_micros, risk_micros, kev, scores)
			SELECT id, epss_micros, risk_micros, kev, scores FROM vulnerabilities WHERE id = ?`+
			w.dialect.ignoreConflict("vulnerability_pk"), id)
		if err != nil {
			return err
		}
	}
	return w.exec("UPDATE vulnerabilities SET from_gen = ?, epss_micros = ?, risk_micros = ?, kev = ?, scores = ? WHERE id = ?",
		append(append([]any{w.current}, now.values()...), id)...)
}
