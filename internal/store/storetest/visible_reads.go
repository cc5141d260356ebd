package storetest

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// pages reads all pages of a list, and what each says beside its rows.
func pages[T any](size int, list func(page store.Page) (rows []T, next string, rest any, err error)) (any, error) {
	type read struct {
		Rows []T
		Rest any
		More bool
	}
	var all []read
	for token := ""; ; {
		rows, next, rest, err := list(store.Page{Token: token, Size: size})
		if err != nil {
			return nil, err
		}
		all = append(all, read{rows, rest, next != ""})
		if token = next; token == "" {
			return all, nil
		}
	}
}

// reads are all reads that may see the namespaces of part, with parameters that are drawn once for both stores.
func (h *history) reads() map[string]func(f *fixture) (any, error) {
	ctx, in := h.t.Context(), h.in
	reads := map[string]func(f *fixture) (any, error){
		"Overview":     func(f *fixture) (any, error) { return f.Overview(ctx, in) },
		"ChangesSince": func(f *fixture) (any, error) { return f.ChangesSince(ctx, in, oldBuild.Built.AddDate(0, 0, 3)) },
		"ShownResultSet": func(f *fixture) (any, error) {
			shown, _, err := f.ShownResultSet(ctx, in)
			return shown, err
		},
		"ListResultSets": func(f *fixture) (any, error) { return f.ListResultSets(ctx, in, 100) },
		"EventsSince":    h.events,
	}
	h.readImages(reads)
	h.readLists(reads)
	h.readSearches(reads)
	h.readSums(reads)
	return reads
}

// events reads the events that are visible. What part was told at once of an image that was known has no events in whole.
func (h *history) events(f *fixture) (any, error) {
	events, err := f.EventsSince(h.t.Context(), h.in, 0, store.MaxKeys)
	if f == h.part {
		events = slices.DeleteFunc(events, func(e store.Event) bool {
			return slices.ContainsFunc(h.caughtUp, func(told [2]int64) bool { return told[0] <= e.Sequence && e.Sequence <= told[1] })
		})
	}
	for i := range events {
		if events[i].Kind != store.EventRolloutEvaluated {
			continue
		}
		var data store.RolloutEvaluatedEvent
		must(h.t, json.Unmarshal(events[i].Data, &data))
		data.ID = 0
		content, err := json.Marshal(data)
		must(h.t, err)
		events[i].Data = content
	}
	return events, err
}

// readImages adds the reads about one image.
func (h *history) readImages(reads map[string]func(f *fixture) (any, error)) {
	ctx, in := h.t.Context(), h.in
	keys := []model.ImageKey{{ImageID: visibleKey(0).ImageID}}
	for n := range visibleImages {
		keys = append(keys, visibleKey(n))
	}
	for _, key := range keys {
		reads[fmt.Sprint("Image ", key)] = func(f *fixture) (any, error) { return f.Image(ctx, in, key) }
		reads[fmt.Sprint("NewerTags ", key)] = func(f *fixture) (any, error) { return f.NewerTags(ctx, in, key) }
		other := keys[h.random.IntN(len(keys))]
		reads[fmt.Sprint("Compare ", key, other)] = func(f *fixture) (any, error) { return f.Compare(ctx, in, key, other) }
		reads[fmt.Sprint("SBOM ", key)] = func(f *fixture) (any, error) { return f.SBOM(ctx, in, key) }
		reads[fmt.Sprint("Report ", key)] = func(f *fixture) (any, error) { return f.Report(ctx, in, key.ImageID) }
		reads[fmt.Sprint("Packages ", key)] = func(f *fixture) (any, error) {
			var all []model.HeldPackage
			err := f.Packages(ctx, in, key, func(held model.HeldPackage) error { all = append(all, held); return nil })
			return all, err
		}
		held := store.ImagePackageQuery{Image: key, MinSeverity: h.severity(), Vulnerable: h.chance(3), Origin: []model.Origin{"", "", model.OriginBase, model.OriginImage}[h.random.IntN(4)]}
		reads[fmt.Sprintf("ImagePackages %+v", held)] = func(f *fixture) (any, error) {
			return pages(2, func(page store.Page) ([]store.ImagePackage, string, any, error) {
				query := held
				query.Page = page
				got, err := f.ImagePackages(ctx, in, query)
				return got.Packages, got.NextToken, got.Total, err
			})
		}
		reads[fmt.Sprintf("ImageLayers %+v", held)] = func(f *fixture) (any, error) { return f.ImageLayers(ctx, in, held) }
		for _, closed := range []bool{false, true} {
			suppressed, origin := h.chance(2), []model.Origin{"", "", model.OriginBase, model.OriginImage}[h.random.IntN(4)]
			sort := []store.FindingSort{store.SortFindingRisk, store.SortFindingSeverity, store.SortFindingEPSS, store.SortFindingPackage}[h.random.IntN(4)]
			reads[fmt.Sprint("Findings ", key, closed, suppressed, origin, sort)] = func(f *fixture) (any, error) {
				return pages(3, func(page store.Page) ([]model.Finding, string, any, error) {
					got, err := f.Findings(ctx, in, store.FindingQuery{Image: key, Closed: closed, Suppressed: suppressed, Origin: origin, Described: true, Sort: sort, Page: page})
					return got.Findings, got.NextToken, fmt.Sprint(got.Total, got.Owners), err
				})
			}
		}
		reads[fmt.Sprint("Presences ", key)] = func(f *fixture) (any, error) {
			return pages(2, func(page store.Page) ([]store.Presence, string, any, error) {
				got, err := f.Presences(ctx, in, store.PresenceQuery{Image: key, Page: page})
				return got.Presences, got.NextToken, got.Total, err
			})
		}
	}
}

// where chooses by workload, maybe in a namespace that is not visible.
func (h *history) where() store.Where {
	if h.chance(2) {
		return store.Where{}
	}
	return store.Where{
		Namespace: []string{"", "a", "b", "c", "d"}[h.random.IntN(5)], Workload: []string{"", "web", "db"}[h.random.IntN(3)],
		Ownership: []store.Ownership{{}, {}, {Owner: "red"}, {None: true}}[h.random.IntN(4)],
	}
}

func (h *history) severity() model.Severity {
	return []model.Severity{model.SeverityUnknown, model.SeverityUnknown, model.SeverityMedium, model.SeverityCritical}[h.random.IntN(4)]
}

// readLists adds the lists by namespace.
func (h *history) readLists(reads map[string]func(f *fixture) (any, error)) {
	ctx, in, where := h.t.Context(), h.in, h.where()
	images := store.ImageQuery{
		Where: where, MinSeverity: h.severity(), Fixable: h.chance(4), KEV: h.chance(4), MinEPSS: []float64{0, 0, 0.3}[h.random.IntN(3)],
		Sort: []store.ImageSort{store.SortImageID, store.SortSeverity, store.SortCreated}[h.random.IntN(3)],
	}
	if h.chance(4) {
		images.EndOfLifeWithin = new(h.random.IntN(20))
	}
	if h.chance(4) {
		images.OlderThan = 1 + h.random.IntN(20)
	}
	if h.chance(4) {
		images.Text, images.Running = []string{"", "1"}[h.random.IntN(2)], h.chance(2)
	}
	if h.chance(4) {
		images.States = []store.State{store.StateScanned}
	}
	if h.chance(4) {
		images.Base = model.ChainIDs(layers(1, 2))[h.random.IntN(2)]
	}
	reads[fmt.Sprintf("ListImages %+v", images)] = func(f *fixture) (any, error) {
		return pages(2, func(page store.Page) ([]store.Image, string, any, error) {
			query := images
			query.Page = page
			got, err := f.ListImages(ctx, in, query)
			return got.Images, got.NextToken, got.Total, err
		})
	}
	workloads := store.WorkloadQuery{
		Where: where, MinSeverity: h.severity(), KEV: h.chance(4), Sort: []store.WorkloadSort{store.SortWorkloadName, store.SortWorkloadSeverity}[h.random.IntN(2)],
	}
	reads[fmt.Sprintf("ListWorkloads %+v", workloads)] = func(f *fixture) (any, error) {
		return pages(2, func(page store.Page) ([]store.WorkloadSummary, string, any, error) {
			query := workloads
			query.Page = page
			got, err := f.ListWorkloads(ctx, in, query)
			return got.Workloads, got.NextToken, got.Total, err
		})
	}
	fixes := store.FixQuery{
		Where: where, Kind: []store.FixKind{"", "", store.FixUpdate, store.FixRebuild, store.FixWait}[h.random.IntN(5)], KEV: h.chance(4), Overdue: h.chance(4),
	}
	if h.chance(4) {
		fixes.ImageID = visibleKey(h.random.IntN(visibleImages)).ImageID
	}
	reads[fmt.Sprintf("ListFixes %+v", fixes)] = func(f *fixture) (any, error) {
		return pages(2, func(page store.Page) ([]store.Fix, string, any, error) {
			query := fixes
			query.Page = page
			got, err := f.ListFixes(ctx, in, query)
			return got.Fixes, got.NextToken, got.Total, err
		})
	}
	bases := store.BaseQuery{Where: where, Sort: []store.BaseSort{store.SortBaseImages, store.SortBaseSeverity}[h.random.IntN(2)]}
	reads[fmt.Sprintf("ListBases %+v", bases)] = func(f *fixture) (any, error) {
		return pages(1, func(page store.Page) ([]store.BaseSummary, string, any, error) {
			query := bases
			query.Page = page
			got, err := f.ListBases(ctx, in, query)
			return got.Bases, got.NextToken, got.Total, err
		})
	}
	groups := store.GroupQuery{By: []store.GroupBy{store.ByOwner, store.ByNamespace}[h.random.IntN(2)], Where: where, Text: []string{"", "", "RE"}[h.random.IntN(3)], Sort: []store.GroupSort{store.SortGroupName, store.SortGroupSeverity}[h.random.IntN(2)], Due: true}
	reads[fmt.Sprintf("ListGroups %+v", groups)] = func(f *fixture) (any, error) {
		return pages(1, func(page store.Page) ([]store.Group, string, any, error) {
			query := groups
			query.Page = page
			got, err := f.ListGroups(ctx, in, query)
			return got.Groups, got.NextToken, got.Total, err
		})
	}
	reads[fmt.Sprintf("ListCoverage %+v", where)] = func(f *fixture) (any, error) {
		return pages(2, func(page store.Page) ([]store.ContainerCoverage, string, any, error) {
			got, err := f.ListCoverage(ctx, in, store.CoverageQuery{Namespace: where.Namespace, Workload: where.Workload, Ownership: where.Ownership, Page: page})
			return got.Containers, got.NextToken, fmt.Sprint(got.Total, got.Counts), err
		})
	}
	reads[fmt.Sprintf("ListRollouts %+v", where)] = func(f *fixture) (any, error) {
		return pages(2, func(page store.Page) ([]store.RolloutDetail, string, any, error) {
			got, err := f.ListRollouts(ctx, in, store.RolloutQuery{Namespace: where.Namespace, Workload: where.Workload, Ownership: where.Ownership, Page: page})
			details := make([]store.RolloutDetail, len(got.Rollouts))
			for i := range details {
				detail, detailErr := f.Rollout(ctx, in, got.Rollouts[i].ID)
				if details[i] = detail; detailErr != nil {
					return nil, "", nil, detailErr
				}
			}
			return details, got.NextToken, got.Total, err
		})
	}
	decisions := store.DecisionQuery{
		State: []store.DecisionState{"", store.DecisionStanding, store.DecisionEnded}[h.random.IntN(3)],
		Sort:  []store.DecisionSort{store.SortDecisionSince, store.SortDecisionExpiry, store.SortDecisionName}[h.random.IntN(3)],
	}
	reads[fmt.Sprintf("ListDecisions %+v", decisions)] = func(f *fixture) (any, error) {
		return pages(2, func(page store.Page) ([]store.DecisionRecord, string, any, error) {
			query := decisions
			query.Page = page
			got, err := f.ListDecisions(ctx, in, query)
			for i := range got.Decisions {
				single, singleErr := f.Decision(ctx, in, got.Decisions[i].ID)
				if singleErr != nil {
					return nil, "", nil, singleErr
				}
				got.Decisions[i] = single
			}
			return got.Decisions, got.NextToken, got.Total, err
		})
	}
	for _, namespace := range []string{"", where.Namespace} {
		reads["Trend "+namespace] = func(f *fixture) (any, error) {
			return f.Trend(ctx, in, store.TrendQuery{From: oldBuild.Built, To: oldBuild.Built.AddDate(0, 0, 60), Namespace: namespace})
		}
	}
}

// readSearches adds the reads across images.
func (h *history) readSearches(reads map[string]func(f *fixture) (any, error)) {
	ctx, in, where := h.t.Context(), h.in, h.where()
	vulnerabilities := store.VulnerabilityQuery{
		Where: where, MinSeverity: h.severity(), Fixable: h.chance(3), KEV: h.chance(4), Text: []string{"", "cve-1"}[h.random.IntN(2)], Suppressed: h.chance(2), Owners: true,
		Sort: []store.VulnerabilitySort{store.SortVulnerabilityRisk, store.SortVulnerabilitySeverity, store.SortVulnerabilityEPSS, store.SortVulnerabilityID}[h.random.IntN(4)],
	}
	reads[fmt.Sprintf("ListVulnerabilities %+v", vulnerabilities)] = func(f *fixture) (any, error) {
		return pages(2, func(page store.Page) ([]store.VulnerabilitySummary, string, any, error) {
			query := vulnerabilities
			query.Page = page
			got, err := f.ListVulnerabilities(ctx, in, query)
			return got.Vulnerabilities, got.NextToken, got.Total, err
		})
	}
	packages := store.PackageQuery{
		Where: where, MinSeverity: h.severity(), Vulnerable: h.chance(3), Owners: true, Sort: []store.PackageSort{store.SortPackageName, store.SortPackageSeverity}[h.random.IntN(2)],
	}
	if h.chance(3) {
		packages.Name, packages.VersionText = "p1", "any"
	}
	if h.chance(4) {
		packages.Text = "1"
	}
	if h.chance(4) {
		packages.ImageID = visibleKey(h.random.IntN(4)).ImageID
	}
	reads[fmt.Sprintf("ListPackages %+v", packages)] = func(f *fixture) (any, error) {
		return pages(2, func(page store.Page) ([]store.PackageSummary, string, any, error) {
			query := packages
			if query.Page = page; query.VersionText != "" {
				query.Version = func(string, string) bool { return true }
			}
			got, err := f.ListPackages(ctx, in, query)
			return got.Packages, got.NextToken, got.Total, err
		})
	}
	for _, id := range []string{"CVE-0", "GHSA-CVE-1", "CVE-2"} {
		reads["VulnerabilityRecords "+id] = func(f *fixture) (any, error) { return f.VulnerabilityRecords(ctx, in, id) }
		reads["Exposures "+id+fmt.Sprint(where)] = func(f *fixture) (any, error) {
			return pages(2, func(page store.Page) ([]store.WorkloadExposures, string, any, error) {
				got, err := f.Exposures(ctx, in, store.ExposureQuery{ID: id, Where: where, Page: page})
				return got.Workloads, got.NextToken, got.Total, err
			})
		}
		passed := h.clock.Now().Sub(oldBuild.Built)
		for _, query := range []store.AffectedQuery{
			{ID: id, Where: where}, {ID: id, Where: where, Suppressed: true}, {ID: id, Where: where, Closed: true}, {ID: id, Where: where, On: oldBuild.Built.Add(time.Duration(h.random.Int64N(int64(passed))))},
		} {
			reads[fmt.Sprintf("Affected %+v", query)] = func(f *fixture) (any, error) {
				return pages(2, func(page store.Page) ([]store.Affected, string, any, error) {
					query := query
					query.Page = page
					got, err := f.Affected(ctx, in, query)
					return got.Affected, got.NextToken, [3]int{got.Total, got.Images, got.Workloads}, err
				})
			}
		}
	}
	previewed := h.decisions.random.IntN(4)
	decision := store.Decision{
		Object: store.DecisionObject{Kind: "ClusterVulnerabilityException", Name: fmt.Sprint("d", previewed)}, Status: model.DecisionFixed,
		Packages: h.decisions.patterns[previewed%len(h.decisions.patterns):],
	}
	if h.chance(2) {
		decision.Vulnerabilities = h.decisions.ids[:1]
	}
	reads[fmt.Sprintf("PreviewDecision %+v", decision)] = func(f *fixture) (any, error) {
		return f.PreviewDecision(ctx, in, store.DecisionSourceKubernetes, decision)
	}
	changes := store.ChangeQuery{MinSeverity: h.severity(), KEV: h.chance(4)}
	if h.chance(4) {
		changes.Kinds = []store.ChangeKind{store.ChangeOpened, store.ChangeChanged}
	}
	if h.chance(4) {
		changes.Text = "1"
	}
	if h.chance(3) {
		changes.Build = fmt.Sprint("build-", h.random.IntN(3))
	}
	switch h.random.IntN(4) {
	case 0:
		changes.ImageID = visibleKey(h.random.IntN(visibleImages)).ImageID
	case 1:
		changes.Scope = fmt.Sprint("scope-", h.random.IntN(2))
	}
	reads[fmt.Sprintf("Changes %+v", changes)] = func(f *fixture) (any, error) {
		return pages(2, func(page store.Page) ([]store.Change, string, any, error) {
			query := changes
			query.Page = page
			got, err := f.Changes(ctx, in, query)
			return got.Changes, got.NextToken, got.Total, err
		})
	}
}
