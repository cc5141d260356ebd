package plugin

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/scanner-operator/scanner-operator/internal/version"
)

// The names that the Helm release "scanner" and the kustomize manifests give the operator's Service, and its labels under any name.
const (
	defaultServiceNamespace = "scanner-system"
	defaultServiceName      = "scanner-controller-manager-api-service"
	serviceSelector         = "app.kubernetes.io/name=scanner-operator,control-plane=controller-manager"
	serviceSuffix           = "-api-service"
)

// schemes are the names of the Service's port, which say what it serves.
const (
	schemeHTTPS = "https"
	schemeHTTP  = "http"
)

const (
	// requestTimeout bounds a request if --request-timeout does not.
	requestTimeout = time.Minute
	// maxServices bounds the Services that a search looks at.
	maxServices = 100
)

// connect returns a client of the operator.
func (o *options) connect(ctx context.Context) (*client, error) {
	config, err := o.kubeconfig().ClientConfig()
	if err != nil {
		return nil, err
	}
	config.UserAgent = executable + "/" + version.Version
	config.Timeout = cmp.Or(config.Timeout, requestTimeout)
	if o.url != "" {
		return o.connectDirectly(config)
	}
	if o.caFile != "" {
		return nil, errors.New("--ca-file is for --url: the API server does not verify the certificate of the operator")
	}
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	core, err := corev1client.NewForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	service, err := o.findService(ctx, core)
	if err != nil {
		return nil, err
	}
	server, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	tokens, err := o.proxiedTokens(ctx, config, httpClient, core)
	if err != nil {
		return nil, err
	}
	if service.scheme == schemeHTTP && tokens != nil {
		return nil, fmt.Errorf("the Service %s in the namespace %s serves plain HTTP: a token could be read between the API server and the operator. "+
			"Use TLS, or forward a port and set --url", service.name, service.namespace)
	}
	base := strings.TrimSuffix(server.String(), "/") + service.path()
	return &client{
		http: withoutRedirects(httpClient), base: base, proxied: true, tokens: tokens, header: proxiedHeader, hint: proxiedHint, now: o.now,
	}, nil
}

// connectDirectly returns a client that connects to the operator at --url, with the token of a ServiceAccount or that of the kubeconfig.
func (o *options) connectDirectly(config *rest.Config) (*client, error) {
	address, err := url.Parse(o.url)
	if err != nil || address.Host == "" || address.User != nil || address.RawQuery != "" || address.Fragment != "" {
		return nil, errors.New("--url must have the form https://HOST[:PORT][/PATH]")
	}
	if address.Scheme != schemeHTTPS && (address.Scheme != schemeHTTP || !isLoopback(address.Hostname())) {
		return nil, errors.New("--url must begin with https://; http is possible for localhost and loopback addresses only")
	}
	if config.Impersonate.UserName != "" {
		return nil, errors.New("--as cannot be used with --url: only the API server can impersonate users")
	}
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}}
	if o.caFile != "" {
		if transport.TLSClientConfig.RootCAs, err = rootsWith(o.caFile); err != nil {
			return nil, fmt.Errorf("--ca-file: %w", err)
		}
	}
	c := &client{base: strings.TrimSuffix(o.url, "/"), header: authorizationHeader, hint: directHint, now: o.now}
	var wrapped http.RoundTripper = transport
	switch {
	case o.serviceAccount != "":
		httpClient, err := rest.HTTPClientFor(config)
		if err != nil {
			return nil, fmt.Errorf("kubeconfig: %w", err)
		}
		core, err := corev1client.NewForConfigAndClient(config, httpClient)
		if err != nil {
			return nil, fmt.Errorf("kubeconfig: %w", err)
		}
		if c.tokens, err = o.accountTokens(core); err != nil {
			return nil, err
		}
	case address.Scheme == schemeHTTPS:
		// Whoever listens on a port of this machine must not get a token for the API server: only with TLS is it known who gets it.
		if wrapped, err = rest.HTTPWrappersForConfig(config, transport); err != nil {
			return nil, fmt.Errorf("kubeconfig: %w", err)
		}
	}
	c.http = withoutRedirects(&http.Client{Transport: wrapped, Timeout: config.Timeout})
	return c, nil
}

// withoutRedirects returns a client that sends its headers, with the token in them, to no other address than the one that was asked for.
func withoutRedirects(c *http.Client) *http.Client {
	limited := *c
	limited.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &limited
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// rootsWith returns the CAs of the system and those of a PEM file.
func rootsWith(path string) (*x509.CertPool, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	if !roots.AppendCertsFromPEM(content) {
		return nil, fmt.Errorf("%s contains no certificate in PEM", path)
	}
	return roots, nil
}

// service names a port of the operator's Service.
type service struct{ namespace, name, scheme string }

// path is where the API server serves the Service. The port is named, so that a Role needs the same resource name whatever its number is.
func (s service) path() string {
	return fmt.Sprintf("/api/v1/namespaces/%s/services/%s:%s:%s/proxy", s.namespace, s.scheme, s.name, s.scheme)
}

// findService returns the Service that the flags name, the one with the default names, or the only one with the labels of the operator. A caller who
// may not read Services gets the one with these names, unseen.
func (o *options) findService(ctx context.Context, core corev1client.ServicesGetter) (service, error) {
	wanted := service{cmp.Or(o.serviceNamespace, defaultServiceNamespace), cmp.Or(o.serviceName, defaultServiceName), schemeHTTPS}
	found, err := core.Services(wanted.namespace).Get(ctx, wanted.name, metav1.GetOptions{})
	switch {
	case err == nil:
		return portOf(found)
	case apierrors.IsForbidden(err):
		return wanted, nil
	case !apierrors.IsNotFound(err):
		return service{}, fmt.Errorf("find the Service of the operator: %w", err)
	case o.serviceName != "":
		return service{}, fmt.Errorf("there is no Service %s in the namespace %s", wanted.name, wanted.namespace)
	}
	list, err := core.Services(o.serviceNamespace).List(ctx, metav1.ListOptions{LabelSelector: serviceSelector, Limit: maxServices})
	if apierrors.IsForbidden(err) {
		return service{}, fmt.Errorf("there is no Service %s in the namespace %s, and you are not allowed to search for it in others: "+
			"set --service-namespace and --service-name", wanted.name, wanted.namespace)
	}
	if err != nil {
		return service{}, fmt.Errorf("search for the Service of the operator: %w", err)
	}
	if list.Continue != "" {
		// The Service of the operator may be one of those that are left out.
		return service{}, fmt.Errorf("more than %d Services have the labels of the operator; set --service-namespace and --service-name", maxServices)
	}
	services := slices.DeleteFunc(list.Items, func(s corev1.Service) bool {
		_, err := portOf(&s)
		return err != nil || !strings.HasSuffix(s.Name, serviceSuffix)
	})
	switch len(services) {
	case 0:
		return service{}, fmt.Errorf("no Service of the operator was found: there is no Service with the labels %s; set --service-namespace and --service-name", serviceSelector)
	case 1:
		// Anybody may create a Service with these labels in a namespace of theirs, and would get the token.
		_, _ = fmt.Fprintf(o.errOut, "Using the Service %s in the namespace %s. Set --service-namespace to confirm it.\n", services[0].Name, services[0].Namespace)
		return portOf(&services[0])
	default:
		var names []string
		for _, s := range services {
			names = append(names, s.Namespace+"/"+s.Name)
		}
		return service{}, fmt.Errorf("several Services have the labels of the operator: %s; set --service-namespace and --service-name", strings.Join(names, ", "))
	}
}

// portOf returns the port of a Service that serves the API.
func portOf(s *corev1.Service) (service, error) {
	for _, scheme := range []string{schemeHTTPS, schemeHTTP} {
		if slices.ContainsFunc(s.Spec.Ports, func(p corev1.ServicePort) bool { return p.Name == scheme }) {
			return service{s.Namespace, s.Name, scheme}, nil
		}
	}
	return service{}, fmt.Errorf("the Service %s in the namespace %s has no port with the name https or http", s.Name, s.Namespace)
}
