package vulndb

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

const (
	rematchFile = "rematch.json"
	// maxRematchBytes bounds what is read of rematchFile.
	maxRematchBytes = 4 << 10
)

// rematchRequest is what rematchFile holds. The token distinguishes two requests.
type rematchRequest struct {
	Full  bool   `json:"full"`
	Token string `json:"token"`
}

// RequestRematch asks the process that runs the library in a folder to match packages again: all of them, or those that could not
// be matched. The request stays on disk until it was met. A request for all is not lost when another one follows.
func RequestRematch(dir string, full bool) error {
	unlock, err := lockRematch(dir)
	if err != nil {
		return err
	}
	defer unlock()
	pending, err := readRematch(dir)
	if err != nil {
		return err
	}
	request := rematchRequest{Full: full || parseRematch(pending).Full, Token: randomHex() + randomHex()}
	data, err := json.Marshal(request)
	if err != nil {
		return fmt.Errorf("request a rematch: %w", err)
	}
	file := filepath.Join(dir, rematchFile)
	if err := os.WriteFile(file+".tmp", append(data, '\n'), 0o600); err != nil {
		return fmt.Errorf("request a rematch: %w", err)
	}
	if err := syncPath(file + ".tmp"); err != nil {
		return err
	}
	if err := os.Rename(file+".tmp", file); err != nil {
		return fmt.Errorf("request a rematch: %w", err)
	}
	return syncPath(dir)
}

// RematchRequest says whether a re-match was asked for, and whether of all packages.
func (l *Library) RematchRequest() (full, pending bool) {
	text, err := readRematch(l.cfg.Dir)
	if err != nil {
		l.cfg.Log.Error(err, "Cannot read the rematch request")
		return false, false
	}
	l.mu.Lock()
	l.read = text
	l.mu.Unlock()
	return parseRematch(text).Full, text != ""
}

// ClearRematchRequest removes the request that RematchRequest returned last. A later request stays.
func (l *Library) ClearRematchRequest() error {
	unlock, err := lockRematch(l.cfg.Dir)
	if err != nil {
		return err
	}
	defer unlock()
	pending, err := readRematch(l.cfg.Dir)
	if err != nil {
		return err
	}
	l.mu.Lock()
	read := l.read
	l.mu.Unlock()
	if pending == "" || pending != read {
		return nil
	}
	if err := os.Remove(filepath.Join(l.cfg.Dir, rematchFile)); err != nil {
		return fmt.Errorf("remove the rematch request: %w", err)
	}
	return syncPath(l.cfg.Dir)
}

// detectRematch signals a request that is new.
func (l *Library) detectRematch() {
	pending, err := readRematch(l.cfg.Dir)
	if err != nil {
		return // RematchRequest says so
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if pending != "" && pending != l.noticed {
		l.signal()
	}
	l.noticed = pending
}

// readRematch returns the request as text, "" when there is none.
func readRematch(dir string) (string, error) {
	f, err := os.Open(filepath.Join(dir, rematchFile))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read the rematch request: %w", err)
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, maxRematchBytes))
	if err != nil {
		return "", fmt.Errorf("read the rematch request: %w", err)
	}
	if len(data) == 0 {
		return "\n", nil // somebody made the file by hand
	}
	return string(data), nil
}

// parseRematch takes what it cannot read for a request of all: somebody wanted something.
func parseRematch(text string) rematchRequest {
	var request rematchRequest
	if text == "" {
		return request
	}
	if err := json.Unmarshal([]byte(text), &request); err != nil {
		return rematchRequest{Full: true}
	}
	return request
}

// lockRematch waits for those who change the request now; that takes them no time, unless they are stopped in the middle.
func lockRematch(dir string) (unlock func(), err error) {
	const tries, pause = 100, 50 * time.Millisecond
	if _, err := os.Stat(filepath.Join(dir, buildsName)); err != nil {
		return nil, fmt.Errorf("%s is not a directory of vulnerability databases: %w", dir, err)
	}
	for range tries {
		unlock, err := tryFlock(filepath.Join(dir, "rematch.lock"))
		if unlock != nil || err != nil {
			return unlock, err
		}
		time.Sleep(pause)
	}
	return nil, fmt.Errorf("another process has locked the rematch request in %s for more than %s; stop that process", dir, tries*pause)
}

// RequestRematch asks for a re-match in this process, which learns of it at once.
func (l *Library) RequestRematch(full bool) error {
	if err := RequestRematch(l.cfg.Dir, full); err != nil {
		return err
	}
	l.detectRematch()
	return nil
}
