package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ValidReason is the reason of the condition Valid of a policy, which is True when the policy applies.
type ValidReason string

// The reasons of the condition Valid.
const (
	// PolicyApplied: the policy applies.
	PolicyApplied ValidReason = "Applied"
	// PolicyEvaluationFailed: the policy applies, but its expression cannot be evaluated for some findings or workloads. It does not select these.
	PolicyEvaluationFailed ValidReason = "EvaluationFailed"
	// PolicyInvalid: the expression or a selector cannot be read. The message of the condition states the problem, and its position in the expression.
	PolicyInvalid ValidReason = "Invalid"
	// PolicyTooBroad: the policies would have more deadlines than the bounds allow, or the selectors select too many places.
	PolicyTooBroad ValidReason = "TooBroad"
	// PolicyTooMany: there are more policies than the bounds allow, or more different selectors of workloads, and this is one of the newest.
	PolicyTooMany ValidReason = "TooMany"
)

// DueFrom is from when on the days of a policy count.
type DueFrom string

// The values of DueFrom.
const (
	// DueFromFirstSeen counts from when the finding was first seen in the image.
	DueFromFirstSeen DueFrom = "firstSeen"
	// DueFromFixAvailable counts from when a fixed version was known.
	DueFromFixAvailable DueFrom = "fixAvailable"
)

// VulnerabilityPolicySpec states within how many days findings are due.
type VulnerabilityPolicySpec struct {
	// Select is an expression in the Common Expression Language (CEL) that selects findings. It can use the variables finding, image and workload,
	// for example finding.fixable && workload.namespace.startsWith("prod-"). The parts that && joins are about the finding, or about image and workload.
	// Defaults to all findings.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Select string `json:"select,omitempty"`

	// NamespaceSelector limits the policy to what runs in namespaces with certain labels. An empty selector selects all namespaces.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.matchLabels) || size(self.matchLabels) <= 20",message="at most 20 matchLabels"
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || size(self.matchExpressions) <= 20 && self.matchExpressions.all(e, !has(e.values) || size(e.values) <= 50)",message="at most 20 matchExpressions with at most 50 values each"
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`

	// WorkloadSelector limits the policy to workloads, by the labels of their pods: a workload is selected if all of its pods that have not ended match. An
	// empty selector selects all workloads.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.matchLabels) || size(self.matchLabels) <= 20",message="at most 20 matchLabels"
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || size(self.matchExpressions) <= 20 && self.matchExpressions.all(e, !has(e.values) || size(e.values) <= 50)",message="at most 20 matchExpressions with at most 50 values each"
	WorkloadSelector *metav1.LabelSelector `json:"workloadSelector,omitempty"`

	// DueIn is the number of days within which findings are due, by severity. Findings whose severity is not named are not due.
	// +required
	DueIn DueIn `json:"dueIn"`

	// From is firstSeen to count from when the finding was first seen in the image, or fixAvailable to count from when a fixed version was known, but not
	// before the finding was first seen. With fixAvailable, findings without a fixed version are not due.
	// +optional
	// +kubebuilder:default=firstSeen
	// +kubebuilder:validation:Enum=firstSeen;fixAvailable
	From DueFrom `json:"from,omitempty"`
}

// DueIn is the number of days within which findings are due.
//
// +kubebuilder:validation:MinProperties=1
type DueIn struct {
	// Critical is the number of days for Critical findings.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3650
	Critical *int32 `json:"critical,omitempty"`

	// High is the number of days for High findings.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3650
	High *int32 `json:"high,omitempty"`

	// Medium is the number of days for Medium findings.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3650
	Medium *int32 `json:"medium,omitempty"`

	// Low is the number of days for Low findings.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3650
	Low *int32 `json:"low,omitempty"`

	// KEV is the number of days for findings of any severity that are in the catalog of known exploited vulnerabilities. It counts from when the
	// vulnerability was listed, if that is later. If the severity has a date as well, the earlier date counts.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3650
	KEV *int32 `json:"kev,omitempty"`
}

// VulnerabilityPolicyStatus is the observed state of a policy.
type VulnerabilityPolicyStatus struct {
	// ObservedGeneration is the metadata.generation that the status is based on.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions has Valid.
	// +optional
	// +patchMergeKey=type
	// +patchStrategy=merge
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`

	// DueFindings is the number of open findings whose date is set by the policy, each once in each image that runs. It is counted at most once
	// a minute. Not set if the policy does not apply.
	// +optional
	// +kubebuilder:validation:Minimum=0
	DueFindings *int64 `json:"dueFindings,omitempty"`

	// OverdueFindings is the number of these findings whose date has passed.
	// +optional
	// +kubebuilder:validation:Minimum=0
	OverdueFindings *int64 `json:"overdueFindings,omitempty"`
}

// VulnerabilityPolicy states until when findings are due. If several policies select a finding, the earliest date counts.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=vulnerabilitypolicies,singular=vulnerabilitypolicy,scope=Cluster,shortName=vpol,categories=all-security
// +kubebuilder:printcolumn:name="Valid",type=string,JSONPath=`.status.conditions[?(@.type=="Valid")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Valid")].reason`
// +kubebuilder:printcolumn:name="From",type=string,JSONPath=`.spec.from`,priority=1
// +kubebuilder:printcolumn:name="Due",type=integer,JSONPath=`.status.dueFindings`
// +kubebuilder:printcolumn:name="Overdue",type=integer,JSONPath=`.status.overdueFindings`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type VulnerabilityPolicy struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// Spec states within how many days findings are due.
	// +required
	Spec VulnerabilityPolicySpec `json:"spec"`
	// Status is the observed state.
	// +optional
	Status VulnerabilityPolicyStatus `json:"status,omitzero"`
}

// VulnerabilityPolicyList is a list of VulnerabilityPolicies.
//
// +kubebuilder:object:root=true
type VulnerabilityPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitzero"`
	// Items are the policies.
	Items []VulnerabilityPolicy `json:"items"`
}
