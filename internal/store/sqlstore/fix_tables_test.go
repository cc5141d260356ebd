package sqlstore

import (
	gocmp "cmp"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

// foundFix is a finding in a matched image that does not exclude its package. Those that are suppressed everywhere are none.
type foundFix struct {
	ImagePk, PackagePk, FindingID                 int64
	Fingerprint, Type                             string
	Fixable, RiskMicros, Kev, Divided, Suppressed int64
}

const foundFixes = `SELECT ip.image_pk, ip.package_pk, f.id AS finding_id, p.fingerprint, p.type, f.fixable, v.risk_micros, v.kev,
	(SELECT COUNT(*) FROM finding_suppressions x WHERE x.finding_id = f.id) AS divided,
	(SELECT COUNT(*) FROM finding_suppressions x JOIN reached y ON y.reach = x.reach WHERE x.finding_id = f.id AND y.image_pk = ip.image_pk) AS suppressed
	FROM image_packages ip JOIN images i ON i.id = ip.image_pk JOIN packages p ON p.id = ip.package_pk JOIN findings f ON f.package_pk = p.id
	JOIN vulnerabilities v ON v.id = f.vulnerability_pk JOIN generations g ON f.from_gen <= g.number AND f.until_gen > g.number
	WHERE g.state = 'Current' AND i.matched_at > 0 AND ip.excluded = 0 AND f.id NOT IN (SELECT x.finding_id FROM finding_suppressions x WHERE x.reach = 0)`

// checkFixes expects that the tables which fixes are ordered by are those that follow from all others: from each finding in each image.
func checkFixes(t *testing.T, s *Store) {
	t.Helper()
	var found []foundFix
	var packages []packageFix
	var images []imageFix
	for _, query := range []struct {
		statement string
		into      any
	}{
		{foundFixes, &found},
		{"SELECT * FROM package_fixes ORDER BY package_pk", &packages},
		{"SELECT * FROM image_fixes ORDER BY image_pk, action, package_pk", &images},
	} {
		if err := s.db.Reader().Raw(query.statement).Scan(query.into).Error; err != nil {
			t.Error(err)
			return
		}
	}
	want := wantedPackageFixes(found)
	if diff := cmp.Diff(slices.SortedFunc(maps.Values(want), func(a, b packageFix) int { return gocmp.Compare(a.PackagePk, b.PackagePk) }), packages, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("package_fixes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(wantedImageFixes(found, want), images, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("image_fixes (-want +got):\n%s", diff)
	}
}

func wantedPackageFixes(found []foundFix) map[int64]packageFix {
	packages, counted := map[int64]packageFix{}, map[int64]bool{}
	for _, f := range found {
		p := packages[f.PackagePk]
		p.PackagePk, p.Fingerprint, p.Distro = f.PackagePk, f.Fingerprint, boolean(slices.Contains(model.DistributionTypes(), f.Type))
		if f.Divided > 0 {
			p.Divided = someDivide
		}
		switch sums := &p.Sums; {
		case counted[f.FindingID]: // In another image.
		case f.Fixable != 0:
			*sums = fixSums{sums.FixRisk + f.RiskMicros, sums.FixKev + f.Kev, sums.FixFindings + 1, sums.RestRisk, sums.RestKev, sums.RestFindings}
		default:
			*sums = fixSums{sums.FixRisk, sums.FixKev, sums.FixFindings, sums.RestRisk + f.RiskMicros, sums.RestKev + f.Kev, sums.RestFindings + 1}
		}
		counted[f.FindingID] = true
		packages[f.PackagePk] = p
	}
	return packages
}

func placeOf(row *imageFix) fixPlace { return fixPlace{row.ImagePk, row.Action, row.PackagePk} }

func wantedImageFixes(found []foundFix, packages map[int64]packageFix) []imageFix {
	images := map[fixPlace]imageFix{}
	for _, f := range found {
		row := imageFix{ImagePk: f.ImagePk}
		switch {
		case f.Fixable == 0:
			row.Action, row.Waits = fixWait, 1
		case packages[f.PackagePk].Distro != 0:
			row.Action = fixRebuild
		default:
			row.Action, row.PackagePk, row.Fingerprint = fixUpdate, f.PackagePk, f.Fingerprint
		}
		row.RiskMicros, row.Kev, row.Findings = images[placeOf(&row)].RiskMicros, images[placeOf(&row)].Kev, images[placeOf(&row)].Findings
		if f.Suppressed == 0 {
			row.RiskMicros, row.Kev, row.Findings = row.RiskMicros+f.RiskMicros, row.Kev+f.Kev, row.Findings+1
		}
		images[placeOf(&row)] = row
	}
	for place, row := range maps.Clone(images) {
		switch {
		case row.Action != fixUpdate:
			if row.Findings == 0 {
				delete(images, place)
			}
		case row.Findings == packages[row.PackagePk].Sums.FixFindings:
			delete(images, place)
			all := fixPlace{row.ImagePk, fixSummary, 0}
			sum := images[all]
			images[all] = imageFix{ImagePk: row.ImagePk, Action: fixSummary, Kev: sum.Kev + min(row.Kev, 1), Findings: sum.Findings + 1}
		}
	}
	return slices.SortedFunc(maps.Values(images), func(a, b imageFix) int {
		return gocmp.Or(gocmp.Compare(a.ImagePk, b.ImagePk), gocmp.Compare(a.Action, b.Action), gocmp.Compare(a.PackagePk, b.PackagePk))
	})
}
