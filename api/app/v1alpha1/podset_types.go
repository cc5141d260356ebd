package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ConditionReady is True when as many pods are available as the spec asks for.
const ConditionReady = "Ready"

// PodSetSpec is the wanted state of a PodSet.
type PodSetSpec struct {
	// Replicas is the desired number of pods for the PodSet.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10
	Replicas int32 `json:"replicas,omitempty"`

	// Template is the pod to run. Without it a small pod that sleeps is run. It is checked when pods are created; the
	// Ready condition says when it is refused.
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	Template *corev1.PodTemplateSpec `json:"template,omitempty"`
}

// PodSetStatus is the observed state of a PodSet.
type PodSetStatus struct {
	// PodNames are the names of the pods of the PodSet that are pending or running, sorted.
	// +optional
	// +listType=set
	PodNames []string `json:"podNames"`

	// AvailableReplicas is the number of pods that are pending or running.
	// +optional
	// +kubebuilder:validation:Minimum=0
	AvailableReplicas int32 `json:"availableReplicas"`

	// Selector selects the pods of the PodSet, in the notation of kubectl; the scale subresource reads it.
	// +optional
	Selector string `json:"selector,omitempty"`

	// ObservedGeneration is the generation of the spec that the status speaks of.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions hold Ready.
	// +optional
	// +patchMergeKey=type
	// +patchStrategy=merge
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`
}

// PodSet keeps a fixed number of identical pods running.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.availableReplicas,selectorpath=.status.selector
// +kubebuilder:resource:path=podsets,singular=podset,shortName=pset
// +kubebuilder:printcolumn:name="Desired",type=integer,JSONPath=`.spec.replicas`
// +kubebuilder:printcolumn:name="Available",type=integer,JSONPath=`.status.availableReplicas`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type PodSet struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// Spec is the wanted state.
	// +optional
	// +kubebuilder:default={}
	Spec PodSetSpec `json:"spec,omitzero"`
	// Status is the observed state.
	// +optional
	Status PodSetStatus `json:"status,omitzero"`
}

// PodSetList is a list of PodSets.
//
// +kubebuilder:object:root=true
type PodSetList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitzero"`
	// Items are the PodSets.
	Items []PodSet `json:"items"`
}
