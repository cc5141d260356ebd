package match

import (
	"errors"
	"sync"

	v6 "github.com/anchore/grype/grype/db/v6"
	"github.com/anchore/grype/grype/vulnerability"
	"github.com/anchore/syft/syft/cpe"
)

// provider is Grype's provider without its costliest part.
type provider struct {
	vulnerability.Provider
	reader *watchedReader
}

// VulnerabilityMetadata answers nothing. Grype asks for every match, with four queries each, only to count severities
// for a progress bar that nobody sees here; the vulnerabilities themselves carry their metadata.
func (p *provider) VulnerabilityMetadata(vulnerability.Reference) (*vulnerability.Metadata, error) {
	return nil, nil
}

// watchedReader remembers failures of the database. Grype logs most errors of its matchers and goes on; a disk that
// cannot be read would then look like an image without vulnerabilities.
type watchedReader struct {
	v6.Reader

	mu    sync.Mutex
	count int
	last  error
}

func (r *watchedReader) failures() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.count
}

// failedSince returns the last error when there were any after the given count. With several matches at a time, an
// error of one fails the others as well: they used the same disk.
func (r *watchedReader) failedSince(count int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.count == count {
		return nil
	}
	return r.last
}

func (r *watchedReader) watch(err error) {
	switch {
	case err == nil, errors.Is(err, v6.ErrOSNotPresent), errors.Is(err, v6.ErrMissingOSIdentification),
		errors.Is(err, v6.ErrLimitReached), errors.Is(err, v6.ErrDBCapabilityNotSupported):
		// These are answers about the question, not about the database.
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count++
	r.last = err
}

// GetAffectedPackages implements v6.Reader.
func (r *watchedReader) GetAffectedPackages(p *v6.PackageSpecifier, o *v6.GetPackageOptions) ([]v6.AffectedPackageHandle, error) {
	out, err := r.Reader.GetAffectedPackages(p, o)
	r.watch(err)
	return out, err
}

// GetUnaffectedPackages implements v6.Reader.
func (r *watchedReader) GetUnaffectedPackages(p *v6.PackageSpecifier, o *v6.GetPackageOptions) ([]v6.UnaffectedPackageHandle, error) {
	out, err := r.Reader.GetUnaffectedPackages(p, o)
	r.watch(err)
	return out, err
}

// GetAffectedCPEs implements v6.Reader.
func (r *watchedReader) GetAffectedCPEs(c *cpe.Attributes, o *v6.GetCPEOptions) ([]v6.AffectedCPEHandle, error) {
	out, err := r.Reader.GetAffectedCPEs(c, o)
	r.watch(err)
	return out, err
}

// GetUnaffectedCPEs implements v6.Reader.
func (r *watchedReader) GetUnaffectedCPEs(c *cpe.Attributes, o *v6.GetCPEOptions) ([]v6.UnaffectedCPEHandle, error) {
	out, err := r.Reader.GetUnaffectedCPEs(c, o)
	r.watch(err)
	return out, err
}

// GetEpss implements v6.Reader.
func (r *watchedReader) GetEpss(cve string) ([]v6.EpssHandle, error) {
	out, err := r.Reader.GetEpss(cve)
	r.watch(err)
	return out, err
}

// GetCWEs implements v6.Reader.
func (r *watchedReader) GetCWEs(cve string) ([]v6.CWEHandle, error) {
	out, err := r.Reader.GetCWEs(cve)
	r.watch(err)
	return out, err
}

// GetKnownExploitedVulnerabilities implements v6.Reader.
func (r *watchedReader) GetKnownExploitedVulnerabilities(cve string) ([]v6.KnownExploitedVulnerabilityHandle, error) {
	out, err := r.Reader.GetKnownExploitedVulnerabilities(cve)
	r.watch(err)
	return out, err
}
