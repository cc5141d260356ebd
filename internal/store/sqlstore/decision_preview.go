package sqlstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/store"
)

// noName stands for the name of an object that does not exist. No object has it.
const noName = "-"

// previewed counts findings of an image: those that a decision would match and no other suppresses, those that others suppress, those that would not
// count any more, and those that would count again.
type previewed struct{ found, suppressed, closed, reopened int }

func (p *previewed) add(other previewed) {
	p.found += other.found
	p.suppressed += other.suppressed
	p.closed += other.closed
	p.reopened += other.reopened
}

// stance is how a finding stands to decisions: the decision would match it, the present decision of the object suppresses it, and others do so,
// everywhere or in the images of some reaches. Findings of a package that stand the same are counted together.
type stance struct {
	matched, own, everywhere bool
	reaches                  reachSet
}

// PreviewDecision implements store.Reader.
func (s *Store) PreviewDecision(ctx context.Context, in store.Namespaces, source string, decision store.Decision) (store.DecisionPreview, error) {
	const what = "preview a decision"
	if err := checkIdentifier("the source", source); err != nil {
		return store.DecisionPreview{}, fmt.Errorf("%s: %w", what, err)
	}
	if decision.Object.Name == "" {
		decision.Object.Name = noName
	}
	wanted, err := decisionOf(&decision)
	if err != nil {
		return store.DecisionPreview{Problem: &store.DecisionProblem{Reason: store.DecisionInvalid, Message: err.Error()}}, nil //nolint:nilerr // the preview states the problem
	}
	var preview store.DecisionPreview
	err = s.read(ctx, what, func(tx *gorm.DB) error {
		one := *wanted
		one.findings = nil
		p := &decisionPreview{Store: s, tx: tx, in: in, source: source, decision: &one}
		preview = store.DecisionPreview{Suppresses: one.suppresses != 0}
		return p.read(&preview, s.now())
	})
	return preview, err
}

// decisionPreview computes a preview in one transaction.
type decisionPreview struct {
	*Store
	tx       *gorm.DB
	in       store.Namespaces
	source   string
	decision *newDecision
	current  int64
	// wanted has the images of the decision, nil for all, unless it has places. present is the reach of the present decision of the object, others has the
	// images of each reach.
	wanted  map[int64]bool
	present int64
	others  *covers
	places  previewedPlaces
}

func (p *decisionPreview) read(preview *store.DecisionPreview, now int64) (err error) {
	if p.current, err = currentNumber(p.tx); err != nil {
		return err
	}
	if _, p.others, err = reachesOfDecisions(p.tx, p.in); err != nil {
		return err
	}
	row := &p.decision.row
	if p.decision.over = row.ExpiresAt > 0 && row.ExpiresAt <= now; p.decision.over {
		preview.Problem = new(expired(row))
	} else if err := p.match(preview); err != nil {
		return err
	}
	if err := p.readPlaces(); err != nil {
		return err
	}
	packages, err := p.count()
	if err != nil {
		return err
	}
	images, held, err := p.images(packages, preview.Problem == nil && preview.Suppresses)
	if err != nil {
		return err
	}
	if !p.in.All() && preview.Problem == nil {
		if visible := visibleMatches(packages, held); visible > p.matchBounds.one {
			preview.Problem = new(tooBroad(p.decision.row.Namespace, visible, p.matchBounds))
		}
	}
	var sum previewed
	for _, image := range images {
		sum.add(image)
		if image.found > 0 {
			preview.Images++
		}
	}
	preview.Findings, preview.Suppressed, preview.Closed, preview.Reopened = sum.found, sum.suppressed, sum.closed, sum.reopened
	if preview.Problem != nil {
		preview.Closed = 0
	}
	return p.workloads(preview, images)
}

// match looks up what the decision matches and, if everything is visible, holds it against the bounds.
func (p *decisionPreview) match(preview *store.DecisionPreview) error {
	n, object := p.decision, p.decision.row.object()
	if p.in.All() {
		var kept int
		err := p.tx.Raw("SELECT COUNT(*) FROM decisions d WHERE d.until_time = ? AND d.source = ? AND NOT (d.kind = ? AND d.namespace = ? AND d.name = ?)",
			int64(stillOpen), p.source, object.Kind, object.Namespace, object.Name).Scan(&kept).Error
		if err != nil {
			return err
		}
		plan := &decisionPlan{begin: []*newDecision{n}, kept: kept, problems: map[store.DecisionObject]store.DecisionProblem{}}
		err = p.tx.Raw("SELECT d.id FROM decisions d WHERE d.until_time = ? AND d.source = ? AND d.kind = ? AND d.namespace = ? AND d.name = ?",
			int64(stillOpen), p.source, object.Kind, object.Namespace, object.Name).Scan(&plan.ending).Error
		if err != nil {
			return err
		}
		if err := plan.leaveOut(p.tx, p.source, p.matchBounds); err != nil {
			return err
		}
		if problem, found := plan.problems[object]; found {
			preview.Problem = &problem
		}
	} else if err := matchDecisions(p.tx, []*newDecision{n}); err != nil {
		return err
	}
	if n.reach == nil || n.reach.placed {
		return nil
	}
	known, err := knownReaches(p.tx, []string{n.reach.digest})
	if err != nil {
		return err
	}
	if reach, found := known[n.reach.digest]; found {
		p.wanted = p.others.reached[reach]
		return nil
	}
	if _, err := matchReaches(p.tx, []*newDecision{n}); err != nil {
		return err
	}
	p.wanted = make(map[int64]bool, len(n.reach.images))
	for _, image := range n.reach.images {
		p.wanted[image] = true
	}
	return nil
}

// packageMatches is how the findings of a package stand, and how many of them the decision matches.
type packageMatches struct {
	stances map[stance]int
	matched int
}

// count sums up by package how its findings stand.
func (p *decisionPreview) count() (map[int64]*packageMatches, error) {
	own, err := p.suppressedBy(true, nil)
	if err != nil {
		return nil, err
	}
	matched := make(map[int64]bool, len(p.decision.findings))
	for _, id := range p.decision.findings {
		matched[id] = true
	}
	all := slices.Clone(p.decision.findings)
	for id, reaches := range own {
		p.present = reaches[0]
		if !matched[id] {
			all = append(all, id)
		}
	}
	slices.Sort(all)
	others, err := p.suppressedBy(false, all)
	if err != nil {
		return nil, err
	}
	packages := map[int64]*packageMatches{}
	err = inParts(all, func(part []int64) error {
		var rows []struct{ ID, PackagePk int64 }
		err := p.tx.Raw("SELECT f.id, f.package_pk FROM findings f WHERE f.id IN ? AND "+shown, part, p.current, p.current).Scan(&rows).Error
		for _, row := range rows {
			one := packages[row.PackagePk]
			if one == nil {
				one = &packageMatches{stances: map[stance]int{}}
				packages[row.PackagePk] = one
			}
			if matched[row.ID] {
				one.matched++
			}
			stands := stance{matched: matched[row.ID], own: own[row.ID] != nil}
			stands.everywhere, stands.reaches = setOf(others[row.ID])
			one.stances[stands]++
		}
		return err
	})
	return packages, err
}

// setOf says whether one of some reaches is everywhere, and otherwise which set they are.
func setOf(reaches []int64) (bool, reachSet) {
	slices.Sort(reaches)
	reaches = slices.Compact(reaches)
	if slices.Contains(reaches, everywhere) {
		return true, ""
	}
	texts := make([]string, len(reaches))
	for i, reach := range reaches {
		texts[i] = strconv.FormatInt(reach, 10)
	}
	return false, reachSet(strings.Join(texts, ","))
}

// suppressedBy has the findings that the present decision of the object suppresses, or those of some findings that others suppress, with the reaches
// in which they do.
func (p *decisionPreview) suppressedBy(own bool, findings []int64) (map[int64][]int64, error) {
	object := p.decision.row.object()
	const isOwn = "d.source = ? AND d.kind = ? AND d.namespace = ? AND d.name = ?"
	suppressing := func(first, then string) *gorm.DB {
		return p.tx.Table(first).Joins("CROSS JOIN "+then).Select("m.finding_id, d.reach").
			Where("d.id = m.decision_pk AND d.suppresses = 1 AND d.until_time = ?", int64(stillOpen))
	}
	suppressed := map[int64][]int64{}
	add := func(query *gorm.DB) error {
		return eachRow(query, func(scan func(...any) error) error {
			var id, reach int64
			err := scan(&id, &reach)
			suppressed[id] = append(suppressed[id], reach)
			return err
		})
	}
	if own {
		return suppressed, add(suppressing("decisions d", "decision_findings m").Where(isOwn, p.source, object.Kind, object.Namespace, object.Name))
	}
	err := inParts(findings, func(part []int64) error {
		return add(suppressing("decision_findings m", "decisions d").Where("NOT ("+isOwn+")", p.source, object.Kind, object.Namespace, object.Name).Where("m.finding_id IN ?", part))
	})
	return suppressed, err
}

// images sums up by visible image what is previewed of its packages, and tells which packages a visible image holds. takesPlace says that what the
// decision matches would not count.
func (p *decisionPreview) images(packages map[int64]*packageMatches, takesPlace bool) (map[int64]previewed, map[int64]bool, error) {
	unmatched, err := unmatchedImages(p.tx)
	if err != nil {
		return nil, nil, err
	}
	ids := make([]int64, 0, len(packages))
	for id := range packages {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	images, held := map[int64]previewed{}, map[int64]bool{}
	err = inParts(ids, func(part []int64) error {
		holders := p.tx.Table("image_packages AS ip").Where("ip.excluded = 0 AND ip.package_pk IN ?", part)
		if !p.in.All() {
			holders = holders.Where("ip.image_pk IN (?)", visibleImages(p.tx, p.in))
		}
		return eachList(holders, p.db.Dialect(), "ip.package_pk", "ip.image_pk", func(id int64, list []int64) {
			for _, image := range list {
				if unmatched[image] {
					continue
				}
				held[id] = true
				sum := images[image]
				for stands, count := range packages[id].stances {
					sum.add(p.inImage(image, stands, count, takesPlace))
				}
				images[image] = sum
			}
		})
	})
	return images, held, err
}

// inImage is what is previewed in an image of findings that stand the same.
func (p *decisionPreview) inImage(image int64, stands stance, count int, takesPlace bool) (sum previewed) {
	var before, other, after covered
	wanted := p.wantedIn(image)
	matched := stands.matched && wanted.some()
	if stands.own {
		before = p.covers(p.present, image)
	}
	if other.whole = stands.everywhere; stands.reaches != "" {
		for text := range strings.SplitSeq(string(stands.reaches), ",") {
			reach, _ := strconv.ParseInt(text, 10, 64) // setOf wrote it.
			other = other.with(p.covers(reach, image))
		}
	}
	others, counted := other.all(), other.with(before).all()
	if after = other; takesPlace && matched {
		after = other.with(wanted)
	}
	switch {
	case matched && others:
		sum.suppressed = count
	case matched:
		sum.found = count
	}
	switch suppressed := after.all(); {
	case suppressed && !counted:
		sum.closed = count
	case counted && !suppressed:
		sum.reopened = count
	}
	return sum
}

// visibleMatches counts the findings that the decision matches in packages of visible images, each package once.
func visibleMatches(packages map[int64]*packageMatches, held map[int64]bool) int {
	count := 0
	for id, one := range packages {
		if held[id] {
			count += one.matched
		}
	}
	return count
}

// workloads adds the workloads and the namespaces that run the images in which something is found.
func (p *decisionPreview) workloads(preview *store.DecisionPreview, images map[int64]previewed) error {
	var found []int64
	for id, image := range images {
		if image.found > 0 {
			found = append(found, id)
		}
	}
	type pair struct {
		image    int64
		workload store.Workload
	}
	counted := map[pair]bool{}
	workloads := map[store.Workload]*store.PreviewedWorkload{}
	err := eachUse(uses(p.tx.Table("image_uses AS u"), place{in: p.in}), found, func(image int64, w store.Workload) {
		if images[image].found == 0 || counted[pair{image, w}] || !p.places.runs(image, w) {
			return
		}
		counted[pair{image, w}] = true
		if workloads[w] == nil {
			workloads[w] = &store.PreviewedWorkload{Workload: w}
		}
		workloads[w].Images++
		workloads[w].Findings += images[image].found
	})
	if err != nil {
		return err
	}
	namespaces := map[string]*store.PreviewedNamespace{}
	for w, one := range workloads {
		if namespaces[w.Namespace] == nil {
			namespaces[w.Namespace] = &store.PreviewedNamespace{Namespace: w.Namespace}
		}
		namespaces[w.Namespace].Workloads++
		namespaces[w.Namespace].Findings += one.Findings
		preview.Workloads = append(preview.Workloads, *one)
	}
	for _, one := range namespaces {
		preview.Namespaces = append(preview.Namespaces, *one)
	}
	slices.SortFunc(preview.Workloads, func(a, b store.PreviewedWorkload) int {
		return cmp.Or(cmp.Compare(b.Findings, a.Findings), cmp.Compare(a.Workload.Namespace, b.Workload.Namespace),
			cmp.Compare(a.Workload.Kind, b.Workload.Kind), cmp.Compare(a.Workload.Name, b.Workload.Name))
	})
	slices.SortFunc(preview.Namespaces, func(a, b store.PreviewedNamespace) int {
		return cmp.Or(cmp.Compare(b.Findings, a.Findings), cmp.Compare(a.Namespace, b.Namespace))
	})
	preview.WorkloadCount, preview.NamespaceCount = len(preview.Workloads), len(preview.Namespaces)
	preview.Workloads = preview.Workloads[:min(len(preview.Workloads), store.MaxPreviewed)]
	preview.Namespaces = preview.Namespaces[:min(len(preview.Namespaces), store.MaxPreviewed)]
	return setOwners(p.tx, workloadsIn(preview.Workloads, func(w *store.PreviewedWorkload) *store.Workload { return &w.Workload }))
}
