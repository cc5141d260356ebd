// Package decisions tests what whole operators do about exceptions, VEX documents and owners: in all lists, metrics and events, and in a browser.
package decisions

import (
	"os"
	"testing"

	"github.com/scanner-operator/scanner-operator/internal/controller/controllertest"
	"github.com/scanner-operator/scanner-operator/internal/setup/setuptest"
)

func TestMain(m *testing.M) { os.Exit(controllertest.Main(m)) }

// What nearly every test here uses has a short name.
const (
	patience  = setuptest.Patience
	tick      = setuptest.Tick
	smallSBOM = setuptest.SBOM
)

var (
	needCluster     = setuptest.Cluster
	strictCluster   = setuptest.StrictCluster
	operator        = setuptest.Operator
	startOperatorOn = setuptest.StartOperatorOn
	namespace       = setuptest.Namespace
	create          = setuptest.Create
	tokenOf         = setuptest.Token
	amd64Node       = setuptest.Node
	sampleScanner   = setuptest.SampleScanner
	runningPod      = setuptest.RunningPod
	imageID         = setuptest.ImageID
	jobs            = setuptest.Jobs
	ready           = setuptest.Ready
	podOfJob        = setuptest.PodOfJob
	deliver         = setuptest.Deliver
	finish          = setuptest.Finish
)
