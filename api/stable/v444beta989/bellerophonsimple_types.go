package v444beta989

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ConditionReady is True when all replicas run the desired image and are ready.
const ConditionReady = "Ready"

// The reasons of the Ready condition.
const (
	// ReasonAllReady: all replicas run the desired image and are ready.
	ReasonAllReady = "AllReady"
	// ReasonAtRest: the desired number of replicas is zero, and none exists.
	ReasonAtRest = "AtRest"
	// ReasonProgressing: replicas are starting or stopping.
	ReasonProgressing = "Progressing"
	// ReasonUpdating: some replicas do not run the desired pod template yet.
	ReasonUpdating = "Updating"
	// ReasonPodsFailing: a container of a replica cannot start or does not keep running; the message says why.
	ReasonPodsFailing = "PodsFailing"
	// ReasonNameTaken: an object with the same name exists that the operator did not create.
	ReasonNameTaken = "NameTaken"
	// ReasonRefused: the API server, or an admission policy, rejects a request.
	ReasonRefused = "Refused"
	// ReasonFailed: the desired state could not be applied for another reason. The operator retries.
	ReasonFailed = "Failed"
)

// LabelShero is the label of all objects that belong to a BellerophonSimple, including pods and volume claims; its value is the name of the
// BellerophonSimple. It is the selector of the pods.
const LabelShero = "stable.simple-bellerophon.io/shero"

// LabelWingedHorseName is the label with spec.winged_horse_name, if that is a valid label value. Volume claims do not have it.
const LabelWingedHorseName = "stable.simple-bellerophon.io/winged-horse-name"

// ClaimPolicy determines what happens to a volume claim that is no longer used by a replica.
// +kubebuilder:validation:Enum=Retain;Delete
type ClaimPolicy string

// The claim policies.
const (
	// ClaimRetain keeps the claim and its data.
	ClaimRetain ClaimPolicy = "Retain"
	// ClaimDelete deletes the claim.
	ClaimDelete ClaimPolicy = "Delete"
)

// BellerophonSimpleSpec is the desired state of a BellerophonSimple.
// +kubebuilder:validation:XValidation:rule="has(self.storage) == has(oldSelf.storage)",message="storage cannot be added or removed after creation"
type BellerophonSimpleSpec struct {
	// Image is the container image of the application.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^\S+$`
	Image string `json:"image"`

	// Replicas is the desired number of replicas. Each has a stable name.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	Replicas *int32 `json:"replicas,omitempty"`

	// WingedHorseName is the value of the environment variable WINGED_HORSE_NAME of all replicas, and, if it is a valid label value,
	// of the label stable.simple-bellerophon.io/winged-horse-name.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	WingedHorseName string `json:"winged_horse_name,omitempty"`

	// Storage provides a volume per replica. Without it, replicas have no persistent storage.
	// +optional
	Storage *BellerophonSimpleStorage `json:"storage,omitempty"`
}

// BellerophonSimpleStorage describes the volume of each replica.
// +kubebuilder:validation:XValidation:rule="self.size == oldSelf.size",message="size cannot be changed"
// +kubebuilder:validation:XValidation:rule="has(self.storageClassName) == has(oldSelf.storageClassName) && (!has(self.storageClassName) || self.storageClassName == oldSelf.storageClassName)",message="storageClassName cannot be changed"
type BellerophonSimpleStorage struct {
	// Size of each volume, for example 1Gi.
	// +required
	Size resource.Quantity `json:"size"`

	// StorageClassName is the storage class of the volume claims. Defaults to the default storage class of the cluster.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	StorageClassName *string `json:"storageClassName,omitempty"`

	// MountPath is the path at which the volume is mounted.
	// +optional
	// +kubebuilder:default="/data"
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:Pattern=`^/[^:]+$`
	MountPath string `json:"mountPath,omitempty"`

	// OnDelete determines what happens to the volume claims when the BellerophonSimple is deleted.
	// +optional
	// +kubebuilder:default=Retain
	OnDelete ClaimPolicy `json:"onDelete,omitempty"`

	// OnScaleDown determines what happens to the volume claims of replicas that are removed by scaling down.
	// +optional
	// +kubebuilder:default=Retain
	OnScaleDown ClaimPolicy `json:"onScaleDown,omitempty"`
}

// BellerophonSimpleStatus is the observed state of a BellerophonSimple.
type BellerophonSimpleStatus struct {
	// ObservedGeneration is the metadata.generation that the status is based on.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Replicas is the number of existing replicas.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Replicas int32 `json:"replicas"`

	// ReadyReplicas is the number of ready replicas.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ReadyReplicas int32 `json:"readyReplicas"`

	// AvailableReplicas is the number of replicas that are ready for at least the minReadySeconds of the StatefulSet.
	// +optional
	// +kubebuilder:validation:Minimum=0
	AvailableReplicas int32 `json:"availableReplicas,omitempty"`

	// CurrentImage is the image of the last update that all replicas completed. During an update it is the previous image.
	// +optional
	CurrentImage string `json:"currentImage,omitempty"`

	// Selector is the label selector of the pods in string form, for the scale subresource.
	// +optional
	Selector string `json:"selector,omitempty"`

	// Conditions contain the condition Ready.
	// +optional
	// +patchMergeKey=type
	// +patchStrategy=merge
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`
}

// BellerophonSimple is a stateful application: replicas with stable names, each optionally with a volume. Its Service and its pods are
// named after it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]{0,50}[a-z0-9])?$')",message="the name must begin with a letter, contain only lower-case letters, digits and '-', not end with '-', and have at most 52 characters, because a Service and pod labels use it"
// +kubebuilder:resource:path=sheroes,singular=bellerophonsimple,shortName=bsh
// +kubebuilder:printcolumn:name="Image",type=string,JSONPath=`.spec.image`
// +kubebuilder:printcolumn:name="Desired",type=integer,JSONPath=`.spec.replicas`
// +kubebuilder:printcolumn:name="Ready",type=integer,JSONPath=`.status.readyReplicas`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Horse",type=string,JSONPath=`.spec.winged_horse_name`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type BellerophonSimple struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// Spec is the desired state.
	// +required
	Spec BellerophonSimpleSpec `json:"spec"`
	// Status is the observed state.
	// +optional
	Status BellerophonSimpleStatus `json:"status,omitzero"`
}

// BellerophonSimpleList is a list of BellerophonSimples.
//
// +kubebuilder:object:root=true
type BellerophonSimpleList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitzero"`
	// Items are the BellerophonSimples.
	Items []BellerophonSimple `json:"items"`
}
