package decisions

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/scanner-operator/scanner-operator/internal/setup"
	"github.com/scanner-operator/scanner-operator/internal/setup/setuptest"
)

// TestVEXUploads uploads a VEX document with the rights that the chart gives to users, and finds it after a restart of the operator, which needs no
// right for that.
func TestVEXUploads(t *testing.T) {
	// Not parallel: VEX documents concern a whole cluster.
	admin, c := strictCluster(t)
	g, own := gomega.NewWithT(t), namespace(t, c)
	values := "tls: {enabled: false}\ncontrollers: {scanner: false, podset: false, mycustomresource: false, bellerophonsimple: false, rollout: false}\n"
	config, _ := setuptest.InstallRights(t, admin, c, own, values)
	asked := &setuptest.Usage{}
	config.Wrap(asked.Wrap)
	data := t.TempDir()
	start := func() (string, func()) {
		return startOperatorOn(t, config, own, data, func(o *setup.Options) {
			o.WatchNamespaces, o.Controllers = nil, []string{setup.ControllerVEXSources}
			o.LeaderElection = true
		})
	}
	api, stop := start()
	tokens := map[string]string{}
	for user, verbs := range map[string][]string{"reader": {"get", "list"}, "uploader": {"get", "list", "create", "update", "delete"}} {
		create(t, c, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: own, Name: user}})
		create(t, c, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: own + "-" + user}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"scanner.zoltankerezsi.xyz"}, Resources: []string{"scanresults"}, Verbs: []string{"get", "list"}},
			{APIGroups: []string{"scanner.zoltankerezsi.xyz"}, Resources: []string{"vexsources"}, Verbs: verbs},
		}})
		create(t, c, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: own + "-" + user}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: own + "-" + user},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: own, Name: user}},
		})
		tokens[user] = tokenOf(t, c, own, user)
	}
	const document = `{"@context": "https://openvex.dev/ns/v0.2.0", "@id": "x", "author": "Vendor", "timestamp": "2026-01-01T00:00:00Z", "version": 1,
		"statements": [{"vulnerability": {"name": "CVE-1900-1"}, "status": "fixed", "products": [{"@id": "pkg:npm/absent"}]}]}`
	do := func(user, method, path, body string) (int, string) {
		t.Helper()
		return setuptest.Ask(t, method, api+path, body, tokens[user], "Content-Type", "application/json")
	}
	const one = "/api/v1/vex/ours"
	status, answer := do("reader", http.MethodPut, one, document)
	g.Expect(status).To(gomega.Equal(http.StatusForbidden), answer)
	status, answer = do("uploader", http.MethodPut, one, document)
	g.Expect(status).To(gomega.Equal(http.StatusOK), answer)
	status, _ = do("reader", http.MethodDelete, one, "")
	g.Expect(status).To(gomega.Equal(http.StatusForbidden))
	list := func() (names []string) {
		t.Helper()
		status, answer := do("reader", http.MethodGet, "/api/v1/vex", "")
		g.Expect(status).To(gomega.Equal(http.StatusOK), answer)
		var all struct {
			Items []struct{ Kind, Name, Author string }
		}
		g.Expect(json.Unmarshal([]byte(answer), &all)).To(gomega.Succeed())
		for _, d := range all.Items {
			names = append(names, strings.Join([]string{d.Kind, d.Name, d.Author}, " "))
		}
		return names
	}
	author := "system:serviceaccount:" + own + ":uploader"
	g.Expect(list()).To(gomega.ConsistOf("VEXDocument ours " + author))
	var decisions struct{ Total int }
	status, answer = do("reader", http.MethodGet, "/api/v1/decisions?source=vex", "")
	g.Expect(status).To(gomega.Equal(http.StatusOK), answer)
	g.Expect(json.Unmarshal([]byte(answer), &decisions)).To(gomega.Succeed())
	g.Expect(decisions.Total).To(gomega.Equal(1))

	stop()
	api, stop = start()
	defer stop()
	g.Expect(list()).To(gomega.ConsistOf("VEXDocument ours " + author))
	status, answer = do("reader", http.MethodGet, one, "")
	g.Expect(status).To(gomega.Equal(http.StatusOK))
	g.Expect(answer).To(gomega.Equal(document))
	status, _ = do("uploader", http.MethodDelete, one, "")
	g.Expect(status).To(gomega.Equal(http.StatusNoContent))
	g.Expect(list()).To(gomega.BeEmpty())
	asked.CheckRefused(t)
}
