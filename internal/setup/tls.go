package setup

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/clock"

	"github.com/scanner-operator/scanner-operator/internal/servingcert"
)

// TLSMode says where the certificate of the API comes from.
type TLSMode string

// The modes.
const (
	// TLSOperator is a certificate of a CA that the operator creates and renews.
	TLSOperator TLSMode = "operator"
	// TLSFiles is a certificate in files that somebody else renews.
	TLSFiles TLSMode = "files"
	// TLSOff serves plain HTTP.
	TLSOff TLSMode = "off"
)

// TLS says how the API is served.
type TLS struct {
	// Mode is TLSOff by default.
	Mode TLSMode
	// Dir holds the files tls.crt, tls.key and perhaps ca.crt of TLSFiles.
	Dir string
	// Secret is the name of the Secret in the operator's namespace that holds the CA and the certificate of TLSOperator.
	Secret string
	// Names are DNS names and IP addresses of the API, for TLSOperator, besides the host of APIURL and those of this machine.
	Names []string
}

// maxTLSNames bounds Options.TLS.Names.
const maxTLSNames = 50

// addCertificate adds what keeps the certificate of the API up to date, unless the API is served without TLS.
func (o *Operator) addCertificate() error {
	log := o.opts.Log.WithName("tls")
	switch o.opts.TLS.Mode {
	case TLSFiles:
		o.certificate = servingcert.FromFiles(o.opts.TLS.Dir, clock.RealClock{}, log)
	case TLSOperator:
		o.certificate = servingcert.FromSecret(servingcert.Secret{
			Name:   types.NamespacedName{Namespace: o.opts.Namespace, Name: o.opts.TLS.Secret},
			Reader: o.manager.GetAPIReader(), Writer: o.manager.GetClient(), Names: o.opts.certificateNames(),
		}, clock.RealClock{}, log)
	case TLSOff:
		return nil
	}
	if err := o.manager.Add(o.certificate); err != nil {
		return fmt.Errorf("add a component to the manager: %w", err)
	}
	if err := o.manager.AddReadyzCheck("certificate", o.certificate.Check); err != nil {
		return fmt.Errorf("add a readiness check: %w", err)
	}
	return nil
}

// certificateNames are the names by which clients reach the API: that of --api-url, with the shorter ones of a Service, those that were
// asked for, and those of this machine, for kubectl port-forward.
func (o *Options) certificateNames() []string {
	var names []string
	if api, err := url.Parse(o.APIURL); err == nil && api.Hostname() != "" {
		names = append(names, api.Hostname())
		if service, namespace, ok := strings.Cut(strings.TrimSuffix(api.Hostname(), ".svc"), "."); ok && strings.HasSuffix(api.Hostname(), ".svc") {
			names = append(names, service+"."+namespace, service)
		}
	}
	names = append(names, o.TLS.Names...)
	return append(names, "localhost", "127.0.0.1", "::1")
}

func (o *Options) validateTLS() error {
	switch o.TLS.Mode {
	case "", TLSOff:
		o.TLS.Mode = TLSOff
		return nil
	case TLSFiles:
		if o.TLS.Dir == "" {
			return errors.New("--tls=files requires --tls-dir, the directory with tls.crt and tls.key")
		}
	case TLSOperator:
		if problems := validation.IsDNS1123Subdomain(o.TLS.Secret); len(problems) > 0 {
			return fmt.Errorf("--tls-secret=%s: %s", o.TLS.Secret, strings.Join(problems, "; "))
		}
		if err := validateTLSNames(o.TLS.Names); err != nil {
			return err
		}
	default:
		return fmt.Errorf("--tls=%s: use operator, files or off", o.TLS.Mode)
	}
	if o.Catalog == CatalogJob && strings.HasPrefix(strings.ToLower(o.APIURL), "http://") {
		return fmt.Errorf("--api-url=%s: the API is served over TLS; use https://, or --tls=off", o.APIURL)
	}
	return nil
}

func validateTLSNames(names []string) error {
	if len(names) > maxTLSNames {
		return fmt.Errorf("--tls-names has %d names: use at most %d", len(names), maxTLSNames)
	}
	for _, name := range names {
		if net.ParseIP(name) != nil || len(validation.IsDNS1123Subdomain(name)) == 0 {
			continue
		}
		return fmt.Errorf("--tls-names: %q is neither a DNS name in lower case nor an IP address", name)
	}
	return nil
}
