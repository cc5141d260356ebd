package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The defaults of a ScannerSpec, as the API server fills them in.
const (
	// DefaultIgnoreLabel is the label key in use when spec.ignoreLabel is not set.
	DefaultIgnoreLabel = "ignore"
	// DefaultConcurrency is the number of images catalogued at a time when spec.concurrency is not set.
	DefaultConcurrency int32 = 2
)

// IgnoreLabelValue is the value of the ignore label that makes a Scanner skip a pod.
const IgnoreLabelValue = "true"

// The condition types of a Scanner.
const (
	// ConditionReady is True when the Scanner has dealt with every container that it looks after. Its reason is a
	// StatusReason.
	ConditionReady = "Ready"
	// ConditionDatabaseReady is True when a vulnerability database is loaded and not out of date.
	ConditionDatabaseReady = "DatabaseReady"
	// ConditionCoverageComplete is True when every container that is not skipped has a current result.
	ConditionCoverageComplete = "CoverageComplete"
)

// StatusReason is the reason of the Ready condition: what the Scanner is doing.
type StatusReason string

// The reasons of the Ready condition.
const (
	// Reconciled says that nothing is left to do.
	Reconciled StatusReason = "Reconciled"
	// Scanning says that images are being catalogued.
	Scanning StatusReason = "Scanning"
	// Waiting says that work is left which cannot go on now: the Scanner is suspended, all scan slots are taken or
	// a retry is due later.
	Waiting StatusReason = "Waiting"
	// Failed says that something needs attention: the message of the condition says what.
	Failed StatusReason = "Failed"
)

// ScannerSpec is what a user asks of a Scanner.
type ScannerSpec struct {
	// IgnoreLabel is the key of a label. Pods that carry it with the value "true" are not scanned.
	// +optional
	// +kubebuilder:default=ignore
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`
	IgnoreLabel string `json:"ignoreLabel,omitempty"`

	// Concurrency is how many images are catalogued at the same time.
	// +optional
	// +kubebuilder:default=2
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=50
	Concurrency *int32 `json:"concurrency,omitempty"`

	// Suspend stops the start of new scan Jobs. Running ones end, and known images are still matched against new
	// vulnerability databases.
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// NamespaceSelector selects, by their labels, the namespaces whose pods are scanned. Without it the Scanner looks
	// after its own namespace alone. It may be set only on a Scanner in the namespace of the operator; elsewhere the
	// Ready condition becomes False. The empty selector selects every namespace.
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`

	// Retention is how long the results of an image are kept after its last container is gone. From one hour to ten
	// years, in Go's notation, such as "720h".
	// +optional
	// +kubebuilder:default="720h"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1h') && duration(self) <= duration('87600h')",message="retention must be between 1h and 87600h"
	Retention *metav1.Duration `json:"retention,omitempty"`

	// Job shapes the pods of the scan Jobs.
	// +optional
	Job ScanJobSpec `json:"job,omitzero"`
}

// ScanJobSpec shapes the pods of scan Jobs. It cannot loosen their security context.
type ScanJobSpec struct {
	// Resources are the requests and limits of the scan container. What is left out is filled from the operator's
	// defaults.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.claims)",message="resource claims are not supported for scan Jobs"
	Resources corev1.ResourceRequirements `json:"resources,omitzero"`

	// NodeSelector restricts the nodes that scan pods run on.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	// +mapType=atomic
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`

	// Tolerations let scan pods run on tainted nodes.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`

	// ImagePullSecrets name Secrets in the namespace of the scan Job, with credentials for registries. They are added
	// to the pull secrets of the pod whose image is scanned. The kubelet mounts them; the operator never reads them.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`

	// PriorityClassName is the priority class of scan pods.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	PriorityClassName string `json:"priorityClassName,omitempty"`
}

// ScannerStatus is the state that a Scanner found.
type ScannerStatus struct {
	// ObservedGeneration is the generation of the spec that the status speaks of.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions are Ready, DatabaseReady and CoverageComplete.
	// +optional
	// +patchMergeKey=type
	// +patchStrategy=merge
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`

	// Containers counts the running containers that the Scanner looks after, by the coverage of their images. Not set
	// until they were counted.
	// +optional
	Containers *ContainerCounts `json:"containers,omitempty"`

	// Coverage is the share of containers, without the skipped ones, that have a current result, such as "97%". It is
	// rounded down: only complete coverage shows "100%".
	// +optional
	// +kubebuilder:validation:MaxLength=8
	Coverage string `json:"coverage,omitempty"`

	// Images is the number of distinct images behind the containers.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Images int32 `json:"images,omitempty"`

	// Findings counts the vulnerabilities of those images. Not set until they were counted.
	// +optional
	Findings *FindingCounts `json:"findings,omitempty"`

	// DatabaseBuild identifies the vulnerability database that the findings come from.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	DatabaseBuild string `json:"databaseBuild,omitempty"`

	// DatabaseBuilt is when that database was built.
	// +optional
	DatabaseBuilt *metav1.Time `json:"databaseBuilt,omitempty"`
}

// ContainerCounts counts running containers by coverage. The total is the sum of the others.
type ContainerCounts struct {
	// Total is the number of running containers.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Total int32 `json:"total"`
	// Scanned containers have a result from the database in use.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Scanned int32 `json:"scanned"`
	// Pending containers wait for their image to be catalogued or matched.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Pending int32 `json:"pending"`
	// Failed containers have an image that could not be catalogued or matched.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Failed int32 `json:"failed"`
	// Skipped containers are left out on purpose.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Skipped int32 `json:"skipped"`
	// Stale containers have a result from an older database only.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Stale int32 `json:"stale"`
}

// FindingCounts counts findings: a package of an image with a vulnerability counts once per image.
type FindingCounts struct {
	// Critical findings.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Critical int32 `json:"critical"`
	// High findings.
	// +optional
	// +kubebuilder:validation:Minimum=0
	High int32 `json:"high"`
	// Medium findings.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Medium int32 `json:"medium"`
	// Low findings.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Low int32 `json:"low"`
	// Negligible findings.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Negligible int32 `json:"negligible"`
	// Unknown findings have no severity in the database.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Unknown int32 `json:"unknown"`
	// KEV findings, of any severity, are in CISA's catalogue of known exploited vulnerabilities.
	// +optional
	// +kubebuilder:validation:Minimum=0
	KEV int32 `json:"kev"`
	// Fixable findings, of any severity, have a version of the package that fixes them.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Fixable int32 `json:"fixable"`
}

// Scanner finds the images that run in a namespace, or in several, and reports their vulnerabilities.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=scanners,singular=scanner,shortName=scn,categories=all-security
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Critical",type=integer,JSONPath=`.status.findings.critical`
// +kubebuilder:printcolumn:name="High",type=integer,JSONPath=`.status.findings.high`
// +kubebuilder:printcolumn:name="KEV",type=integer,JSONPath=`.status.findings.kev`
// +kubebuilder:printcolumn:name="Fixable",type=integer,JSONPath=`.status.findings.fixable`,priority=1
// +kubebuilder:printcolumn:name="Coverage",type=string,JSONPath=`.status.coverage`
// +kubebuilder:printcolumn:name="Containers",type=integer,JSONPath=`.status.containers.total`,priority=1
// +kubebuilder:printcolumn:name="Images",type=integer,JSONPath=`.status.images`,priority=1
// +kubebuilder:printcolumn:name="IgnoreLabel",type=string,JSONPath=`.spec.ignoreLabel`
// +kubebuilder:printcolumn:name="Database",type=date,JSONPath=`.status.databaseBuilt`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Scanner struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// Spec is what the user asks for.
	// +optional
	// +kubebuilder:default={}
	Spec ScannerSpec `json:"spec,omitzero"`
	// Status is what the operator found.
	// +optional
	Status ScannerStatus `json:"status,omitzero"`
}

// ScannerList is a list of Scanners.
//
// +kubebuilder:object:root=true
type ScannerList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitzero"`
	// Items are the Scanners.
	Items []Scanner `json:"items"`
}
