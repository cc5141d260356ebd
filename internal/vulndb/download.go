package vulndb

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	v6 "github.com/anchore/grype/grype/db/v6"
	"github.com/anchore/grype/grype/db/v6/distribution"
)

// maxListingBytes bounds the listing, which is a few hundred bytes.
const maxListingBytes = 1 << 20

func officialURL() string { return distribution.DefaultConfig().LatestURL }

// statusError is an answer that is not 200.
type statusError struct {
	url    string
	status int
}

func (e *statusError) Error() string {
	return fmt.Sprintf("%s responded with %d %s", e.url, e.status, http.StatusText(e.status))
}

// newHTTPClient makes a client that goes through the proxy that HTTPS_PROXY, HTTP_PROXY and NO_PROXY name.
func newHTTPClient(caFile string) (*http.Client, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // is one since Go 1
	transport.ResponseHeaderTimeout = 30 * time.Second
	if caFile != "" {
		pem, err := os.ReadFile(caFile)
		if err != nil {
			return nil, fmt.Errorf("vulnerability database: read the CA file: %w", err)
		}
		pool, err := x509.SystemCertPool()
		if err != nil {
			pool = x509.NewCertPool()
		}
		if !pool.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("vulnerability database: the CA file %s contains no PEM certificate", caFile)
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	return &http.Client{Transport: transport}, nil
}

// listing says which archive a server offers.
type listing struct {
	archive  distribution.Archive
	url      string
	checksum string
}

// latest asks the configured server what its newest database is.
func (l *Library) latest(ctx context.Context) (listing, error) {
	ctx, cancel := context.WithTimeout(ctx, l.cfg.CheckTimeout)
	defer cancel()
	var failure error
	for _, candidate := range listingURLs(l.cfg.UpdateURL) {
		body, err := l.get(ctx, candidate)
		if err != nil {
			failure = err
			var status *statusError
			if errors.As(err, &status) && status.status == http.StatusNotFound {
				continue
			}
			break
		}
		data, err := io.ReadAll(io.LimitReader(body, maxListingBytes+1))
		_ = body.Close()
		if err != nil {
			return listing{}, fmt.Errorf("read the database listing %s: %w", redact(candidate), err)
		}
		if len(data) > maxListingBytes {
			return listing{}, fmt.Errorf("the database listing %s is larger than %d bytes", redact(candidate), maxListingBytes)
		}
		return parseListing(data, candidate)
	}
	return listing{}, fmt.Errorf("download the database listing: %w", failure)
}

// listingURLs names the places of the listing: as Grype lays it out, and beside the archive.
func listingURLs(base string) []string {
	if strings.HasSuffix(base, ".json") {
		return []string{base}
	}
	base = strings.TrimRight(base, "/")
	return []string{
		fmt.Sprintf("%s/v%d/%s", base, v6.ModelVersion, distribution.LatestFileName),
		base + "/" + distribution.LatestFileName,
	}
}

func parseListing(data []byte, from string) (listing, error) {
	document, err := distribution.NewLatestFromReader(bytes.NewReader(data))
	if err != nil {
		return listing{}, fmt.Errorf("the database listing %s: %w", redact(from), err)
	}
	if document == nil {
		return listing{}, fmt.Errorf("the database listing %s is empty", redact(from))
	}
	if document.SchemaVersion.Model != v6.ModelVersion {
		return listing{}, fmt.Errorf("the server provides a vulnerability database with schema %s; this version of the operator supports schema %d",
			document.SchemaVersion, v6.ModelVersion)
	}
	checksum, ok := strings.CutPrefix(document.Checksum, "sha256:")
	if raw, err := hex.DecodeString(checksum); !ok || err != nil || len(raw) != sha256.Size {
		return listing{}, fmt.Errorf("the database listing %s contains no sha256 checksum of the archive", redact(from))
	}
	u, err := url.Parse(from)
	if err != nil {
		return listing{}, fmt.Errorf("the database listing %s: %w", redact(from), err)
	}
	// The archive lies beside the listing or below it, whatever dots its path holds.
	u.Path = path.Join(path.Dir(u.Path), path.Clean("/"+document.Path))
	u.RawPath = ""
	return listing{archive: document.Archive, url: u.String(), checksum: strings.ToLower(checksum)}, nil
}

// fetch downloads an archive and takes the database out of it, and returns the SHA-256 of the database.
func (l *Library) fetch(ctx context.Context, from, checksum, dir string) (string, error) {
	archive := filepath.Join(dir, "..", "..", "archive")
	if err := l.download(ctx, from, checksum, archive); err != nil {
		return "", err
	}
	id, err := l.unpack(ctx, archive, dir)
	if err != nil {
		return "", fmt.Errorf("%s: %w", redact(from), err)
	}
	// The space is better spent on the indexes of the database.
	if err := os.Remove(archive); err != nil {
		return "", fmt.Errorf("vulnerability database: %w", err)
	}
	return id, nil
}

// download fetches an archive into a file. An empty checksum is not compared.
func (l *Library) download(ctx context.Context, from, checksum, file string) error {
	ctx, cancel := context.WithTimeout(ctx, l.cfg.DownloadTimeout)
	defer cancel()
	body, err := l.get(ctx, from)
	if err != nil {
		return fmt.Errorf("download the vulnerability database: %w", err)
	}
	defer func() { _ = body.Close() }()
	if body.size > l.cfg.MaxArchiveBytes {
		return l.archiveTooLarge(from)
	}
	if err := l.checkSpace("the archive", body.size); err != nil {
		return err
	}
	out, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("vulnerability database: %w", err)
	}
	hash := sha256.New()
	counted := &progressReader{r: body, report: func(n int64) { l.progress("download", n, max(body.size, 0)) }}
	n, err := io.Copy(io.MultiWriter(out, hash), io.LimitReader(counted, l.cfg.MaxArchiveBytes+1))
	if closeErr := out.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return fmt.Errorf("download the vulnerability database from %s: %w", redact(from), err)
	}
	if n > l.cfg.MaxArchiveBytes {
		return l.archiveTooLarge(from)
	}
	if got := hex.EncodeToString(hash.Sum(nil)); checksum != "" && got != checksum {
		return fmt.Errorf("the archive %s has the checksum sha256:%s instead of sha256:%s from its listing", redact(from), got, checksum)
	}
	return nil
}

func (l *Library) archiveTooLarge(from string) error {
	return fmt.Errorf("the archive %s is larger than %d bytes", redact(from), l.cfg.MaxArchiveBytes)
}

type response struct {
	io.ReadCloser
	size int64
}

func (l *Library) get(ctx context.Context, from string) (*response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", redact(from), err)
	}
	request.Header.Set("User-Agent", "scanner-operator")
	answer, err := l.client.Do(request)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		_ = answer.Body.Close()
		return nil, &statusError{url: redact(from), status: answer.StatusCode}
	}
	return &response{ReadCloser: answer.Body, size: answer.ContentLength}, nil
}

// redact removes a password from a URL, for messages.
func redact(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "(an invalid URL)"
	}
	return u.Redacted()
}
