package bench

import (
	"fmt"
	"os"
	"syscall"
)

// dontNeed is POSIX_FADV_DONTNEED.
const dontNeed = 4

// evict puts a file out of the page cache.
func evict(name string) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // only read
	if err := file.Sync(); err != nil {
		return fmt.Errorf("write %s to disk: %w", name, err)
	}
	if _, _, errno := syscall.Syscall6(syscall.SYS_FADVISE64, file.Fd(), 0, 0, dontNeed, 0, 0); errno != 0 {
		return fmt.Errorf("evict %s: %w", name, errno)
	}
	return nil
}
