// Package v444beta989 holds the BellerophonSimple: a stateful application with stable names and its own volumes.
//
// +kubebuilder:object:generate=true
// +groupName=stable.simple-bellerophon.io
package v444beta989

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	// GroupVersion is the group and version of the types in this package.
	GroupVersion = schema.GroupVersion{Group: "stable.simple-bellerophon.io", Version: "v444beta989"}

	// SchemeBuilder collects the functions that add the types of this package to a scheme.
	SchemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

	// AddToScheme adds the types of this package to a scheme.
	AddToScheme = SchemeBuilder.AddToScheme
)

// Resource returns the group resource of a plural name of this group.
func Resource(plural string) schema.GroupResource {
	return GroupVersion.WithResource(plural).GroupResource()
}

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &BellerophonSimple{}, &BellerophonSimpleList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
