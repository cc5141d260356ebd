//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// fileLock is an advisory lock that the kernel drops when its holder dies.
type fileLock struct {
	file *os.File
	path string
}

// acquireLock waits for the lock until ctx ends; onWait is called once if somebody else holds it.
func acquireLock(ctx context.Context, path string, onWait func()) (*fileLock, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	waited := false
	for {
		l, err := tryLock(path)
		if err != nil || l != nil {
			return l, err
		}
		if !waited && onWait != nil {
			onWait()
		}
		waited = true
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for the lock %s: %w", path, ctx.Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// tryLock returns nil without an error when the lock is held elsewhere.
func tryLock(path string) (*fileLock, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if errors.Is(err, os.ErrNotExist) {
		// The last holder removed the directory together with the lock.
		return nil, os.MkdirAll(filepath.Dir(path), 0o700)
	}
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, unix.EINTR) {
			return nil, nil
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	// A lock on a file that was unlinked meanwhile protects nothing.
	held, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, err
	}
	current, err := os.Stat(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		f.Close()
		return nil, err
	}
	if current == nil || !os.SameFile(held, current) {
		f.Close()
		return nil, nil
	}
	return &fileLock{file: f, path: path}, nil
}

func (l *fileLock) release() { l.file.Close() }

// remove deletes the lock's file before it is released, so that `down` leaves no trace.
func (l *fileLock) remove() {
	os.Remove(l.path)
	l.file.Close()
}
