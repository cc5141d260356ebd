package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// pkcs8 returns a private key in PEM and writes its public key beside the test's files.
func pkcs8(t *testing.T, private, public any) (key, publicFile string) {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	publicDER, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	publicFile = filepath.Join(t.TempDir(), "release.pub")
	if err := os.WriteFile(publicFile, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: publicDER}), 0o600); err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})), publicFile
}

// TestSign verifies signatures as docs/how-to/release.md describes it.
func TestSign(t *testing.T) {
	openssl, err := exec.LookPath("openssl")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("openssl is not installed")
		}
		t.Skip("openssl is not installed")
	}
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	edPublic, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		private, public any
		verify          func(public, file string) []string
	}{
		"ECDSA": {ec, ec.Public(), func(public, file string) []string {
			return []string{"dgst", "-sha256", "-verify", public, "-signature", file + ".sig", file}
		}},
		"Ed25519": {ed, edPublic, func(public, file string) []string {
			return []string{"pkeyutl", "-verify", "-pubin", "-inkey", public, "-rawin", "-in", file, "-sigfile", file + ".sig"}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			key, public := pkcs8(t, c.private, c.public)
			s, err := newSigner(options{SigningKey: key})
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(t.TempDir(), checksums)
			var signatures [2][]byte
			for i := range signatures {
				if err := os.WriteFile(file, []byte("0123  file\n"), 0o600); err != nil {
					t.Fatal(err)
				}
				if err := s.sign(file); err != nil {
					t.Fatal(err)
				}
				if signatures[i], err = os.ReadFile(file + ".sig"); err != nil {
					t.Fatal(err)
				}
			}
			if !bytes.Equal(signatures[0], signatures[1]) {
				t.Error("two signatures of one file differ")
			}
			if out, err := exec.CommandContext(t.Context(), openssl, c.verify(public, file)...).CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
			if err := os.WriteFile(file, []byte("4567  file\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			if out, err := exec.CommandContext(t.Context(), openssl, c.verify(public, file)...).CombinedOutput(); err == nil {
				t.Errorf("openssl accepts the signature of a changed file: %s", out)
			}
		})
	}
}

func TestSigningKey(t *testing.T) {
	if s, err := newSigner(options{}); s != nil || err != nil {
		t.Errorf("without a key: %v, %v", s, err)
	}
	if _, err := newSigner(options{RequireSignature: true}); err == nil || !strings.Contains(err.Error(), "SIGNING_KEY must hold") {
		t.Errorf("without a required key: %v", err)
	}
	if err := (*signer)(nil).sign("nowhere"); err != nil {
		t.Errorf("without a key: %v", err)
	}
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalECPrivateKey(ec)
	if err != nil {
		t.Fatal(err)
	}
	// "openssl ecparam -genkey" writes the parameters before the key.
	sec1 := string(pem.EncodeToMemory(&pem.Block{Type: "EC PARAMETERS", Bytes: []byte{6, 0}})) +
		string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}))
	if s, err := newSigner(options{SigningKey: sec1}); s == nil || err != nil {
		t.Errorf("SEC 1: %v, %v", s, err)
	}
	other, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	rsaKey, _ := pkcs8(t, other, other.Public())
	wide, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	wideKey, _ := pkcs8(t, wide, wide.Public())
	for name, c := range map[string]struct{ key, want string }{
		"no PEM":         {"secret", "no private key"},
		"broken":         {"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "read SIGNING_KEY"},
		"RSA":            {rsaKey, "use Ed25519 or ECDSA on P-256"},
		"ECDSA on P-384": {wideKey, "use Ed25519 or ECDSA on P-256"},
	} {
		if _, err := newSigner(options{SigningKey: c.key}); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
