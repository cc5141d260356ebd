package store

import "github.com/scanner-operator/scanner-operator/internal/model"

// MaxOwner is the maximum length of the name of an owner, in bytes. RecordUses and RecordCoverage record the owners of workloads.
const MaxOwner = model.MaxOwner

// OwnerSort orders owners; ties are broken by name.
type OwnerSort string

// The orders.
const (
	SortOwnerName     OwnerSort = "name"
	SortOwnerSeverity OwnerSort = "-severity"
)

// OwnerQuery asks for a page of owners. Zero fields do not filter.
type OwnerQuery struct {
	// Where chooses the workloads that count.
	Where
	// Text must be contained in the name of the owner, without regard to ASCII case.
	Text string
	// Due asks for the numbers of findings that are due. To count them, the packages of all images of the owners are read.
	Due  bool
	Sort OwnerSort
	Page
}

// OwnerSummary is an owner and what runs in its workloads now. Counts are over the images, each once; a finding of an image does not count if decisions
// suppress it in all workloads of the owner that run the image.
type OwnerSummary struct {
	// Owner is "" for workloads without one.
	Owner string
	// Images counts images on all platforms, Scanned those that were matched.
	Workloads, Images, Scanned int
	Counts                     Counts
	// Due counts the findings that are due in a workload of the owner, with those that are Overdue: each once in each image, on the earliest date. Both are
	// 0 unless the query asks for them.
	Due, Overdue int
}

// OwnerPage is a page of owners.
type OwnerPage struct {
	Owners    []OwnerSummary
	NextToken string
	Total     int
}
