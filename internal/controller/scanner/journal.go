package scanner

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/scanjob"
)

// journalEntry is the file of an attempt in the journal.
type journalEntry struct {
	Name       string
	Key        model.ImageKey
	ScannerUID string
	SizeClass  model.SizeClass
	For        string
}

// Recover reads the journal. An attempt that was under way when a previous manager was killed has failed: the image may be the reason, and would
// end each manager anew without the backoff. At most keepOutcomes attempts are read.
func (p *InProcess) Recover() error {
	if err := os.MkdirAll(p.Journal, 0o700); err != nil {
		return fmt.Errorf("create the journal of scans: %w", err)
	}
	files, err := os.ReadDir(p.Journal)
	if err != nil {
		return fmt.Errorf("read the journal of scans: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.attempts = map[string]Attempt{}
	for _, file := range files {
		path := filepath.Join(p.Journal, file.Name())
		content, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("read the journal of scans: %w", err)
		}
		var entry journalEntry
		if len(p.attempts) == keepOutcomes || json.Unmarshal(content, &entry) != nil || entry.Name != file.Name() {
			// The manager was killed while it wrote the file, before the scan began.
			if err := os.Remove(path); err != nil {
				return fmt.Errorf("empty the journal of scans: %w", err)
			}
			continue
		}
		p.attempts[entry.Name] = Attempt{
			Key: entry.Key, ScannerUID: entry.ScannerUID, SizeClass: entry.SizeClass, For: entry.For, Started: true, Done: true,
			Outcome: model.Outcome{Reason: model.ReasonCatalogFailed, Message: "the operator was killed during the scan"},
		}
		p.order = append(p.order, entry.Name)
	}
	return nil
}

// begin writes the file of an attempt, and removes those of previous attempts at the image, whose failures are recorded by now.
func (p *InProcess) begin(req scanjob.Request) error {
	for name, attempt := range p.attempts {
		if attempt.Key == req.Key && attempt.Done {
			if err := p.end(name); err != nil {
				return err
			}
		}
	}
	content, err := json.Marshal(journalEntry{req.Name, req.Key, req.ScannerUID, req.SizeClass, req.For})
	if err == nil {
		err = os.WriteFile(filepath.Join(p.Journal, req.Name), content, 0o600)
	}
	if err != nil {
		return fmt.Errorf("write the journal of scans: %w", err)
	}
	return nil
}

// end removes the file of an attempt, if there is one.
func (p *InProcess) end(name string) error {
	if err := os.Remove(filepath.Join(p.Journal, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove an attempt from the journal of scans: %w", err)
	}
	return nil
}
