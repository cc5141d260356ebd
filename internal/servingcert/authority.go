package servingcert

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"
)

// Keys of the data of a Secret, or names of files, with certificates and keys in PEM. The first three are those of a Secret of the type
// kubernetes.io/tls as cert-manager makes it.
const (
	keyCertificate   = "tls.crt"
	keyPrivate       = "tls.key"
	keyAuthorities   = "ca.crt"
	keyAuthorityKeys = "ca.key"
)

const (
	// authorityLifetime is how long a CA is valid. The next one is created authorityRenewal before its end.
	authorityLifetime = 365 * 24 * time.Hour
	authorityRenewal  = 120 * 24 * time.Hour
	// certificateLifetime is how long a certificate is valid. It is replaced certificateRenewal before its end.
	certificateLifetime = 90 * 24 * time.Hour
	certificateRenewal  = 30 * 24 * time.Hour
	// Overlap is how long clients are given a new CA before a certificate is issued with it: whoever was given the CAs before keeps
	// verifying for that long.
	Overlap = 48 * time.Hour
	// backdating tolerates clocks that are late.
	backdating = time.Hour
	// maxStored bounds the CAs in a Secret; with the lifetimes above there are at most two.
	maxStored = 4
)

const (
	pemCertificate = "CERTIFICATE"
	pemPrivateKey  = "PRIVATE KEY"
)

// authority is a CA.
type authority struct {
	certificate *x509.Certificate
	key         crypto.Signer
}

// state is what the Secret holds: the CAs, oldest first, and the certificate that one of them issued.
type state struct {
	authorities []authority
	// certificate is nil until one was issued.
	certificate *tls.Certificate
}

// renewed returns the state in which the API is to be served from now on with a certificate that is valid for names. It is the same
// state, and changed false, while nothing has to be renewed.
func (s state) renewed(now time.Time, names []string) (next state, changed bool, err error) {
	invalid := func(a authority) bool {
		return now.Before(a.certificate.NotBefore) || now.After(a.certificate.NotAfter)
	}
	next = state{authorities: slices.DeleteFunc(slices.Clone(s.authorities), invalid), certificate: s.certificate}
	changed = len(next.authorities) != len(s.authorities)
	if count := len(next.authorities); count == 0 || next.authorities[count-1].certificate.NotAfter.Sub(now) < authorityRenewal {
		created, err := newAuthority(now)
		if err != nil {
			return state{}, false, err
		}
		next.authorities, changed = append(next.authorities, created), true
	}
	issuer := next.issuer(now)
	if !issuer.current(next.certificate, now, names) {
		if next.certificate, err = issuer.issue(now, names); err != nil {
			return state{}, false, err
		}
		changed = true
	}
	return next, changed, nil
}

// issuer is the newest CA that clients have been given for long enough, or else the oldest.
func (s state) issuer(now time.Time) authority {
	for _, a := range slices.Backward(s.authorities) {
		if now.Sub(a.certificate.NotBefore) >= Overlap+backdating {
			return a
		}
	}
	return s.authorities[0]
}

// current says whether a certificate need not be replaced by one that the CA would issue now.
func (a authority) current(certificate *tls.Certificate, now time.Time, names []string) bool {
	if certificate == nil || certificate.Leaf.CheckSignatureFrom(a.certificate) != nil || now.Before(certificate.Leaf.NotBefore) {
		return false
	}
	for _, name := range names {
		if certificate.Leaf.VerifyHostname(name) != nil {
			return false
		}
	}
	end := certificate.Leaf.NotAfter
	// One that ends with its CA could not be valid for longer.
	return now.Before(end) && (end.Sub(now) >= certificateRenewal || !end.Before(a.certificate.NotAfter))
}

func newAuthority(now time.Time) (authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return authority{}, fmt.Errorf("create the key of a CA: %w", err)
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "scanner-operator CA " + now.UTC().Format(time.RFC3339)},
		NotBefore:             now.Add(-backdating),
		NotAfter:              now.Add(authorityLifetime),
		KeyUsage:              x509.KeyUsageCertSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
	}
	certificate, err := sign(template, template, key.Public(), key)
	if err != nil {
		return authority{}, fmt.Errorf("create the certificate of a CA: %w", err)
	}
	return authority{certificate, key}, nil
}

// issue makes a certificate for a server with these DNS names and IP addresses.
func (a authority) issue(now time.Time, names []string) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("create the key of a certificate: %w", err)
	}
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: "scanner-operator"},
		NotBefore:   now.Add(-backdating),
		NotAfter:    now.Add(certificateLifetime),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if template.NotAfter.After(a.certificate.NotAfter) {
		template.NotAfter = a.certificate.NotAfter
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	leaf, err := sign(template, a.certificate, key.Public(), a.key)
	if err != nil {
		return nil, fmt.Errorf("issue a certificate: %w", err)
	}
	return &tls.Certificate{Certificate: [][]byte{leaf.Raw}, PrivateKey: key, Leaf: leaf}, nil
}

func sign(template, issuer *x509.Certificate, public crypto.PublicKey, key crypto.Signer) (*x509.Certificate, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, issuer, public, key)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

// encode returns the data of the Secret.
func (s state) encode() (map[string][]byte, error) {
	var authorities, authorityKeys bytes.Buffer
	for _, a := range s.authorities {
		key, err := encodeKey(a.key)
		if err != nil {
			return nil, err
		}
		authorities.Write(encodeCertificate(a.certificate))
		authorityKeys.Write(key)
	}
	key, err := encodeKey(s.certificate.PrivateKey)
	if err != nil {
		return nil, err
	}
	return map[string][]byte{
		keyCertificate: encodeCertificate(s.certificate.Leaf), keyPrivate: key,
		keyAuthorities: authorities.Bytes(), keyAuthorityKeys: authorityKeys.Bytes(),
	}, nil
}

// decode reads the data of the Secret; without any, the state is empty.
func decode(data map[string][]byte) (state, error) {
	if len(data) == 0 {
		return state{}, nil
	}
	certificates, err := parseCertificates(data[keyAuthorities])
	if err != nil {
		return state{}, fmt.Errorf("%s: %w", keyAuthorities, err)
	}
	if len(certificates) > maxStored {
		return state{}, fmt.Errorf("%s has %d certificates, more than %d", keyAuthorities, len(certificates), maxStored)
	}
	var s state
	rest := data[keyAuthorityKeys]
	for _, certificate := range certificates {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return state{}, fmt.Errorf("%s has fewer keys than %s has certificates", keyAuthorityKeys, keyAuthorities)
		}
		key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
		if err != nil {
			return state{}, fmt.Errorf("%s: %w", keyAuthorityKeys, err)
		}
		private, ok := key.(*ecdsa.PrivateKey)
		if !ok || !private.PublicKey.Equal(certificate.PublicKey) {
			return state{}, fmt.Errorf("%s has a key that is not that of the certificate in %s", keyAuthorityKeys, keyAuthorities)
		}
		s.authorities = append(s.authorities, authority{certificate, private})
	}
	pair, err := tls.X509KeyPair(data[keyCertificate], data[keyPrivate])
	if err != nil {
		return state{}, fmt.Errorf("%s and %s: %w", keyCertificate, keyPrivate, err)
	}
	s.certificate = &pair
	return s, nil
}

// material is what the state means for the API and its clients.
func (s state) material() *material {
	var authorities []byte
	for _, a := range s.authorities {
		authorities = append(authorities, encodeCertificate(a.certificate)...)
	}
	return &material{certificate: s.certificate, authorities: string(authorities)}
}

func encodeCertificate(certificate *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: pemCertificate, Bytes: certificate.Raw})
}

func encodeKey(key any) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode a key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: pemPrivateKey, Bytes: der}), nil
}

// parseCertificates reads the certificates of a PEM file, and leaves out everything else.
func parseCertificates(content []byte) ([]*x509.Certificate, error) {
	var certificates []*x509.Certificate
	for block, rest := pem.Decode(content); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != pemCertificate {
			continue
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		certificates = append(certificates, certificate)
	}
	if len(certificates) == 0 {
		return nil, errors.New("it contains no PEM certificate")
	}
	return certificates, nil
}
