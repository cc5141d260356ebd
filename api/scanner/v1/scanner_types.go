package v1

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The defaults of a ScannerSpec, which the API server sets.
const (
	// DefaultIgnoreLabel is the default of spec.ignoreLabel.
	DefaultIgnoreLabel = "ignore"
	// DefaultConcurrency is the default of spec.concurrency.
	DefaultConcurrency int32 = 10
)

// IgnoreLabelValue is the value of the ignore label of pods that are skipped.
const IgnoreLabelValue = "true"

// The condition types of a Scanner.
const (
	// ConditionReady is True when the Scanner has processed all containers that it covers. Its reason is a
	// StatusReason.
	ConditionReady = "Ready"
	// ConditionDatabaseReady is True when a vulnerability database is loaded and not outdated.
	ConditionDatabaseReady = "DatabaseReady"
	// ConditionCoverageComplete is True when all containers that are not skipped have a current result.
	ConditionCoverageComplete = "CoverageComplete"
	// ConditionNewerTagsComplete is True when newer tags of all images that spec.newerTags selects were looked up. It is only there with spec.newerTags.
	ConditionNewerTagsComplete = "NewerTagsComplete"
)

// The defaults of a NewerTagsSpec, which the API server sets.
const (
	DefaultNewerTagsInterval       = 24 * time.Hour
	DefaultNewerTagsLimit    int32 = 3
	DefaultNewerTagsImages   int32 = 100
)

// StatusReason is the reason of the condition Ready.
type StatusReason string

// The reasons of the condition Ready.
const (
	// Reconciled: all work is done.
	Reconciled StatusReason = "Reconciled"
	// Scanning: images are being cataloged.
	Scanning StatusReason = "Scanning"
	// Waiting: the remaining work cannot continue now, because the Scanner is suspended, all scan slots are in use, or
	// a retry is due later.
	Waiting StatusReason = "Waiting"
	// Failed: user action may be required. The message of the condition states the problem.
	Failed StatusReason = "Failed"
)

// ScannerSpec is the desired state of a Scanner.
type ScannerSpec struct {
	// IgnoreLabel is a label key. Pods that have this label with the value "true" are skipped.
	// +optional
	// +kubebuilder:default=ignore
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`
	IgnoreLabel string `json:"ignoreLabel,omitempty"`

	// Concurrency is the maximum number of concurrent scans of this Scanner.
	// +optional
	// +kubebuilder:default=10
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=50
	Concurrency *int32 `json:"concurrency,omitempty"`

	// Suspend pauses the creation of scan Jobs. Running Jobs complete, and images with an SBOM are still matched with new
	// vulnerability database builds.
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// NamespaceSelector selects the namespaces whose pods are scanned, by label. If not set, the Scanner covers only its own
	// namespace. It may be set only on Scanners in the namespace of the operator; for others the condition
	// Ready becomes False. An empty selector selects all namespaces.
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`

	// Retention is how long the results of an image are retained after its last container has terminated: a duration from 1h to
	// 87600h (ten years), for example "720h". The operator limits it (--max-retention). It concerns the images that this Scanner covers.
	// +optional
	// +kubebuilder:default="720h"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1h') && duration(self) <= duration('87600h')",message="retention must be between 1h and 87600h"
	Retention *metav1.Duration `json:"retention,omitempty"`

	// Job configures the pods of the scan Jobs.
	// +optional
	Job ScanJobSpec `json:"job,omitzero"`

	// NewerTags, if set, compares the images that run with newer tags of the same variant in their repositories. For that, scan Jobs list the
	// tags of a repository and pull the images of newer ones, with the pull secrets of the pods that run the image. It requires --catalog=job and authentication.
	// +optional
	NewerTags *NewerTagsSpec `json:"newerTags,omitempty"`
}

// NewerTagsSpec configures the comparison of images with newer tags. Only images with findings, whose tag is a version, are compared.
type NewerTagsSpec struct {
	// Interval is how often the tags of an image are listed: a duration from 1h to 720h, for example "24h". Images of newer tags that are known are
	// not pulled again.
	// +optional
	// +kubebuilder:default="24h"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1h') && duration(self) <= duration('720h')",message="interval must be between 1h and 720h"
	Interval *metav1.Duration `json:"interval,omitempty"`

	// Limit is the maximum number of newer tags of an image: with 3, the newest one of the same minor line, of the same major line, and of all.
	// +optional
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10
	Limit *int32 `json:"limit,omitempty"`

	// MaxImages is the maximum number of images that are compared, those with the most severe findings first.
	// +optional
	// +kubebuilder:default=100
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	MaxImages *int32 `json:"maxImages,omitempty"`
}

// ScanJobSpec configures the pods of scan Jobs. It cannot change their security context.
type ScanJobSpec struct {
	// Source is how scans read images. With ImageVolume, the kubelet mounts the image into the scan pod, so that the scan needs no credentials
	// and no access to the registry; this requires nodes that support image volumes: Kubernetes 1.35 with containerd 2.1 or CRI-O. With
	// Registry, the scan pulls the image from its registry. With Auto, the operator uses an image volume where a node that runs the image
	// supports it, and the registry otherwise and after a failure. Defaults to Auto.
	// +optional
	// +kubebuilder:validation:Enum=Auto;ImageVolume;Registry
	Source ImageSource `json:"source,omitempty"`

	// Resources are the requests and limits of the scan container. Missing values default to those of the operator.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.claims)",message="resource claims are not supported for scan Jobs"
	Resources corev1.ResourceRequirements `json:"resources,omitzero"`

	// NodeSelector selects the nodes that scan pods run on.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	// +mapType=atomic
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`

	// Tolerations allow scan pods to run on tainted nodes.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`

	// ImagePullSecrets reference Secrets with registry credentials in the namespace of the scan Job, in addition to the
	// pull secrets of the pod whose image is scanned. The kubelet mounts them; the operator never reads them.
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

// ImageSource is how scan Jobs read images.
type ImageSource string

// The sources of images.
const (
	SourceAuto        ImageSource = "Auto"
	SourceImageVolume ImageSource = "ImageVolume"
	SourceRegistry    ImageSource = "Registry"
)

// ScannerStatus is the observed state of a Scanner.
type ScannerStatus struct {
	// ObservedGeneration is the metadata.generation that the status is based on.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions are Ready, DatabaseReady and CoverageComplete, and NewerTagsComplete with spec.newerTags.
	// +optional
	// +patchMergeKey=type
	// +patchStrategy=merge
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`

	// Containers is the number of running containers that the Scanner covers, by coverage state. Not set until they have
	// been counted.
	// +optional
	Containers *ContainerCounts `json:"containers,omitempty"`

	// Coverage is the share of containers, without skipped ones, that have a current result, for example "97%". It is
	// rounded down, so that only complete coverage is "100%".
	// +optional
	// +kubebuilder:validation:MaxLength=8
	Coverage string `json:"coverage,omitempty"`

	// Images is the number of distinct images of the containers.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Images int32 `json:"images,omitempty"`

	// Findings is the number of findings of these images. Not set until they have been counted.
	// +optional
	Findings *FindingCounts `json:"findings,omitempty"`

	// DatabaseBuild is the ID of the vulnerability database build that the findings come from.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	DatabaseBuild string `json:"databaseBuild,omitempty"`

	// DatabaseBuilt is the time at which that build was built.
	// +optional
	DatabaseBuilt *metav1.Time `json:"databaseBuilt,omitempty"`
}

// ContainerCounts is the number of running containers by coverage state. The total is the sum of the others.
type ContainerCounts struct {
	// Total is the number of running containers.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Total int32 `json:"total"`
	// Scanned containers have a result of the current database build.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Scanned int32 `json:"scanned"`
	// Partial containers have a result of the current database build for a part of their image: some of its files could not be read.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Partial int32 `json:"partial"`
	// Pending containers have an image that is not cataloged or not matched yet.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Pending int32 `json:"pending"`
	// Failed containers have an image that could not be cataloged or matched.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Failed int32 `json:"failed"`
	// Skipped containers are excluded on purpose.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Skipped int32 `json:"skipped"`
	// Stale containers have a result of an earlier database build only.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Stale int32 `json:"stale"`
}

// FindingCounts is the number of findings. A vulnerability of a package is counted once per image.
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
	// Unknown findings have no severity in the vulnerability database.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Unknown int32 `json:"unknown"`
	// KEV findings, of any severity, are in CISA's catalog of known exploited vulnerabilities.
	// +optional
	// +kubebuilder:validation:Minimum=0
	KEV int32 `json:"kev"`
	// Fixable findings, of any severity, have a fix.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Fixable int32 `json:"fixable"`
}

// Scanner finds the images that run in one or more namespaces and reports their vulnerabilities.
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

	// Spec is the desired state.
	// +optional
	// +kubebuilder:default={}
	Spec ScannerSpec `json:"spec,omitzero"`
	// Status is the observed state.
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
