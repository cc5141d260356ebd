//go:build e2e

package e2e

import (
	"bytes"
	"regexp"
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/scanner-operator/scanner-operator/internal/plugin"
)

// TestKubectlPlugin reads the results of a namespace with the kubeconfig of the administrator, which has a client certificate, through the service proxy
// of the API server.
func TestKubectlPlugin(t *testing.T) {
	t.Parallel()
	g, ns := gomega.NewWithT(t), restrictedNamespace(t)
	applyScanner(t, ns)
	reference, id := e2e.registry.push(t, "alpine", "samples/kubectl-plugin")
	runPod(t, ns, "app", reference)
	create(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "viewer"}})
	create(t, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "viewer"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "scanner-operator-viewer"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: ns, Name: "viewer"}},
	})
	scanner := func(arguments ...string) (string, error) {
		var out bytes.Buffer
		command := plugin.NewCommand("kubectl-scanner")
		command.SetOut(&out)
		command.SetErr(&out)
		command.SetArgs(append(arguments, "--kubeconfig", e2e.Kubeconfig, "--namespace", ns, "--service-account", "viewer"))
		err := command.ExecuteContext(t.Context())
		return out.String(), err
	}
	g.Eventually(func() (string, error) { return scanner("images", "-o", "wide") }, patience, tick).
		Should(gomega.MatchRegexp(`(?m)^` + regexp.QuoteMeta(id) + ` +\S+ +Scanned `))
	// The path contains the slashes of the image ID.
	findings, err := scanner("findings", id)
	if err != nil || !regexp.MustCompile(`(?m)^VULNERABILITY +SEVERITY .*\n\S+-\S+ +\w+ `).MatchString(findings) {
		t.Errorf("findings: %v\n%s", err, findings)
	}
	if events, err := scanner("watch", "--replay", "--limit", "1", "--kind", "image.matched"); err != nil || !regexp.MustCompile(`image\.matched`).MatchString(events) {
		t.Errorf("watch: %v\n%s", err, events)
	}
}
