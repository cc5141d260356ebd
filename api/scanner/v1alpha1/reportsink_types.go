package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The reasons of the conditions Valid and Delivering of a ReportSink, besides ReasonDelivering and ReasonDeliveryFailed.
const (
	// ReasonSinkActive: the sink is in effect.
	ReasonSinkActive = "Active"
	// ReasonSinkInvalid: the spec cannot be used. The message states the problem.
	ReasonSinkInvalid = "Invalid"
	// ReasonSinkTooMany: there are more sinks than the bound allows, and this is one of the newest.
	ReasonSinkTooMany = "TooMany"
	// ReasonSinkNotActive: the sink is not in effect, so it delivers nothing.
	ReasonSinkNotActive = "NotActive"
	// ReasonSinkSyncing: reports wait that have not been delivered yet.
	ReasonSinkSyncing = "Syncing"
	// ReasonSinkLimited: there are more items than the sink can have, and the others are not delivered.
	ReasonSinkLimited = "Limited"
)

// ReportSinkSpec states which reports are delivered, and where.
//
// +kubebuilder:validation:XValidation:rule="[has(self.dependencyTrack), has(self.defectDojo), has(self.s3), has(self.policyReport)].filter(x, x).size() == 1",message="set exactly one of dependencyTrack, defectDojo, s3 and policyReport"
type ReportSinkSpec struct {
	// NamespaceSelector selects namespaces by their labels. Reports are about images that run there. Defaults to all namespaces.
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`

	// Images are patterns of images, such as registry.example.com/team-a/*: a repository with its registry, a digest, or both with @ between. Defaults to all
	// images.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=512
	Images []string `json:"images,omitempty"`

	// DeliveriesPerMinute is the maximum number of deliveries that begin in a minute.
	// +optional
	// +kubebuilder:default=120
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=6000
	DeliveriesPerMinute int32 `json:"deliveriesPerMinute,omitempty"`

	// ResyncInterval is the time after which everything is delivered again, from 1h to 720h.
	// +optional
	// +kubebuilder:default="24h0m0s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1h') && duration(self) <= duration('720h')",message="resyncInterval must be from 1h to 720h"
	ResyncInterval *metav1.Duration `json:"resyncInterval,omitempty"`

	// DependencyTrack is a server of OWASP Dependency-Track, which gets the SBOMs.
	// +optional
	DependencyTrack *DependencyTrackSink `json:"dependencyTrack,omitempty"`
	// DefectDojo is a server of DefectDojo, which gets the findings.
	// +optional
	DefectDojo *DefectDojoSink `json:"defectDojo,omitempty"`
	// S3 is a bucket of Amazon S3, or of a server with the same interface, which gets reports as objects.
	// +optional
	S3 *S3Sink `json:"s3,omitempty"`
	// PolicyReport writes an object of the kind Report (openreports.io/v1alpha1) for each workload into its namespace. The chart value
	// reportSinks.policyReports must permit it, and the CRD must be installed.
	// +optional
	PolicyReport *PolicyReportSink `json:"policyReport,omitempty"`
}

// SinkCredential is the name of an entry of the chart value reportSinks.credentials. Its Secret contains the URL of the server and the keys.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=40
// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
type SinkCredential string

// SinkTemplate is a text with placeholders in braces: {cluster}, {namespace}, {kind}, {workload}, {owner}, {registry}, {repository}, {image}, {digest} and
// {platform}.
//
// +kubebuilder:validation:MaxLength=512
// +kubebuilder:validation:Pattern=`^([^{}]|\{(cluster|namespace|kind|workload|owner|registry|repository|image|digest|platform)\})*$`
type SinkTemplate string

// DependencyTrackSink is a server of OWASP Dependency-Track. Images whose templates have the same results are in one project.
type DependencyTrackSink struct {
	// Credential is the name of an entry of the chart value reportSinks.credentials. Its Secret contains url and token, which is an API key.
	// +required
	Credential SinkCredential `json:"credential"`

	// ProjectName is a template of the names of projects.
	// +optional
	// +kubebuilder:default="{repository}"
	// +kubebuilder:validation:MinLength=1
	ProjectName SinkTemplate `json:"projectName,omitempty"`

	// ProjectVersion is a template of the versions of projects. An empty one means projects without a version.
	// +optional
	// +kubebuilder:default="{digest}"
	ProjectVersion *SinkTemplate `json:"projectVersion,omitempty"`

	// Tags are templates of the tags of projects. They replace the tags that a project has.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=10
	Tags []SinkTemplate `json:"tags,omitempty"`

	// Parent is a project that exists. New projects are created below it.
	// +optional
	Parent *DependencyTrackProject `json:"parent,omitempty"`
}

// DependencyTrackProject names a project of Dependency-Track.
type DependencyTrackProject struct {
	// Name of the project.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	Name string `json:"name"`
	// Version of the project. Defaults to none.
	// +optional
	// +kubebuilder:validation:MaxLength=255
	Version string `json:"version,omitempty"`
}

// DefectDojoSink is a server of DefectDojo. Images whose templates have the same results are in one test.
type DefectDojoSink struct {
	// Credential is the name of an entry of the chart value reportSinks.credentials. Its Secret contains url and token, which is an API v2 key.
	// +required
	Credential SinkCredential `json:"credential"`

	// ProductType is the product type of products that are created.
	// +optional
	// +kubebuilder:default="Kubernetes"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	ProductType string `json:"productType,omitempty"`

	// Product is a template of the names of products.
	// +optional
	// +kubebuilder:default="{namespace}"
	// +kubebuilder:validation:MinLength=1
	Product SinkTemplate `json:"product,omitempty"`

	// Engagement is a template of the names of engagements.
	// +optional
	// +kubebuilder:default="{kind} {workload}"
	// +kubebuilder:validation:MinLength=1
	Engagement SinkTemplate `json:"engagement,omitempty"`

	// Test is a template of the titles of tests.
	// +optional
	// +kubebuilder:default="{repository}"
	// +kubebuilder:validation:MinLength=1
	Test SinkTemplate `json:"test,omitempty"`

	// MinSeverity is the lowest severity that is imported. Defaults to all severities.
	// +optional
	// +kubebuilder:validation:Enum=Critical;High;Medium;Low
	MinSeverity string `json:"minSeverity,omitempty"`
}

// ReportFormat is a format of reports.
//
// +kubebuilder:validation:Enum=CycloneDX;SPDX;SARIF;CSV
type ReportFormat string

// The formats of reports.
const (
	ReportFormatCycloneDX ReportFormat = "CycloneDX"
	ReportFormatSPDX      ReportFormat = "SPDX"
	ReportFormatSARIF     ReportFormat = "SARIF"
	ReportFormatCSV       ReportFormat = "CSV"
)

// S3RemovalPolicy states what becomes of the objects of images that run no more, and of formats that are removed from the list.
type S3RemovalPolicy string

// The values of S3RemovalPolicy.
const (
	// S3Retain keeps the objects.
	S3Retain S3RemovalPolicy = "Retain"
	// S3Delete deletes the objects.
	S3Delete S3RemovalPolicy = "Delete"
)

// S3Sink is a bucket. Images whose templates have the same result are in one object.
type S3Sink struct {
	// Credential is the name of an entry of the chart value reportSinks.credentials. Its Secret contains url, accessKeyID and secretAccessKey.
	// +required
	Credential SinkCredential `json:"credential"`

	// Bucket is the name of the bucket, which must exist.
	// +required
	// +kubebuilder:validation:MinLength=3
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9][a-z0-9.-]*[a-z0-9]$`
	Bucket string `json:"bucket"`

	// Region of the bucket.
	// +optional
	// +kubebuilder:default="us-east-1"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-zA-Z0-9-]+$`
	Region string `json:"region,omitempty"`

	// Key is a template of the keys of objects. The extension of the format follows, for example .cdx.json.
	// +optional
	// +kubebuilder:default="{repository}/{digest}/{platform}"
	// +kubebuilder:validation:MinLength=1
	Key SinkTemplate `json:"key,omitempty"`

	// Formats of the reports. There is an object for each.
	// +optional
	// +listType=set
	// +kubebuilder:default={CycloneDX}
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=4
	Formats []ReportFormat `json:"formats,omitempty"`

	// RemovalPolicy states what becomes of the objects of images that run no more, and of formats that are removed from the list: Retain or Delete.
	// +optional
	// +kubebuilder:default=Retain
	// +kubebuilder:validation:Enum=Retain;Delete
	RemovalPolicy S3RemovalPolicy `json:"removalPolicy,omitempty"`
}

// PolicyReportSink writes policy reports. They have the number of findings, and the worst of them.
type PolicyReportSink struct {
	// MaxResults is the maximum number of findings in an object.
	// +optional
	// +kubebuilder:default=10
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=50
	MaxResults int32 `json:"maxResults,omitempty"`

	// MaxObjects is the maximum number of objects. Objects that exist stay; of the other workloads, those with the worst findings come first.
	// +optional
	// +kubebuilder:default=500
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=5000
	MaxObjects int32 `json:"maxObjects,omitempty"`
}

// ReportSinkStatus is the observed state of a sink.
type ReportSinkStatus struct {
	// ObservedGeneration is the metadata.generation that the status is based on.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions are Valid and Delivering.
	// +optional
	// +patchMergeKey=type
	// +patchStrategy=merge
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`

	// LastDeliveryTime is when the server accepted an item last.
	// +optional
	LastDeliveryTime *metav1.Time `json:"lastDeliveryTime,omitempty"`

	// Items is the number of projects, tests or objects that the sink manages.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Items int32 `json:"items,omitempty"`

	// Pending is the number of items that are still to be delivered or removed.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Pending int32 `json:"pending,omitempty"`

	// Failed is the number of pending items whose last attempt failed.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Failed int32 `json:"failed,omitempty"`

	// Omitted is the number of items beyond the maximum of 10000, or of maxObjects, towards which items count that are still to be removed. They are not delivered.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Omitted int32 `json:"omitted,omitempty"`
}

// ReportSink delivers reports about the images that run in the cluster to another system.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=reportsinks,singular=reportsink,scope=Cluster,shortName=rsink,categories=all-security
// +kubebuilder:printcolumn:name="Valid",type=string,JSONPath=`.status.conditions[?(@.type=="Valid")].status`
// +kubebuilder:printcolumn:name="Delivering",type=string,JSONPath=`.status.conditions[?(@.type=="Delivering")].status`
// +kubebuilder:printcolumn:name="Items",type=integer,JSONPath=`.status.items`
// +kubebuilder:printcolumn:name="Pending",type=integer,JSONPath=`.status.pending`
// +kubebuilder:printcolumn:name="Failed",type=integer,JSONPath=`.status.failed`
// +kubebuilder:printcolumn:name="Last Delivery",type=date,JSONPath=`.status.lastDeliveryTime`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ReportSink struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// Spec states which reports are delivered, and where.
	// +required
	Spec ReportSinkSpec `json:"spec"`
	// Status is the observed state.
	// +optional
	Status ReportSinkStatus `json:"status,omitzero"`
}

// ReportSinkList is a list of ReportSinks.
//
// +kubebuilder:object:root=true
type ReportSinkList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitzero"`
	// Items are the sinks.
	Items []ReportSink `json:"items"`
}
