package dbserver

import (
	"fmt"
	"os"
	"strings"
	"syscall"
)

// availableMemory is how many bytes files in memoryDir can take; 0 if that is unknown.
func availableMemory() uint64 {
	var files syscall.Statfs_t
	if err := syscall.Statfs(memoryDir, &files); err != nil {
		return 0
	}
	const tmpfs = 0x01021994 // TMPFS_MAGIC of Linux
	if files.Type != tmpfs {
		return 0
	}
	content, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	var kilobytes uint64
	for line := range strings.Lines(string(content)) {
		if value, found := strings.CutPrefix(line, "MemAvailable:"); found {
			if _, err := fmt.Sscan(value, &kilobytes); err != nil {
				return 0
			}
		}
	}
	return min(kilobytes<<10, files.Bavail*uint64(files.Bsize))
}
