package store

import "context"

// Other stands for the namespaces, or the owners, that RunningCounter does not name. One of this name is counted with them.
const Other = "other"

// RunningCounts are counts of findings of images that run.
type RunningCounts struct {
	Counts
	// CriticalFixable counts the Critical findings that a newer version of the package fixes.
	CriticalFixable int
}

// RunningCounter is the part of the store that counts the findings of what runs now. An image counts once in each namespace, or for each owner, that runs
// it. A finding of it does not count where decisions suppress it in all workloads of the namespace, or of the owner, that run the image.
type RunningCounter interface {
	// FindingsByNamespace counts by namespace. At most limit namespaces are named: those with the most findings that are known to be exploited, then those with
	// the worst findings. The others are added up as Other.
	FindingsByNamespace(ctx context.Context, limit int) (map[string]RunningCounts, error)
	// FindingsByOwner counts by name of the owner; "" is for workloads without one. At most limit owners are named beside it: first the owner of the most
	// workloads of each namespace, then the next one of each namespace, and so on, so that the workloads of one namespace cannot displace the owners of
	// another. The others are added up as Other.
	FindingsByOwner(ctx context.Context, limit int) (map[string]RunningCounts, error)
}

// Sizer measures the SQL database.
type Sizer interface {
	// DatabaseSize is the size in bytes of tables and indexes, with the space that is free in them.
	DatabaseSize(ctx context.Context) (int64, error)
}
