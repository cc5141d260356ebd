package main

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
)

func testAuthority(t *testing.T) *authority {
	t.Helper()
	ca, err := newAuthority()
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

func TestIssuedCertificate(t *testing.T) {
	ca := testAuthority(t)
	id := identity{user: "system:node:a", groups: []string{"others", "system:nodes"}, hosts: []string{"localhost", "10.201.0.1"}}
	cert, key, err := ca.issue(id)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatalf("certificate and key do not fit: %v", err)
	}
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	if leaf.Subject.CommonName != id.user || !slices.Equal(leaf.Subject.Organization, id.groups) || leaf.IsCA {
		t.Errorf("got user %q, groups %q, authority %v", leaf.Subject.CommonName, leaf.Subject.Organization, leaf.IsCA)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca.pem) {
		t.Fatal("the authority's certificate is not PEM")
	}
	for _, host := range id.hosts {
		for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth} {
			if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: host, KeyUsages: []x509.ExtKeyUsage{usage}}); err != nil {
				t.Errorf("host %s, usage %d: %v", host, usage, err)
			}
		}
	}
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: "10.201.0.2"}); err == nil {
		t.Error("valid for an address that it does not name")
	}
	foreign := x509.NewCertPool()
	foreign.AddCert(testAuthority(t).cert)
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: foreign}); err == nil {
		t.Error("valid for another authority")
	}
}

func TestWritePairIsPrivate(t *testing.T) {
	dir := t.TempDir()
	if err := testAuthority(t).writePair(dir, "a", identity{user: "a"}); err != nil {
		t.Fatal(err)
	}
	if _, err := tls.LoadX509KeyPair(filepath.Join(dir, "a.crt"), filepath.Join(dir, "a.key")); err != nil {
		t.Error(err)
	}
	info, err := os.Stat(filepath.Join(dir, "a.key"))
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("the key's mode is %o", info.Mode().Perm())
	}
}

func TestKubeconfigRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kubeconfig")
	write := func(data []byte) {
		t.Helper()
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want := kubeconfig{server: "https://127.0.0.1:6443", ca: []byte("ca\n"), cert: []byte{0, 255}, key: []byte("key")}
	data, err := want.encode()
	if err != nil {
		t.Fatal(err)
	}
	write(data)
	got, err := readKubeconfig(path)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}

	ca := testAuthority(t)
	if data, err = ca.kubeconfig("https://[::1]:1", identity{user: "admin"}); err != nil {
		t.Fatal(err)
	}
	write(data)
	if got, err = readKubeconfig(path); err != nil {
		t.Fatal(err)
	}
	if _, err := tls.X509KeyPair(got.cert, got.key); err != nil || got.server != "https://[::1]:1" || !slices.Equal(got.ca, ca.pem) {
		t.Errorf("got %+v, %v", got, err)
	}

	for _, damaged := range []string{"", "clusters: []\nusers: []\n", "clusters: 1", "{"} {
		write([]byte(damaged))
		if _, err := readKubeconfig(path); err == nil {
			t.Errorf("read %q", damaged)
		}
	}
}
