package v1alpha1

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AnnotationAuthor names the user who decided what the spec of an exception states. The API of the operator sets it. An admission policy ensures that
// other clients name nobody but themselves.
const AnnotationAuthor = "scanner.zoltankerezsi.xyz/author"

// The condition types of an exception.
const (
	// ConditionApplied is True when the exception is in effect. Its reason is an AppliedReason.
	ConditionApplied = "Applied"
	// ConditionUsed is True when the exception matches findings.
	ConditionUsed = "Used"
)

// AppliedReason is the reason of the condition Applied.
type AppliedReason string

// The reasons of the condition Applied.
const (
	// Applied: the exception is in effect.
	Applied AppliedReason = "Applied"
	// DryRun: the matches are counted only, as spec.mode says.
	DryRun AppliedReason = "DryRun"
	// Expired: spec.expiresAt has passed.
	Expired AppliedReason = "Expired"
	// TooBroad: the exception matches more findings than the bounds allow.
	TooBroad AppliedReason = "TooBroad"
	// TooMany: there are more exceptions than the bounds allow, or more different selectors of workloads, and this is one of the newest.
	TooMany AppliedReason = "TooMany"
	// Invalid: the exception cannot be read. The message of the condition states the problem.
	Invalid AppliedReason = "Invalid"
)

// The reasons of the condition Used.
const (
	// ReasonFindingsMatched: findings match.
	ReasonFindingsMatched = "FindingsMatched"
	// ReasonNoFindings: no finding matches.
	ReasonNoFindings = "NoFindings"
	// ReasonNotInEffect: the exception has expired, or cannot be applied.
	ReasonNotInEffect = "NotInEffect"
)

// FindingStatus is what an exception states about the findings that it matches.
type FindingStatus string

// The statuses of findings.
const (
	// NotAffected findings are in the image, but the vulnerability cannot be exploited.
	NotAffected FindingStatus = "NotAffected"
	// FalsePositive findings are errors of the match: the package does not have the vulnerability.
	FalsePositive FindingStatus = "FalsePositive"
	// AcceptedRisk findings are real, and are not fixed for now.
	AcceptedRisk FindingStatus = "AcceptedRisk"
	// UnderInvestigation findings are not decided yet. They are not suppressed.
	UnderInvestigation FindingStatus = "UnderInvestigation"
	// Fixed findings have been fixed in the package, for example by a patch that keeps the version.
	Fixed FindingStatus = "Fixed"
)

// Justification is why findings are NotAffected. The values are those of VEX.
type Justification string

// Mode is whether an exception suppresses findings.
type Mode string

// The modes of exceptions.
const (
	// ModeApply suppresses the findings that match.
	ModeApply Mode = "Apply"
	// ModeDryRun counts the findings that match, and suppresses none.
	ModeDryRun Mode = "DryRun"
)

// ExceptionSpec states which findings an exception concerns, and what it says about them.
//
// +kubebuilder:validation:XValidation:rule="self.status == 'NotAffected' ? has(self.justification) || has(self.comment) : !has(self.justification)",message="status NotAffected needs a justification or a comment, and other statuses have no justification"
// +kubebuilder:validation:XValidation:rule="self.status != 'AcceptedRisk' || has(self.comment)",message="status AcceptedRisk needs a comment that states why"
type ExceptionSpec struct {
	// Match states which findings the exception concerns.
	// +required
	Match ExceptionMatch `json:"match"`

	// Status is what the exception states about the findings. Findings that are NotAffected, FalsePositive, AcceptedRisk or Fixed are
	// suppressed: they are left out of lists and counts. UnderInvestigation suppresses nothing, and is shown with the findings.
	// +required
	// +kubebuilder:validation:Enum=NotAffected;FalsePositive;AcceptedRisk;UnderInvestigation;Fixed
	Status FindingStatus `json:"status"`

	// Justification is why the findings are NotAffected.
	// +optional
	// +kubebuilder:validation:Enum=component_not_present;vulnerable_code_not_present;vulnerable_code_not_in_execute_path;vulnerable_code_cannot_be_controlled_by_adversary;inline_mitigations_already_exist
	Justification Justification `json:"justification,omitempty"`

	// Comment is the reason in words. Everybody who sees a finding can read it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Comment string `json:"comment,omitempty"`

	// ExpiresAt is when the exception ends. From then on the findings count again. Defaults to no end.
	// +optional
	ExpiresAt Timestamp `json:"expiresAt,omitempty"`

	// ExpireWhenFixed ends the exception for each finding that has a fix: only findings without a fix match.
	// +optional
	ExpireWhenFixed bool `json:"expireWhenFixed,omitempty"`

	// Mode is Apply, or DryRun to count the findings that match without suppressing them.
	// +optional
	// +kubebuilder:default=Apply
	// +kubebuilder:validation:Enum=Apply;DryRun
	Mode Mode `json:"mode,omitempty"`
}

// End returns when the exception ends, the zero time if it has no end. It fails if expiresAt is no time.
func (s *ExceptionSpec) End() (time.Time, error) {
	if s.ExpiresAt == "" {
		return time.Time{}, nil
	}
	end, err := s.ExpiresAt.Time()
	if err == nil && end.IsZero() {
		// The zero time is an end like any other, and not none.
		end = time.Unix(0, 0)
	}
	return end, err
}

// Timestamp is a time in the format of RFC 3339. It is the text that users wrote, and not a metav1.Time: the format date-time of an API server permits texts
// that metav1.Time cannot be decoded from, and one object that cannot be decoded keeps all others of its kind from being listed and watched.
//
// +kubebuilder:validation:Format=date-time
// +kubebuilder:validation:MaxLength=64
// +kubebuilder:validation:Pattern=`^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$`
type Timestamp string

// Time returns the time.
func (t Timestamp) Time() (time.Time, error) {
	at, err := time.Parse(time.RFC3339, string(t))
	if err != nil {
		return time.Time{}, fmt.Errorf("%.64q is not a time such as 2027-03-31T00:00:00Z", string(t))
	}
	return at, nil
}

// ExceptionMatch selects findings. A finding matches if its vulnerability is one of the vulnerabilities, its package is one of the packages and its
// image is one of the images; an empty list matches all. The selectors limit the exception to the namespaces and the workloads that run the image there.
//
// +kubebuilder:validation:XValidation:rule="!has(self.images) || self.images.all(i, i.matches('^sha(256:[a-f0-9]{64}|512:[a-f0-9]{128})$') || !i.matches('^([^@]*/)?[^/@]+:[^/@]*(@.*)?$'))",message="an image has a tag: remove it, because a tag can be moved to another image; to name one image, use its digest"
// +kubebuilder:validation:XValidation:rule="!has(self.images) || self.images.all(i, i == '*' || i.startsWith('*@') || i.matches('^sha(256:[a-f0-9]{64}|512:[a-f0-9]{128})$') || i.matches('^(localhost|[^/@]*[.:*][^/@]*)/'))",message="an image begins with its registry, for example docker.io/library/nginx"
// +kubebuilder:validation:XValidation:rule="has(self.vulnerabilities) && size(self.vulnerabilities) > 0 || has(self.packages) && size(self.packages) > 0",message="name a vulnerability or a package"
type ExceptionMatch struct {
	// Vulnerabilities are IDs or aliases, for example CVE-2024-3094 or GHSA-rxwq-x6h5-x525.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MaxLength=128
	// +kubebuilder:validation:items:Pattern=`^[A-Za-z][A-Za-z0-9._:/+-]{2,127}$`
	Vulnerabilities []string `json:"vulnerabilities,omitempty"`

	// Packages are package URLs without qualifiers and subpath. A * at the end of a segment or of the version stands for any characters,
	// for example pkg:deb/debian/openssl, pkg:npm/%40angular/* or pkg:golang/golang.org/x/net@v0.1*. Without a version they match every version.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=50
	// +kubebuilder:validation:items:MaxLength=512
	// +kubebuilder:validation:items:Pattern=`^pkg:[a-z][a-z0-9.+-]*(/(@?[^/?#@*\s]+\*?|\*))+(@([^/?#*\s]+\*?|\*))?$`
	Packages []string `json:"packages,omitempty"`

	// Images are repositories with their registry, digests, or both, as the kubelet reports them in the pod's status. A * at the end of a
	// segment stands for any characters, a last segment that is only * for all repositories below, and a * in place of the repository for all of
	// them: registry.example.com/team-a/*, docker.io/library/nginx, *@sha256:... or sha256:... Tags are refused: a tag is what the
	// author of a pod writes, and it can be moved to another image.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=50
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=512
	// +kubebuilder:validation:items:Pattern=`^([^@\s]+|([^@\s]+@)?sha(256:[a-f0-9]{64}|512:[a-f0-9]{128}))$`
	Images []string `json:"images,omitempty"`

	// NamespaceSelector limits a ClusterVulnerabilityException to namespaces, by their labels. An image that runs in other namespaces, too, stays
	// open there. A VulnerabilityException has none: it applies in its own namespace. An empty selector selects all namespaces.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.matchLabels) || size(self.matchLabels) <= 20",message="at most 20 matchLabels"
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || size(self.matchExpressions) <= 20 && self.matchExpressions.all(e, !has(e.values) || size(e.values) <= 50)",message="at most 20 matchExpressions with at most 50 values each"
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`

	// WorkloadSelector limits the exception to workloads, by the labels of their pods: a workload is selected if all of its pods that have not ended
	// match. An image that other workloads run, too, stays open there. An empty selector selects all workloads.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.matchLabels) || size(self.matchLabels) <= 20",message="at most 20 matchLabels"
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || size(self.matchExpressions) <= 20 && self.matchExpressions.all(e, !has(e.values) || size(e.values) <= 50)",message="at most 20 matchExpressions with at most 50 values each"
	WorkloadSelector *metav1.LabelSelector `json:"workloadSelector,omitempty"`
}

// ExceptionStatus is the observed state of an exception.
type ExceptionStatus struct {
	// ObservedGeneration is the metadata.generation that the status is based on.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions are Applied and Used.
	// +optional
	// +patchMergeKey=type
	// +patchStrategy=merge
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`

	// MatchedFindings is the number of current findings in images that match. A vulnerability of a package is counted once per image. It is
	// counted at most once a minute. Not set until it has been counted, and when the reason of Applied is Expired,
	// Invalid, TooBroad or TooMany.
	// +optional
	// +kubebuilder:validation:Minimum=0
	MatchedFindings *int64 `json:"matchedFindings,omitempty"`

	// SuppressedFindings is the number of these findings that the exception suppresses: all or, with DryRun and UnderInvestigation, none.
	// +optional
	// +kubebuilder:validation:Minimum=0
	SuppressedFindings *int64 `json:"suppressedFindings,omitempty"`

	// Unused is true when the exception has applied for at least 24 hours and matches no finding now.
	// +optional
	Unused bool `json:"unused,omitempty"`

	// Expired is true when spec.expiresAt has passed.
	// +optional
	Expired bool `json:"expired,omitempty"`
}

// ClusterVulnerabilityException states that findings do not count, in all namespaces or in those that it selects: why, and until when.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=clustervulnerabilityexceptions,singular=clustervulnerabilityexception,scope=Cluster,shortName=cvex,categories=all-security
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.spec.status`
// +kubebuilder:printcolumn:name="Applied",type=string,JSONPath=`.status.conditions[?(@.type=="Applied")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Applied")].reason`
// +kubebuilder:printcolumn:name="Matched",type=integer,JSONPath=`.status.matchedFindings`
// +kubebuilder:printcolumn:name="Suppressed",type=integer,JSONPath=`.status.suppressedFindings`
// +kubebuilder:printcolumn:name="Unused",type=boolean,JSONPath=`.status.unused`,priority=1
// +kubebuilder:printcolumn:name="Expires",type=string,JSONPath=`.spec.expiresAt`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ClusterVulnerabilityException struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// Spec states which findings the exception concerns, and what it says about them.
	// +required
	Spec ExceptionSpec `json:"spec"`
	// Status is the observed state.
	// +optional
	Status ExceptionStatus `json:"status,omitzero"`
}

// ClusterVulnerabilityExceptionList is a list of ClusterVulnerabilityExceptions.
//
// +kubebuilder:object:root=true
type ClusterVulnerabilityExceptionList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitzero"`
	// Items are the exceptions.
	Items []ClusterVulnerabilityException `json:"items"`
}

// VulnerabilityException states that findings do not count in its namespace: why, and until when.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=vulnerabilityexceptions,singular=vulnerabilityexception,shortName=vulnex,categories=all-security
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.spec.status`
// +kubebuilder:printcolumn:name="Applied",type=string,JSONPath=`.status.conditions[?(@.type=="Applied")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Applied")].reason`
// +kubebuilder:printcolumn:name="Matched",type=integer,JSONPath=`.status.matchedFindings`
// +kubebuilder:printcolumn:name="Suppressed",type=integer,JSONPath=`.status.suppressedFindings`
// +kubebuilder:printcolumn:name="Unused",type=boolean,JSONPath=`.status.unused`,priority=1
// +kubebuilder:printcolumn:name="Expires",type=string,JSONPath=`.spec.expiresAt`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type VulnerabilityException struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// Spec states which findings the exception concerns, and what it says about them.
	// +required
	// +kubebuilder:validation:XValidation:rule="!has(self.match.namespaceSelector)",message="a VulnerabilityException has no namespaceSelector: it applies in its own namespace; use a ClusterVulnerabilityException for others"
	Spec ExceptionSpec `json:"spec"`
	// Status is the observed state.
	// +optional
	Status ExceptionStatus `json:"status,omitzero"`
}

// VulnerabilityExceptionList is a list of VulnerabilityExceptions.
//
// +kubebuilder:object:root=true
type VulnerabilityExceptionList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitzero"`
	// Items are the exceptions.
	Items []VulnerabilityException `json:"items"`
}
