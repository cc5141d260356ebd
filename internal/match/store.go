package match

import (
	"errors"
	"fmt"
	"sync"

	v6 "github.com/anchore/grype/grype/db/v6"
	"gorm.io/gorm"
)

// store is an open database, shared by all runs, with what is remembered of it.
type store struct {
	v6.Reader
	db       *gorm.DB
	failures *failures
	content  *content
	imports  *Imports
	memo     *memo

	affectedPackages   *cache[string, []v6.AffectedPackageHandle]
	unaffectedPackages *cache[string, []v6.UnaffectedPackageHandle]
	affectedCPEs       *cache[string, []v6.AffectedCPEHandle]
	unaffectedCPEs     *cache[string, []v6.UnaffectedCPEHandle]

	supported   decorationSupport
	decorations *cache[string, *decoration]
}

// newStore watches and wraps a reader.
func newStore(reader v6.Reader) (*store, error) {
	access, ok := reader.(interface{ GetDB() *gorm.DB })
	if !ok {
		return nil, errors.New("the database reader of Grype does not expose its connection")
	}
	s := &store{
		Reader: reader, db: access.GetDB(), failures: &failures{},
		affectedPackages:   newCache[string, []v6.AffectedPackageHandle](maxRecords),
		unaffectedPackages: newCache[string, []v6.UnaffectedPackageHandle](maxRecords),
		affectedCPEs:       newCache[string, []v6.AffectedCPEHandle](maxRecords),
		unaffectedCPEs:     newCache[string, []v6.UnaffectedCPEHandle](maxRecords),
		decorations:        newCache[string, *decoration](maxDecorations),
	}
	metadata, err := reader.GetDBMetadata()
	if err != nil {
		return nil, fmt.Errorf("read the schema version: %w", err)
	}
	s.supported = supportedDecorations(metadata)
	if s.content, err = readContent(s.db); err != nil {
		return nil, err
	}
	if s.imports, err = readImports(s.db); err != nil {
		return nil, err
	}
	s.memo = newMemo(s.db, s.expect)
	return s, errors.Join(s.failures.watch(s.db), s.memo.install())
}

// Close forgets everything and releases the files.
func (s *store) Close() error {
	s.memo.clear()
	s.affectedPackages.clear()
	s.unaffectedPackages.clear()
	s.affectedCPEs.clear()
	s.unaffectedCPEs.clear()
	s.decorations.clear()
	return s.Reader.Close()
}

// GetDB is how Grype's provider completes the records that it was given.
func (s *store) GetDB() *gorm.DB { return s.db }

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
			return fmt.Errorf("observe the database queries: %w", err)
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
