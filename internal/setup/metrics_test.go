package setup_test

import (
	"crypto/tls"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/scanner-operator/scanner-operator/internal/scanjob"
	"github.com/scanner-operator/scanner-operator/internal/setup"
	"github.com/scanner-operator/scanner-operator/internal/setup/setuptest"
)

// The metrics are for who has the role metrics-reader, as Prometheus with a ServiceMonitor, and for nobody else.
func TestMetricsNeedAToken(t *testing.T) {
	t.Parallel()
	c, g := needCluster(t), gomega.NewWithT(t)
	ns, address := namespace(t, c), setuptest.UnusedAddress(t)
	operator(t, ns, func(o *setup.Options) { o.MetricsAddress = address })
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	scrape := func(token string) (int, string) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+address+"/metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			request.Header.Set("Authorization", "Bearer "+token)
		}
		response, err := transport.RoundTrip(request)
		if err != nil {
			return 0, err.Error()
		}
		defer func() { _ = response.Body.Close() }()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Error(err)
		}
		return response.StatusCode, string(body)
	}
	status := func(token string) func() int {
		return func() int {
			code, _ := scrape(token)
			return code
		}
	}

	token := metricsToken(t, c, ns)
	g.Eventually(status(""), patience, tick).Should(gomega.Equal(http.StatusUnauthorized))
	g.Eventually(status(token), patience, tick).Should(gomega.Equal(http.StatusOK))
	if _, metrics := scrape(token); !strings.Contains(metrics, "scanner_operator_") {
		t.Errorf("the metrics are %.200q", metrics)
	}
	for name, test := range map[string]struct {
		token string
		want  int
	}{
		"no Kubernetes token":     {"nonsense", http.StatusUnauthorized},
		"a token of scan Jobs":    {tokenOf(t, c, ns, "prometheus", scanjob.Audience), http.StatusUnauthorized},
		"an account with no role": {tokenOf(t, c, ns, "default"), http.StatusForbidden},
	} {
		if got, body := scrape(test.token); got != test.want {
			t.Errorf("%s: got %d %s, want %d", name, got, body, test.want)
		}
	}
}

// metricsToken returns a token of a new account prometheus that has the role metrics-reader.
func metricsToken(t *testing.T, c client.Client, ns string) string {
	t.Helper()
	var role rbacv1.ClusterRole
	content, err := os.ReadFile(filepath.Join("..", "..", "config", "rbac", "metrics_reader_role.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(content, &role); err != nil {
		t.Fatal(err)
	}
	role.Name = ns + "-" + role.Name
	create(t, c, &role)
	prometheus := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "prometheus"}}
	create(t, c, prometheus)
	create(t, c, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: ns, Name: prometheus.Name}},
	})
	return tokenOf(t, c, ns, prometheus.Name)
}
