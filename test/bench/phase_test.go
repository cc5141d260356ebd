package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"time"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sync/errgroup"

	"github.com/scanner-operator/scanner-operator/internal/match"
	"github.com/scanner-operator/scanner-operator/internal/vulndb"
	"github.com/scanner-operator/scanner-operator/test/sbomgen"
)

// phase is one step of what the operator does, or of the preparation for it.
type phase struct {
	// Name is one of the phases below, As what its profiles are called.
	Name, As string
	// Images is the size of the fleet, and SBOMs the folder of its SBOMs.
	Images int
	SBOMs  string
	// Store is the file of the store.
	Store string
	// Builds are the installed databases, oldest first.
	Builds []vulndb.Installed
	// Full asks for a re-match of every package.
	Full bool
}

// The phases.
const (
	// phaseGenerate makes the SBOMs of the fleet from the first database.
	phaseGenerate = "generate"
	// phaseIngest takes in the SBOMs.
	phaseIngest = "ingest"
	// phaseMatch brings the answers for all images to the last database.
	phaseMatch = "match"
	// phaseCount counts what there is.
	phaseCount = "count"
	// phaseNothing starts and ends.
	phaseNothing = "nothing"
	// phaseOpen opens the first database, phaseCompare compares it with the second one.
	phaseOpen    = "open"
	phaseCompare = "compare"
)

// figures are the measurements of a phase, by name.
type figures map[string]float64

func runPhase(ctx context.Context, text string) (err error) {
	var p phase
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return err
	}
	stop, err := startProfile(p)
	if err != nil {
		return err
	}
	f, err := p.run(ctx)
	if err := errors.Join(err, stop()); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(f)
}

func (p phase) run(ctx context.Context) (figures, error) {
	switch p.Name {
	case phaseGenerate:
		return p.generate(ctx)
	case phaseIngest:
		return p.ingest(ctx)
	case phaseMatch:
		return p.match(ctx)
	case phaseCount:
		return p.count(ctx)
	case phaseNothing:
		return figures{}, nil
	case phaseOpen:
		return p.open()
	case phaseCompare:
		return p.compare(ctx)
	default:
		return nil, fmt.Errorf("unknown phase %q", p.Name)
	}
}

func startProfile(p phase) (stop func() error, err error) {
	dir := os.Getenv("SCANNER_BENCH_PROFILES")
	if dir == "" || p.Name == phaseNothing {
		return func() error { return nil }, nil
	}
	base := filepath.Join(dir, fmt.Sprintf("%s-%d", p.As, p.Images))
	cpu, err := os.Create(base + ".cpu.pprof")
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(cpu); err != nil {
		return nil, errors.Join(err, cpu.Close())
	}
	return func() error {
		pprof.StopCPUProfile()
		heap, err := os.Create(base + ".heap.pprof")
		if err != nil {
			return errors.Join(err, cpu.Close())
		}
		return errors.Join(pprof.Lookup("allocs").WriteTo(heap, 0), heap.Close(), cpu.Close())
	}, nil
}

func (p phase) sbomFile(index int) string {
	return filepath.Join(p.SBOMs, fmt.Sprintf("%d.json.zst", index))
}

func (p phase) generate(ctx context.Context) (figures, error) {
	pool, err := sbomgen.ReadPool(ctx, p.Builds[0].SQLiteDir())
	if err != nil {
		return nil, err
	}
	encoder, err := zstd.NewWriter(nil)
	if err != nil {
		return nil, err
	}
	sizes := make([]int, p.Images)
	workers := runtime.GOMAXPROCS(0)
	group, ctx := errgroup.WithContext(ctx)
	for first := range workers {
		group.Go(func() error {
			// Packages of Syft cannot be shared, not even for reading.
			images := sbomgen.New(pool, 1).Fleet(p.Images)
			for index := first; index < p.Images && ctx.Err() == nil; index += workers {
				document, err := images.SBOM(index)
				if err != nil {
					return err
				}
				sizes[index] = len(document)
				if err := os.WriteFile(p.sbomFile(index), encoder.EncodeAll(document, nil), 0o600); err != nil {
					return err
				}
			}
			return ctx.Err()
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	total := 0
	for _, size := range sizes {
		total += size
	}
	return figures{"SBOM-KB": float64(total) / 1000 / float64(p.Images)}, nil
}

// each calls f for every image, with as many at a time as there are processors.
func (p phase) each(ctx context.Context, f func(index int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for index := range p.Images {
		group.Go(func() error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return f(index)
		})
	}
	return group.Wait()
}

func (p phase) open() (figures, error) {
	began := time.Now()
	database, err := match.Open(p.Builds[0])
	if err != nil {
		return nil, err
	}
	return figures{"open-ms": float64(time.Since(began).Microseconds()) / 1000}, database.Close()
}

func (p phase) compare(ctx context.Context) (figures, error) {
	difference, err := vulndb.Compare(ctx, p.Builds[0], p.Builds[1])
	if err != nil {
		return nil, err
	}
	if reason, full := difference.Full(); full {
		return nil, fmt.Errorf("the databases cannot be compared: %s", reason)
	}
	return figures{"keys": float64(difference.Keys()), "CVEs": float64(difference.CVEs())}, nil
}
