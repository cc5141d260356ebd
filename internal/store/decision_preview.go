package store

// MaxPreviewed is the most workloads and the most namespaces that a DecisionPreview lists.
const MaxPreviewed = 100

// DecisionPreview is what a decision would do that does not apply yet, or not in this form, in what is visible.
type DecisionPreview struct {
	// Problem says why it would not apply, nil if it would.
	Problem *DecisionProblem
	// Suppresses says whether it would suppress what it matches.
	Suppresses bool
	// Findings counts the findings that it would match and that no other decision suppresses, each once in each image; Images the images
	// that have one. Suppressed counts those that it would match and that other decisions suppress.
	Findings, Images, Suppressed int
	// Closed counts the findings that count now and would not any more in any visible place, Reopened those that only the present decision of the object
	// suppresses and that would count again.
	Closed, Reopened int
	// Workloads run these images, those with the most findings first, at most MaxPreviewed. WorkloadCount counts all of them. Namespaces
	// and NamespaceCount say the same of their namespaces.
	Workloads                     []PreviewedWorkload
	Namespaces                    []PreviewedNamespace
	WorkloadCount, NamespaceCount int
}

// PreviewedWorkload is a workload that a decision would reach. Findings are those of its images, each image counted once.
type PreviewedWorkload struct {
	Workload         Workload
	Images, Findings int
}

// PreviewedNamespace is a namespace that a decision would reach. Findings are those of its workloads.
type PreviewedNamespace struct {
	Namespace           string
	Workloads, Findings int
}
