package vulndb

import (
	"fmt"
	"syscall"
)

// spareBytes are left free, so that whatever else is on the volume can go on.
const spareBytes = 64 << 20

// checkSpace refuses work that the volume has no room for. What is in the way of a database is better known before hours of
// download than after. A size that is not known is not refused.
func (l *Library) checkSpace(what string, size int64) error {
	if size <= 0 {
		return nil
	}
	free, err := l.free(l.cfg.Dir)
	if err != nil {
		l.cfg.Log.Error(err, "Cannot tell how much space is free", "folder", l.cfg.Dir)
		return nil
	}
	if free < size+spareBytes {
		return fmt.Errorf("there is not enough space in %s: %s needs %d MB and %d MB to spare, %d MB are free; give the volume more room",
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
	return int64(stat.Bavail) * stat.Bsize, nil //nolint:unconvert // its type differs between systems
}
