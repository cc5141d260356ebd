package kube

// LabelManagedBy and ManagedBy are the label of every object that a controller of the operator manages. Of kinds with many objects in a cluster, the
// cache holds only objects with this label.
const (
	LabelManagedBy = "app.kubernetes.io/managed-by"
	ManagedBy      = "scanner-operator"
)
