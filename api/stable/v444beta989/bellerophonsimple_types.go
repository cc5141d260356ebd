package v444beta989

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ConditionReady is True when every replica runs the wanted image and is ready.
const ConditionReady = "Ready"

// The reasons of the Ready condition.
const (
	// ReasonAllReady says that every replica runs the wanted image and is ready.
	ReasonAllReady = "AllReady"
	// ReasonAtRest says that no replica is wanted and none is there.
	ReasonAtRest = "AtRest"
	// ReasonProgressing says that replicas start or stop.
	ReasonProgressing = "Progressing"
	// ReasonUpdating says that some replicas do not run the wanted pod template yet.
	ReasonUpdating = "Updating"
	// ReasonNameTaken says that an object of the same name is in the way, which is not ours.
	ReasonNameTaken = "NameTaken"
	// ReasonRefused says that the API server, or an admission policy, refuses what is wanted.
	ReasonRefused = "Refused"
	// ReasonFailed says that the wanted state could not be brought about for another reason; it is tried again.
	ReasonFailed = "Failed"
)

// LabelShero is the label of everything that belongs to a BellerophonSimple, pods and volume claims included; its value is the name. Pods
// are selected by it.
const LabelShero = "stable.simple-bellerophon.io/shero"

// LabelWingedHorseName is the label with spec.winged_horse_name, of everything but the volume claims, when that is a valid value of a label.
const LabelWingedHorseName = "stable.simple-bellerophon.io/winged-horse-name"

// ClaimPolicy says what becomes of a volume claim that no replica uses any more.
// +kubebuilder:validation:Enum=Retain;Delete
type ClaimPolicy string

// The claim policies.
const (
	// ClaimRetain keeps the claim and its data.
	ClaimRetain ClaimPolicy = "Retain"
	// ClaimDelete deletes the claim.
	ClaimDelete ClaimPolicy = "Delete"
)

// BellerophonSimpleSpec is the wanted state of a BellerophonSimple.
// +kubebuilder:validation:XValidation:rule="has(self.storage) == has(oldSelf.storage)",message="storage cannot be added or removed once the object exists"
type BellerophonSimpleSpec struct {
	// Image is the container image of the application.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^\S+$`
	Image string `json:"image"`

	// Replicas is the number of instances; each has a stable name.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	Replicas *int32 `json:"replicas,omitempty"`

	// WingedHorseName is handed to every instance as the environment variable WINGED_HORSE_NAME, and when it is a valid value of a
	// label, as the label stable.simple-bellerophon.io/winged-horse-name as well.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	WingedHorseName string `json:"winged_horse_name,omitempty"`

	// Storage gives every instance a volume of its own. Without it the instances keep nothing.
	// +optional
	Storage *BellerophonSimpleStorage `json:"storage,omitempty"`
}

// BellerophonSimpleStorage describes the volume of each instance.
// +kubebuilder:validation:XValidation:rule="self.size == oldSelf.size",message="size cannot be changed"
// +kubebuilder:validation:XValidation:rule="has(self.storageClassName) == has(oldSelf.storageClassName) && (!has(self.storageClassName) || self.storageClassName == oldSelf.storageClassName)",message="storageClassName cannot be changed"
type BellerophonSimpleStorage struct {
	// Size of each volume, such as 1Gi.
	// +required
	Size resource.Quantity `json:"size"`

	// StorageClassName is the storage class of the volume claims; the cluster's default when not set.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	StorageClassName *string `json:"storageClassName,omitempty"`

	// MountPath is where the volume is mounted.
	// +optional
	// +kubebuilder:default="/data"
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:Pattern=`^/[^:]+$`
	MountPath string `json:"mountPath,omitempty"`

	// OnDelete says what becomes of the claims when the BellerophonSimple is deleted.
	// +optional
	// +kubebuilder:default=Retain
	OnDelete ClaimPolicy `json:"onDelete,omitempty"`

	// OnScaleDown says what becomes of the claims of instances that a lower number of replicas removes.
	// +optional
	// +kubebuilder:default=Retain
	OnScaleDown ClaimPolicy `json:"onScaleDown,omitempty"`
}

// BellerophonSimpleStatus is the observed state of a BellerophonSimple.
type BellerophonSimpleStatus struct {
	// ObservedGeneration is the generation of the spec that the status speaks of.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Replicas is the number of instances that exist.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Replicas int32 `json:"replicas"`

	// ReadyReplicas is the number of instances that are ready.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ReadyReplicas int32 `json:"readyReplicas"`

	// CurrentImage is the image of the last update that reached every instance; during an update it is still the old one.
	// +optional
	CurrentImage string `json:"currentImage,omitempty"`

	// Selector selects the pods of the instances, in the notation of kubectl; the scale subresource reads it.
	// +optional
	Selector string `json:"selector,omitempty"`

	// Conditions hold Ready.
	// +optional
	// +patchMergeKey=type
	// +patchStrategy=merge
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`
}

// BellerophonSimple is a stateful application: instances with stable names, each with a volume of its own if it wants one. A Service
// and the pods are named after it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]{0,50}[a-z0-9])?$')",message="the name must begin with a letter, hold only lower-case letters, digits and '-', not end with '-', and have at most 52 characters: a Service and labels of pods are made of it"
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

	// Spec is the wanted state.
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
