package sqlstore

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
	"github.com/scanner-operator/scanner-operator/internal/store/storetest/fleet"
)

const (
	// listCalls is how often a list is read, so that its 99th percentile is not its longest call.
	listCalls = 100
	// listBound is what the 99th percentile of every list should be below.
	listBound = 100 * time.Millisecond
)

// listTime is how long the calls of a list took, and how much processor time of this process. Database servers are other processes.
type listTime struct {
	name         string
	p50, p99     time.Duration
	cpu50, cpu99 time.Duration
	rows         int
}

// percentiles are the median and the 99th percentile of some times, which it sorts.
func percentiles(times []time.Duration) (p50, p99 time.Duration) {
	slices.Sort(times)
	return times[len(times)/2], times[len(times)*99/100-1]
}

// measure reports the median and the 99th percentile of a call that returns how many rows there are, of which there must be some.
func (l *lists) measure(name string, call func(ctx context.Context) (int, error)) {
	l.b.Helper()
	l.b.Run(name, func(b *testing.B) {
		took, used := make([]time.Duration, 0, listCalls), make([]time.Duration, 0, listCalls)
		rows := 0
		for b.Loop() {
			took, used = took[:0], used[:0]
			for range listCalls {
				start, processor := time.Now(), ownTime()
				total, err := call(b.Context())
				if err != nil || total == 0 {
					b.Fatalf("got %d rows, %v", total, err)
				}
				took, used, rows = append(took, time.Since(start)), append(used, ownTime()-processor), total
			}
		}
		one := listTime{name: b.Name(), rows: rows}
		one.p50, one.p99 = percentiles(took)
		one.cpu50, one.cpu99 = percentiles(used)
		b.ReportMetric(float64(one.p50.Microseconds())/1000, "p50-ms")
		b.ReportMetric(float64(one.p99.Microseconds())/1000, "p99-ms")
		b.ReportMetric(float64(one.cpu50.Microseconds())/1000, "cpu-p50-ms")
		b.ReportMetric(float64(one.cpu99.Microseconds())/1000, "cpu-p99-ms")
		b.ReportMetric(0, "ns/op")
		*l.times = append(*l.times, one)
	})
}

// lists measures the lists of one store.
type lists struct {
	b     *testing.B
	s     *Store
	times *[]listTime
}

// BenchmarkLists reads every list of the API in every order that it offers, and with filters, and prints the times beside their bound.
func BenchmarkLists(b *testing.B) {
	var times []listTime
	eachBulk(b, func(b *testing.B, s *Store) {
		b.Helper()
		if err := printSizes(b.Context(), s); err != nil {
			b.Fatal(err)
		}
		l := &lists{b, reopened(b, s), &times}
		l.images()
		l.findings()
		l.vulnerabilities()
		l.affected()
		l.exposures()
		l.packages()
		l.workloads()
		l.fixes()
		l.bases()
		l.history()
	})
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(out, "list\trows\tp50\tp99\tat most %s\n", listBound)
	for _, one := range times {
		within := "yes"
		if one.p99 >= listBound {
			within = "NO"
		}
		fmt.Fprintf(out, "%s\t%d\t%s\t%s\t%s\n", one.name, one.rows, one.p50.Round(100*time.Microsecond), one.p99.Round(100*time.Microsecond), within)
	}
	if err := out.Flush(); err != nil {
		b.Error(err)
	}
}

// sizedTables are the tables that grow with a row of the first of them, and how many rows that has.
var sizedTables = []struct {
	what   string
	rows   int
	tables []string
}{
	{"image", bulk.Images, []string{"images", "image_uses", "image_presences", "container_coverage"}},
	{"package of an image", bulk.Images * 2 * fleet.BasePackages, []string{"image_packages"}},
	{"distinct package", bulk.Packages(), []string{"packages", "held_packages"}},
	{"finding of a distinct package", bulk.Packages()/2*3 + bulk.Bases(), []string{"findings"}},
	{"vulnerability", bulk.CVEs() + 1, []string{"vulnerabilities", "vulnerability_details", "vulnerability_names", "found_vulnerabilities"}},
	{"change by a new database", bulk.Changes(), []string{"finding_changes"}},
	{"rollout", bulk.Rollouts(), []string{"rollouts"}},
	{"event", bulk.Events(), []string{"events"}},
	{"namespace and day", 51 * store.MaxTrendDays, []string{"daily_sums"}},
}

// printSizes prints how many bytes the database takes, with its indexes.
func printSizes(ctx context.Context, s *Store) error {
	kind := s.db.Dialect().Type()
	query := map[string]string{
		sqldb.TypeSQLite:   "SELECT SUM(d.pgsize) FROM dbstat d JOIN sqlite_schema t ON t.name = d.name WHERE t.tbl_name IN ?",
		sqldb.TypePostgres: "SELECT SUM(pg_total_relation_size(relname::regclass)) FROM pg_class WHERE relkind = 'r' AND relname IN ?",
		sqldb.TypeMySQL:    "SELECT SUM(data_length + index_length) FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name IN ?",
	}[kind]
	for _, sized := range sizedTables {
		var bytes int64
		if err := s.db.Reader().WithContext(ctx).Raw(query, sized.tables).Scan(&bytes).Error; err != nil {
			return err
		}
		fmt.Printf("%s: %d bytes per %s\n", kind, bytes/int64(sized.rows), sized.what)
	}
	return nil
}

// behind returns the token of a page in the middle of a list.
func (l *lists) behind(pages int, read func(page store.Page) (next string, err error)) string {
	l.b.Helper()
	page := store.Page{Size: store.MaxPageSize}
	for range pages {
		next, err := read(page)
		if err != nil {
			l.b.Fatal(err)
		}
		page.Token = next
	}
	return page.Token
}

func (l *lists) images() {
	list := func(name string, query store.ImageQuery) {
		l.measure("images-"+name, func(ctx context.Context) (int, error) {
			page, err := l.s.ListImages(ctx, store.AllNamespaces(), query)
			return page.Total, err
		})
	}
	for _, order := range []store.ImageSort{store.SortImageID, store.SortSeverity} {
		query := store.ImageQuery{Sort: order}
		list("by"+string(order), query)
		query.Token = l.behind(5, func(page store.Page) (string, error) {
			read, err := l.s.ListImages(l.b.Context(), store.AllNamespaces(), store.ImageQuery{Sort: order, Page: page})
			return read.NextToken, err
		})
		list("middle-by"+string(order), query)
	}
	list("text", store.ImageQuery{Text: "team-7/"})
	list("severity", store.ImageQuery{MinSeverity: model.SeverityCritical, KEV: true, Sort: store.SortSeverity})
	list("namespace", store.ImageQuery{Where: store.Where{Namespace: "namespace-7"}, Sort: store.SortSeverity})
	list("epss", store.ImageQuery{MinEPSS: 0.99})
	l.measure("image-presences", func(ctx context.Context) (int, error) {
		page, err := l.s.Presences(ctx, store.AllNamespaces(), store.PresenceQuery{Image: fleet.Image(77)})
		return page.Total, err
	})
}

func (l *lists) findings() {
	for _, order := range []store.FindingSort{store.SortFindingRisk, store.SortFindingSeverity, store.SortFindingPackage, store.SortFindingEPSS} {
		l.measure("image-findings-by"+string(order), func(ctx context.Context) (int, error) {
			page, err := l.s.Findings(ctx, store.AllNamespaces(), store.FindingQuery{Image: fleet.Image(77), Sort: order})
			return page.Total, err
		})
	}
}

func (l *lists) vulnerabilities() {
	list := func(name string, query store.VulnerabilityQuery) {
		l.measure("vulnerabilities-"+name, func(ctx context.Context) (int, error) {
			page, err := l.s.ListVulnerabilities(ctx, store.AllNamespaces(), query)
			return page.Total, err
		})
	}
	for _, order := range []store.VulnerabilitySort{
		store.SortVulnerabilityRisk, store.SortVulnerabilitySeverity, store.SortVulnerabilityEPSS, store.SortVulnerabilityID,
	} {
		list("by"+string(order), store.VulnerabilityQuery{Sort: order})
	}
	list("middle", store.VulnerabilityQuery{Page: store.Page{Token: l.behind(4, func(page store.Page) (string, error) {
		read, err := l.s.ListVulnerabilities(l.b.Context(), store.AllNamespaces(), store.VulnerabilityQuery{Page: page})
		return read.NextToken, err
	})}})
	list("text", store.VulnerabilityQuery{Text: "2026-0066"})
	list("namespace", store.VulnerabilityQuery{Where: store.Where{Namespace: "namespace-7"}, MinSeverity: model.SeverityHigh})
	l.measure("vulnerability", func(ctx context.Context) (int, error) {
		records, err := l.s.VulnerabilityRecords(ctx, store.AllNamespaces(), "cve-2026-00666")
		return len(records), err
	})
}

func (l *lists) affected() {
	list := func(name string, query store.AffectedQuery) {
		l.measure("affected-"+name, func(ctx context.Context) (int, error) {
			page, err := l.s.Affected(ctx, store.AllNamespaces(), query)
			return page.Total, err
		})
	}
	list("now", store.AffectedQuery{ID: fleet.CVE(666)})
	list("namespace", store.AffectedQuery{ID: fleet.CVE(bulk.WideCVE()), Where: store.Where{Namespace: "namespace-7"}})
	list("everywhere", store.AffectedQuery{ID: fleet.CVE(bulk.WideCVE())})
	list("everywhere-middle", store.AffectedQuery{ID: fleet.CVE(bulk.WideCVE()), Page: store.Page{Token: l.behind(5, func(page store.Page) (string, error) {
		read, err := l.s.Affected(l.b.Context(), store.AllNamespaces(), store.AffectedQuery{ID: fleet.CVE(bulk.WideCVE()), Page: page})
		return read.NextToken, err
	})}})
	list("on-a-day", store.AffectedQuery{ID: fleet.CVE(666), On: time.UnixMicro(1)})
	list("closed", store.AffectedQuery{ID: fleet.CVE(667), Closed: true})
}

func (l *lists) exposures() {
	for name, query := range map[string]store.ExposureQuery{
		"of-one": {ID: fleet.CVE(666)}, "everywhere": {ID: fleet.CVE(bulk.WideCVE())},
		"namespace": {ID: fleet.CVE(bulk.WideCVE()), Where: store.Where{Namespace: "namespace-7"}},
	} {
		l.measure("exposures-"+name, func(ctx context.Context) (int, error) {
			page, err := l.s.Exposures(ctx, store.AllNamespaces(), query)
			return page.Total, err
		})
	}
}

func (l *lists) packages() {
	list := func(name string, query store.PackageQuery) {
		l.measure("packages-"+name, func(ctx context.Context) (int, error) {
			page, err := l.s.ListPackages(ctx, store.AllNamespaces(), query)
			return page.Total, err
		})
	}
	for _, order := range []store.PackageSort{store.SortPackageName, store.SortPackageSeverity} {
		query := store.PackageQuery{Sort: order}
		list("by"+string(order), query)
		query.Token = l.behind(10, func(page store.Page) (string, error) {
			read, err := l.s.ListPackages(l.b.Context(), store.AllNamespaces(), store.PackageQuery{Sort: order, Page: page})
			return read.NextToken, err
		})
		list("middle-by"+string(order), query)
	}
	older := func(_, version string) bool { return version < "2.5" }
	list("version", store.PackageQuery{Name: "app-77", Version: older, VersionText: "<2.5"})
	list("everywhere", store.PackageQuery{Name: "base-77", Version: older, VersionText: "<2.5"})
	list("text", store.PackageQuery{Text: "APP-77"})
	list("namespace", store.PackageQuery{Where: store.Where{Namespace: "namespace-7"}, Sort: store.SortPackageSeverity})
}

func (l *lists) workloads() {
	for _, order := range []store.WorkloadSort{store.SortWorkloadName, store.SortWorkloadSeverity} {
		l.measure("workloads-by"+string(order), func(ctx context.Context) (int, error) {
			page, err := l.s.ListWorkloads(ctx, store.AllNamespaces(), store.WorkloadQuery{Sort: order})
			return page.Total, err
		})
	}
}

func (l *lists) fixes() {
	list := func(name string, query store.FixQuery) {
		l.measure("fixes-"+name, func(ctx context.Context) (int, error) {
			page, err := l.s.ListFixes(ctx, store.AllNamespaces(), query)
			return page.Total, err
		})
	}
	list("first", store.FixQuery{})
	list("middle", store.FixQuery{Page: store.Page{Token: l.behind(5, func(page store.Page) (string, error) {
		read, err := l.s.ListFixes(l.b.Context(), store.AllNamespaces(), store.FixQuery{Page: page})
		return read.NextToken, err
	})}})
	list("updates", store.FixQuery{Kind: store.FixUpdate})
	list("kev", store.FixQuery{KEV: true})
	list("namespace", store.FixQuery{Where: store.Where{Namespace: "namespace-7"}})
	list("waits", store.FixQuery{Kind: store.FixWait})
	list("image", store.FixQuery{ImageID: fleet.Image(77).ImageID})
	days := 0
	policy := store.Policy{Name: "critical", From: model.DueFromFirstSeen, DueIn: model.DueIn{Critical: &days}}
	if problems, err := l.s.SyncPolicies(l.b.Context(), []store.Policy{policy}); err != nil || len(problems) > 0 {
		l.b.Fatal(problems, err)
	}
	list("with-overdue", store.FixQuery{})
	list("overdue", store.FixQuery{Overdue: true})
	list("overdue-kev", store.FixQuery{Overdue: true, KEV: true})
	list("overdue-updates", store.FixQuery{Overdue: true, Kind: store.FixUpdate})
	list("overdue-namespace", store.FixQuery{Overdue: true, Where: store.Where{Namespace: "namespace-7"}})
	if _, err := l.s.SyncPolicies(l.b.Context(), nil); err != nil {
		l.b.Fatal(err)
	}
}

func (l *lists) bases() {
	list := func(name string, in store.Namespaces, query store.BaseQuery) {
		l.measure("bases-"+name, func(ctx context.Context) (int, error) {
			page, err := l.s.ListBases(ctx, in, query)
			return page.Total, err
		})
	}
	for _, order := range []store.BaseSort{store.SortBaseImages, store.SortBaseSeverity} {
		list("by"+string(order), store.AllNamespaces(), store.BaseQuery{Sort: order})
	}
	list("namespace", store.AllNamespaces(), store.BaseQuery{Where: store.Where{Namespace: "namespace-7"}})
	var err error
	if l.s.bases, err = newListedBases([]string{"registry.example/team-1*/*"}); err != nil {
		l.b.Fatal(err)
	}
	list("listed", store.AllNamespaces(), store.BaseQuery{})
}

func (l *lists) history() {
	for name, query := range map[string]store.ChangeQuery{
		"changes": {Build: "build"}, "changes-kind": {Build: "build", Kinds: []store.ChangeKind{store.ChangeOpened}, MinSeverity: model.SeverityHigh},
		"changes-scope": {Build: "build", Scope: "scope"}, "changes-image": {Build: "build", ImageID: fleet.Image(77).ImageID},
	} {
		l.measure(name, func(ctx context.Context) (int, error) {
			page, err := l.s.Changes(ctx, store.AllNamespaces(), query)
			return page.Total, err
		})
	}
	for name, query := range map[string]store.CoverageQuery{"coverage": {}, "coverage-failed": {States: []string{"Failed"}}, "coverage-text": {Text: "team-7/"}} {
		l.measure(name, func(ctx context.Context) (int, error) {
			page, err := l.s.ListCoverage(ctx, store.AllNamespaces(), query)
			return page.Total, err
		})
	}
	l.measure("rollouts", func(ctx context.Context) (int, error) {
		page, err := l.s.ListRollouts(ctx, store.AllNamespaces(), store.RolloutQuery{})
		return page.Total, err
	})
	l.measure("events", func(ctx context.Context) (int, error) {
		events, err := l.s.EventsSince(ctx, store.AllNamespaces(), int64(bulk.Events()/2), store.DefaultPageSize)
		return len(events), err
	})
	l.measure("trends", func(ctx context.Context) (int, error) {
		days, err := l.s.Trend(ctx, store.AllNamespaces(), store.TrendQuery{From: time.Unix(0, 0), To: time.Unix(0, 0).AddDate(0, 0, store.MaxTrendDays-1)})
		return len(days), err
	})
	l.measure("databases", func(ctx context.Context) (int, error) {
		sets, err := l.s.ListResultSets(ctx, store.AllNamespaces(), store.DefaultPageSize)
		return len(sets), err
	})
	l.measure("overview", func(ctx context.Context) (int, error) {
		overview, err := l.s.Overview(ctx, store.AllNamespaces())
		return overview.Packages, err
	})
	for _, days := range []int{1, 7} {
		l.measure(fmt.Sprintf("changes-since-%d-days", days), func(ctx context.Context) (int, error) {
			_, err := l.s.ChangesSince(ctx, store.AllNamespaces(), time.Now().AddDate(0, 0, -days))
			return 1, err
		})
	}
}
