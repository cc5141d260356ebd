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

// The operator may write exceptions only if users are to write them through it.
func TestOperatorWritesExceptions(t *testing.T) {
	for values, want := range map[string]bool{"": true, "api: {writeExceptions: false}": false} {
		rights := expand(rules(render(t, values))[""])
		for _, resource := range []string{"scanner.zoltankerezsi.xyz/clustervulnerabilityexceptions ", "scanner.zoltankerezsi.xyz/vulnerabilityexceptions "} {
			for _, verb := range []string{"get", "create", "update", "delete"} {
				if rights[resource+verb] != want {
					t.Errorf("%q: the operator may %s %s: %t, want %t", values, verb, resource, !want, want)
				}
			}
			if !rights[resource+"list"] || rights[resource+"patch"] || rights[resource+"deletecollection"] {
				t.Errorf("%q: the operator may not list %s, or has a right that it does not use", values, resource)
			}
		}
	}
}

// Users who may run pods may not thereby suppress findings or change deadlines: the role for exceptions and policies is part of admin, not of edit.
func TestRightsToExceptions(t *testing.T) {
	for _, role := range find[*rbacv1.ClusterRole](render(t, "")) {
		if role.Name == "scanner-manager-role" {
			continue // TestOperatorWritesExceptions
		}
		for _, resource := range []string{"clustervulnerabilityexceptions", "vulnerabilityexceptions", "vexsources", "vulnerabilitypolicies", "clusternotificationrules", "reportsinks"} {
			checkRightsToExceptions(t, role, "scanner.zoltankerezsi.xyz/"+resource+" ")
		}
	}
}

func checkRightsToExceptions(t *testing.T, role *rbacv1.ClusterRole, resource string) {
	t.Helper()
	rights := expand(role.Rules)
	writes := false
	for _, verb := range []string{"create", "update", "patch", "delete", "deletecollection", "*"} {
		writes = writes || rights[resource+verb]
	}
	if want := role.Name == "scanner-operator-exceptions"; writes != want {
		t.Errorf("%s writes exceptions: %t, want %t", role.Name, writes, want)
	}
	if writes && (role.Labels["rbac.authorization.k8s.io/aggregate-to-edit"] != "" || role.Labels["rbac.authorization.k8s.io/aggregate-to-admin"] != "true") {
		t.Errorf("%s has the labels %v, want it to be aggregated to admin alone", role.Name, role.Labels)
	}
	if role.Name == "scanner-operator-viewer" && !rights[resource+"list"] {
		t.Errorf("%s may not list exceptions", role.Name)
	}
}
