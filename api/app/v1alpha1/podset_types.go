package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// ConditionReady is True when as many pods are ready as the spec asks for, all of them of the current template.
const ConditionReady = "Ready"

// The reasons of ConditionReady. AllReady is that of True.
const (
	ReasonAllReady = "AllReady"
	// ReasonProgressing: pods start, or are replaced after a change of the template.
	ReasonProgressing = "Progressing"
	// ReasonPodsEnded: pods have ended soon after their start; they are replaced after a growing pause.
	ReasonPodsEnded = "PodsEnded"
	// ReasonReplicaFailure: the API server refused to create, delete or adopt a pod.
	ReasonReplicaFailure = "ReplicaFailure"
	// ReasonInvalidTemplate: spec.template is not a pod template that can be read.
	ReasonInvalidTemplate = "InvalidTemplate"
)

// The labels that the pods of a PodSet carry, besides corev1's apps.kubernetes.io/pod-index, which holds the slot of a pod.
const (
	// LabelApp holds the name of the PodSet; with LabelVersion it selects its pods.
	LabelApp = "app"
	// LabelVersion always holds Version.
	LabelVersion = "version"
	// Version is the value of LabelVersion.
	Version = "v0.1"
	// LabelTemplateHash tells from which template a pod was made.
	LabelTemplateHash = "pod-template-hash"
	// LabelIncarnation counts the pods of a slot: each replacement has one more than the pod that it replaces.
	LabelIncarnation = "app.example.com/podset-incarnation"
	// LabelFailures says how many pods of the slot ended one after the other, soon after their start, before this one.
	LabelFailures = "app.example.com/podset-failures"
)

// PodSetSpec is the wanted state of a PodSet.
type PodSetSpec struct {
	// Replicas is the desired number of pods for the PodSet.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10
	Replicas int32 `json:"replicas,omitempty"`

	// The template is raw: as a corev1.PodTemplateSpec, one that cannot be read would keep all PodSets of the cluster from being read.

	// Template is the pod to run, a PodTemplateSpec as in a Deployment. Without it a small pod that sleeps is run. It is checked
	// when pods are created; the Ready condition says when it is refused.
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	Template *runtime.RawExtension `json:"template,omitempty"`
}

// PodSetStatus is the observed state of a PodSet.
type PodSetStatus struct {
	// PodNames are the names of the pods of the PodSet that are pending or running, sorted.
	// +optional
	// +listType=set
	PodNames []string `json:"podNames"`

	// AvailableReplicas is the number of pods that are pending or running and are not being deleted.
	// +optional
	// +kubebuilder:validation:Minimum=0
	AvailableReplicas int32 `json:"availableReplicas"`

	// ReadyReplicas is the number of those that are ready.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ReadyReplicas int32 `json:"readyReplicas"`

	// UpdatedReplicas is the number of those that are not made from an earlier template.
	// +optional
	// +kubebuilder:validation:Minimum=0
	UpdatedReplicas int32 `json:"updatedReplicas"`

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
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 63",message="the name of a PodSet must have at most 63 characters, because its pods carry it in the label app"
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
