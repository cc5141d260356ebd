package store

import (
	"context"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

// MaxOwner is the maximum length of the name of an owner, in bytes.
const MaxOwner = model.MaxOwner

// Owners is the part of the store about who is responsible for workloads. RecordUses and RecordCoverage record the owners of workloads.
type Owners interface {
	// FindingsByOwner counts the findings of the images that run, each image once for each owner, by name of the owner; "" is for workloads
	// without one. At most limit owners are named: first the owner of the most workloads of each namespace, then the next one of each namespace,
	// and so on, so that the workloads of one namespace cannot displace the owners of another. The others are counted together as OtherOwners.
	FindingsByOwner(ctx context.Context, limit int) (map[string]Counts, error)
}

// OtherOwners stands for the owners that FindingsByOwner does not name. An owner of this name is counted with them.
const OtherOwners = "other"

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
	Sort OwnerSort
	Page
}

// OwnerSummary is an owner and what runs in its workloads now. Counts are over the images, each once.
type OwnerSummary struct {
	// Owner is "" for workloads without one.
	Owner string
	// Images counts images on all platforms, Scanned those that were matched.
	Workloads, Images, Scanned int
	Counts                     Counts
}

// OwnerPage is a page of owners.
type OwnerPage struct {
	Owners    []OwnerSummary
	NextToken string
	Total     int
}
