package plugin

import (
	"net/http"
	"strings"
	"testing"
)

// TestDecisionQueries expects that each flag of decisions becomes a parameter of the API, and that the namespace of the context does not hide decisions of
// the cluster.
func TestDecisionQueries(t *testing.T) {
	for _, test := range []struct {
		arguments []string
		want      string
	}{
		{nil, "pageSize=1000&sort=-since&state=standing"},
		{[]string{"-A", "-n", "shop"}, "pageSize=1000&sort=-since&state=standing"},
		{[]string{"-n", "shop"}, "namespace=shop&pageSize=1000&sort=-since&state=standing"},
		{[]string{"wait", "--state", "all", "--sort", "name"}, "name=wait&pageSize=1000&sort=name&state=all"},
		{
			[]string{"--status", "Fixed", "--status", "NotAffected", "--source", "vex", "--kind", "VEXSource", "--expiring-within", "0"},
			"expiringWithin=0&kind=VEXSource&pageSize=1000&sort=-since&source=vex&state=standing&status=Fixed&status=NotAffected",
		},
		{[]string{"--vulnerability", "CVE-2021-44228", "--author", "alice", "--limit", "3"}, "author=alice&pageSize=3&sort=-since&state=standing&vulnerability=CVE-2021-44228"},
	} {
		var query string
		c := newCluster(t, func(w http.ResponseWriter, r *http.Request) {
			query = r.URL.RawQuery
			_, _ = w.Write([]byte(`{"items":[],"total":0}`))
		})
		if _, _, err := c.run(append([]string{"decisions"}, test.arguments...)...); err != nil || query != test.want {
			t.Errorf("%v: %v, asked for %q, want %q", test.arguments, err, query, test.want)
		}
	}
	for want, arguments := range map[string][]string{
		"overdue=true": {"findings", "x@sha256:" + digest, "--overdue"}, "dueBefore=2026-11-30T12%3A00%3A00Z": {"findings", "x@sha256:" + digest, "--due-within", "7"},
		"overdue=true&": {"images", "--overdue"},
	} {
		var query string
		c := newCluster(t, func(w http.ResponseWriter, r *http.Request) {
			query = r.URL.RawQuery
			_, _ = w.Write([]byte(`{"items":[],"total":0}`))
		})
		if _, _, err := c.run(arguments...); err != nil || !strings.Contains(query, want) {
			t.Errorf("%v: %v, asked for %q, want %q", arguments, err, query, want)
		}
	}
}

// TestDecisionCompletion completes the names of objects, each once.
func TestDecisionCompletion(t *testing.T) {
	c := newCluster(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"total":4,"items":[{"object":{"name":"accepted"}},{"object":{"name":"accepted"}},{"object":{"name":"accepted-$(reboot)"}},{"object":{"name":"other"}}]}`))
	})
	command := Command("kubectl_complete-scanner", []string{"decisions", "--service-account", "viewer", "--kubeconfig", c.kubeconfig(), "acc"})
	var out strings.Builder
	command.SetOut(&out)
	command.SetErr(&out)
	if err := command.ExecuteContext(t.Context()); err != nil || !strings.HasPrefix(out.String(), "accepted\n:4\n") {
		t.Errorf("%q, %v", out.String(), err)
	}
}

// TestNamespaceCompletion: who may not list the namespaces of the cluster gets those that the operator shows.
func TestNamespaceCompletion(t *testing.T) {
	c := newCluster(t, func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/api/v1/session") {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write([]byte(`{"authenticated":true,"namespaces":{"all":false,"names":["bank","shop","shop-$(reboot)","shop-test"],"visible":4}}`))
	})
	command := Command("kubectl_complete-scanner", []string{"images", "--service-account", "viewer", "--kubeconfig", c.kubeconfig(), "--namespace", "sh"})
	var out strings.Builder
	command.SetOut(&out)
	command.SetErr(&out)
	if err := command.ExecuteContext(t.Context()); err != nil || !strings.HasPrefix(out.String(), "shop\nshop-test\n:4\n") {
		t.Errorf("%q, %v", out.String(), err)
	}
}
