package store

import "github.com/scanner-operator/scanner-operator/internal/model"

// MaxOwner is the maximum length of the name of an owner, in bytes. RecordUses and RecordCoverage record the owners of workloads.
const MaxOwner = model.MaxOwner

// GroupBy is what workloads are grouped by.
type GroupBy int

// What workloads can be grouped by. Those without an owner are a group, too.
const (
	ByOwner GroupBy = iota
	ByNamespace
)

// GroupSort orders groups of workloads; ties are broken by name.
type GroupSort string

// The orders.
const (
	SortGroupName     GroupSort = "name"
	SortGroupSeverity GroupSort = "-severity"
)

// GroupQuery asks for a page of groups of workloads. Zero fields do not filter.
type GroupQuery struct {
	By GroupBy
	// Where chooses the workloads that count.
	Where
	// Text must be contained in the name of the group, without regard to ASCII case.
	Text string
	// Due asks for the numbers of findings that are due. To count them, the packages of all images of the groups are read.
	Due  bool
	Sort GroupSort
	Page
}

// Group is an owner or a namespace, and what runs in its workloads now. Counts are over the images, each once; a finding of an image does not count if decisions
// suppress it in all workloads of the group that run the image.
type Group struct {
	// Name is "" for workloads without an owner.
	Name string
	// Images counts images on all platforms, Scanned those that were matched.
	Workloads, Images, Scanned int
	Counts                     Counts
	// Due counts the findings that are due in a workload of the group, with those that are Overdue: each once in each image, on the earliest date. Both are
	// 0 unless the query asks for them.
	Due, Overdue int
}

// GroupPage is a page of groups.
type GroupPage struct {
	Groups    []Group
	NextToken string
	Total     int
}
