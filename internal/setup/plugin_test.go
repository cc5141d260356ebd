package setup_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/scanner-operator/scanner-operator/internal/catalog"
	"github.com/scanner-operator/scanner-operator/internal/controller/controllertest"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/plugin"
	"github.com/scanner-operator/scanner-operator/internal/scanjob"
	"github.com/scanner-operator/scanner-operator/internal/setup"
)

// machineAddress is an address of this machine that the API server connects to: it refuses loopback addresses.
func machineAddress(t *testing.T) string {
	t.Helper()
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, address := range addresses {
		if network, ok := address.(*net.IPNet); ok && network.IP.To4() != nil && network.IP.IsGlobalUnicast() {
			return network.IP.String()
		}
	}
	const missing = "this machine has no IPv4 address but loopback ones, which the API server does not connect to"
	if os.Getenv("CI") == "true" {
		t.Fatal(missing)
	}
	t.Skip(missing)
	return ""
}

// exposed makes a Service in front of an address, with the pod that the API server wants behind it.
func exposed(t *testing.T, c client.Client, namespace, name, address string) {
	t.Helper()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	var number int32
	if _, err := fmt.Sscan(port, &number); err != nil {
		t.Fatal(err)
	}
	runningPod(t, c, namespace, "operator", "", func(p *corev1.Pod) { p.Spec.NodeName = "" })
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "operator"}}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil {
		t.Fatal(err)
	}
	pod.Status.PodIP, pod.Status.PodIPs = host, []corev1.PodIP{{IP: host}}
	if err := c.Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	labels := map[string]string{"app.kubernetes.io/name": "scanner-operator", "control-plane": "controller-manager"}
	create(t, c, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "https", Port: 8000}}},
	})
	create(t, c, &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: name}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: new("https"), Port: &number}},
		Endpoints: []discoveryv1.Endpoint{{
			Addresses: []string{host}, TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: namespace, Name: "operator"},
		}},
	})
}

// kubeconfigOf writes a kubeconfig with a token, or with the client certificate of the administrator.
func kubeconfigOf(t *testing.T, namespace, token string) string {
	t.Helper()
	admin := controllertest.Config(t)
	user := &clientcmdapi.AuthInfo{Token: token}
	if token == "" {
		user.ClientCertificateData, user.ClientKeyData = admin.CertData, admin.KeyData
	}
	config := clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"c": {Server: admin.Host, CertificateAuthorityData: admin.CAData}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"u": user},
		Contexts:       map[string]*clientcmdapi.Context{"x": {Cluster: "c", AuthInfo: "u", Namespace: namespace}},
		CurrentContext: "x",
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(config, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// kubectlScanner runs the plugin.
func kubectlScanner(ctx context.Context, arguments ...string) (out, errOut string, err error) {
	command := plugin.NewCommand("kubectl-scanner")
	var stdout, stderr bytes.Buffer
	command.SetOut(&stdout)
	command.SetErr(&stderr)
	command.SetArgs(arguments)
	err = command.ExecuteContext(ctx)
	return stdout.String(), stderr.String(), err
}

// pluginCluster is an operator with TLS behind a Service, with one scanned image.
type pluginCluster struct {
	t     *testing.T
	c     client.Client
	image string
	// team is the namespace that runs the image, system that of the Service; api is the address of the operator, ca the file with its CA.
	team, system, api, ca string
}

const pluginService = "release-controller-manager-api-service"

func newPluginCluster(t *testing.T) *pluginCluster {
	t.Helper()
	c, g, address := needCluster(t), gomega.NewWithT(t), machineAddress(t)
	amd64Node(t, c)
	p := &pluginCluster{t: t, c: c, image: imageID("plugin", "c"), team: namespace(t, c), system: namespace(t, c), ca: filepath.Join(t.TempDir(), "ca.crt")}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: p.team, Name: "api-tls"}}
	create(t, c, secret)
	p.api, _ = startOperator(t, p.team, t.TempDir(), func(o *setup.Options) {
		o.APIAddress, o.APIURL = address+":0", "https://operator.invalid:8000"
		o.TLS = setup.TLS{Mode: setup.TLSOperator, Secret: secret.Name, Names: []string{address}}
	})
	exposed(t, c, p.system, pluginService, strings.TrimPrefix(p.api, "https://"))
	runningPod(t, c, p.team, "app", p.image)
	create(t, c, sampleScanner(t, p.team))
	g.Eventually(func() map[string]*batchv1.Job { return jobs(t.Context(), c, p.team) }, patience, tick).Should(gomega.HaveKey(p.image))
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(secret), secret); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p.ca, secret.Data["ca.crt"], 0o600); err != nil {
		t.Fatal(err)
	}
	job := jobs(t.Context(), c, p.team)[p.image]
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte(podOfJob(t, c, job, scanjob.Audience)), 0o600); err != nil {
		t.Fatal(err)
	}
	upload := catalog.UploadRequest{
		URL: p.api, TokenFile: token, ImageID: p.image, Platform: model.Platform{OS: "linux", Architecture: "amd64"}, SBOM: []byte(smallSBOM),
		CAs: string(secret.Data["ca.crt"]),
	}
	if err := catalog.Upload(t.Context(), upload); err != nil {
		t.Fatal(err)
	}
	return p
}

// direct is a client that connects to the operator and verifies its certificate.
func (p *pluginCluster) direct() *http.Client {
	p.t.Helper()
	content, err := os.ReadFile(p.ca)
	if err != nil {
		p.t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(content)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13}}
	p.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// account makes a ServiceAccount in the namespace of the team with the rules of a Role there.
func (p *pluginCluster) account(name string, rules ...rbacv1.PolicyRule) {
	p.t.Helper()
	create(p.t, p.c, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: p.team, Name: name}})
	if len(rules) > 0 {
		p.grant(p.team, name, rules...)
	}
}

// grant gives an account of the team the rules of a Role in a namespace.
func (p *pluginCluster) grant(namespace, account string, rules ...rbacv1.PolicyRule) {
	p.t.Helper()
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: account}, Rules: rules}
	create(p.t, p.c, role)
	create(p.t, p.c, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: account},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: p.team, Name: account}},
	})
}

var (
	readsResults = rbacv1.PolicyRule{APIGroups: []string{"scanner.zoltankerezsi.xyz"}, Resources: []string{"scanresults"}, Verbs: []string{"get", "list"}}
	usesProxy    = rbacv1.PolicyRule{
		APIGroups: []string{""}, Resources: []string{"services/proxy"}, ResourceNames: []string{"https:" + pluginService + ":https"}, Verbs: []string{"get"},
	}
)

func createsTokens(account string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"serviceaccounts/token"}, ResourceNames: []string{account}, Verbs: []string{"create"}}
}

// TestKubectlPlugin runs the plugin against a real API server, through whose service proxy it reaches the operator.
func TestKubectlPlugin(t *testing.T) {
	t.Parallel()
	p, g := newPluginCluster(t), gomega.NewWithT(t)
	p.account("viewer", readsResults)
	p.account("stranger")
	admin := kubeconfigOf(t, p.team, "")
	run := func(arguments ...string) (out, errOut string, err error) {
		t.Helper()
		return kubectlScanner(t.Context(), append(arguments, "--service-namespace", p.system, "--service-name", pluginService)...)
	}
	must := func(arguments ...string) string {
		t.Helper()
		out, errOut, err := run(append(arguments, "--kubeconfig", admin, "--service-account", "viewer")...)
		if err != nil {
			t.Fatalf("%v: %v\n%s%s", arguments, err, out, errOut)
		}
		return out
	}
	fails := func(want string, arguments ...string) {
		t.Helper()
		if out, _, err := run(arguments...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %q, %v; want an error with %q", arguments, out, err, want)
		}
	}
	short := p.image[:strings.Index(p.image, "@sha256:")+len("@sha256:")+12]
	g.Eventually(func() string { return must("images") }, patience, tick).Should(gomega.MatchRegexp(`(?m)^IMAGE +STATE +CRITICAL .*\n%s +Scanned +\d+ +\d+ `, regexp.QuoteMeta(short)))
	// The coverage of containers follows with the next look at the Scanner.
	g.Eventually(func() string { return must("coverage", "-A") }, patience, tick).Should(gomega.MatchRegexp(`(?m)^%s +pod/app +app +Scanned`, p.team))

	t.Run("commands", func(t *testing.T) {
		vulnerabilities := must("findings")
		id := regexp.MustCompile(`(?m)^(\S+-\S+) +(Critical|High|Medium) `).FindStringSubmatch(vulnerabilities)
		if id == nil {
			t.Fatalf("findings: %s", vulnerabilities)
		}
		for _, test := range []struct {
			arguments []string
			want      string
		}{
			// The path contains the slashes of the image ID.
			{[]string{"findings", p.image}, `(?m)^VULNERABILITY .*\n(.*\n)*` + id[1] + ` .* golang\.org/x/net +v0\.1\.0 `},
			{[]string{"findings", "plugin@sha256:ccc"}, `golang\.org/x/net`},
			{[]string{"findings", "app:1"}, `golang\.org/x/net`},
			{[]string{"why", p.image, id[1]}, `(?s)Package: +golang\.org/x/net v0\.1\.0 \(go-module\).*Location: +/app .*Runs in:\n  ` + p.team + `/pod/app \(container app\)`},
			{[]string{"affected", id[1], "-A"}, regexp.QuoteMeta(short) + ` +golang\.org/x/net .* ` + p.team + `/pod/app`},
			{[]string{"coverage", "-A"}, `(?m)^` + p.team + ` +pod/app +app +Scanned`},
			{[]string{"decisions", "--vulnerability", "CVE-1999-0002"}, `^$`},
			{[]string{"rollouts"}, `^$`},
			{[]string{"images", "-o", "wide", "--no-headers"}, `^` + regexp.QuoteMeta(p.image) + ` +linux/amd64 +Scanned`},
			{[]string{"watch", "--replay", "--limit", "1", "--kind", "image.matched"}, `^\d{4}-\S+ \S+  image\.matched +` + regexp.QuoteMeta(short)},
		} {
			if out := must(test.arguments...); !regexp.MustCompile(test.want).MatchString(out) {
				t.Errorf("%v: got\n%s\nwant %s", test.arguments, out, test.want)
			}
		}
		_, _, err := run("why", p.image, "CVE-1999-0001", "--kubeconfig", admin, "--service-account", "viewer")
		if _, notAffected := errors.AsType[plugin.NotAffectedError](err); !notAffected {
			t.Errorf("another vulnerability: %v", err)
		}
		fromYAML, err := yaml.YAMLToJSON([]byte(must("images", "-o", "yaml")))
		if err != nil {
			t.Fatal(err)
		}
		for _, document := range []string{must("images", "-o", "json"), string(fromYAML)} {
			var list struct {
				Items []struct{ State string }
				Total int
			}
			if err := json.Unmarshal([]byte(document), &list); err != nil || list.Total != 1 || len(list.Items) != 1 || list.Items[0].State != "Scanned" {
				t.Errorf("%v: %s", err, document)
			}
		}
	})

	t.Run("identities", func(t *testing.T) {
		fails("--service-account", "images", "--kubeconfig", admin)
		fails("is not allowed to list scanresults", "images", "--kubeconfig", admin, "--service-account", "stranger")

		// A developer who may do nothing else: neither read the Service, nor results.
		p.account("developer", createsTokens("viewer"))
		p.grant(p.system, "developer", usesProxy)
		developer := kubeconfigOf(t, p.team, tokenOf(t, p.c, p.team, "developer"))
		if out, errOut, err := run("images", "--kubeconfig", developer, "--service-account", p.team+"/viewer"); err != nil || !strings.Contains(out, short) {
			t.Errorf("with the least permissions: %s %s %v", out, errOut, err)
		}
		fails("create a token of the ServiceAccount stranger", "images", "--kubeconfig", developer, "--service-account", "stranger")

		// A ServiceAccount that reads as itself.
		p.account("pipeline", createsTokens("pipeline"), readsResults)
		p.grant(p.system, "pipeline", usesProxy)
		pipeline := kubeconfigOf(t, p.team, tokenOf(t, p.c, p.team, "pipeline"))
		if out, errOut, err := run("images", "--kubeconfig", pipeline); err != nil || !strings.Contains(out, short) {
			t.Errorf("as itself: %s %s %v", out, errOut, err)
		}
		p.account("outsider", createsTokens("viewer"))
		fails("services/proxy", "images", "--kubeconfig", kubeconfigOf(t, p.team, tokenOf(t, p.c, p.team, "outsider")), "--service-account", "viewer")
	})

	t.Run("requests of a proxy", func(t *testing.T) {
		ours, others := "Bearer "+tokenOf(t, p.c, p.team, "viewer", scanjob.Audience), "Bearer "+tokenOf(t, p.c, p.team, "viewer")
		twice := strings.ReplaceAll(url.PathEscape(p.image), "%2F", "%252F")
		for _, test := range []struct {
			name, path, header, token, forwarded string
			want                                 int
		}{
			{"no token", "images", "X-Scanner-Authorization", "", "", 401},
			{"token for the operator", "images", "X-Scanner-Authorization", ours, "", 200},
			{"token for the API server", "images", "X-Scanner-Authorization", others, "", 401},
			{"token for the API server, sent to the operator itself", "images", "Authorization", others, "", 200},
			{"another scheme", "images", "X-Scanner-Authorization", "Basic abc", "", 401},
			{"slashes encoded once", "images/" + url.PathEscape(p.image), "X-Scanner-Authorization", ours, "/x", 200},
			{"slashes encoded twice", "images/" + twice, "X-Scanner-Authorization", ours, "/x", 200},
			{"slashes encoded twice without a proxy", "images/" + twice, "X-Scanner-Authorization", ours, "", 404},
		} {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.api+"/api/v1/"+test.path, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			if test.token != "" {
				request.Header.Set(test.header, test.token)
			}
			if test.forwarded != "" {
				request.Header.Set("X-Forwarded-Uri", test.forwarded)
			}
			response, err := p.direct().Do(request)
			if err != nil {
				t.Fatal(err)
			}
			_ = response.Body.Close()
			if response.StatusCode != test.want {
				t.Errorf("%s: %d, want %d", test.name, response.StatusCode, test.want)
			}
		}
	})

	t.Run("direct", func(t *testing.T) {
		own := kubeconfigOf(t, p.team, tokenOf(t, p.c, p.team, "viewer"))
		direct := func(arguments ...string) (string, error) {
			out, _, err := kubectlScanner(t.Context(), append([]string{"images", "--url", p.api}, arguments...)...)
			return out, err
		}
		if out, err := direct("--kubeconfig", own, "--ca-file", p.ca); err != nil || !strings.Contains(out, short) {
			t.Errorf("with the token of the kubeconfig: %s %v", out, err)
		}
		if out, err := direct("--kubeconfig", admin, "--ca-file", p.ca, "--service-account", "viewer"); err != nil || !strings.Contains(out, short) {
			t.Errorf("with a ServiceAccount: %s %v", out, err)
		}
		if out, err := direct("--kubeconfig", own); err == nil || !strings.Contains(err.Error(), "certificate") {
			t.Errorf("without the CA: %s %v", out, err)
		}
	})
}
