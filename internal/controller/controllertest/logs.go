package controllertest

import (
	"context"
	"sync"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
)

// Logs records what is logged at level info.
type Logs struct {
	mu    sync.Mutex
	lines []string
}

// Context returns a context with a logger that records.
func (l *Logs) Context(ctx context.Context) context.Context {
	return logr.NewContext(ctx, funcr.New(func(_, args string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.lines = append(l.lines, args)
	}, funcr.Options{}))
}

// Take returns the lines since the last call.
func (l *Logs) Take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := l.lines
	l.lines = nil
	return lines
}
