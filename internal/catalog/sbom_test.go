package catalog

import (
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/anchore/stereoscope/pkg/image"
)

// TestTempDirIsRestored: as soon as an analysis has ended, TMPDIR is the previous one again. Otherwise, the next user of temporary files
// would look for a folder that is removed with the image's.
func TestTempDirIsRestored(t *testing.T) {
	before := os.TempDir()
	refused := errors.New("refused")
	read := func(context.Context) (*image.Image, error) { return nil, refused }
	// Others change the environment meanwhile, so that restoring it takes a while.
	var ended atomic.Bool
	var others sync.WaitGroup
	defer others.Wait()
	defer ended.Store(true)
	for range 4 {
		others.Go(func() {
			for !ended.Load() {
				_ = os.Unsetenv("TMPDIR_OF_NOBODY")
			}
		})
	}
	for range 500 {
		_, _, err := createSBOM(t.Context(), read, "debian", Limits{}.orDefaults(), t.TempDir(), nil)
		after := os.TempDir()
		if !errors.Is(err, refused) {
			t.Fatalf("the analysis ended with %v", err)
		}
		if after != before {
			t.Fatalf("after an analysis, temporary files go to %s, want %s", after, before)
		}
	}
}
