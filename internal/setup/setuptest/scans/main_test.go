// Package scans tests what whole operators do about scans: when they start them, how many, and what follows from each end.
package scans

import (
	"os"
	"testing"

	"github.com/scanner-operator/scanner-operator/internal/controller/controllertest"
	"github.com/scanner-operator/scanner-operator/internal/setup/setuptest"
)

const (
	patience = setuptest.Patience
	tick     = setuptest.Tick
)

func TestMain(m *testing.M) { os.Exit(controllertest.Main(m)) }
