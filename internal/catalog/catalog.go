package catalog

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/anchore/stereoscope/pkg/image"
	"github.com/anchore/syft/syft/sbom"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/registries"
)

// Limits bound what one image may cost. A zero field means the default.
type Limits struct {
	// ImageBytes bounds the image as its manifest states it, compressed layers and configuration together. A local
	// archive may be as large. Default 8 GiB.
	ImageBytes int64
	// DecompressedBytes bounds all layers together after decompression, as well as the sum of the file sizes that
	// they state. Temporary files of the catalogers (nested archives) may take as much again. Default 16 GiB.
	DecompressedBytes int64
	// Files bounds the entries of all layers together, folders that are only implied by a path included. Default 1,000,000.
	Files int64
	// Timeout bounds the whole attempt. Default 15 minutes.
	Timeout time.Duration
}

// DefaultLimits returns the defaults that the fields document.
func DefaultLimits() Limits {
	return Limits{ImageBytes: 8 << 30, DecompressedBytes: 16 << 30, Files: 1_000_000, Timeout: 15 * time.Minute}
}

func (l Limits) orDefaults() Limits {
	d := DefaultLimits()
	if l.ImageBytes <= 0 {
		l.ImageBytes = d.ImageBytes
	}
	if l.DecompressedBytes <= 0 {
		l.DecompressedBytes = d.DecompressedBytes
	}
	if l.Files <= 0 {
		l.Files = d.Files
	}
	if l.Timeout <= 0 {
		l.Timeout = d.Timeout
	}
	return l
}

// Request names an image and how to get at it.
type Request struct {
	// Image is "repository@digest" (or "repository:tag" on the command line), pulled from its registry, or the path of an OCI layout
	// folder, of a docker archive or of an OCI archive; archives may be compressed with gzip or zstd.
	Image string
	// Fallbacks are at most model.MaxFallbacks repositories from which Image is pulled by its digest if it cannot be pulled from its own, in order.
	// Nobody vouches for them: they get the credentials of Secrets that name their host without a wildcard only, and a failure is always that
	// of the repository of Image.
	Fallbacks []string
	// RootFS is a directory with the root file system of the image, as the kubelet mounts it. Then no layer is pulled, Image is its reference
	// only, and Platform is required. The registry is asked for the manifest and the configuration of the image, unless Registries says otherwise;
	// Result.LayersUnknown says why it did not answer. Result.Stats says how many files could not be read.
	RootFS string
	// Platform picks one image of an index. The zero value means linux on this machine's architecture for an index,
	// and whatever is there for a single image. An image of another platform is refused.
	Platform model.Platform
	// PlainHTTP lists registries, as host or host:port, that may be asked without TLS; loopback always may.
	PlainHTTP []string
	// DockerConfigs are the paths of docker configuration files (.dockerconfigjson, config.json or .dockercfg). Every matching entry is
	// tried in order, then anonymous access. Credential helpers are never run.
	DockerConfigs []string
	// TokenHosts lists hosts besides the registry's own site whose token service may receive credentials.
	TokenHosts []string
	// CAFile is a PEM bundle that is trusted besides the system's.
	CAFile string
	// Registries says how to reach registries, in addition to PlainHTTP and CAFile.
	Registries registries.Config
	// ScratchDir is where a fresh folder is made; the system's temporary folder when empty. The fresh folder is
	// removed on every way out.
	ScratchDir string
	Limits     Limits

	// Warn is called with what did not work and was replaced by something else, in one line without secrets. It may be nil.
	Warn func(text string)

	// literalHosts ignores credentials whose host has a wildcard.
	literalHosts bool
	// sleep replaces waits between attempts in tests.
	sleep func(context.Context, time.Duration) error
}

// Stats says what an attempt took.
type Stats struct {
	// ImageBytes is the compressed size, DecompressedBytes and Files what the layers or the root file system held. A root file system has
	// no compressed size.
	ImageBytes        int64
	DecompressedBytes int64
	Files             int64
	// Unreadable counts the files and directories of a root file system that could not be read and may hold packages: directories, programs,
	// and files that a cataloger needs.
	Unreadable    int64
	Packages      int
	Pull, Catalog time.Duration
}

// Result is a cataloged image.
type Result struct {
	// SBOM is syft-json without file entries, and with no more of each package than matching needs.
	SBOM []byte
	// ManifestDigest is the digest of the platform's manifest; "" for a Docker archive, which has none, and for a root file system whose layers are unknown.
	ManifestDigest string
	Platform       model.Platform
	// AttestedBy is the ID of the registries.Key that verified the SBOM; "" if the SBOM was generated.
	AttestedBy string
	// LayersUnknown says why the layers of a root file system are not known, in at most model.MaxLayersUnknown bytes; "" if they are.
	LayersUnknown string
	Stats         Stats
}

// Run catalogs an image. The error is always an *Error. Only one image is with Syft at a time in a process; others
// wait, which also keeps memory bounded. While it works, TMPDIR of the process names the scratch folder.
func Run(ctx context.Context, request Request) (result *Result, err error) {
	limits := request.Limits.orDefaults()
	if request.sleep == nil {
		request.sleep = sleepContext
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limits.Timeout, failf(model.ReasonDeadlineExceeded,
		"the scan of %s exceeded its time limit of %s; increase the limit if the registry or the node is slow", request.Image, limits.Timeout))
	defer cancel()

	scratch, err := os.MkdirTemp(request.ScratchDir, "catalog-")
	if err != nil {
		return nil, typed(ctx, fmt.Errorf("create a scratch directory: %w", err), model.ReasonOutOfDisk)
	}
	defer func() {
		if removeErr := os.RemoveAll(scratch); removeErr != nil && err == nil {
			result, err = nil, typed(ctx, fmt.Errorf("remove the scratch directory: %w", removeErr), model.ReasonCatalogFailed)
		}
	}()

	result, err = run(ctx, request, limits, scratch)
	if err != nil {
		return nil, typed(ctx, err, model.ReasonCatalogFailed)
	}
	return result, nil
}

func run(ctx context.Context, request Request, limits Limits, scratch string) (*Result, error) {
	if request.RootFS != "" {
		return runRootFS(ctx, request, limits, scratch)
	}
	started := time.Now()
	img, stats, err := pull(ctx, request, limits, scratch)
	if err != nil {
		return nil, err
	}
	defer img.close()
	stats.Pull = time.Since(started)
	if found := img.attested; found != nil {
		stats.Packages = found.packages
		return &Result{SBOM: found.content, ManifestDigest: img.manifestDigest, Platform: img.platform(), AttestedBy: found.key, Stats: stats}, nil
	}

	started = time.Now()
	read := func(context.Context) (*image.Image, error) { return img.read(filepath.Join(scratch, layersFolder)) }
	content, packages, err := createSBOM(ctx, read, request.Image, limits, scratch, nil)
	if err != nil {
		return nil, err
	}
	stats.Catalog, stats.Packages = time.Since(started), packages
	return &Result{SBOM: content, ManifestDigest: img.manifestDigest, Platform: img.platform(), Stats: stats}, nil
}

func runRootFS(ctx context.Context, request Request, limits Limits, scratch string) (*Result, error) {
	started := time.Now()
	root, err := openRootFS(request.RootFS, request.Platform, limits)
	if err != nil {
		return nil, err
	}
	// An analysis that was abandoned may still read it; a closed root refuses that.
	defer root.close()
	asking, cancel := context.WithCancel(ctx)
	answer := sync.OnceValue(askLayers(asking, request))
	defer func() {
		cancel() // A scan that failed waits for no registry.
		answer()
	}()
	content, packages, err := createSBOM(ctx, root.read, request.Image, limits, scratch, func(bom *sbom.SBOM) error { return answer().describe(bom) })
	if err != nil {
		return nil, err
	}
	result := &Result{SBOM: content, Platform: request.Platform, LayersUnknown: answer().unknown, Stats: Stats{
		DecompressedBytes: root.bytes, Files: root.files, Unreadable: root.unreadable.count(), Packages: packages, Catalog: time.Since(started),
	}}
	if stated := answer().image; stated != nil {
		result.ManifestDigest = stated.manifestDigest
	}
	return result, nil
}

// pull resolves the request to an image, and brings its layers into the scratch folder.
func pull(ctx context.Context, request Request, limits Limits, scratch string) (*resolved, Stats, error) {
	var stats Stats
	fetch := func(ctx context.Context, img *resolved) error {
		if img.attested = findAttested(ctx, request, img); img.attested != nil {
			return nil
		}
		stats.ImageBytes = img.bytes()
		return fetchLayers(ctx, img, request, limits, scratch, &stats)
	}
	if path, local := localPath(request.Image); local {
		img, err := openLocal(ctx, path, request, limits, scratch)
		if err != nil {
			return nil, Stats{}, err
		}
		if err := fetch(ctx, img); err != nil {
			img.close()
			return nil, Stats{}, err
		}
		return img, stats, nil
	}
	img, err := pullRemote(ctx, request, limits, fetch)
	return img, stats, err
}

// openLocal opens a file or folder whose layers have not been read yet.
func openLocal(ctx context.Context, path string, request Request, limits Limits, scratch string) (*resolved, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, failf(model.ReasonImageNotFound, "open %s: %w", path, withoutPath(err))
	case info.IsDir():
		return openLayout(path, request.Platform, limits)
	case !info.Mode().IsRegular():
		return nil, failf(model.ReasonNotPullable, "%s is neither a directory nor a regular file", path)
	}
	return openArchive(ctx, path, request.Platform, limits, scratch)
}

// localPath distinguishes a path from an image reference. A path starts like one, ends like an archive, or exists and has no
// digest.
func localPath(image string) (string, bool) {
	for _, prefix := range []string{"oci-dir:", "oci-archive:", "docker-archive:"} {
		if path, found := strings.CutPrefix(image, prefix); found {
			return path, true
		}
	}
	if strings.Contains(image, "@sha256:") || image == "" {
		return "", false
	}
	for _, prefix := range []string{"/", "./", "../", "~"} {
		if strings.HasPrefix(image, prefix) {
			return image, true
		}
	}
	for _, suffix := range []string{".tar", ".tar.gz", ".tgz", ".tar.zst"} {
		if strings.HasSuffix(image, suffix) {
			return image, true
		}
	}
	_, err := os.Stat(image)
	return image, err == nil
}

// withoutPath drops the path that the operating system's errors repeat.
func withoutPath(err error) error {
	if pathErr, ok := errors.AsType[*os.PathError](err); ok {
		return pathErr.Err
	}
	return err
}
