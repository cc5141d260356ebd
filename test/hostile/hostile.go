// Package hostile holds the cases of the hostile corpus to their bounds. The corpus are the tests whose names begin with TestHostile, in
// several packages; "make hostile" runs them by themselves and counts their cases.
package hostile

import (
	"io/fs"
	"path/filepath"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"testing"
	"time"
)

// Bounds are what a case may take at most.
type Bounds struct {
	// Memory is in bytes, as the memory limit of the Go runtime counts it. The runtime is told of it, as in a container.
	Memory int64
	// Disk is in bytes: the files in Folder together. An empty Folder is not watched.
	Disk   int64
	Folder string
}

// Watch looks at memory and disk until end is called, which reports an error if there was more than the bounds at any time.
func Watch(tb testing.TB, bounds Bounds) (end func()) {
	tb.Helper()
	// As scan Jobs set GOMEMLIMIT.
	before := debug.SetMemoryLimit(bounds.Memory / 10 * 9)
	done := make(chan struct{})
	var watching sync.WaitGroup
	var memory, disk int64
	watching.Go(func() {
		ticker := time.NewTicker(20 * time.Millisecond)
		defer ticker.Stop()
		for {
			memory, disk = max(memory, inUse()), max(disk, size(bounds.Folder))
			select {
			case <-done:
				return
			case <-ticker.C:
			}
		}
	})
	return func() {
		tb.Helper()
		close(done)
		watching.Wait()
		debug.SetMemoryLimit(before)
		tb.Logf("took up to %d MiB of memory and %d MiB of disk space", memory>>20, disk>>20)
		if memory > bounds.Memory {
			tb.Errorf("took %d bytes of memory, more than %d", memory, bounds.Memory)
		}
		if bounds.Folder != "" && disk > bounds.Disk {
			tb.Errorf("took %d bytes of disk space, more than %d", disk, bounds.Disk)
		}
	}
}

// inUse is what the runtime compares with its limit.
func inUse() int64 {
	samples := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(samples)
	return int64(samples[0].Value.Uint64() - samples[1].Value.Uint64())
}

func size(folder string) (total int64) {
	if folder == "" {
		return 0
	}
	_ = filepath.WalkDir(folder, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return nil //nolint:nilerr // files come and go meanwhile
		}
		if info, err := entry.Info(); err == nil {
			total += info.Size()
		}
		return nil
	})
	return total
}
