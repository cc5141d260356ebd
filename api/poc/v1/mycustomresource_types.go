package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ConditionReady is True when a pod with the name of the friend exists.
const ConditionReady = "Ready"

// The reasons of the Ready condition.
const (
	// ReasonFriendFound: a pod with the friend's name exists.
	ReasonFriendFound = "FriendFound"
	// ReasonFriendNotFound: no pod with the friend's name exists.
	ReasonFriendNotFound = "FriendNotFound"
)

// MyCustomResourceSpec is the desired state of a MyCustomResource.
type MyCustomResourceSpec struct {
	// Name of the friend MyCustomResource is looking for: a pod in any namespace that the operator watches. Users with permission to read
	// this object can see whether a pod with this name exists.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// MyCustomResourceStatus is the observed state of a MyCustomResource.
type MyCustomResourceStatus struct {
	// Healthy will be set to true if MyCustomResource found a friend: a pod with this name exists and is not being deleted. The phase
	// of the pod is not relevant.
	// +optional
	Healthy bool `json:"Healthy,omitempty"`

	// ObservedGeneration is the metadata.generation that the status is based on.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions contain the condition Ready.
	// +optional
	// +patchMergeKey=type
	// +patchStrategy=merge
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`
}

// MyCustomResource reports whether a pod with a given name exists.
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

	// Spec is the desired state.
	// +required
	Spec MyCustomResourceSpec `json:"spec"`
	// Status is the observed state.
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
