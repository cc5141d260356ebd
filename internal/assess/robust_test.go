package assess

import (
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/klauspost/compress/zstd"
	"k8s.io/utils/clock"

	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/vuln"
	"github.com/scanner-operator/scanner-operator/internal/vulndb"
)

const emptySBOM = `{"artifacts":[],"artifactRelationships":[],"files":[],"source":{"id":"x","name":"x","version":"","type":"directory","metadata":{"path":"/"}},
	"distro":{},"descriptor":{"name":"syft","version":"1"},
	"schema":{"version":"16.0.0","url":"https://raw.githubusercontent.com/anchore/syft/main/schema/json/schema-16.0.0.json"}}`

func TestPanicOfAMatcherIsAnError(t *testing.T) {
	encoder, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	sbom := store.SBOM{Content: encoder.EncodeAll([]byte(emptySBOM), nil)}
	// A database that is not there panics in its place.
	if _, err := matchSBOM(t.Context(), nil, sbom); err == nil || !strings.Contains(err.Error(), "panicked") {
		t.Errorf("matchSBOM: %v, want an error that tells of the panic", err)
	}
}

type oneBuild struct{ installed vulndb.Installed }

func (l oneBuild) Current() (vulndb.Installed, bool) { return l.installed, l.installed.Dir != "" }
func (oneBuild) Changed() <-chan struct{}            { return nil }

func TestBuildIsKnownFromTheStart(t *testing.T) {
	build := vuln.DatabaseBuild{ID: "b", Built: time.Unix(1, 0), Source: vuln.DatabaseSourceOfficial}
	library := oneBuild{vulndb.Installed{Dir: t.TempDir(), Build: build}}
	assessor := New(nil, library, clock.RealClock{}, logr.Discard())
	if got, known := assessor.Build(); !known || got != build {
		t.Errorf("before it is open: %v, %t; want %v", got, known, build)
	}
	// The folder is empty.
	if database := assessor.use(nil); database != nil {
		t.Fatal("opened a database that is not there")
	}
	if got, known := assessor.Build(); known {
		t.Errorf("after it could not be opened: %v, want none", got)
	}
	if got, known := New(nil, oneBuild{}, clock.RealClock{}, logr.Discard()).Build(); known {
		t.Errorf("without any database: %v, want none", got)
	}
}
