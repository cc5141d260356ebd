package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ConditionReady is True when the friend was found.
const ConditionReady = "Ready"

// The reasons of the Ready condition.
const (
	// ReasonFriendFound says that a pod with the friend's name exists.
	ReasonFriendFound = "FriendFound"
	// ReasonFriendNotFound says that no pod with the friend's name exists.
	ReasonFriendNotFound = "FriendNotFound"
)

// MyCustomResourceSpec is what a MyCustomResource looks for.
type MyCustomResourceSpec struct {
	// Name of the friend MyCustomResource is looking for: a pod, in any namespace that the operator watches. Whoever may read this
	// object thus learns whether a pod of that name exists, and in which namespace.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// MyCustomResourceStatus is what a MyCustomResource found.
type MyCustomResourceStatus struct {
	// Healthy will be set to true if MyCustomResource found a friend: while a pod of that name exists and is not being deleted,
	// whatever its phase.
	// +optional
	Healthy bool `json:"Healthy,omitempty"`

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

// MyCustomResource looks for a pod by name and says whether it exists.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=mycustomresources,singular=mycustomresource,shortName=mcr
// +kubebuilder:printcolumn:name="Friend",type=string,JSONPath=`.spec.name`
// +kubebuilder:printcolumn:name="Healthy",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type MyCustomResource struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// Spec is what to look for.
	// +required
	Spec MyCustomResourceSpec `json:"spec"`
	// Status is what was found.
	// +optional
	Status MyCustomResourceStatus `json:"status,omitzero"`
}

// MyCustomResourceList is a list of MyCustomResources.
//
// +kubebuilder:object:root=true
type MyCustomResourceList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitzero"`
	// Items are the MyCustomResources.
	Items []MyCustomResource `json:"items"`
}
