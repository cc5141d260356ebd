package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// ConditionReady is True when the desired number of pods is ready, all created from the current template.
const ConditionReady = "Ready"

// The reasons of ConditionReady. AllReady is that of True.
const (
	ReasonAllReady = "AllReady"
	// ReasonProgressing: pods are starting, or are being replaced after a change of the template.
	ReasonProgressing = "Progressing"
	// ReasonPodsFailing: a container of a pod cannot start or does not keep running; the message says why.
	ReasonPodsFailing = "PodsFailing"
	// ReasonPodsEnded: pods terminated soon after their start; they are replaced with a backoff.
	ReasonPodsEnded = "PodsEnded"
	// ReasonReplicaFailure: the API server refused to create, delete or adopt a pod.
	ReasonReplicaFailure = "ReplicaFailure"
	// ReasonInvalidTemplate: spec.template is not a valid pod template.
	ReasonInvalidTemplate = "InvalidTemplate"
)

// The labels of the pods of a PodSet, in addition to corev1's apps.kubernetes.io/pod-index, which holds the slot index of a pod.
const (
	// LabelApp holds the name of the PodSet; together with LabelVersion it selects its pods.
	LabelApp = "app"
	// LabelVersion always holds Version.
	LabelVersion = "version"
	// Version is the value of LabelVersion.
	Version = "v0.1"
	// LabelTemplateHash identifies the template that a pod was created from.
	LabelTemplateHash = "pod-template-hash"
	// LabelReplacement numbers the pods with the same slot index: a replacement has the number of the replaced pod plus one.
	LabelReplacement = "app.example.com/podset-replacement"
	// LabelFailures counts the consecutive previous pods with the same slot index that terminated soon after their start.
	LabelFailures = "app.example.com/podset-failures"
)

// PodSetSpec is the desired state of a PodSet.
type PodSetSpec struct {
	// Replicas is the desired number of pods for the PodSet.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10
	Replicas int32 `json:"replicas,omitempty"`

	// The template is raw: with the type corev1.PodTemplateSpec, a single invalid template would prevent the cache from decoding any PodSet.

	// Template is the pod template, a PodTemplateSpec as in a Deployment. Defaults to a small pod that sleeps. It is validated
	// when pods are created; if it is rejected, the condition Ready states why.
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	Template *runtime.RawExtension `json:"template,omitempty"`
}

// PodSetStatus is the observed state of a PodSet.
type PodSetStatus struct {
	// PodNames are the sorted names of the pods that are pending or running.
	// +optional
	// +listType=set
	PodNames []string `json:"podNames"`

	// AvailableReplicas is the number of pods that are pending or running and are not being deleted.
	// +optional
	// +kubebuilder:validation:Minimum=0
	AvailableReplicas int32 `json:"availableReplicas"`

	// ReadyReplicas is the number of available pods that are ready.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ReadyReplicas int32 `json:"readyReplicas"`

	// UpdatedReplicas is the number of available pods that were not created from an earlier template.
	// +optional
	// +kubebuilder:validation:Minimum=0
	UpdatedReplicas int32 `json:"updatedReplicas"`

	// Selector is the label selector of the pods in string form, for the scale subresource.
	// +optional
	Selector string `json:"selector,omitempty"`

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

// PodSet keeps a fixed number of identical pods running.
//
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 63",message="the name of a PodSet must have at most 63 characters, because it is the value of the label app of its pods"
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

	// Spec is the desired state.
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
