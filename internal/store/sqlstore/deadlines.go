package sqlstore

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// dayMicros is a day in microseconds.
const dayMicros = 24 * 60 * 60 * 1_000_000

// policySet is a set of policies by their place in a list. It has room for store.MaxPolicies.
type policySet [(store.MaxPolicies + 63) / 64]uint64

func (s *policySet) add(place int)      { s[place/64] |= 1 << (place % 64) }
func (s *policySet) has(place int) bool { return s[place/64]&(1<<(place%64)) != 0 }

// dueTarget is an image that something runs, or an image in a workload: what its findings are due for.
type dueTarget struct {
	imagePlace
	// since is from when on the image has findings.
	since int64
	reach policySet
}

// imagePlace is an image, in a workload or without regard to it.
type imagePlace struct {
	image    int64
	workload store.Workload
}

// dueFinding is a finding of a package with the rules of policies.
type dueFinding struct {
	id, packageID int64
	// fixable says that a fixed version is known.
	fixable bool
	// key stands for the vulnerability and the package, also in another row: a finding gets one with each change of its fix.
	key      uint64
	severity model.Severity
	rules    []dueRule
}

// dueRule is a rule of the policy at a place in the list.
type dueRule struct {
	policy      int
	since, days int64
}

// due returns the earliest date for a target, and the place of the policy that sets it; of several, the first by name. found is false if no policy
// selects the finding there.
func (f *dueFinding) due(t *dueTarget) (at int64, by int, found bool) {
	for _, rule := range f.rules {
		if !t.reach.has(rule.policy) {
			continue
		}
		date := max(rule.since, t.since) + rule.days*dayMicros
		if !found || date < at || date == at && rule.policy < by {
			at, by, found = date, rule.policy, true
		}
	}
	return at, by, found
}

// dueReader reads deadlines of open findings in what is visible.
type dueReader struct {
	tx       *gorm.DB
	s        *Store
	in       store.Namespaces
	where    store.Where // Which of the workloads there targets are about.
	policies []policyRow
	current  int64
	// until is the last date that is asked for, stillOpen for all.
	until int64
	// fixes gets the rows of package_fixes of the packages with findings, which have no key and no severity then, unless it is nil.
	fixes map[int64]*packageFix
}

func (s *Store) dueReader(tx *gorm.DB, in store.Namespaces) (*dueReader, error) {
	r := &dueReader{tx: tx, s: s, in: in, until: stillOpen}
	var err error
	if r.policies, err = appliedPolicies(tx); err != nil {
		return nil, err
	}
	r.current, err = currentNumber(tx)
	return r, err
}

// everywhere are the policies that select each place.
func (r *dueReader) everywhere() policySet {
	var set policySet
	for place := range r.policies {
		if r.policies[place].Placed == 0 {
			set.add(place)
		}
	}
	return set
}

// eachPart calls read for parts of images, or once with nil for all of them.
func eachPart(images []int64, read func(part []int64) error) error {
	if images == nil {
		return read(nil)
	}
	return inParts(images, read)
}

// of adds the condition that a column is one of some images, or nothing without any.
func of(tx *gorm.DB, column string, part []int64) *gorm.DB {
	if part == nil {
		return tx
	}
	return tx.Where(column+" IN ?", part)
}

// sinces reads from when on visible images have findings; nil stands for all images.
func (r *dueReader) sinces(images []int64) (map[int64]int64, error) {
	sinces := map[int64]int64{}
	err := eachPart(images, func(part []int64) error {
		query := of(r.tx.Table("images AS i").Where("i.matched_at > 0"), "i.id", part).Select("i.id, i.first_seen")
		if !r.in.All() {
			query = of(r.tx.Table("(?) AS n", visibleSince(r.tx, r.in)).Joins("JOIN images i ON i.id = n.image_pk").Where("i.matched_at > 0"), "i.id", part).
				Select("i.id, " + laterOf("n.since", "i.matched_at"))
		}
		return eachRow(query, func(scan func(...any) error) error {
			var image, since int64
			err := scan(&image, &since)
			sinces[image] = since
			return err
		})
	})
	return sinces, err
}

// targets reads the images that something runs which is visible and chosen; nil stands for all images. With workloads they are told apart by workload.
func (r *dueReader) targets(images []int64, workloads bool) (map[int64][]*dueTarget, error) {
	if len(r.policies) == 0 {
		return nil, nil
	}
	sinces, err := r.sinces(images)
	if err != nil {
		return nil, err
	}
	columns := "u.image_pk"
	if workloads {
		columns = "u.image_pk, u.namespace, u.kind, u.name"
	}
	read := func(scan func(...any) error, at *imagePlace, values ...any) error {
		values = append(values, &at.image)
		if workloads {
			values = append(values, &at.workload.Namespace, &at.workload.Kind, &at.workload.Name)
		}
		return scan(values...)
	}
	everywhere := r.everywhere()
	targets := make(map[int64][]*dueTarget, len(sinces))
	err = eachPart(images, func(part []int64) error {
		used := of(uses(r.tx.Table("image_uses AS u").Where("u.namespace <> ''"), place{r.where, r.in}), "u.image_pk", part).Distinct(columns)
		return eachRow(used, func(scan func(...any) error) error {
			t := &dueTarget{reach: everywhere}
			err := read(scan, &t.imagePlace)
			since, matched := sinces[t.image]
			if err == nil && matched {
				t.since = since
				targets[t.image] = append(targets[t.image], t)
			}
			return err
		})
	})
	if err != nil || !slices.ContainsFunc(r.policies, func(p policyRow) bool { return p.Placed != 0 }) {
		return targets, err
	}
	known := map[imagePlace]*dueTarget{}
	for _, list := range targets {
		for _, t := range list {
			known[t.imagePlace] = t
		}
	}
	places := make(map[int64]int, len(r.policies))
	for place := range r.policies {
		places[r.policies[place].ID] = place
	}
	err = eachPart(images, func(part []int64) error {
		placed := of(uses(r.tx.Table("policy_places AS u"), place{r.where, r.in}), "u.image_pk", part).Distinct("u.policy_pk, " + columns)
		return eachRow(placed, func(scan func(...any) error) error {
			var id int64
			var k imagePlace
			err := read(scan, &k, &id)
			place, applies := places[id]
			if t := known[k]; t != nil && applies {
				t.reach.add(place)
			}
			return err
		})
	})
	return targets, err
}

// manyPackages is from how many packages on all are read in their order, instead of some by their IDs.
const manyPackages = 8 * sqldb.MaxIn

// findings reads the findings that policies select and that are open in some image, by package: of those that are asked for, or of all if held is nil.
func (r *dueReader) findings(held map[int64]bool) (map[int64][]*dueFinding, error) {
	places := make(map[int64]int, len(r.policies))
	for place := range r.policies {
		places[r.policies[place].ID] = place
	}
	known := map[int64]*dueFinding{}
	found := map[int64][]*dueFinding{}
	read := func(query *gorm.DB) error {
		columns := "v.vulnerability_id, v.namespace, v.severity"
		if r.fixes == nil {
			query = query.Joins("CROSS JOIN vulnerabilities v").Where("v.id = f.vulnerability_pk")
		} else {
			query = query.Joins("CROSS JOIN package_fixes x").Where("x.package_pk = f.package_pk")
			columns = "x.fingerprint, x.distro, x.divided, x.fix_risk, x.fix_kev, x.fix_findings"
		}
		query = query.Where("f.id = pf.finding_id AND "+shown+" AND "+unsuppressed, r.current, r.current).
			Select("f.package_pk, f.id, f.fixable, pf.policy_pk, pf.since, pf.days, " + columns)
		if r.until < stillOpen {
			query = query.Where("pf.since + pf.days * ? <= ?", dayMicros, r.until)
		}
		var packageID, id, fixable, severity, policyID int64
		var vulnerability, namespace string
		var rule dueRule
		var fix packageFix
		values := []any{&packageID, &id, &fixable, &policyID, &rule.since, &rule.days}
		if r.fixes == nil {
			values = append(values, &vulnerability, &namespace, &severity)
		} else {
			values = append(values, &fix.Fingerprint, &fix.Distro, &fix.Divided, &fix.Sums.FixRisk, &fix.Sums.FixKev, &fix.Sums.FixFindings)
		}
		return eachRow(query, func(scan func(...any) error) error {
			if err := scan(values...); err != nil {
				return err
			}
			place, applies := places[policyID]
			if !applies || held != nil && !held[packageID] {
				return nil
			}
			rule.policy = place
			f := known[id]
			if f == nil {
				f = &dueFinding{id: id, packageID: packageID, fixable: fixable != 0}
				if r.fixes == nil {
					f.key, f.severity = findingKey(packageID, vulnerability, namespace), model.Severity(severity)
				} else if r.fixes[packageID] == nil {
					own := fix
					own.PackagePk = packageID
					r.fixes[packageID] = &own
				}
				known[id] = f
				found[packageID] = append(found[packageID], f)
			}
			f.rules = append(f.rules, rule)
			return nil
		})
	}
	if held == nil || len(held) > r.s.manyPackages {
		// Databases choose a slow order of joins when they do not know how many rows there are, as of a new policy: so nothing is joined but by primary keys.
		return found, read(r.tx.Table("policy_findings AS pf").Joins("CROSS JOIN findings f"))
	}
	return found, inParts(slices.Sorted(maps.Keys(held)), func(part []int64) error {
		return read(r.tx.Table("findings AS f").Joins("CROSS JOIN policy_findings pf").Where("f.package_pk IN ?", part))
	})
}

// dueHoldings are the findings that policies select, and the packages that hold them.
type dueHoldings struct {
	findings map[int64][]*dueFinding
	// packages has the packages of images, nil for all images.
	packages map[int64][]int64
}

// holdings reads the findings that images hold; nil stands for all images.
func (r *dueReader) holdings(images []int64) (*dueHoldings, error) {
	if images == nil {
		found, err := r.findings(nil)
		return &dueHoldings{findings: found}, err
	}
	h := &dueHoldings{packages: make(map[int64][]int64, len(images))}
	held := map[int64]bool{}
	err := eachPackageList(r.tx, r.s.db.Dialect(), images, func(image int64, list []int64) {
		h.packages[image] = included(list)
		for _, id := range h.packages[image] {
			held[id] = true
		}
	})
	if err != nil {
		return nil, err
	}
	h.findings, err = r.findings(held)
	return h, err
}

// dueVisit is told of an open finding in a target, until when it is due there, and the place of the policy that says so.
type dueVisit func(t *dueTarget, f *dueFinding, at int64, by int)

// each calls visit for each open finding in each target with a date; nil stands for all images. The visits for a package in an image follow each other.
func (r *dueReader) each(images []int64, targets map[int64][]*dueTarget, visit dueVisit) error {
	if len(targets) == 0 {
		return nil
	}
	held, err := r.holdings(images)
	if err != nil {
		return err
	}
	return r.eachIn(held, images, targets, visit)
}

// eachIn is each of what was read already.
func (r *dueReader) eachIn(held *dueHoldings, images []int64, targets map[int64][]*dueTarget, visit dueVisit) error {
	suppressed, err := r.suppressedThere(images)
	if err != nil {
		return err
	}
	packages := held.ordered()
	findings := make([][]*dueFinding, len(packages))
	for place, id := range packages {
		findings[place] = held.findings[id]
	}
	return r.eachHolding(held, packages, targets, func(image int64, places []int) {
		for _, place := range places {
			for _, t := range targets[image] {
				for _, f := range findings[place] {
					if at, by, due := f.due(t); due && at <= r.until && !suppressed.has(f.id, t) {
						visit(t, f, at, by)
					}
				}
			}
		}
	})
}

// ordered lists the packages with findings, in order.
func (h *dueHoldings) ordered() []int64 { return slices.Sorted(maps.Keys(h.findings)) }

// holdersPerImage is how many packages with findings images hold on average, from which on it is faster to read all packages of each image.
const holdersPerImage = 4

// eachHolding calls visit once for each image with targets that holds some of the packages, which are in order, with the places of these among them, in no order. The
// list may not be kept.
func (r *dueReader) eachHolding(held *dueHoldings, packages []int64, targets map[int64][]*dueTarget, visit func(image int64, places []int)) error {
	var chosen numberSet
	for _, id := range packages {
		chosen.add(id)
	}
	chosen.arrange()
	var places []int
	visitImage := func(image int64, list []int64) {
		places = places[:0]
		for _, id := range list {
			if place, found := chosen.find(id); found {
				places = append(places, place)
			}
		}
		if len(places) > 0 && len(targets[image]) > 0 {
			visit(image, places)
		}
	}
	if held.packages != nil {
		for image, list := range held.packages {
			visitImage(image, list)
		}
		return nil
	}
	limit := r.s.holdersPerImage * len(targets)
	many, err := r.heldByMany(packages, limit)
	if err != nil {
		return err
	}
	var lists map[int64][]int64
	if !many {
		if lists, err = r.listHeld(packages, targets, 2*limit); err != nil {
			return err
		}
	}
	if lists == nil {
		return eachPackageList(r.tx, r.s.db.Dialect(), slices.Sorted(maps.Keys(targets)), func(image int64, list []int64) {
			places = places[:0]
			for _, one := range list {
				if one%2 != 0 { // The image excludes it.
					continue
				}
				if place, found := chosen.find(one / 2); found {
					places = append(places, place)
				}
			}
			if len(places) > 0 {
				visit(image, places)
			}
		})
	}
	for image, list := range lists {
		visitImage(image, list)
	}
	return nil
}

// listHeld lists which of some packages each image with targets holds, nil if these are more than a limit: IDs of packages that are held by many can lie between those of the
// sample.
func (r *dueReader) listHeld(packages []int64, targets map[int64][]*dueTarget, limit int) (map[int64][]int64, error) {
	lists, number := map[int64][]int64{}, 0
	err := inParts(packages, func(part []int64) error {
		holders := r.tx.Table("image_packages AS ip").Where("ip.excluded = 0 AND ip.package_pk IN ?", part).Select("ip.image_pk, ip.package_pk").Limit(limit - number + 1)
		return eachRow(holders, func(scan func(...any) error) error {
			var image, id int64
			err := scan(&image, &id)
			if len(targets[image]) > 0 {
				lists[image] = append(lists[image], id)
			}
			number++
			return err
		})
	})
	if err != nil || number > limit {
		return nil, err
	}
	return lists, nil
}

// sampledPackages is of how many packages the holders are counted.
const sampledPackages = 32

// heldByMany estimates whether more images than a limit hold packages, counted once for each package.
func (r *dueReader) heldByMany(packages []int64, limit int) (bool, error) {
	if len(packages) == 0 {
		return false, nil
	}
	sample := packages
	if len(packages) > sampledPackages {
		sample = make([]int64, sampledPackages)
		for i := range sample {
			sample[i] = packages[i*len(packages)/sampledPackages]
		}
	}
	limit = limit * len(sample) / len(packages)
	number := 0
	some := r.tx.Table("image_packages AS ip").Where("ip.excluded = 0 AND ip.package_pk IN ?", sample).Select("ip.image_pk").Limit(limit + 1)
	err := r.tx.Table("(?) AS l", some).Select("COUNT(*)").Scan(&number).Error
	return number > limit, err
}

// ListPolicies implements store.Reader.
func (s *Store) ListPolicies(ctx context.Context, in store.Namespaces) ([]store.PolicySummary, error) {
	var list []store.PolicySummary
	err := s.read(ctx, "list policies", func(tx *gorm.DB) error {
		list = []store.PolicySummary{}
		r, err := s.dueReader(tx, in)
		if err != nil {
			return err
		}
		next := make([]int64, len(r.policies))
		for _, row := range r.policies {
			var spec policySpec
			if err := fromJSON(row.Spec, &spec); err != nil {
				return fmt.Errorf("policy %s in the database: %w", row.Name, err)
			}
			one := store.Policy{Name: row.Name, From: spec.From, DueIn: spec.DueIn}
			if in.All() { // They can name others.
				one.Select = spec.Select
				if spec.Places != "" {
					one.Places = &store.DecisionPlaces{Selector: spec.Places}
				}
			}
			list = append(list, store.PolicySummary{Policy: one})
		}
		targets, err := r.targets(nil, false)
		if err != nil {
			return err
		}
		now := s.now()
		err = r.each(nil, targets, func(_ *dueTarget, f *dueFinding, at int64, by int) {
			list[by].Due.Add(f.severity)
			if at <= now {
				list[by].Overdue.Add(f.severity)
			} else if next[by] == 0 || at < next[by] {
				next[by] = at
			}
		})
		for i := range list {
			list[i].Next = fromMicros(next[i])
		}
		return err
	})
	return list, err
}
