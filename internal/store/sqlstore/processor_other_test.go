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

// began is when the process began.
var began = time.Now()

// ownTime is the time since the process began.
func ownTime() time.Duration { return time.Since(began) }
