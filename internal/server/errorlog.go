package server

import (
	"log"
	"strings"

	"github.com/go-logr/logr"
)

// errorLog is the log that net/http writes to about connections; what it says is caused by clients mostly.
func errorLog(to logr.Logger) *log.Logger { return log.New(logWriter{to}, "", 0) }

type logWriter struct{ log logr.Logger }

// Write logs one line.
func (w logWriter) Write(line []byte) (int, error) {
	w.log.V(1).Info("Connection failed", "error", strings.TrimSpace(string(line)))
	return len(line), nil
}
