package match

import (
	"fmt"
	"slices"

	v6 "github.com/anchore/grype/grype/db/v6"
)

// decoration holds EPSS, KEV and CWEs of a CVE, which do not affect matching. It does not change once
// it is read.
type decoration struct {
	epss []v6.EpssHandle
	kev  []v6.KnownExploitedVulnerabilityHandle
	cwes []v6.CWEHandle
}

const (
	// maxDecorations bounds the CVEs whose decorations are remembered, at some 500 bytes each.
	maxDecorations = 30_000
	// cveBatch bounds the parameters of one query; SQLite takes 999 for certain.
	cveBatch = 500
)

// GetEpss implements v6.Reader.
func (s *store) GetEpss(cve string) ([]v6.EpssHandle, error) {
	d, err := s.decoration(cve)
	if err != nil {
		return nil, err
	}
	return slices.Clone(d.epss), nil
}

// GetKnownExploitedVulnerabilities implements v6.Reader.
func (s *store) GetKnownExploitedVulnerabilities(cve string) ([]v6.KnownExploitedVulnerabilityHandle, error) {
	d, err := s.decoration(cve)
	if err != nil {
		return nil, err
	}
	return slices.Clone(d.kev), nil
}

// GetCWEs implements v6.Reader.
func (s *store) GetCWEs(cve string) ([]v6.CWEHandle, error) {
	d, err := s.decoration(cve)
	if err != nil {
		return nil, err
	}
	return slices.Clone(d.cwes), nil
}

func (s *store) decoration(cve string) (*decoration, error) {
	key := fold(cve)
	if d, ok := s.decorations.get(key); ok {
		return d, nil
	}
	d := &decoration{}
	var err error
	if d.epss, err = s.Reader.GetEpss(cve); err != nil {
		return nil, err
	}
	if d.kev, err = s.Reader.GetKnownExploitedVulnerabilities(cve); err != nil {
		return nil, err
	}
	if d.cwes, err = s.Reader.GetCWEs(cve); err != nil {
		return nil, err
	}
	s.decorations.put(key, d, 1)
	return d, nil
}

// expect remembers the decorations of many CVEs that will be asked for.
func (s *store) expect(cves []string) error {
	unknown := slices.DeleteFunc(cves, func(cve string) bool {
		_, known := s.decorations.get(fold(cve))
		return known
	})
	read, err := s.decorate(unknown)
	if err != nil {
		return err
	}
	for key, d := range read {
		s.decorations.put(key, d, 1)
	}
	return nil
}

// decorate returns the decorations of many CVEs, by folded name, in a few queries.
func (s *store) decorate(cves []string) (map[string]*decoration, error) {
	out := make(map[string]*decoration, len(cves))
	var missing []string
	for _, cve := range cves {
		key := fold(cve)
		if _, twice := out[key]; twice {
			continue
		}
		out[key] = &decoration{}
		missing = append(missing, cve)
	}
	for batch := range slices.Chunk(missing, cveBatch) {
		if err := s.readDecorations(batch, out); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// readDecorations reads in one query each what Grype reads for one CVE after the other, in the same order.
func (s *store) readDecorations(cves []string, into map[string]*decoration) error {
	const among = "cve COLLATE NOCASE IN ?"
	if s.supported.epss {
		var rows []v6.EpssHandle
		if err := s.db.Where(among, cves).Order("id").Find(&rows).Error; err != nil {
			return fmt.Errorf("read EPSS: %w", err)
		}
		var date v6.EpssMetadata
		if len(rows) > 0 {
			if err := s.db.First(&date).Error; err != nil {
				return fmt.Errorf("read the date of EPSS: %w", err)
			}
		}
		for _, row := range rows {
			row.Date = date.Date
			d := into[fold(row.Cve)]
			d.epss = append(d.epss, row)
		}
	}
	if s.supported.cwes {
		var rows []v6.CWEHandle
		if err := s.db.Where(among, cves).Order("id").Find(&rows).Error; err != nil {
			return fmt.Errorf("read CWEs: %w", err)
		}
		for _, row := range rows {
			d := into[fold(row.CVE)]
			d.cwes = append(d.cwes, row)
		}
	}
	if !s.supported.kev {
		return nil
	}
	var exploited []string
	err := s.db.Model(&v6.KnownExploitedVulnerabilityHandle{}).Where(among, cves).Distinct("cve").Pluck("cve", &exploited).Error
	if err != nil {
		return fmt.Errorf("read KEV: %w", err)
	}
	for _, cve := range exploited { // few
		rows, err := s.Reader.GetKnownExploitedVulnerabilities(cve)
		if err != nil {
			return err
		}
		into[fold(cve)].kev = rows
	}
	return nil
}

// decorationSupport lists the decorations that the schema version of a database contains.
type decorationSupport struct{ kev, epss, cwes bool }

func supportedDecorations(m *v6.DBMetadata) decorationSupport {
	since := func(revision, addition int) bool {
		return m.Revision > revision || m.Revision == revision && m.Addition >= addition
	}
	return decorationSupport{kev: since(0, 1), epss: since(0, 2), cwes: since(1, 2)}
}

// fold makes names equal that the database takes for equal: without regard to ASCII case.
func fold(name string) string {
	for i := range len(name) {
		if c := name[i]; 'A' <= c && c <= 'Z' {
			folded := []byte(name)
			for ; i < len(folded); i++ {
				if c := folded[i]; 'A' <= c && c <= 'Z' {
					folded[i] = c + 'a' - 'A'
				}
			}
			return string(folded)
		}
	}
	return name
}
