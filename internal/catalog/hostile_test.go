package catalog

import (
	"bytes"
	"io"
	"os"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/scanner-operator/scanner-operator/test/hostile"
)

// The hostile corpus: tests whose name begins with TestHostile, in several packages. "make hostile" runs them and counts their cases.
// Here are images and registries that are meant to do harm. All of them are made by the tests.

const (
	// hostileMemory is what a hostile image may take: the memory of the smallest scan.
	hostileMemory = 768 << 20
	// hostileTimeout ends a case that has no end of its own; it is far above what the slowest takes.
	hostileTimeout = 3 * time.Minute
	// watchedDisk is how much can be written between two looks at the scratch folder.
	watchedDisk = 2 << 30
)

// runHostile catalogs an image and holds it to the bounds that every image has: of memory, disk space and time, and nothing is written
// outside of the scratch folder.
func runHostile(t *testing.T, request Request) (*Result, error) {
	t.Helper()
	elsewhere := t.TempDir()
	for _, variable := range []string{"TMPDIR", "HOME", "XDG_CACHE_HOME"} {
		t.Setenv(variable, elsewhere)
	}
	t.Chdir(elsewhere)
	request.ScratchDir = t.TempDir()
	if request.sleep == nil {
		request.sleep = noSleep
	}
	if request.Limits.Timeout == 0 {
		request.Limits.Timeout = hostileTimeout
	}
	end := hostile.Watch(t, hostile.Bounds{
		Memory: hostileMemory, Folder: request.ScratchDir, Disk: 2*request.Limits.orDefaults().DecompressedBytes + watchedDisk,
	})
	result, err := Run(t.Context(), request)
	// Syft may take longer to end than Run waits for it.
	syftSemaphore <- struct{}{}
	<-syftSemaphore
	end()
	for _, folder := range []string{request.ScratchDir, elsewhere} {
		if left, err := os.ReadDir(folder); err != nil || len(left) != 0 {
			t.Errorf("%s holds %v afterwards (%v)", folder, left, err)
		}
	}
	return result, err
}

// zeros reads as that many zero bytes.
type zeros int64

func (z *zeros) Read(p []byte) (int, error) {
	if *z <= 0 {
		return 0, io.EOF
	}
	n := min(int64(len(p)), int64(*z))
	clear(p[:n])
	*z -= zeros(n)
	return int(n), nil
}

// zerosIn is a compressed stream of zeros.
func zerosIn(t *testing.T, size int64, compress func(io.Writer) io.WriteCloser) []byte {
	t.Helper()
	var out bytes.Buffer
	writer := compress(&out)
	content := zeros(size)
	if _, err := io.Copy(writer, &content); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// hostileLayer makes a layer from a tar archive.
func hostileLayer(t *testing.T, entries ...tarEntry) v1.Layer {
	t.Helper()
	content := tarOf(t, entries...)
	return newRawLayer(gzipped(t, content), content)
}
