package frontproxy

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync/atomic"
	"time"
)

const (
	// interval is the time between two looks at the file. The kubelet updates mounted ConfigMaps and Secrets about once a minute.
	interval = 10 * time.Second
	// maxFile bounds the file in bytes, and with it the names of the authorities that each handshake tells clients, which have room for 64 KiB.
	maxFile        = 64 << 10
	maxAuthorities = 32
	// maxIntermediates bounds the certificates that a proxy sends beside its own: strangers may send some, too.
	maxIntermediates = 3
)

// Proxy knows which proxies are trusted. It is a manager.Runnable of all replicas, which loads the certificate authorities again when their file
// changes.
type Proxy struct {
	config      Config
	authorities atomic.Pointer[authorities]
}

// authorities are those of a file.
type authorities struct {
	content []byte
	pool    *x509.CertPool
}

// New loads the certificate authorities.
func New(config Config) (*Proxy, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	loaded, err := load(config.ClientCAFile, nil)
	if err != nil {
		return nil, err
	}
	p := &Proxy{config: config}
	p.authorities.Store(loaded)
	return p, nil
}

// NeedLeaderElection is false: every replica serves.
func (p *Proxy) NeedLeaderElection() bool { return false }

// Start loads the certificate authorities when their file has changed, until ctx ends. After a failure, those that were loaded before stay.
func (p *Proxy) Start(ctx context.Context) error {
	failure := ""
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-p.config.Clock.After(interval):
		}
		err := p.reload()
		if err != nil && err.Error() != failure {
			p.config.Log.Error(err, "Failed to load the certificate authorities of front proxies; those that were loaded before stay valid", "retryAfter", interval.String())
		}
		if failure = ""; err != nil {
			failure = err.Error()
		}
	}
}

func (p *Proxy) reload() error {
	before := p.authorities.Load()
	loaded, err := load(p.config.ClientCAFile, before)
	if err == nil && loaded != before {
		p.authorities.Store(loaded)
		p.config.Log.Info("Loaded the certificate authorities of front proxies", "file", p.config.ClientCAFile)
	}
	return err
}

// TLSConfig has a server ask clients for a certificate of the authorities. Those that have none connect as before.
func (p *Proxy) TLSConfig(base *tls.Config) *tls.Config {
	config := base.Clone()
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		current := base.Clone()
		// The authorities let browsers know that the certificates of their users are not meant.
		current.ClientAuth, current.ClientCAs = tls.RequestClientCert, p.authorities.Load().pool
		return current, nil
	}
	return config
}

// Verify says why the certificate that a client has proved to have, which may be followed by others, is not that of a trusted proxy.
func (p *Proxy) Verify(chain []*x509.Certificate) error {
	if len(chain) == 0 {
		return errors.New("there is no certificate")
	}
	if len(chain) > 1+maxIntermediates {
		return fmt.Errorf("the certificate comes with %d others: use at most %d", len(chain)-1, maxIntermediates)
	}
	certificate, intermediates := chain[0], x509.NewCertPool()
	for _, intermediate := range chain[1:] {
		intermediates.AddCert(intermediate)
	}
	_, err := certificate.Verify(x509.VerifyOptions{
		Roots: p.authorities.Load().pool, Intermediates: intermediates, CurrentTime: p.config.Clock.Now(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	switch {
	case err != nil:
		return err
	case !slices.Contains(certificate.ExtKeyUsage, x509.ExtKeyUsageClientAuth):
		// Verify accepts certificates that say nothing of their usage.
		return errors.New("the certificate is not for TLS clients: the extended key usage has no clientAuth")
	case len(p.config.AllowedNames) > 0 && !slices.Contains(p.config.AllowedNames, certificate.Subject.CommonName):
		return fmt.Errorf("the common name %.256q of the certificate is not an allowed one", certificate.Subject.CommonName)
	}
	return nil
}

// load reads the authorities of a file, and returns those from before if they are the same.
func load(name string, before *authorities) (*authorities, error) {
	content, err := readFile(name)
	if err != nil {
		return nil, fmt.Errorf("read the certificate authorities of front proxies: %w", err)
	}
	if before != nil && bytes.Equal(content, before.content) {
		return before, nil
	}
	pool, err := parse(content)
	if err != nil {
		return nil, fmt.Errorf("the file %s with the certificate authorities of front proxies: %w", name, err)
	}
	return &authorities{content, pool}, nil
}

// parse reads the authorities in PEM, and leaves out everything else.
func parse(content []byte) (*x509.CertPool, error) {
	pool, count := x509.NewCertPool(), 0
	for block, rest := pem.Decode(content); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		if count++; count > maxAuthorities {
			return nil, fmt.Errorf("it has more than %d certificates: keep only those of the authorities that issue the certificates of proxies", maxAuthorities)
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate %d: %w", count, err)
		}
		if !certificate.IsCA {
			return nil, fmt.Errorf("certificate %d, of %.256q, is not that of a certificate authority: use the authority that issued it", count, certificate.Subject)
		}
		pool.AddCert(certificate)
	}
	if count == 0 {
		return nil, errors.New("it contains no PEM certificate")
	}
	return pool, nil
}

// readFile reads a file of bounded size.
func readFile(name string) (content []byte, err error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if content, err = io.ReadAll(io.LimitReader(file, maxFile+1)); err != nil {
		return nil, err
	}
	if len(content) > maxFile {
		return nil, fmt.Errorf("the file %s is larger than %d bytes", name, maxFile)
	}
	return content, nil
}
