package controllertest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var marker = regexp.MustCompile(`(?m)^// \+kubebuilder:rbac:groups=([^,]*),resources=([^,]*),verbs=([^,\n]*)$`)

// Restricted is the way to the API server of somebody with the rights alone that the markers in the working directory ask for.
func Restricted(t *testing.T) *rest.Config {
	t.Helper()
	admin, g := Config(t), gomega.NewWithT(t)
	c, err := client.New(admin, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	rules := markers(t)
	name := strings.ToLower(strings.ReplaceAll(t.Name(), "/", "-"))
	user := rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}
	meta := metav1.ObjectMeta{GenerateName: name + "-"}
	role := &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules}
	if err := c.Create(t.Context(), role); err != nil {
		t.Fatal(err)
	}
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name}
	if err := c.Create(t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: meta, Subjects: []rbacv1.Subject{user}, RoleRef: ref}); err != nil {
		t.Fatal(err)
	}
	admin.Impersonate = rest.ImpersonationConfig{UserName: name}
	restricted, err := client.New(admin, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	// The API server learns of rights with a delay.
	g.Eventually(func() (bool, error) {
		resource, subresource, _ := strings.Cut(rules[0].Resources[0], "/")
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Group: rules[0].APIGroups[0], Resource: resource, Subresource: subresource, Verb: rules[0].Verbs[0],
			},
		}}
		err := restricted.Create(t.Context(), review)
		return review.Status.Allowed, err
	}, Patience, Tick).Should(gomega.BeTrue())
	return admin
}

// markers reads the rules from the Go files of the working directory.
func markers(t *testing.T) []rbacv1.PolicyRule {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var rules []rbacv1.PolicyRule
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range marker.FindAllStringSubmatch(string(source), -1) {
			rules = append(rules, rbacv1.PolicyRule{
				APIGroups: []string{strings.Trim(m[1], `"`)}, Resources: strings.Split(m[2], ";"), Verbs: strings.Split(m[3], ";"),
			})
		}
		if n := strings.Count(string(source), "+kubebuilder:rbac:"); n > 0 && n != len(marker.FindAllString(string(source), -1)) {
			t.Fatalf("%s has markers of rights that are not understood", file)
		}
	}
	if len(rules) == 0 {
		t.Fatal("no markers of rights in this directory")
	}
	return rules
}
