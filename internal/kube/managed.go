package kube

// LabelManagedBy and ManagedBy are the label of every object that a controller of the operator looks after. The cache keeps only objects with
// it of the kinds that a cluster has many of.
const (
	LabelManagedBy = "app.kubernetes.io/managed-by"
	ManagedBy      = "scanner-operator"
)
