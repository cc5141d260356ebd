//go:build !linux

package sqlstore

import (
	"testing"
	"time"
)

// processor measures the time of calls: that of the processor is known on Linux only.
type processor struct{}

func newProcessor(testing.TB) *processor { return &processor{} }

func (*processor) of(call func()) time.Duration {
	start := time.Now()
	call()
	return time.Since(start)
}
