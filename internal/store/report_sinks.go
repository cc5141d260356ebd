package store

import (
	"context"
	"time"
)

// Bounds of report sinks.
const (
	// MaxReportItems is the most items of a sink, and MaxReportPart the most that PlanReports writes and deletes at a time.
	MaxReportItems = 10_000
	MaxReportPart  = 1000
	// MaxReportTarget is the longest ReportItem.Target, in bytes, and MaxReportProblem the longest ReportItem.Problem.
	MaxReportTarget  = 8 << 10
	MaxReportProblem = 512
)

// ReportSinks is the part of the store about systems that get reports. Each sink has items, which are what it is given, such as a project or an object of a
// bucket, and a position in the event log. What the events up to there change is in the items: a position moves in the transaction that writes the last of them.
type ReportSinks interface {
	// SyncReportSinks makes these the sinks, by the UID of their objects; the list is complete. A new sink begins at the end of the event log without items.
	// The items of sinks that are not in the list are deleted. When nothing differs it only reads.
	SyncReportSinks(ctx context.Context, sinks []string) error
	// ReportCursors returns the positions of all sinks.
	ReportCursors(ctx context.Context) ([]ReportCursor, error)
	// RunningReports returns all scanned images that something runs, by ID and platform.
	RunningReports(ctx context.Context) ([]RunningReport, error)
	// ReportItems returns the items of a sink, by key.
	ReportItems(ctx context.Context, sink string) ([]ReportItem, error)
	// PlanReports moves a sink from a position to another one, writes items in place of those with the same key, and deletes others, by key. It returns
	// false, and changes nothing, if the sink is at another position. More than MaxReportPart are an error.
	PlanReports(ctx context.Context, from, to ReportCursor, items []ReportItem, deleted []string) (bool, error)
	// EndReport writes what became of an attempt: Due, Attempts, NextAt, Digest, Problem and DeliveredAt of the item, which is deleted instead if it is Gone
	// and not Due. It returns false, and changes nothing, if the item has another version.
	EndReport(ctx context.Context, item *ReportItem) (bool, error)
}

// ReportCursor is the position of a sink in the event log.
type ReportCursor struct {
	// Sink is the UID of the object.
	Sink string
	// Sequence is the number of the last event that was read.
	Sequence int64
	// SyncedAt is when all items were due last, zero before the first time.
	SyncedAt time.Time
	// DeliveredAt is when the last item was delivered, zero if none was. PlanReports does not write it.
	DeliveredAt time.Time
}

// RunningReport is a scanned image that something runs.
type RunningReport struct {
	RunningImage
	// SBOMSHA256 and Counts are those of the image for all namespaces.
	SBOMSHA256 string
	Counts     Counts
	// Decided tells apart, for each of Workloads, which findings decisions about some places suppress in it, "" for none; nil if it is none for all.
	Decided []string
	// CatalogStamp is the model.Catalog.Stamp of the packages that the image has, negative if they are those of an earlier SBOM.
	CatalogStamp int
}

// ReportItem is something that a sink is given.
type ReportItem struct {
	Sink string
	// Key identifies it in the sink; at most 64 bytes.
	Key string
	// Target says where it is, as the sink reads it; at most MaxReportTarget.
	Target string
	// Stamp tells apart the states of what it is about; at most 64 bytes.
	Stamp string
	// Version differs after each change by PlanReports.
	Version int64
	// Due says that the sink does not have it as it is. Gone says that the sink has to remove it.
	Due, Gone bool
	// Attempts counts the failed ones since it became due. NextAt is when the next one may begin, zero for at once.
	Attempts int
	NextAt   time.Time
	// Digest is that of what the sink was given last, "" for nothing; at most 64 bytes.
	Digest string
	// DeliveredAt is when the sink accepted it last, zero if it never did.
	DeliveredAt time.Time
	// Problem says why the last attempt failed, "" after a success; more than MaxReportProblem is cut.
	Problem string
}
