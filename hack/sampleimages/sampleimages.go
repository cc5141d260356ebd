package sampleimages

import (
	"context"
	"crypto/sha256"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

//go:embed data sleeper/main.go
var embedded embed.FS

// recipeVersion is part of the cache's keys; raise it when an image changes without a change of its inputs.
const recipeVersion = "1"

// Image is one sample. Exactly one of Image and Index is set.
type Image struct {
	// Name is the repository, such as "samples/debian"; Tag is "latest" but for variants.
	Name, Tag string
	Image     v1.Image
	Index     v1.ImageIndex
	// Note says what could not be had and what is in its place; "" when all is real.
	Note string
}

// Reference is "name:tag".
func (i Image) Reference() string { return i.Name + ":" + i.Tag }

// Digest is that of the image's manifest, or of its index.
func (i Image) Digest() (v1.Hash, error) {
	if i.Index != nil {
		return i.Index.Digest()
	}
	return i.Image.Digest()
}

// DefaultCacheDir is where Build keeps its images unless told otherwise.
func DefaultCacheDir() (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the user's cache folder: %w", err)
	}
	return filepath.Join(base, "scanner-operator", "sampleimages"), nil
}

// builder makes what its cache entry holds. A note says that it had to fall back; such a result is not kept.
type builder struct {
	name, tag string
	// inputs tell cache entries of different circumstances apart.
	inputs []string
	build  func(ctx context.Context, b *workshop) (built, error)
}

type built struct {
	image v1.Image
	index v1.ImageIndex
	note  string
}

// workshop is what builders share.
type workshop struct {
	log func(format string, args ...any)
	// arch is the architecture of all images but the index.
	arch     string
	mu       sync.Mutex
	sleepers map[string][]byte
	temp     string
}

func builders() []builder {
	apt := "apt:" + fmt.Sprint(hasCommands("apt-get", "apt-cache", "dpkg-deb"))
	npm := "npm:" + fmt.Sprint(hasCommands("npm"))
	return []builder{
		{"samples/debian", "latest", []string{apt}, buildDebian},
		{"samples/debian-bullseye", "latest", nil, buildBullseye},
		{"samples/go-app", "latest", nil, buildGoApp},
		{"samples/go-app", "multiarch", nil, buildGoAppIndex},
		{"samples/node-app", "latest", []string{npm}, buildNodeApp},
		{"samples/python-app", "latest", []string{apt}, buildPythonApp},
		{"samples/alpine", "latest", nil, buildAlpine},
		{"samples/java-app", "latest", nil, buildJavaApp},
	}
}

func hasCommands(names ...string) bool {
	for _, name := range names {
		if _, err := exec.LookPath(name); err != nil {
			return false
		}
	}
	return true
}

// Build returns all samples, from cacheDir (DefaultCacheDir when empty) or built anew. log may be nil.
func Build(ctx context.Context, cacheDir string, log func(format string, args ...any)) ([]Image, error) {
	if log == nil {
		log = func(string, ...any) {}
	}
	if cacheDir == "" {
		var err error
		if cacheDir, err = DefaultCacheDir(); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll(cacheDir, 0o755); err != nil {
		return nil, fmt.Errorf("make the cache folder: %w", err)
	}
	temp, err := os.MkdirTemp(cacheDir, "building-")
	if err != nil {
		return nil, fmt.Errorf("make a folder to build in: %w", err)
	}
	defer func() { _ = os.RemoveAll(temp) }()

	shop := &workshop{log: log, arch: runtime.GOARCH, sleepers: map[string][]byte{}, temp: temp}
	recipe, err := recipeKey()
	if err != nil {
		return nil, err
	}
	all := builders()
	images, problems := make([]Image, len(all)), make([]error, len(all))
	var group sync.WaitGroup
	for i, b := range all {
		group.Go(func() { images[i], problems[i] = shop.cached(ctx, cacheDir, recipe, b) })
	}
	group.Wait()
	return images, errors.Join(problems...)
}

// recipeKey hashes all that goes into every image.
func recipeKey() (string, error) {
	hasher := sha256.New()
	_, _ = fmt.Fprintln(hasher, recipeVersion, runtime.Version(), runtime.GOARCH)
	err := fs.WalkDir(embedded, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := embedded.ReadFile(name)
		_, _ = fmt.Fprintln(hasher, name, len(content))
		_, _ = hasher.Write(content)
		return err
	})
	return fmt.Sprintf("%x", hasher.Sum(nil)), err
}

func (w *workshop) cached(ctx context.Context, cacheDir, recipe string, b builder) (Image, error) {
	result := Image{Name: b.name, Tag: b.tag}
	key := sha256.Sum256(fmt.Appendln(nil, recipe, b.name, b.tag, b.inputs))
	folder := filepath.Join(cacheDir, fmt.Sprintf("%x", key[:12]))
	if found, err := load(folder); err == nil {
		result.Image, result.Index = found.image, found.index
		return result, nil
	}
	w.log("building %s", result.Reference())
	made, err := b.build(ctx, w)
	if err != nil {
		return Image{}, fmt.Errorf("build %s: %w", result.Reference(), err)
	}
	result.Image, result.Index, result.Note = made.image, made.index, made.note
	if made.note != "" {
		w.log("%s: %s", result.Reference(), made.note)
		return result, nil
	}
	if err := w.store(folder, made); err != nil {
		return Image{}, fmt.Errorf("keep %s: %w", result.Reference(), err)
	}
	found, err := load(folder)
	if err != nil {
		return Image{}, fmt.Errorf("read %s back: %w", result.Reference(), err)
	}
	result.Image, result.Index = found.image, found.index
	return result, nil
}

// load reads a cache entry: an OCI layout with one image or index. Layers stay on disk.
func load(folder string) (built, error) {
	root, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		return built{}, err
	}
	manifest, err := root.IndexManifest()
	if err != nil {
		return built{}, err
	}
	if len(manifest.Manifests) != 1 {
		return built{}, fmt.Errorf("%s holds %d images instead of one", folder, len(manifest.Manifests))
	}
	descriptor := manifest.Manifests[0]
	if descriptor.MediaType.IsIndex() {
		index, err := root.ImageIndex(descriptor.Digest)
		return built{index: index}, err
	}
	image, err := root.Image(descriptor.Digest)
	return built{image: image}, err
}

// store writes a cache entry under a passing name and renames it, so that it is there whole or not at all.
func (w *workshop) store(folder string, made built) error {
	passing, err := os.MkdirTemp(w.temp, "layout-")
	if err != nil {
		return err
	}
	if err := writeLayout(passing, made); err != nil {
		return err
	}
	if err := os.Rename(passing, folder); err != nil && !errors.Is(err, fs.ErrExist) {
		// Another process may have been first; anything else shows when the entry is read.
		_ = os.RemoveAll(passing)
	}
	return nil
}

func writeLayout(folder string, made built) error {
	path, err := layout.Write(folder, empty.Index)
	if err != nil {
		return err
	}
	if made.index != nil {
		return path.AppendIndex(made.index)
	}
	return path.AppendImage(made.image)
}

// assemble makes an image of layers, in OCI form, that runs the entry point as a user without rights.
func assemble(arch string, entrypoint string, layers ...v1.Layer) (v1.Image, error) {
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.AppendLayers(image, layers...)
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", arch
	config.Created = v1.Time{Time: buildTime}
	config.Config.Entrypoint = []string{entrypoint}
	config.Config.User = "65532:65532"
	config.Config.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	config.Config.WorkingDir = "/"
	return mutate.ConfigFile(image, config)
}
