package setup_test

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/cert"

	"github.com/scanner-operator/scanner-operator/internal/server/auth/frontproxy"
	"github.com/scanner-operator/scanner-operator/internal/server/auth/frontproxy/frontproxytest"
	"github.com/scanner-operator/scanner-operator/internal/setup"
)

// TestFrontProxy reads as a user of a front proxy whose group may read in Kubernetes, until the authority of the proxy is replaced.
func TestFrontProxy(t *testing.T) {
	t.Parallel()
	c, g := needCluster(t), gomega.NewWithT(t)
	ns := namespace(t, c)
	create(t, c, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: ns}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"scanner.zoltankerezsi.xyz"}, Resources: []string{"scanresults"}, Verbs: []string{"list"}},
	}})
	create(t, c, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: ns}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: ns},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: ns + ":team"}},
	})
	certificate, key, err := cert.GenerateSelfSignedCertKey("localhost", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(certificate)
	dir := t.TempDir()
	write := func(name string, content []byte) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("tls.crt", certificate)
	write("tls.key", key)
	before, after := frontproxytest.New(t, "before"), frontproxytest.New(t, "after")
	write("proxies.crt", before.PEM())
	api := operator(t, ns, func(o *setup.Options) {
		o.TLS, o.APIURL = setup.TLS{Mode: setup.TLSFiles, Dir: dir}, "https://operator.invalid:8000"
		o.SignIn.FrontProxy = frontproxy.Config{
			ClientCAFile: filepath.Join(dir, "proxies.crt"), AllowedNames: []string{frontproxytest.CommonName},
			UsernameHeaders: []string{"x-remote-user"}, GroupHeaders: []string{"x-remote-group"},
		}
	})
	read := func(group string, certificates ...tls.Certificate) int {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, api+"/api/v1/overview", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("X-Remote-User", "alice")
		request.Header.Set("X-Remote-Group", group)
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: certificates, MinVersion: tls.VersionTLS13}}
		defer transport.CloseIdleConnections()
		response, err := (&http.Client{Transport: transport}).Do(request)
		if err != nil {
			return 0 // The certificate of the API may not be loaded yet.
		}
		if err := response.Body.Close(); err != nil {
			t.Error(err)
		}
		return response.StatusCode
	}
	old := before.Issue(nil)
	g.Eventually(func() int { return read(ns+":team", old) }, patience, tick).Should(gomega.Equal(http.StatusOK))
	g.Expect(read(ns+":others", old)).To(gomega.Equal(http.StatusForbidden))
	g.Expect(read(ns + ":team")).To(gomega.Equal(http.StatusUnauthorized))
	write("proxies.crt", after.PEM())
	g.Eventually(func() int { return read(ns+":team", after.Issue(nil)) }, patience, tick).Should(gomega.Equal(http.StatusOK))
	g.Expect(read(ns+":team", old)).To(gomega.Equal(http.StatusUnauthorized))
}
