// Package frontproxytest issues certificates for tests of front proxies.
package frontproxytest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// CommonName is that of certificates, unless a test changes it.
const CommonName = "front-proxy"

// Authority is a certificate authority.
type Authority struct {
	tb          testing.TB
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	// chain are the certificates that clients send in addition to their own.
	chain [][]byte
}

// New makes an authority with a certificate that it signed itself.
func New(tb testing.TB, name string) *Authority {
	tb.Helper()
	return (*Authority)(nil).sub(tb, name)
}

// Intermediate makes an authority with a certificate of this one, which clients send with theirs.
func (a *Authority) Intermediate(name string) *Authority {
	a.tb.Helper()
	return a.sub(a.tb, name)
}

func (a *Authority) sub(tb testing.TB, name string) *Authority {
	tb.Helper()
	template := template(name)
	template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	key, certificate := sign(tb, template, a)
	made := &Authority{tb: tb, certificate: certificate, key: key}
	if a != nil {
		made.chain = append([][]byte{certificate.Raw}, a.chain...)
	}
	return made
}

// PEM is the certificate of the authority.
func (a *Authority) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.certificate.Raw})
}

// File writes the certificate of the authority to a file of the test, and returns its name.
func (a *Authority) File() string {
	a.tb.Helper()
	name := filepath.Join(a.tb.TempDir(), "ca.crt")
	if err := os.WriteFile(name, a.PEM(), 0o600); err != nil {
		a.tb.Fatal(err)
	}
	return name
}

// Issue makes a certificate for a TLS client, which change may make another one.
func (a *Authority) Issue(change func(*x509.Certificate)) tls.Certificate {
	a.tb.Helper()
	template := template(CommonName)
	template.KeyUsage, template.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if change != nil {
		change(template)
	}
	key, certificate := sign(a.tb, template, a)
	return tls.Certificate{Certificate: append([][]byte{certificate.Raw}, a.chain...), PrivateKey: key, Leaf: certificate}
}

func template(name string) *x509.Certificate {
	now := time.Now()
	return &x509.Certificate{Subject: pkix.Name{CommonName: name}, SerialNumber: big.NewInt(now.UnixNano()), NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour)}
}

// sign signs a certificate with the key of an authority, or with its own for none.
func sign(tb testing.TB, template *x509.Certificate, by *Authority) (*ecdsa.PrivateKey, *x509.Certificate) {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	parent, signer := template, key
	if by != nil {
		parent, signer = by.certificate, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		tb.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		tb.Fatal(err)
	}
	return key, certificate
}
