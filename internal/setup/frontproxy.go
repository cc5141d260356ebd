package setup

import (
	"errors"
	"fmt"

	"github.com/scanner-operator/scanner-operator/internal/server"
	"github.com/scanner-operator/scanner-operator/internal/server/auth/frontproxy"
)

// validateFrontProxy says what a front proxy lacks. It is called when the other options are valid.
func (o *Options) validateFrontProxy() error {
	front := &o.SignIn.FrontProxy
	switch {
	case front.ClientCAFile == "" && len(front.AllowedNames) > 0:
		return errors.New("--requestheader-allowed-names requires --requestheader-client-ca-file: without it, no front proxy is trusted")
	case front.ClientCAFile == "":
		return nil
	case o.Auth != AuthKubernetes:
		return errors.New("--requestheader-client-ca-file requires --auth=kubernetes: permissions come from Kubernetes")
	case o.TLS.Mode == TLSOff:
		return errors.New("--requestheader-client-ca-file requires TLS, --tls=operator or --tls=files: a front proxy proves itself with a TLS client certificate")
	}
	if err := front.Validate(); err != nil {
		return fmt.Errorf("--requestheader-client-ca-file and the other --requestheader flags: %w", err)
	}
	return nil
}

// addFrontProxy adds what keeps the certificate authorities of front proxies up to date, if they are trusted.
func (o *Operator) addFrontProxy(config *server.Config) error {
	front := o.opts.SignIn.FrontProxy
	if front.ClientCAFile == "" {
		return nil
	}
	front.Log = o.opts.Log.WithName("front-proxy")
	proxy, err := frontproxy.New(front)
	if err != nil {
		return fmt.Errorf("--requestheader-client-ca-file: %w", err)
	}
	if err := o.manager.Add(proxy); err != nil {
		return fmt.Errorf("add a component to the manager: %w", err)
	}
	config.FrontProxy = proxy
	return nil
}
