package chart_test

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
)

// Those who are bound to the roles for people have what the operator's API asks for.
func TestRolesOfPeople(t *testing.T) {
	rights := map[string]map[string]bool{}
	for _, role := range find[*rbacv1.ClusterRole](render(t, "")) {
		rights[role.Name] = expand(role.Rules)
	}
	for role, verbs := range map[string]map[string]bool{
		"scanner-operator-viewer": {"get": true, "list": true, "watch": true, "update": false, "delete": false, "create": false},
		"scanner-operator-editor": {"get": true, "list": true, "watch": true, "update": true, "delete": true, "create": true},
	} {
		for _, resource := range []string{"scanners", "scanresults"} {
			for verb, want := range verbs {
				if got := rights[role]["scanner.zoltankerezsi.xyz/"+resource+" "+verb]; got != want {
					t.Errorf("%s may %s %s: %t, want %t", role, verb, resource, got, want)
				}
			}
		}
	}
}
