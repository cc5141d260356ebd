package match

import (
	"errors"
	"fmt"
	"sync"

	v6 "github.com/anchore/grype/grype/db/v6"
	"github.com/anchore/grype/grype/vulnerability"
	"gorm.io/gorm"
)

// provider is Grype's provider without its costliest part.
type provider struct {
	vulnerability.Provider
	failures *failures
}

// newProvider watches and wraps a reader.
func newProvider(reader v6.Reader) (*provider, error) {
	access, ok := reader.(interface{ GetDB() *gorm.DB })
	if !ok {
		return nil, errors.New("the database reader gives no access to its queries")
	}
	f := &failures{}
	if err := f.watch(access.GetDB()); err != nil {
		return nil, err
	}
	return &provider{Provider: v6.NewVulnerabilityProvider(reader), failures: f}, nil
}

// VulnerabilityMetadata answers nothing. Grype asks for every match, with four queries each, only to count severities
// for a progress bar that nobody sees here; the vulnerabilities themselves carry their metadata.
func (p *provider) VulnerabilityMetadata(vulnerability.Reference) (*vulnerability.Metadata, error) {
	return nil, nil
}

// failures remembers queries that failed. Grype logs most errors of its matchers and goes on; a disk that cannot be read
// would then look like an image without vulnerabilities.
type failures struct {
	mu   sync.Mutex
	n    int
	last error
}

// watch asks to be called after every query.
func (f *failures) watch(db *gorm.DB) error {
	const name = "scanner:failures"
	callbacks := db.Callback()
	for _, err := range []error{
		callbacks.Query().After("*").Register(name, f.note),
		callbacks.Row().After("*").Register(name, f.note),
		callbacks.Raw().After("*").Register(name, f.note),
	} {
		if err != nil {
			return fmt.Errorf("watch the queries: %w", err)
		}
	}
	return nil
}

func (f *failures) note(db *gorm.DB) {
	if db.Error == nil || errors.Is(db.Error, gorm.ErrRecordNotFound) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.n++
	f.last = db.Error
}

func (f *failures) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.n
}

// since returns the last error when there were any after the given count. With several matches at a time, an error of one
// fails the others as well: they used the same disk.
func (f *failures) since(count int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.n == count {
		return nil
	}
	return f.last
}
