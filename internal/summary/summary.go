// Package summary makes reports about the cluster, a namespace or an owner for people: what changed, what is overdue, and what to fix first. It reads the
// store as the caller sees it, and writes a page of HTML that needs nothing else.
package summary

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/scanner-operator/scanner-operator/internal/coverage"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/truncate"
)

// ScopeKind says what a report is about.
type ScopeKind string

// The kinds.
const (
	// Cluster: all that the caller may see.
	Cluster ScopeKind = "Cluster"
	// Namespace: what runs in a namespace.
	Namespace ScopeKind = "Namespace"
	// Owner: what the workloads of an owner run, in all namespaces that the caller may see.
	Owner ScopeKind = "Owner"
)

// Scope is what a report is about.
type Scope struct {
	Kind ScopeKind
	// Name is that of the namespace or the owner, "" for the cluster.
	Name string
}

// How far reports look ahead.
const (
	// DueWithin is until when findings are due soon.
	DueWithin = 14 * 24 * time.Hour
	// ExpiringWithin is the number of days until when exceptions expire soon.
	ExpiringWithin = 30
	// EndOfLifeWithin is until when the end of life of a distribution is listed.
	EndOfLifeWithin = 90 * 24 * time.Hour
)

// Rows bounds the rows of each list of a report.
const Rows = 10

// Reader is the part of the store that reports read.
type Reader interface {
	Summary(ctx context.Context, in store.Namespaces, query store.SummaryQuery) (store.Summary, error)
	ListFixes(ctx context.Context, in store.Namespaces, query store.FixQuery) (store.FixPage, error)
	ListCoverage(ctx context.Context, in store.Namespaces, query store.CoverageQuery) (store.CoveragePage, error)
	ListDecisions(ctx context.Context, in store.Namespaces, query store.DecisionQuery) (store.DecisionPage, error)
	Trend(ctx context.Context, in store.Namespaces, query store.TrendQuery) ([]store.TrendDay, error)
	ShownResultSet(ctx context.Context, in store.Namespaces) (store.ResultSet, bool, error)
}

// Report is what a report says.
type Report struct {
	Scope Scope
	// At is when the report was made, Since what it compares with.
	At, Since time.Time
	// Limited says that the caller does not see all namespaces, so that a report of the cluster or of an owner may lack some.
	Limited bool
	// Database is the database build that the findings come from, nil if there is none yet.
	Database *model.DatabaseBuild

	store.Summary
	// Before are the counts of the day of Since, nil if they were not recorded for what the report is about.
	Before *store.TrendDay
	// Coverage counts containers by state.
	Coverage coverage.Summary
	// Uncovered are the first containers without a complete result of the current database build, UncoveredTotal counts them all.
	Uncovered      []store.ContainerCoverage
	UncoveredTotal int
	// Fixes are the first things that people can do.
	Fixes []store.Fix
	// Expiring are the first exceptions that expire soon, ExpiringTotal counts them all.
	Expiring      []store.DecisionRecord
	ExpiringTotal int
}

// Empty reports whether nothing is known of what the report is about.
func (r *Report) Empty() bool {
	return r.Workloads == 0 && r.Coverage.Total == 0 && r.KnownSince.IsZero()
}

// FileName is a name for a file with the page of the report.
func (r *Report) FileName() string {
	name := strings.Map(func(c rune) rune {
		if c < unicode.MaxASCII && (unicode.IsLetter(c) || unicode.IsDigit(c) || c == '-' || c == '.') {
			return c
		}
		return '-'
	}, truncate.Text(r.Scope.Name, maxFileName))
	parts := []string{"report", strings.ToLower(string(r.Scope.Kind)), name, r.At.UTC().Format(time.DateOnly)}
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), "-") + ".html"
}

// maxFileName bounds the bytes of a name in the name of a file.
const maxFileName = 100

// Collect reads a report about what a caller sees. Of a namespace that the caller does not see, it is empty.
func Collect(ctx context.Context, r Reader, in store.Namespaces, scope Scope, since, now time.Time) (*Report, error) {
	c := collector{r, in, &Report{Scope: scope, At: now, Since: since, Limited: !in.All()}}
	var owned store.Ownership
	switch scope.Kind {
	case Cluster:
	case Namespace:
		c.in = store.Namespaces{}
		if in.Contains(scope.Name) {
			c.in = store.OnlyNamespaces(scope.Name)
		}
	case Owner:
		owned.Owner = scope.Name
	default:
		return nil, fmt.Errorf("make a report: unknown scope %q", scope.Kind)
	}
	var err error
	c.report.Summary, err = r.Summary(ctx, c.in, store.SummaryQuery{
		Ownership: owned, Since: since, DueWithin: DueWithin, EndOfLifeWithin: EndOfLifeWithin, Limit: Rows,
	})
	if err != nil {
		return nil, err
	}
	for _, read := range []func(context.Context) error{
		func(ctx context.Context) error { return c.fixes(ctx, owned) }, c.database, c.before, func(ctx context.Context) error { return c.coverage(ctx, owned) }, c.expiring,
	} {
		if err := read(ctx); err != nil {
			return nil, err
		}
	}
	return c.report, nil
}

// collector reads the parts of a report.
type collector struct {
	r      Reader
	in     store.Namespaces
	report *Report
}

// fixes reads what to do first. Where there is nothing to do but wait comes last, and is left out.
func (c *collector) fixes(ctx context.Context, owned store.Ownership) error {
	page, err := c.r.ListFixes(ctx, c.in, store.FixQuery{Where: store.Where{Ownership: owned}, Page: store.Page{Size: Rows}})
	c.report.Fixes = slices.DeleteFunc(page.Fixes, func(fix store.Fix) bool { return fix.Kind == store.FixWait })
	return err
}

func (c *collector) database(ctx context.Context) error {
	current, found, err := c.r.ShownResultSet(ctx, c.in)
	if found {
		c.report.Database = &current.Build
	}
	return err
}

// before reads the counts of the day of Since, or of the last day before it that has any. The sums of each day are those of the whole cluster, with each
// image once, and those of each namespace: there are none of several namespaces with each image once, and none of owners.
func (c *collector) before(ctx context.Context) error {
	summed := c.in.All() || len(c.in.Names()) == 1
	if c.report.Scope.Kind == Owner || !summed {
		return nil
	}
	const day = 24 * time.Hour
	to := c.report.Since.UTC().Truncate(day)
	if yesterday := c.report.At.UTC().Truncate(day).Add(-day); to.After(yesterday) {
		to = yesterday
	}
	days, err := c.r.Trend(ctx, c.in, store.TrendQuery{From: to.Add(-7 * day), To: to})
	if err != nil || len(days) == 0 {
		return err
	}
	c.report.Before = &days[len(days)-1]
	return nil
}

func (c *collector) coverage(ctx context.Context, owned store.Ownership) error {
	page, err := c.r.ListCoverage(ctx, c.in, store.CoverageQuery{
		Ownership: owned, Page: store.Page{Size: Rows},
		States: []string{string(coverage.Partial), string(coverage.Stale), string(coverage.Pending), string(coverage.Failed)},
	})
	if err != nil {
		return err
	}
	c.report.Coverage = coverage.SummaryOf(page.Counts)
	c.report.Uncovered, c.report.UncoveredTotal = page.Containers, page.Total
	return nil
}

// expiring reads exceptions: of an owner, those of the namespaces in which it has workloads. Those of the cluster are among them.
func (c *collector) expiring(ctx context.Context) error {
	in, within := c.in, ExpiringWithin
	if c.report.Scope.Kind == Owner {
		in = store.OnlyNamespaces(c.report.Namespaces...)
	}
	page, err := c.r.ListDecisions(ctx, in, store.DecisionQuery{
		State: store.DecisionStanding, Source: store.DecisionSourceKubernetes, ExpiringWithin: &within, Sort: store.SortDecisionExpiry, Page: store.Page{Size: Rows},
	})
	c.report.Expiring, c.report.ExpiringTotal = page.Decisions, page.Total
	return err
}
