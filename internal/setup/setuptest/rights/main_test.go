// Package rights tests what whole operators ask of the API server, with the rights that the chart gives them.
package rights

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

// As in setuptest.StrictCluster.
func TestMain(m *testing.M) {
	os.Exit(controllertest.Main(m, controllertest.OwnersAreGuarded, controllertest.ListsBeforeWatches))
}
