package sqlstore

import (
	gocmp "cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// storedTagFix is a row of tag_fixes of the current result set, with the findings that the tag closes.
type storedTagFix struct {
	ID                        int64
	Lookup                    string
	ImagePk, Position         int64
	OpenedRisk, OpenedCount   int64
	RiskMicros, Kev, Findings int64
	Closed                    []int64 `gorm:"-"`
}

// foundThere is a finding in the image of a lookup, also one that decisions suppress.
type foundThere struct {
	Lookup                                                    string
	ImagePk, FindingID, Severity, Kev, RiskMicros, Suppressed int64
	Name, VulnerabilityID                                     string
}

const foundInLookups = `SELECT l.id AS lookup, i.id AS image_pk, f.id AS finding_id, v.severity, v.kev, v.risk_micros, p.name, v.vulnerability_id,
	(SELECT COUNT(*) FROM finding_suppressions x LEFT JOIN reached y ON y.reach = x.reach WHERE x.finding_id = f.id AND (x.reach = 0 OR y.image_pk = i.id)) AS suppressed
	FROM tag_lookups l JOIN images i ON i.image_id = l.image_id AND i.platform = l.platform JOIN image_packages ip ON ip.image_pk = i.id JOIN packages p ON p.id = ip.package_pk
	JOIN findings f ON f.package_pk = p.id JOIN vulnerabilities v ON v.id = f.vulnerability_pk JOIN generations g ON f.from_gen <= g.number AND f.until_gen > g.number
	WHERE g.state = 'Current' AND i.matched_at > 0 AND ip.excluded = 0`

// checkTagFixes expects that what newer tags do is what follows from each finding of the images, and of the images of the tags.
func checkTagFixes(t *testing.T, s *Store) {
	t.Helper()
	var found []foundThere
	var tags []struct {
		Lookup            string
		ImagePk, Position int64
		Findings          []byte
	}
	var stored []storedTagFix
	var waiting []string
	var closings []struct{ FixPk, FindingID int64 }
	for _, query := range []struct {
		statement string
		into      any
	}{
		{foundInLookups, &found},
		{`SELECT n.lookup, i.id AS image_pk, n.position, m.findings FROM newer_tags n JOIN tag_images m ON m.id = n.image JOIN tag_lookups l ON l.id = n.lookup
			JOIN images i ON i.image_id = l.image_id AND i.platform = l.platform JOIN generations g ON g.number = m.result_set
			WHERE g.state = 'Current' AND n.problem = '' AND m.problem = '' AND i.matched_at > 0 ORDER BY n.lookup, n.position`, &tags},
		{`SELECT x.id, x.lookup, x.image_pk, x.position, x.opened_risk, x.opened_findings AS opened_count, x.risk_micros, x.kev, x.findings FROM tag_fixes x
			JOIN generations g ON g.number = x.result_set WHERE g.state = 'Current' ORDER BY x.lookup`, &stored},
		{`SELECT DISTINCT n.lookup FROM newer_tags n JOIN tag_images m ON m.id = n.image WHERE n.problem = ''
			AND NOT EXISTS (SELECT 1 FROM generations g WHERE g.number = m.result_set AND g.state = 'Current')`, &waiting},
		{"SELECT fix_pk, finding_id FROM tag_closings ORDER BY finding_id", &closings},
	} {
		if err := s.db.Reader().Raw(query.statement).Scan(query.into).Error; err != nil {
			t.Error(err)
			return
		}
	}
	for i := range stored {
		for _, row := range closings {
			if row.FixPk == stored[i].ID {
				stored[i].Closed = append(stored[i].Closed, row.FindingID)
			}
		}
		stored[i].ID = 0
	}
	want, best := map[string]storedTagFix{}, map[string][2]int64{}
	for _, tag := range tags {
		has, err := decodeTagFindings(tag.Findings)
		if err != nil {
			t.Error(err)
			return
		}
		one := storedTagFix{Lookup: tag.Lookup, ImagePk: tag.ImagePk, Position: tag.Position}
		score, allowed := one.compare(found, has)
		if before, known := best[tag.Lookup]; allowed && (!known || slices.Compare(score[:], before[:]) > 0) {
			want[tag.Lookup], best[tag.Lookup] = one, score
		}
	}
	for _, lookup := range waiting { // Nothing begins to be recommended while tags are not matched.
		if !slices.ContainsFunc(stored, func(row storedTagFix) bool { return row.Lookup == lookup }) {
			delete(want, lookup)
		}
	}
	wanted := slices.SortedFunc(maps.Values(want), func(a, b storedTagFix) int { return gocmp.Compare(a.Lookup, b.Lookup) })
	if diff := cmp.Diff(wanted, stored, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("tag_fixes (-want +got):\n%s", diff)
	}
}

// compare compares what a newer tag has with what its image has. The score is the risk and the number of findings that the tag removes; allowed says that it
// may be recommended.
func (f *storedTagFix) compare(found []foundThere, has []store.TagFinding) (score [2]int64, allowed bool) {
	type key struct{ vulnerability, name string }
	present, closed, other := map[key]int64{}, map[key]bool{}, map[key]bool{}
	for i := range has {
		other[key{has[i].VulnerabilityID, has[i].Package}] = true
	}
	for i := range found {
		row := &found[i]
		if k := (key{row.VulnerabilityID, row.Name}); row.Lookup == f.Lookup {
			present[k] = max(present[k], row.RiskMicros)
			if other[k] {
				continue
			}
			closed[k] = true
			f.Closed = append(f.Closed, row.FindingID)
			if row.Suppressed == 0 {
				f.RiskMicros, f.Kev, f.Findings = f.RiskMicros+row.RiskMicros, f.Kev+row.Kev, f.Findings+1
			}
		}
	}
	slices.Sort(f.Closed)
	allowed = true
	for i := range has {
		if _, there := present[key{has[i].VulnerabilityID, has[i].Package}]; !there {
			f.OpenedCount++
			f.OpenedRisk += int64(has[i].Risk*1e6 + 0.5)
			allowed = allowed && !has[i].KEV && has[i].Severity < model.SeverityHigh
		}
	}
	score = [2]int64{-f.OpenedRisk, int64(len(closed)) - f.OpenedCount}
	for k := range closed {
		score[0] += present[k]
	}
	return score, allowed && (score[0] > 0 || score[0] == 0 && score[1] > 0)
}

// TestRefreshTagFixes expects that newer tags are compared which another version left behind: without a comparison, and with one that is wrong.
func TestRefreshTagFixes(t *testing.T) {
	eachDatabase(t, func(t *testing.T, config Config) {
		s := withFixes(t, config)
		lookups, err := s.WantTagLookups(t.Context(), "scope", []store.WantedTags{
			{Key: fixKey(0), Repository: "registry.example/app", Tag: "1.0", Namespaces: []string{"one"}},
			{Key: fixKey(2), Repository: "registry.example/app", Tag: "1.0", Namespaces: []string{"one"}},
		})
		if err != nil {
			t.Fatal(err)
		}
		content, err := encodeTagFindings([]store.TagFinding{{VulnerabilityID: "CVE-1", Package: "package-0"}, {VulnerabilityID: "CVE-9", Package: "new", Severity: model.SeverityLow, Risk: 0.25}})
		if err != nil {
			t.Fatal(err)
		}
		err = s.write(t.Context(), "fill", func(tx *txn) error {
			current, err := currentNumber(tx.DB)
			if err != nil {
				return err
			}
			image := []any{"image", "scope", "team", "registry.example/app", "linux/amd64", "sha256:1", "syft", "", "", 0, 1, current, "1", content, ""}
			if err := tx.Insert("tag_images", tagImageColumns, image, ""); err != nil {
				return err
			}
			return tx.Insert("newer_tags", newerTagColumns, []any{
				lookups[0].ID, 0, "1.1", "patch", "sha256:1", "", "image", lookups[1].ID, 0, "1.1", "patch", "sha256:1", "", "image",
			}, "")
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, statements := range [][]string{
			nil,
			{"UPDATE tag_fixes SET findings = findings + 1, opened_risk = 0", "DELETE FROM tag_closings WHERE finding_id IN (SELECT f.id FROM findings f WHERE f.fixable = 1)"},
			{"UPDATE tag_fixes SET result_set = result_set + 1"},
		} {
			leaveBehind(t, s, statements...)
			if err := s.RefreshFixes(t.Context()); err != nil {
				t.Fatal(err)
			}
			checkTagFixes(t, s)
			if rows := texts(t, s, "SELECT lookup FROM tag_fixes WHERE findings > 0 AND findings < (SELECT COUNT(*) FROM tag_closings c WHERE c.fix_pk = tag_fixes.id)"); len(rows) != 2 {
				t.Errorf("%d newer tags close findings of which some are suppressed, want 2", len(rows))
			}
		}
		leaveBehind(t, s, "DELETE FROM newer_tags")
		if err := s.RefreshFixes(t.Context()); err != nil {
			t.Fatal(err)
		}
		if rows := texts(t, s, "SELECT id FROM tag_fixes"); len(rows) > 0 {
			t.Errorf("%d rows without a newer tag", len(rows))
		}
	})
}

// withLookups stores lookups of an image, one for each tag, with newer tags that have images but no findings yet, and returns them.
func withLookups(t *testing.T, s *Store, image model.ImageKey, tags []string, newer ...string) []store.TagLookup {
	t.Helper()
	var wanted []store.WantedTags
	for _, tag := range tags {
		wanted = append(wanted, store.WantedTags{Key: image, Repository: "registry.example/app", Tag: tag, Namespaces: []string{"one"}})
	}
	lookups, err := s.WantTagLookups(t.Context(), "scope", wanted)
	if err != nil {
		t.Fatal(err)
	}
	err = s.write(t.Context(), "fill", func(tx *txn) error {
		var images, rows []any
		for _, tag := range newer {
			images = append(images, tag, "scope", "team", "registry.example/app", "linux/amd64", tag, "syft", "", "sbom", 0, 1, 0, "", []byte{}, "")
		}
		for _, lookup := range lookups {
			for i, tag := range newer {
				rows = append(rows, lookup.ID, i, tag, "patch", tag, "", tag)
			}
			tx.noteTags([]string{lookup.ID}, nil)
		}
		if err := tx.Insert("tag_images", tagImageColumns, images, ""); err != nil {
			return err
		}
		return tx.Insert("newer_tags", newerTagColumns, rows, "")
	})
	if err != nil {
		t.Fatal(err)
	}
	return lookups
}

// matchTag saves the findings of the image of a newer tag.
func matchTag(t *testing.T, s *Store, tag string, resultSet int64, found ...store.TagFinding) {
	t.Helper()
	if err := s.SaveTagFindings(t.Context(), tag, "sbom", resultSet, store.TagFindings{Build: "build", Findings: found}); err != nil {
		t.Fatal(err)
	}
	checkTagFixes(t, s)
}

// listedTags are the newer tags that are listed as actions, in order.
func listedTags(t *testing.T, s *Store) (tags []string) {
	t.Helper()
	page, err := s.ListFixes(t.Context(), store.AllNamespaces(), store.FixQuery{Kind: store.FixNewerTag, Page: store.Page{Size: store.MaxPageSize}})
	if err != nil {
		t.Fatal(err)
	}
	for _, fix := range page.Fixes {
		tags = append(tags, fix.NewerTag.Tag)
	}
	slices.Sort(tags)
	return tags
}

// opens is a finding that makes a tag worse than one without it.
func opens(risk float64) store.TagFinding {
	return store.TagFinding{VulnerabilityID: "CVE-9", Package: "new", Severity: model.SeverityLow, Risk: risk}
}

// TestTagsAreComparedTogether expects that no tag is recommended before the others are matched, also after a switch, and that one which is recommended stays
// while others of its lookup are matched.
func TestTagsAreComparedTogether(t *testing.T) {
	eachDatabase(t, func(t *testing.T, config Config) {
		s := withFixes(t, config)
		expect := func(when string, want ...string) {
			t.Helper()
			if diff := cmp.Diff(want, listedTags(t, s), cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("newer tags %s (-want +got):\n%s", when, diff)
			}
		}
		lookups := withLookups(t, s, fixKey(0), []string{"1.0"}, "1.1", "1.2", "1.3")
		match := func(current int64) {
			t.Helper()
			expect("before one is matched")
			matchTag(t, s, "1.1", current, opens(0.5))
			expect("after one of three is matched")
			matchTag(t, s, "1.2", current, opens(0.25))
			expect("after two of three are matched")
			matchTag(t, s, "1.3", current)
			expect("after all are matched", "1.3")
		}
		match(1)
		next, err := s.StartResultSet(t.Context(), model.DatabaseBuild{ID: "2"}, "", false)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.StartMatching(t.Context(), next.Number); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Switch(t.Context(), next.Number); err != nil {
			t.Fatal(err)
		}
		match(next.Number)
		leaveBehind(t, s, "UPDATE tag_images SET result_set = 0 WHERE id = '1.2'")
		err = s.write(t.Context(), "note", func(tx *txn) error {
			tx.noteTags([]string{lookups[0].ID}, nil)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		checkTagFixes(t, s)
		expect("while another tag is matched again", "1.3")
	})
}

// TestManyTagsAreComparedLater expects that a transaction compares few lookups, and that CompareNewerTags compares those that it left out: also those that had
// no row, and those that had one.
func TestManyTagsAreComparedLater(t *testing.T) {
	eachDatabase(t, func(t *testing.T, config Config) {
		s := withFixes(t, config)
		var tags []string
		for i := range tagsAtATime + 10 {
			tags = append(tags, fmt.Sprint("1.0.", i))
		}
		withLookups(t, s, fixKey(0), tags, "1.1")
		for _, found := range []store.TagFinding{opens(0.5), opens(0.25)} {
			if err := s.SaveTagFindings(t.Context(), "1.1", "sbom", 1, store.TagFindings{Build: "build", Findings: []store.TagFinding{found}}); err != nil {
				t.Fatal(err)
			}
			if listed := listedTags(t, s); len(listed) != tagsAtATime {
				t.Errorf("%d of %d newer tags are listed after one transaction, want %d", len(listed), len(tags), tagsAtATime)
			}
			if more, err := s.CompareNewerTags(t.Context()); err != nil || more {
				t.Errorf("more is %v, %v", more, err)
			}
			checkTagFixes(t, s)
			if listed := listedTags(t, s); len(listed) != len(tags) {
				t.Errorf("%d of %d newer tags are listed in the end", len(listed), len(tags))
			}
		}
		leaveBehind(t, s, "UPDATE tag_fixes SET result_set = 0")
		for _, want := range []bool{true, false, false} {
			if more, err := s.CompareNewerTags(t.Context()); err != nil || more != want {
				t.Errorf("more is %v, %v, want %v", more, err, want)
			}
		}
		checkTagFixes(t, s)
	})
}

// TestUnreadableTagFindings expects that findings which cannot be read keep neither a transaction nor another tag.
func TestUnreadableTagFindings(t *testing.T) {
	eachDatabase(t, func(t *testing.T, config Config) {
		var messages []string
		config.Log = funcr.New(func(_, message string) { messages = append(messages, message) }, funcr.Options{})
		s := withFixes(t, config)
		withLookups(t, s, fixKey(0), []string{"1.0"}, "1.1", "1.2")
		matchTag(t, s, "1.1", 1)
		if err := s.db.Writer().Exec("UPDATE tag_images SET findings = ? WHERE id = '1.1'", []byte("no zstd")).Error; err != nil {
			t.Fatal(err)
		}
		if err := s.SaveTagFindings(t.Context(), "1.2", "sbom", 1, store.TagFindings{Build: "build", Findings: []store.TagFinding{opens(0.5)}}); err != nil {
			t.Fatal(err)
		}
		if listed := listedTags(t, s); !slices.Equal(listed, []string{"1.2"}) {
			t.Errorf("newer tags %v, want 1.2", listed)
		}
		if !slices.ContainsFunc(messages, func(message string) bool { return strings.Contains(message, "Cannot read the findings of a newer tag") }) {
			t.Errorf("not logged: %q", messages)
		}
	})
}
