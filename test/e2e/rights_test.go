//go:build e2e

package e2e

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func operatorServiceAccount(t *testing.T) string {
	t.Helper()
	var deployments appsv1.DeploymentList
	if err := e2e.client.List(t.Context(), &deployments, client.InNamespace(operatorNamespace)); err != nil {
		t.Fatal(err)
	}
	if len(deployments.Items) != 1 {
		t.Fatalf("%d Deployments in %s, want 1", len(deployments.Items), operatorNamespace)
	}
	return deployments.Items[0].Spec.Template.Spec.ServiceAccountName
}

func allowed(t *testing.T, user, verb, group, resource string) bool {
	t.Helper()
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user, Groups: []string{"system:serviceaccounts", "system:authenticated"},
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: "default", Verb: verb, Group: group, Resource: resource},
	}}
	create(t, review)
	return review.Status.Allowed
}
