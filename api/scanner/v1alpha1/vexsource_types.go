package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The condition types of a VEXSource, besides ConditionApplied.
const (
	// ConditionFetched is True when the last attempt to fetch the documents succeeded.
	ConditionFetched = "Fetched"
	// ConditionValid is True when the documents that were fetched last can be read, and their signatures verify. A VulnerabilityPolicy has it, too.
	ConditionValid = "Valid"
)

// The reasons of the conditions of a VEXSource, besides those of ConditionApplied.
const (
	// ReasonFetched: the documents were fetched, or have not changed since.
	ReasonFetched = "Fetched"
	// ReasonFetchFailed: the documents could not be fetched. The message states the problem.
	ReasonFetchFailed = "FetchFailed"
	// ReasonDocumentsValid: the documents can be read.
	ReasonDocumentsValid = "DocumentsValid"
	// ReasonDocumentsInvalid: a document is refused. The message states which one and why.
	ReasonDocumentsInvalid = "DocumentsInvalid"
	// ReasonSignatureInvalid: the key in spec.signature verifies no signature of a document.
	ReasonSignatureInvalid = "SignatureInvalid"
	// ReasonNotFetched: no valid document has been fetched for this spec.
	ReasonNotFetched = "NotFetched"
)

// VEXFormat is the format of a VEX document.
type VEXFormat string

// The formats of VEX documents.
const (
	VEXFormatOpenVEX   VEXFormat = "OpenVEX"
	VEXFormatCSAF      VEXFormat = "CSAF"
	VEXFormatCycloneDX VEXFormat = "CycloneDX"
)

// ExportedDecisions says what applies of the decisions that scanner-operator has exported as a VEX document.
type ExportedDecisions string

// The values of ExportedDecisions.
const (
	// ExportedDecisionsStatusOnly: the VEX status of the statements applies, as for all documents. Accepted risks suppress nothing, and decisions do not end.
	ExportedDecisionsStatusOnly ExportedDecisions = "StatusOnly"
	// ExportedDecisionsFull: the decisions apply as exceptions do, including accepted risks, and end when they state.
	ExportedDecisionsFull ExportedDecisions = "Full"
)

// VEXSourceSpec states where VEX documents are.
//
// +kubebuilder:validation:XValidation:rule="[has(self.http), has(self.oci), has(self.configMap)].filter(x, x).size() == 1",message="set exactly one of http, oci and configMap"
// +kubebuilder:validation:XValidation:rule="!has(self.signature) || !has(self.configMap)",message="a ConfigMap has no signature: remove signature"
type VEXSourceSpec struct {
	// HTTP is a document at a URL.
	// +optional
	HTTP *VEXSourceHTTP `json:"http,omitempty"`

	// OCI is an artifact in a registry.
	// +optional
	OCI *VEXSourceOCI `json:"oci,omitempty"`

	// ConfigMap is a document in a ConfigMap in the namespace of the operator.
	// +optional
	ConfigMap *VEXSourceConfigMap `json:"configMap,omitempty"`

	// Interval is the time between two fetches, from 1m to 168h.
	// +optional
	// +kubebuilder:default="1h"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1m') && duration(self) <= duration('168h')",message="interval must be from 1m to 168h"
	Interval *metav1.Duration `json:"interval,omitempty"`

	// Formats are the formats that documents may have. Defaults to all.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=3
	// +kubebuilder:validation:items:Enum=OpenVEX;CSAF;CycloneDX
	Formats []VEXFormat `json:"formats,omitempty"`

	// Signature requires that the documents are signed.
	// +optional
	Signature *VEXSourceSignature `json:"signature,omitempty"`

	// ExportedDecisions says what applies of the decisions in documents that scanner-operator has exported. With Full they apply as exceptions do: accepted
	// risks suppress findings, each decision ends when it states, and other VEX statements do not override it. Use Full only for documents of your own
	// clusters: who can change them decides which risks are accepted here. With StatusOnly, the default, only the VEX status of their statements applies, as
	// for all documents. Statements without a decision of scanner-operator are the same with both.
	// +optional
	// +kubebuilder:default=StatusOnly
	// +kubebuilder:validation:Enum=StatusOnly;Full
	ExportedDecisions ExportedDecisions `json:"exportedDecisions,omitempty"`
}

// VEXSourceHTTP is a document at a URL.
type VEXSourceHTTP struct {
	// URL of the document, with the scheme https.
	// +required
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="isURL(self) && url(self).getScheme() == 'https' && url(self).getHostname() != '' && !self.matches('^https://[^/]*@') && !self.contains('#')",message="url must be https://HOST/PATH without a user name, a password and a fragment"
	URL string `json:"url"`

	// CABundle holds certificate authorities in PEM that are trusted in addition to those of the system.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=65536
	CABundle string `json:"caBundle,omitempty"`
}

// VEXSourceOCI is an artifact in a registry. The registry is reached as those of images are.
type VEXSourceOCI struct {
	// Reference is REGISTRY/REPOSITORY:TAG or REGISTRY/REPOSITORY@DIGEST. Its layers with VEX documents are read, and in-toto attestations with
	// OpenVEX as predicate, either as layers or as referrers.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9.-]+(:[0-9]+)?/[a-z0-9._/-]+(:[A-Za-z0-9._-]+)?(@sha256:[0-9a-f]{64})?$`
	Reference string `json:"reference"`
}

// VEXSourceConfigMap is a document in a ConfigMap in the namespace of the operator.
type VEXSourceConfigMap struct {
	// Name of the ConfigMap.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	Name string `json:"name"`

	// Key of the document.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[-._a-zA-Z0-9]+$`
	Key string `json:"key"`
}

// VEXSourceSignature requires that documents are signed. With http, the signature is at the URL of the document with the suffix .sig: in Base64, as
// "cosign sign-blob" writes it. With oci, only attestations are read, and their envelopes are signed.
type VEXSourceSignature struct {
	// PublicKey is an ECDSA, Ed25519 or RSA key in PEM.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=8192
	// +kubebuilder:validation:XValidation:rule="self.startsWith('-----BEGIN PUBLIC KEY-----')",message="publicKey must be a public key in PEM"
	PublicKey string `json:"publicKey"`
}

// VEXSourceStatus is the observed state of a VEXSource.
type VEXSourceStatus struct {
	// ObservedGeneration is the metadata.generation that the status is based on.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions are Fetched, Valid and Applied. If Fetched or Valid is False, the statements that were fetched before still apply, unless spec states other
	// documents, formats or another signature since then.
	// +optional
	// +patchMergeKey=type
	// +patchStrategy=merge
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`

	// LastFetchTime is when documents were fetched last, or found unchanged.
	// +optional
	LastFetchTime *metav1.Time `json:"lastFetchTime,omitempty"`

	// Digest is that of the documents that apply.
	// +optional
	// +kubebuilder:validation:MaxLength=71
	Digest string `json:"digest,omitempty"`

	// Documents is the number of documents that apply, Statements that of their statements.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Documents int32 `json:"documents,omitempty"`
	// Statements is the number of statements in the documents.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Statements int32 `json:"statements,omitempty"`

	// Matched is the number of statements that decide about at least one current finding. It is counted at most once a minute.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Matched *int32 `json:"matched,omitempty"`
	// Unmatched is the number of the other statements.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Unmatched *int32 `json:"unmatched,omitempty"`

	// SuppressedFindings is the number of current findings in images that the statements suppress.
	// +optional
	// +kubebuilder:validation:Minimum=0
	SuppressedFindings *int64 `json:"suppressedFindings,omitempty"`

	// UnmatchedStatements are the first statements that decide about no finding.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	UnmatchedStatements []VEXUnmatchedStatement `json:"unmatchedStatements,omitempty"`
}

// VEXUnmatchedStatement is a statement that decides about no finding.
type VEXUnmatchedStatement struct {
	// Document is the name of the document within the source.
	// +optional
	// +kubebuilder:validation:MaxLength=255
	Document string `json:"document,omitempty"`
	// Position is where the document has the statement, for example statements[3].
	// +required
	// +kubebuilder:validation:MaxLength=255
	Position string `json:"position"`
	// Vulnerability is the ID in the statement.
	// +required
	// +kubebuilder:validation:MaxLength=255
	Vulnerability string `json:"vulnerability"`
	// Reason is NoFinding if no current finding is in its products or other statements override it, NotIdentified if its products have no PURL, CPE or
	// digest, Overridden if a newer statement of its author is about the same products, ImagesOnly if its products are images that are not named by a digest alone,
	// and Expired if it is a decision whose end is over.
	// +required
	// +kubebuilder:validation:Enum=NoFinding;NotIdentified;Overridden;ImagesOnly;Expired
	Reason string `json:"reason"`
}

// VEXSource states where VEX documents are. Their statements apply to the findings of all namespaces.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=vexsources,singular=vexsource,scope=Cluster,shortName=vex,categories=all-security
// +kubebuilder:printcolumn:name="Fetched",type=string,JSONPath=`.status.conditions[?(@.type=="Fetched")].status`
// +kubebuilder:printcolumn:name="Valid",type=string,JSONPath=`.status.conditions[?(@.type=="Valid")].status`
// +kubebuilder:printcolumn:name="Applied",type=string,JSONPath=`.status.conditions[?(@.type=="Applied")].status`
// +kubebuilder:printcolumn:name="Statements",type=integer,JSONPath=`.status.statements`
// +kubebuilder:printcolumn:name="Matched",type=integer,JSONPath=`.status.matched`
// +kubebuilder:printcolumn:name="Suppressed",type=integer,JSONPath=`.status.suppressedFindings`
// +kubebuilder:printcolumn:name="Last Fetch",type=date,JSONPath=`.status.lastFetchTime`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type VEXSource struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// Spec states where the documents are.
	// +required
	Spec VEXSourceSpec `json:"spec"`
	// Status is the observed state.
	// +optional
	Status VEXSourceStatus `json:"status,omitzero"`
}

// VEXSourceList is a list of VEXSources.
//
// +kubebuilder:object:root=true
type VEXSourceList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitzero"`
	// Items are the sources.
	Items []VEXSource `json:"items"`
}
