package catalog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
	"time"

	"github.com/anchore/stereoscope/pkg/image"
	"github.com/anchore/syft/syft"
	"github.com/anchore/syft/syft/cataloging"
	"github.com/anchore/syft/syft/format/syftjson"
	"github.com/anchore/syft/syft/sbom"
	"github.com/anchore/syft/syft/source/stereoscopesource"
	_ "github.com/glebarez/sqlite" // the driver that Syft's RPM cataloger opens databases with

	"github.com/scanner-operator/scanner-operator/internal/model"
)

const (
	// syftGrace is how long Syft may take to notice that it was cancelled, before it is abandoned.
	syftGrace = 5 * time.Second
	// scratchCheck is how often the temporary files are looked at, memoryCheck the memory.
	scratchCheck = 500 * time.Millisecond
	memoryCheck  = 50 * time.Millisecond
	// maxTemporaryFiles bounds the temporary files and folders that exist at a time. Some 1,000 are usual for large applications in Java.
	maxTemporaryFiles = 10_000
)

// syftSemaphore admits one image at a time to Syft, because its temporary directory can be set only through the environment.
var syftSemaphore = make(chan struct{}, 1)

// readImage reads an image into the form that Syft reads images in.
type readImage func(context.Context) (*image.Image, error)

// createSBOM runs Syft over an image and returns the slim SBOM and the number of packages in it. describe adds what else is known of the image; it may be nil.
func createSBOM(ctx context.Context, read readImage, input string, limits Limits, scratch string, describe func(*sbom.SBOM) error) ([]byte, int, error) {
	select {
	case syftSemaphore <- struct{}{}:
	case <-ctx.Done():
		return nil, 0, context.Cause(ctx)
	}
	temporary := filepath.Join(scratch, "tmp")
	if err := os.Mkdir(temporary, 0o700); err != nil {
		<-syftSemaphore
		return nil, 0, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go watchScratch(ctx, cancel, scratch, limits)
	go watchMemory(ctx, cancel, debug.SetMemoryLimit(-1))

	type answer struct {
		bom *sbom.SBOM
		err error
	}
	answers := make(chan answer, 1)
	var abandoned atomic.Bool
	// TMPDIR is restored before the answer is sent: the caller removes the folder that it names.
	work := func() (a answer) {
		defer setTempDir(temporary)()
		defer func() {
			// An abandoned Syft may have written more files since.
			if abandoned.Load() {
				_ = os.RemoveAll(scratch)
			}
		}()
		a.bom, a.err = runSyft(ctx, read, input)
		return a
	}
	go func() {
		defer func() { <-syftSemaphore }()
		answers <- work()
	}()

	var a answer
	select {
	case a = <-answers:
	case <-ctx.Done():
		grace := syftGrace
		if ReasonOf(context.Cause(ctx)) == model.ReasonOutOfMemory {
			grace = 0 // it would take more meanwhile
		}
		timer := time.NewTimer(grace)
		defer timer.Stop()
		select {
		case a = <-answers:
		case <-timer.C:
			abandoned.Store(true)
			a.err = errors.New("analyze the image with Syft")
		}
	}
	if ctx.Err() != nil {
		return nil, 0, interrupted(ctx, errors.Join(errors.New("analyze the image with Syft"), a.err))
	}
	if a.err != nil {
		return nil, 0, a.err
	}
	if describe != nil {
		if err := describe(a.bom); err != nil {
			return nil, 0, err
		}
	}
	slim(a.bom)
	encoded, err := encode(a.bom)
	return encoded, a.bom.Artifacts.Packages.PackageCount(), err
}

func setTempDir(folder string) (restore func()) {
	before, had := os.LookupEnv("TMPDIR")
	_ = os.Setenv("TMPDIR", folder)
	return func() {
		if had {
			_ = os.Setenv("TMPDIR", before)
			return
		}
		_ = os.Unsetenv("TMPDIR")
	}
}

func runSyft(ctx context.Context, read readImage, input string) (bom *sbom.SBOM, err error) {
	defer func() {
		// Parsers of hostile files; one that panics fails this image, not the process.
		if p := recover(); p != nil {
			err = failf(model.ReasonCatalogFailed, "syft panicked: %v\n%s", p, debug.Stack())
		}
	}()
	stereoscopeImage, err := read(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = stereoscopeImage.Cleanup() }()
	source := stereoscopesource.New(stereoscopeImage, stereoscopesource.ImageConfig{Reference: input})
	withScanner, err := withLicenseScanner(ctx)
	if err != nil {
		return nil, fmt.Errorf("prepare the license scanner of Syft: %w", err)
	}
	bom, err = syft.CreateSBOM(withScanner, source, syftConfig())
	if err != nil {
		return nil, fmt.Errorf("analyze the image with Syft: %w", err)
	}
	return bom, context.Cause(ctx)
}

// syftConfig is what Grype's own command asks of Syft, without the files: the same packages, hence the same matches.
func syftConfig() *syft.CreateSBOMConfig {
	config := syft.DefaultCreateSBOMConfig().WithoutFiles()
	config.Packages.Golang = config.Packages.Golang.WithCaptureSymbols(cataloging.SymbolScopeAll)
	config.Compliance.MissingVersion = cataloging.ComplianceActionDrop
	return config
}

func encode(bom *sbom.SBOM) ([]byte, error) {
	var out bytes.Buffer
	if err := syftjson.NewFormatEncoder().Encode(&out, *bom); err != nil {
		return nil, fmt.Errorf("encode the SBOM: %w", err)
	}
	return out.Bytes(), nil
}

// watchScratch cancels when the catalogers' temporary files grow past the limit: archives within archives are
// unpacked without any bound of their own.
func watchScratch(ctx context.Context, cancel context.CancelCauseFunc, scratch string, limits Limits) {
	ticker := time.NewTicker(scratchCheck)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			size, entries := folderSize(scratch)
			if size > 2*limits.DecompressedBytes {
				cancel(failf(model.ReasonImageTooLarge,
					"unpacking the archives in the image took %d bytes, more than twice the limit of %d decompressed bytes", size, limits.DecompressedBytes))
				return
			}
			if entries > maxTemporaryFiles {
				cancel(failf(model.ReasonImageTooLarge,
					"unpacking the archives in the image took %d files, more than the limit of %d; an archive in it may contain itself", entries, maxTemporaryFiles))
				return
			}
		}
	}
}

// folderSize returns the bytes of all files in a folder, and the number of its entries at any depth.
func folderSize(folder string) (size int64, entries int) {
	_ = filepath.WalkDir(folder, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // files come and go while this looks
		}
		entries++
		if !entry.Type().IsRegular() {
			return nil
		}
		if info, err := entry.Info(); err == nil {
			size += info.Size()
		}
		return nil
	})
	return size, entries
}

// watchMemory cancels when the process takes a tenth more than the memory limit of the Go runtime (GOMEMLIMIT), which only makes it
// collect garbage more often: some parsers of Syft allocate as much as a file asks for. math.MaxInt64 is no limit.
func watchMemory(ctx context.Context, cancel context.CancelCauseFunc, limit int64) {
	if limit == math.MaxInt64 {
		return
	}
	ticker := time.NewTicker(memoryCheck)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if used := memoryInUse(); used > limit+limit/10 {
				cancel(failf(model.ReasonOutOfMemory, "analyzing the image took %d bytes of memory, more than the limit of %d; increase the memory of its scan", used, limit))
				return
			}
		}
	}
}

// memoryInUse returns what the runtime compares with its memory limit.
func memoryInUse() int64 {
	samples := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(samples)
	return int64(samples[0].Value.Uint64() - samples[1].Value.Uint64())
}
