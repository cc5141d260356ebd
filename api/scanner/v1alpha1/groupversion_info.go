// Package v1alpha1 holds VulnerabilityException and ClusterVulnerabilityException: which findings do not count, where, and why.
//
// +kubebuilder:object:generate=true
// +groupName=scanner.zoltankerezsi.xyz
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	// GroupVersion is the group and version of the types in this package.
	GroupVersion = schema.GroupVersion{Group: "scanner.zoltankerezsi.xyz", Version: "v1alpha1"}

	// SchemeBuilder collects the functions that add the types of this package to a scheme.
	SchemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

	// AddToScheme adds the types of this package to a scheme.
	AddToScheme = SchemeBuilder.AddToScheme
)

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&ClusterVulnerabilityException{}, &ClusterVulnerabilityExceptionList{}, &VulnerabilityPolicy{}, &VulnerabilityPolicyList{},
		&VEXSource{}, &VEXSourceList{}, &VulnerabilityException{}, &VulnerabilityExceptionList{},
		&NotificationRule{}, &NotificationRuleList{}, &ClusterNotificationRule{}, &ClusterNotificationRuleList{}, &ReportSink{}, &ReportSinkList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
