package dbserver

import (
	"flag"
	"os"
)

// memoryDir is a file system in memory on Linux.
const memoryDir = "/dev/shm"

// minMemory must be available, and free in memoryDir, for a server to keep its data there. The data of tests are below 1 GiB.
const minMemory = 6 << 30

// dataDir is the parent of the directories of servers: memoryDir if there is enough memory, since new databases are many files, which take a third
// of the time there. Benchmarks have databases of several gigabytes, and measure those that are on disk.
func dataDir() string {
	bench := flag.Lookup("test.bench")
	return dataDirOf(bench != nil && bench.Value.String() != "", availableMemory())
}

func dataDirOf(benchmarks bool, available uint64) string {
	if benchmarks || available < minMemory {
		return os.TempDir()
	}
	return memoryDir
}
