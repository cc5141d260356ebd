package vulndb

import (
	"fmt"
	"syscall"
)

// spareBytes are left free, so that whatever else is on the volume can go on.
const spareBytes = 64 << 20

// checkSpace returns an error if the volume has too little free space. It is called before downloads and unpacking. An unknown size
// is accepted.
func (l *Library) checkSpace(what string, size int64) error {
	if size <= 0 {
		return nil
	}
	free, err := l.free(l.cfg.Dir)
	if err != nil {
		l.cfg.Log.Error(err, "Cannot determine the free disk space", "directory", l.cfg.Dir)
		return nil
	}
	if free < size+spareBytes {
		return fmt.Errorf("not enough disk space in %s: %s needs %d MB and a reserve of %d MB, but only %d MB are free; increase the size of the volume",
			l.cfg.Dir, what, size>>20, spareBytes>>20, free>>20)
	}
	return nil
}

// freeSpace is what this user may still write, in bytes.
func freeSpace(dir string) (int64, error) {
	var stat syscall.Statfs_t
	if err := syscall.Statfs(dir, &stat); err != nil {
		return 0, fmt.Errorf("file system of %s: %w", dir, err)
	}
	return int64(stat.Bavail) * int64(stat.Bsize), nil //nolint:unconvert // its type differs between systems
}
