package decisions

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scannerv1alpha1 "github.com/scanner-operator/scanner-operator/api/scanner/v1alpha1"
	"github.com/scanner-operator/scanner-operator/internal/setup"
	"github.com/scanner-operator/scanner-operator/internal/setup/setuptest"
)

// concernsExceptions are the resources whose rights TestDecide shows to be needed.
var concernsExceptions = map[string]bool{
	"clustervulnerabilityexceptions": true, "clustervulnerabilityexceptions/status": true, "vulnerabilityexceptions": true, "vulnerabilityexceptions/status": true,
	"namespaces": true, "pods": true,
}

// decideInNamespace decides as the user tenant, who may write exceptions in one namespace only.
func decideInNamespace(t *testing.T, g *gomega.WithT, c client.Client, own string, do func(user, method, path string, body any) (int, map[string]any)) {
	t.Helper()
	const all, kind = "/api/v1/exceptions", "VulnerabilityException"
	one := all + "/" + kind + "/decided?namespace=" + own
	spec := map[string]any{
		"match":  map[string]any{"vulnerabilities": []string{"CVE-1999-0001"}, "workloadSelector": map[string]any{"matchLabels": map[string]string{"app": "web"}}},
		"status": "FalsePositive",
	}
	body := map[string]any{"kind": kind, "namespace": own, "name": "decided", "spec": spec}
	for namespace, reason := range map[string]string{own: "", metav1.NamespaceDefault: "NotPermitted"} {
		status, answer := do("tenant", http.MethodPost, all+"/preview", map[string]any{"kind": kind, "namespace": namespace, "spec": spec})
		g.Expect(status).To(gomega.Equal(http.StatusOK), "%v", answer)
		if reason == "" {
			g.Expect(answer["save"]).To(gomega.HaveKeyWithValue("allowed", true))
			g.Expect(answer["problems"]).To(gomega.BeEmpty())
		} else {
			g.Expect(answer["save"]).To(gomega.HaveKeyWithValue("reason", reason))
		}
	}
	status, _ := do("tenant", http.MethodPost, all, map[string]any{"kind": kind, "namespace": metav1.NamespaceDefault, "name": "decided", "spec": spec})
	g.Expect(status).To(gomega.Equal(http.StatusForbidden))
	status, _ = do("tenant", http.MethodPost, all, map[string]any{"kind": "ClusterVulnerabilityException", "name": "decided", "spec": spec})
	g.Expect(status).To(gomega.Equal(http.StatusForbidden))
	status, answer := do("tenant", http.MethodPost, all, body)
	g.Expect(status).To(gomega.Equal(http.StatusCreated), "%v", answer)
	var object scannerv1alpha1.VulnerabilityException
	g.Eventually(func(g gomega.Gomega) {
		g.Expect(c.Get(t.Context(), types.NamespacedName{Namespace: own, Name: "decided"}, &object)).To(gomega.Succeed())
		g.Expect(object.Status.Conditions).NotTo(gomega.BeEmpty())
	}, patience, tick).Should(gomega.Succeed())
	g.Expect(object.Annotations).To(gomega.HaveKeyWithValue(scannerv1alpha1.AnnotationAuthor, "system:serviceaccount:"+own+":tenant"))
	status, answer = do("tenant", http.MethodGet, one, nil)
	g.Expect(status).To(gomega.Equal(http.StatusOK))
	spec["status"] = "Fixed"
	status, answer = do("tenant", http.MethodPut, one, map[string]any{"version": answer["version"], "spec": spec})
	g.Expect(status).To(gomega.Equal(http.StatusOK), "%v", answer)
	version, _ := answer["version"].(string)
	status, _ = do("tenant", http.MethodDelete, one+"&version="+url.QueryEscape(version), nil)
	g.Expect(status).To(gomega.Equal(http.StatusNoContent))
	// Whether the change was applied before the deletion was asked for, later or never.
	g.Eventually(func(g gomega.Gomega) {
		status, answer := do("reader", http.MethodGet, "/api/v1/decisions?name=decided&state=ended&namespace="+own, nil)
		g.Expect(status).To(gomega.Equal(http.StatusOK), "%v", answer)
		g.Expect(answer["items"]).To(gomega.ContainElement(gomega.HaveKeyWithValue("deletedBy", "system:serviceaccount:"+own+":tenant")))
	}, patience, tick).Should(gomega.Succeed())
}

// TestDecide decides through the API, with the rights that the chart gives to the operator and to users: the operator uses all that it has for
// that, and writes for nobody who may not write.
func TestDecide(t *testing.T) {
	// Not parallel: exceptions concern a whole cluster.
	admin, c := strictCluster(t)
	g, own := gomega.NewWithT(t), namespace(t, c)
	values := "tls: {enabled: false}\ncontrollers: {scanner: false, podset: false, mycustomresource: false, bellerophonsimple: false, rollout: false}\n"
	config, granted := setuptest.InstallRights(t, admin, c, own, values)
	asked := &setuptest.Usage{}
	config.Wrap(asked.Wrap)
	api, stop := startOperatorOn(t, config, own, t.TempDir(), func(o *setup.Options) {
		o.WatchNamespaces, o.Controllers = nil, []string{setup.ControllerExceptions}
		o.LeaderElection, o.WriteExceptions, o.TrustExceptionAuthors = true, true, true
	})
	tokens := map[string]string{}
	for user, verbs := range map[string][]string{"reader": {"get"}, "decider": {"get", "create", "update", "delete"}, "patcher": {"get", "patch"}} {
		create(t, c, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: own, Name: user}})
		create(t, c, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: own + "-" + user}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"scanner.zoltankerezsi.xyz"}, Resources: []string{"scanresults"}, Verbs: []string{"get", "list"}},
			{APIGroups: []string{"scanner.zoltankerezsi.xyz"}, Resources: []string{"clustervulnerabilityexceptions"}, Verbs: verbs},
		}})
		create(t, c, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: own + "-" + user}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: own + "-" + user},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: own, Name: user}},
		})
		tokens[user] = tokenOf(t, c, own, user)
	}
	create(t, c, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: own, Name: "tenant"}})
	create(t, c, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: own, Name: "tenant"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"scanner.zoltankerezsi.xyz"}, Resources: []string{"vulnerabilityexceptions"}, Verbs: []string{"get", "create", "update", "delete"}},
	}})
	create(t, c, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: own, Name: "tenant"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "tenant"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: own, Name: "tenant"}},
	})
	// Nothing is recorded of the namespace, so that only a reader of the whole cluster has something to see.
	create(t, c, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: own + "-tenant"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: own + "-reader"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: own, Name: "tenant"}},
	})
	tokens["tenant"] = tokenOf(t, c, own, "tenant")
	do := func(user, method, path string, body any) (int, map[string]any) {
		t.Helper()
		content := ""
		if body != nil {
			text, err := json.Marshal(body)
			g.Expect(err).NotTo(gomega.HaveOccurred())
			content = string(text)
		}
		status, answer := setuptest.Ask(t, method, api+path, content, tokens[user], "Content-Type", "application/json")
		var parsed map[string]any
		if strings.HasPrefix(answer, "{") {
			g.Expect(json.Unmarshal([]byte(answer), &parsed)).To(gomega.Succeed())
		}
		return status, parsed
	}
	const all, kind = "/api/v1/exceptions", "ClusterVulnerabilityException"
	one := all + "/" + kind + "/decided"
	spec := map[string]any{"match": map[string]any{"vulnerabilities": []string{"CVE-1999-0001"}}, "status": "AcceptedRisk"}
	preview := map[string]any{"kind": kind, "spec": spec}

	status, answer := do("decider", http.MethodPost, all+"/preview", preview)
	g.Expect(status).To(gomega.Equal(http.StatusOK), "%v", answer)
	g.Expect(answer["save"]).To(gomega.HaveKeyWithValue("allowed", true))
	g.Expect(answer["problems"]).To(gomega.ContainElement(gomega.HaveKeyWithValue("message", gomega.ContainSubstring("status AcceptedRisk needs a comment"))))
	for _, user := range []string{"reader", "patcher"} {
		status, answer = do(user, http.MethodPost, all+"/preview", preview)
		g.Expect(status).To(gomega.Equal(http.StatusOK))
		g.Expect(answer["save"]).To(gomega.HaveKeyWithValue("reason", "NotPermitted"))
		status, _ = do(user, http.MethodPost, all, map[string]any{"kind": kind, "name": "decided", "spec": spec})
		g.Expect(status).To(gomega.Equal(http.StatusForbidden))
	}
	status, answer = do("decider", http.MethodPost, all, map[string]any{"kind": kind, "name": "decided", "spec": spec})
	g.Expect(status).To(gomega.Equal(http.StatusUnprocessableEntity), "%v", answer)
	spec["comment"] = "why"
	status, answer = do("decider", http.MethodPost, all, map[string]any{"kind": kind, "name": "decided", "spec": spec})
	g.Expect(status).To(gomega.Equal(http.StatusCreated), "%v", answer)

	var object scannerv1alpha1.ClusterVulnerabilityException
	author := "system:serviceaccount:" + own + ":decider"
	g.Eventually(func(g gomega.Gomega) {
		g.Expect(c.Get(t.Context(), types.NamespacedName{Name: "decided"}, &object)).To(gomega.Succeed())
		g.Expect(object.Status.Conditions).NotTo(gomega.BeEmpty())
	}, patience, tick).Should(gomega.Succeed())
	g.Expect(object.Annotations).To(gomega.HaveKeyWithValue(scannerv1alpha1.AnnotationAuthor, author))

	status, answer = do("reader", http.MethodGet, one, nil)
	g.Expect(status).To(gomega.Equal(http.StatusOK))
	g.Expect(answer).To(gomega.And(gomega.HaveKeyWithValue("author", author), gomega.HaveKeyWithValue("mayUpdate", false)))
	spec["status"] = "FalsePositive"
	status, _ = do("patcher", http.MethodPut, one, map[string]any{"version": answer["version"], "spec": spec})
	g.Expect(status).To(gomega.Equal(http.StatusForbidden))
	status, answer = do("decider", http.MethodPut, one, map[string]any{"version": answer["version"], "spec": spec})
	g.Expect(status).To(gomega.Equal(http.StatusOK), "%v", answer)
	version, _ := answer["version"].(string)
	status, _ = do("reader", http.MethodDelete, one+"?version="+url.QueryEscape(version), nil)
	g.Expect(status).To(gomega.Equal(http.StatusForbidden))
	status, _ = do("decider", http.MethodDelete, one+"?version="+url.QueryEscape(version), nil)
	g.Expect(status).To(gomega.Equal(http.StatusNoContent))
	g.Eventually(func(g gomega.Gomega) {
		status, answer := do("reader", http.MethodGet, "/api/v1/decisions?name=decided&state=ended", nil)
		g.Expect(status).To(gomega.Equal(http.StatusOK))
		g.Expect(answer["items"]).To(gomega.ContainElement(gomega.HaveKeyWithValue("deletedBy", author)))
	}, patience, tick).Should(gomega.Succeed())

	decideInNamespace(t, g, c, own, do)

	stop()
	used := asked.In("")
	maps.Copy(used, asked.In(own))
	for granted := range granted[""] {
		if concernsExceptions[granted.Resource] && !used[granted] {
			t.Errorf("the operator has a right that nothing showed to be needed: %s", granted)
		}
	}
	asked.CheckRefused(t)
}
