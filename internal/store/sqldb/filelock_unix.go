//go:build unix

package sqldb

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"syscall"
)

// lockFile takes the lock that keeps a second process away from the database at path. The kernel releases it when the
// process ends, however that happens. The lock file stays: removing it would let two processes hold locks on two files
// of the same name.
func lockFile(path string) (io.Closer, error) {
	name := path + ".lock"
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lock file of the database: %w", err)
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, errors.Join(fmt.Errorf("the database %s is in use by another process, which holds the lock on %s: "+
			"stop that process first, or use a database server to run several replicas", path, name), file.Close())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", name, err), file.Close())
	}
	// The number of the process is a help for people; the lock does not depend on it.
	if err := file.Truncate(0); err != nil {
		return nil, errors.Join(fmt.Errorf("write %s: %w", name, err), file.Close())
	}
	if _, err := file.WriteString(strconv.Itoa(os.Getpid()) + "\n"); err != nil {
		return nil, errors.Join(fmt.Errorf("write %s: %w", name, err), file.Close())
	}
	return file, nil
}
