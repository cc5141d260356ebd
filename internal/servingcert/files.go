package servingcert

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
)

const (
	// filesInterval is the time between two looks at the files. The kubelet updates mounted Secrets about once a minute.
	filesInterval = 10 * time.Second
	// maxFile bounds each file in bytes; maxAuthorities bounds the CAs, which scan pods get in an environment variable.
	maxFile        = 1 << 20
	maxAuthorities = 64 << 10
)

// FromFiles returns a source of the files tls.crt, tls.key and, unless clients need none but the CAs of their system, ca.crt of a directory.
func FromFiles(dir string, clk clock.Clock, log logr.Logger) *Source {
	return &Source{
		load:     func(context.Context) (*material, error) { return loadFiles(dir) },
		interval: filesInterval, clock: clk, log: log,
	}
}

func loadFiles(dir string) (*material, error) {
	content := map[string][]byte{}
	for _, name := range []string{keyCertificate, keyPrivate, keyAuthorities} {
		var err error
		if content[name], err = readFile(filepath.Join(dir, name)); err != nil && (name != keyAuthorities || !errors.Is(err, os.ErrNotExist)) {
			return nil, err
		}
	}
	pair, err := tls.X509KeyPair(content[keyCertificate], content[keyPrivate])
	if err != nil {
		return nil, fmt.Errorf("%s and %s in %s: %w", keyCertificate, keyPrivate, dir, err)
	}
	loaded := &material{certificate: &pair}
	// cert-manager leaves ca.crt empty where the issuer does not say its CA.
	if len(bytes.TrimSpace(content[keyAuthorities])) == 0 {
		return loaded, nil
	}
	certificates, err := parseCertificates(content[keyAuthorities])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, keyAuthorities), err)
	}
	for _, certificate := range certificates {
		loaded.authorities += string(encodeCertificate(certificate))
	}
	if len(loaded.authorities) > maxAuthorities {
		return nil, fmt.Errorf("%s has %d bytes of certificates, which exceeds the limit of %d bytes: keep only the CA that issues the certificate of the API",
			filepath.Join(dir, keyAuthorities), len(loaded.authorities), maxAuthorities)
	}
	return loaded, nil
}

// readFile reads a file of bounded size.
func readFile(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the certificate of the API: %w", err)
	}
	defer func() { _ = file.Close() }()
	content, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read the certificate of the API: %w", err)
	}
	if len(content) > maxFile {
		return nil, fmt.Errorf("%s exceeds the limit of %d bytes", path, maxFile)
	}
	return content, nil
}
