// Package servingcert provides the certificate that the API is served with, and the CAs with which its clients verify it: from files, such as
// those of a mounted Secret, or from a CA that the replicas of the operator share in a Secret and renew.
package servingcert

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
)

// retryInterval is the time until the next try after a failure.
const retryInterval = 5 * time.Second

// errNotLoaded is the state before the first certificate.
var errNotLoaded = errors.New("the certificate of the API is not loaded yet")

// material is a certificate with its key, and the CAs of clients in PEM.
type material struct {
	certificate *tls.Certificate
	// authorities is empty when clients need none but those of their system.
	authorities string
}

// Source keeps the certificate of the API up to date. It is a manager.Runnable of all replicas; connections can be made once it has loaded
// the first certificate.
type Source struct {
	// load returns what is there now. With an error it may return what is usable nevertheless.
	load     func(context.Context) (*material, error)
	interval time.Duration
	clock    clock.Clock
	log      logr.Logger

	mu      sync.RWMutex
	current *material
	failure error
}

// Start loads the certificate, and what replaces it, until ctx ends.
func (s *Source) Start(ctx context.Context) error {
	for {
		wait := s.interval
		if err := s.refresh(ctx); err != nil {
			wait = retryInterval
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.clock.After(wait):
		}
	}
}

// NeedLeaderElection is false: every replica serves.
func (s *Source) NeedLeaderElection() bool { return false }

// refresh loads what is there now. After a failure, what was loaded before stays.
func (s *Source) refresh(ctx context.Context) error {
	loaded, err := s.load(ctx)
	s.mu.Lock()
	before, failure := s.current, s.failure
	if loaded != nil {
		s.current = loaded
	}
	s.failure = err
	s.mu.Unlock()
	if loaded != nil && (before == nil || !before.certificate.Leaf.Equal(loaded.certificate.Leaf)) {
		s.log.Info("Loaded the certificate of the API", "notAfter", loaded.certificate.Leaf.NotAfter, "issuer", loaded.certificate.Leaf.Issuer.CommonName)
	}
	if err != nil && ctx.Err() == nil && (failure == nil || failure.Error() != err.Error()) {
		s.log.Error(err, "Failed to load or renew the certificate of the API; trying again", "retryAfter", retryInterval.String())
	}
	return err
}

func (s *Source) loaded() (*material, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	switch {
	case s.current != nil:
		return s.current, nil
	case s.failure != nil:
		return nil, fmt.Errorf("%w: %w", errNotLoaded, s.failure)
	default:
		return nil, errNotLoaded
	}
}

// GetCertificate is that of a tls.Config.
func (s *Source) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	loaded, err := s.loaded()
	if err != nil {
		return nil, err
	}
	return loaded.certificate, nil
}

// Authorities returns in PEM, at most maxAuthorities bytes, the CAs with which clients verify the certificate and the one that replaces it;
// "" when they need none but those of their system.
func (s *Source) Authorities() (string, error) {
	loaded, err := s.loaded()
	if err != nil {
		return "", err
	}
	return loaded.authorities, nil
}

// Check is a readiness check: it fails until there is a certificate.
func (s *Source) Check(*http.Request) error {
	_, err := s.loaded()
	return err
}

// TLSConfig is that of a server: TLS 1.3, and HTTP/1.1, whose connections have one request each at a time.
func (s *Source) TLSConfig() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS13, GetCertificate: s.GetCertificate, NextProtos: []string{"http/1.1"}}
}
