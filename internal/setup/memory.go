package setup

import (
	"fmt"
	"math"
	"os"
	"runtime/debug"
	"strconv"

	"github.com/scanner-operator/scanner-operator/internal/server"
)

const (
	// memoryLimitEnv holds the memory limit of the container in bytes.
	memoryLimitEnv = "MEMORY_LIMIT"
	// leastHeadroom is how much of it is left at least to what the Go runtime does not count: the program itself, and memory of SQLite.
	leastHeadroom = 128 << 20
	// gcPercent is how much the heap grows until garbage is collected. In a large cluster most of it are caches, which stay: with the default
	// of 100, garbage would take as much memory as they do.
	gcPercent = 50
	// defaultMemory is taken for the memory of a process that has no limit, in bytes.
	defaultMemory = 2 << 30
	// Parts of the memory: documents are decoded in a half, held while they are uploaded in an eighth, and while they are sent in
	// another. The rest is for matching, caches and the runtime.
	decodeShare, uploadShare, answerShare = 2, 8, 8
)

// LimitMemory has the Go runtime collect garbage when the heap has grown by half, unless GOGC says something else, and stay below the memory limit
// of the container, if the environment variable MEMORY_LIMIT tells it: by a tenth, or by 128 MiB if that is more. GOMEMLIMIT takes precedence. If
// scans run in child processes, half of the container is for them: their share is returned, in bytes; it is 0 without a limit. The container has one
// limit, and the kernel may kill all of its processes.
func LimitMemory(catalog CatalogMode) (children int64, err error) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	value := os.Getenv(memoryLimitEnv)
	if value == "" {
		return 0, nil
	}
	limit, err := strconv.ParseInt(value, 10, 64)
	if err != nil || limit < 2*leastHeadroom {
		return 0, fmt.Errorf("%s=%s: use the memory limit of the container in bytes, at least %d", memoryLimitEnv, value, 2*leastHeadroom)
	}
	if catalog == CatalogInProcess {
		children = limit / 2
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(limit - children - max(limit/10, leastHeadroom))
	}
	return children, nil
}

// memory is how much memory this process may take, in bytes, by the soft limit of the Go runtime.
func memory() int64 {
	if limit := debug.SetMemoryLimit(-1); limit < math.MaxInt64 {
		return limit
	}
	return defaultMemory
}

// limits are those of the server.
func limits(opts Options) server.Limits {
	return server.Limits{
		AddressConnections: opts.AddressConnections, UploadMemory: memory() / uploadShare, AnswerMemory: memory() / answerShare,
	}
}
