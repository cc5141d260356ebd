package plugin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// now is when the tests run.
var now = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// cluster answers as an API server with an operator behind its service proxy. internal/setup runs the plugin with real ones; this one says what they never would.
type cluster struct {
	t      *testing.T
	server *httptest.Server
	// services are those of the cluster; forbidden refuses to show them.
	services  []corev1.Service
	more      string // the token of the next page of Services
	forbidden bool
	// operator answers requests that arrive through the proxy, with their paths as the operator sees them.
	operator http.HandlerFunc

	mu sync.Mutex
	// tokens counts created tokens; proxied are the paths that were asked for through the proxy, and with which header.
	tokens  int
	proxied []string
	headers []http.Header
}

func newCluster(t *testing.T, operator http.HandlerFunc) *cluster {
	t.Helper()
	c := &cluster{t: t, operator: operator, services: []corev1.Service{serviceNamed(defaultServiceNamespace, defaultServiceName, schemeHTTPS)}}
	c.server = httptest.NewTLSServer(http.HandlerFunc(c.serve))
	t.Cleanup(c.server.Close)
	return c
}

func serviceNamed(namespace, name, port string) corev1.Service {
	return corev1.Service{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}, ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: port, Port: 8000}}},
	}
}

func (c *cluster) serve(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	services := schema.GroupResource{Resource: "services"}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case strings.HasSuffix(r.URL.Path, "/selfsubjectreviews"):
		c.write(w, 201, &authenticationv1.SelfSubjectReview{Status: authenticationv1.SelfSubjectReviewStatus{UserInfo: authenticationv1.UserInfo{Username: "alice"}}})
	case strings.HasSuffix(r.URL.Path, "/token"):
		c.tokens++
		var request authenticationv1.TokenRequest
		body, err := io.ReadAll(r.Body)
		if err == nil {
			_, _, err = scheme.Codecs.UniversalDeserializer().Decode(body, nil, &request)
		}
		if err != nil || len(request.Spec.Audiences) != 1 || request.Spec.Audiences[0] != audience || *request.Spec.ExpirationSeconds != tokenSeconds {
			c.t.Errorf("a token was requested with %+v, %v", request.Spec, err)
		}
		request.Status = authenticationv1.TokenRequestStatus{Token: fmt.Sprintf("token-%d", c.tokens), ExpirationTimestamp: metav1.NewTime(now.Add(10 * time.Minute))}
		c.write(w, 201, &request)
	case len(parts) > 6 && parts[6] == "proxy":
		c.proxied, c.headers = append(c.proxied, r.URL.Path), append(c.headers, r.Header)
		r.URL.Path = "/" + strings.Join(parts[7:], "/")
		c.operator(w, r)
	case r.URL.Path == "/api/v1/namespaces":
		c.fail(w, apierrors.NewForbidden(schema.GroupResource{Resource: "namespaces"}, "", nil))
	case c.forbidden:
		c.fail(w, apierrors.NewForbidden(services, "", nil))
	case len(parts) == 6:
		for _, s := range c.services {
			if s.Namespace == parts[3] && s.Name == parts[5] {
				c.write(w, 200, &s)
				return
			}
		}
		c.fail(w, apierrors.NewNotFound(services, parts[5]))
	default:
		c.write(w, 200, &corev1.ServiceList{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceList"}, ListMeta: metav1.ListMeta{Continue: c.more}, Items: c.services,
		})
	}
}

func (c *cluster) fail(w http.ResponseWriter, err *apierrors.StatusError) {
	status := err.Status()
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	c.write(w, int(status.Code), &status)
}

func (c *cluster) write(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(value); err != nil {
		c.t.Error(err)
	}
}

// kubeconfig writes a kubeconfig for the API server.
func (c *cluster) kubeconfig() string {
	c.t.Helper()
	config := clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"c": {Server: c.server.URL, InsecureSkipTLSVerify: true}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"u": {Token: "own-token"}},
		Contexts:       map[string]*clientcmdapi.Context{"x": {Cluster: "c", AuthInfo: "u", Namespace: "shop"}},
		CurrentContext: "x",
	}
	path := filepath.Join(c.t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(config, path); err != nil {
		c.t.Fatal(err)
	}
	return path
}

// run runs the plugin as the ServiceAccount "viewer".
func (c *cluster) run(arguments ...string) (out, errOut string, err error) {
	c.t.Helper()
	return c.runBare(append(arguments, "--service-account", "viewer")...)
}

// runBare runs the plugin without a ServiceAccount.
func (c *cluster) runBare(arguments ...string) (out, errOut string, err error) {
	c.t.Helper()
	command, o := newCommand(executable)
	o.now, o.pollEvery = func() time.Time { return now }, time.Millisecond
	var stdout, stderr bytes.Buffer
	command.SetOut(&stdout)
	command.SetErr(&stderr)
	command.SetArgs(append(arguments, "--kubeconfig", c.kubeconfig()))
	err = command.ExecuteContext(c.t.Context())
	return stdout.String(), stderr.String(), err
}
