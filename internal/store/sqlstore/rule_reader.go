package sqlstore

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/decision"
	"github.com/scanner-operator/scanner-operator/internal/model"
)

// ruleReader reads rules and packages once, as far as they are needed.
type ruleReader struct {
	rules    decision.Rules
	known    map[int64]*knownRule
	packages map[int64]*model.Package
	// work is what each rule has cost, as of decision.Rules; nil if nobody counts. total is that of all.
	work  map[int64]int
	total int
}

// maxRuleWork bounds the work of all rules while documents are applied, as of decision.Rules: some seconds, in which nothing else is written.
const maxRuleWork = 200_000_000

// errRuleWork says that the rules take more work than maxRuleWork.
var errRuleWork = errors.New("the rules take too much work")

// maxKnownRules and maxKnownPackages bound what a ruleReader remembers.
const (
	maxKnownRules    = 2_000
	maxKnownPackages = 2_000
)

// maxImageSets bounds the images that rules about one finding tell apart.
const maxImageSets = 100

// knownRule is a rule that was read.
type knownRule struct {
	decision.Rule
	suppresses, independent bool
	// images are the digests of the images that it is about, nil for all.
	images []string
}

// decide returns the decisions that decide about each finding, of those that name its vulnerability. Candidates without a rule are ignored.
func (r *ruleReader) decide(tx *gorm.DB, candidates map[int64][]int64) (map[int64][]int64, error) {
	decides := map[int64][]int64{}
	if len(candidates) == 0 || r.rules == nil {
		return decides, nil
	}
	packages, err := r.packagesOf(tx, slices.Sorted(maps.Keys(candidates)))
	if err != nil {
		return nil, err
	}
	wanted := map[int64]bool{}
	for _, ids := range candidates {
		for _, id := range ids {
			wanted[id] = true
		}
	}
	if err := r.read(tx, wanted); err != nil {
		return nil, err
	}
	ctx := tx.Statement.Context
	for finding, ids := range candidates {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		p := packages[finding]
		if p == nil {
			continue
		}
		// The lists of the caller stay as they are.
		ids = slices.DeleteFunc(slices.Compact(slices.Sorted(slices.Values(ids))), func(id int64) bool { return r.known[id] == nil })
		independent, err := r.decideAlone(p, ids)
		if err != nil {
			return nil, err
		}
		ids = slices.DeleteFunc(ids, func(id int64) bool { return r.known[id].independent })
		if decides[finding], err = r.decideFinding(p, ids); err != nil {
			return nil, err
		}
		decides[finding] = append(decides[finding], independent...)
	}
	return decides, nil
}

// decideAlone returns the decisions with independent rules that are about a finding in a package.
func (r *ruleReader) decideAlone(p *model.Package, ids []int64) (decides []int64, err error) {
	for _, id := range ids {
		if !r.known[id].independent {
			continue
		}
		one, err := r.decideOne(p, []int64{id})
		if err != nil {
			return nil, err
		}
		if one != 0 {
			decides = append(decides, id)
		}
	}
	return decides, nil
}

// decideFinding returns the decisions that decide about a finding in a package: the one in images that no rule names, and those in images that are
// named. A reach has images, and cannot leave some out, so where rules contradict each other about images the finding counts: what suppresses it
// everywhere is left out if it does not in an image that is named, and what suppresses it in some images, if it does not in one of them. It counts as
// well if the rules tell more images apart than maxImageSets.
func (r *ruleReader) decideFinding(p *model.Package, ids []int64) ([]int64, error) {
	var everywhere []int64
	naming := map[string][]int64{} // by digest
	for _, id := range ids {
		if r.known[id].images == nil {
			everywhere = append(everywhere, id)
		}
		for _, digest := range r.known[id].images {
			naming[digest] = append(naming[digest], id)
		}
		if err := r.spend(id, len(r.known[id].images)); err != nil {
			return nil, err
		}
	}
	general, err := r.decideOne(p, everywhere)
	if err != nil {
		return nil, err
	}
	// Images that the same rules name are alike.
	deciding, counts := map[string]int64{}, map[string]bool{}
	known := map[string]int64{}
	for _, digest := range slices.Sorted(maps.Keys(naming)) {
		same := fmt.Sprint(naming[digest])
		if _, found := known[same]; !found {
			if len(known) == maxImageSets {
				return nil, nil
			}
			if known[same], err = r.decideOne(p, slices.Concat(everywhere, naming[digest])); err != nil {
				return nil, err
			}
		}
		deciding[digest] = known[same]
		counts[digest] = known[same] == 0 || !r.known[known[same]].suppresses
	}
	contradicted := func(digests []string) bool {
		return slices.ContainsFunc(digests, func(digest string) bool { return counts[digest] })
	}
	var decides []int64
	suppressed := general != 0 && r.known[general].suppresses
	if suppressed && contradicted(slices.Collect(maps.Keys(naming))) {
		suppressed, general = false, 0
	}
	if general != 0 {
		decides = append(decides, general)
	}
	for _, id := range slices.Compact(slices.Sorted(maps.Values(deciding))) {
		if id == 0 || r.known[id].images == nil {
			continue
		}
		if !r.known[id].suppresses || !suppressed && !contradicted(r.known[id].images) {
			decides = append(decides, id)
		}
	}
	return decides, nil
}

// decideOne returns the one of some decisions that decides about a finding in a package, 0 if none is about it, and counts the work.
func (r *ruleReader) decideOne(p *model.Package, ids []int64) (int64, error) {
	if len(ids) == 0 {
		return 0, nil
	}
	rules, before := make([]decision.Rule, len(ids)), make([]int, len(ids))
	for i, id := range ids {
		rules[i] = r.known[id].Rule
		before[i] = r.rules.Work(rules[i])
	}
	n := r.rules.Decide(p, rules)
	for i, id := range ids {
		if err := r.spend(id, r.rules.Work(rules[i])-before[i]); err != nil {
			return 0, err
		}
	}
	if n < 0 {
		return 0, nil
	}
	return ids[n], nil
}

// spend counts the work of a decision, if somebody counts.
func (r *ruleReader) spend(id int64, work int) error {
	if r.work == nil {
		return nil
	}
	r.work[id] += work
	if r.total += work; r.total > maxRuleWork {
		return errRuleWork
	}
	return nil
}

// read reads the rules of decisions that are not known yet.
func (r *ruleReader) read(tx *gorm.DB, wanted map[int64]bool) error {
	if r.known == nil || len(r.known) > maxKnownRules {
		r.known = map[int64]*knownRule{}
	}
	ids := slices.DeleteFunc(slices.Sorted(maps.Keys(wanted)), func(id int64) bool { return r.known[id] != nil })
	return inParts(ids, func(part []int64) error {
		var rows []struct {
			DecisionPk, Suppresses int64
			Rule, Spec             string
		}
		err := tx.Raw(`SELECT r.decision_pk, r.rule, d.suppresses, COALESCE(x.spec, '') AS spec FROM decision_rules r JOIN decisions d ON d.id = r.decision_pk
			LEFT JOIN reaches x ON x.id = d.reach WHERE r.decision_pk IN ?`, part).Scan(&rows).Error
		if err != nil {
			return err
		}
		for _, row := range rows {
			rule := &knownRule{suppresses: row.Suppresses != 0}
			if rule.Rule, err = r.rules.Parse(row.Rule); err != nil {
				return err
			}
			rule.independent = r.rules.Independent(rule.Rule)
			if row.Spec != "" {
				var spec reachSpec
				if err := fromJSON(row.Spec, &spec); err != nil {
					return err
				}
				rule.images = spec.Images
			}
			r.known[row.DecisionPk] = rule
		}
		return nil
	})
}

// packagesOf returns the packages of findings.
func (r *ruleReader) packagesOf(tx *gorm.DB, findings []int64) (map[int64]*model.Package, error) {
	if r.packages == nil || len(r.packages) > maxKnownPackages {
		r.packages = map[int64]*model.Package{}
	}
	of := make(map[int64]int64, len(findings))
	wanted := map[int64]bool{}
	err := inParts(findings, func(part []int64) error {
		var rows []struct{ ID, PackagePk int64 }
		err := tx.Raw("SELECT f.id, f.package_pk FROM findings f WHERE f.id IN ?", part).Scan(&rows).Error
		for _, row := range rows {
			of[row.ID] = row.PackagePk
			wanted[row.PackagePk] = r.packages[row.PackagePk] == nil
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	ids := slices.DeleteFunc(slices.Sorted(maps.Keys(wanted)), func(id int64) bool { return !wanted[id] })
	err = inParts(ids, func(part []int64) error {
		var rows []struct {
			ID                                      int64
			Type, Name, Version, Distro, Purl, Cpes string
			MatchInput                              []byte
		}
		err := tx.Raw("SELECT p.id, p.type, p.name, p.version, p.distro, p.purl, p.cpes, p.match_input FROM packages p WHERE p.id IN ?", part).Scan(&rows).Error
		if err != nil {
			return err
		}
		for _, row := range rows {
			p := &model.Package{Type: row.Type, Name: row.Name, Version: row.Version, Distro: row.Distro, PURL: row.Purl, MatchInput: row.MatchInput}
			if err := fromJSON(row.Cpes, &p.CPEs); err != nil {
				return err
			}
			r.packages[row.ID] = p
		}
		return nil
	})
	all := make(map[int64]*model.Package, len(findings))
	for finding, id := range of {
		all[finding] = r.packages[id]
	}
	return all, err
}
