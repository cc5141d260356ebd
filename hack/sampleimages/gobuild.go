package sampleimages

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/scanner-operator/scanner-operator/internal/truncate"
)

// unpack writes an embedded folder; ".txt" is cut off from names, which keep embedded Go files out of our own module.
func unpack(folder, target string) error {
	return fs.WalkDir(embedded, folder, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := embedded.ReadFile(name)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(target, strings.TrimSuffix(path.Base(name), ".txt")), content, 0o644)
	})
}

// goBuild compiles the module in folder for linux, static and reproducible.
func goBuild(ctx context.Context, folder, arch string) ([]byte, error) {
	output := filepath.Join(folder, "program-"+arch)
	command := exec.CommandContext(ctx, "go", "build", "-mod=readonly", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -buildid=", "-o", output, ".")
	command.Dir = folder
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch, "GOFLAGS=", "GOWORK=off", "GOAMD64=v1", "GOTOOLCHAIN=local")
	if text, err := command.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("go build: %w: %s", err, lastLines(text))
	}
	return os.ReadFile(output)
}

// lastLines keeps what a failed command said last.
func lastLines(text []byte) string {
	const limit = 500
	return truncate.Last(strings.TrimSpace(string(text)), limit)
}

// sleeper returns the program that all images can run, built once per architecture.
func (w *workshop) sleeper(ctx context.Context, arch string) ([]byte, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if program, there := w.sleepers[arch]; there {
		return program, nil
	}
	folder, err := os.MkdirTemp(w.temp, "sleeper-")
	if err != nil {
		return nil, err
	}
	if err := unpack("sleeper", folder); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(folder, "go.mod"), []byte("module example.com/samples/sleeper\n\ngo 1.21\n"), 0o644); err != nil {
		return nil, err
	}
	program, err := goBuild(ctx, folder, arch)
	if err != nil {
		return nil, fmt.Errorf("build the sleeper: %w", err)
	}
	w.sleepers[arch] = program
	return program, nil
}

// sleeping makes an image of the files and the sleeper.
func (w *workshop) sleeping(ctx context.Context, files rootfs) (v1.Image, error) {
	program, err := w.sleeper(ctx, w.arch)
	if err != nil {
		return nil, err
	}
	content, err := files.layer()
	if err != nil {
		return nil, err
	}
	entrypoint := rootfs{}
	entrypoint.addExecutable("sleeper", program)
	runner, err := entrypoint.layer()
	if err != nil {
		return nil, err
	}
	return assemble(w.arch, "/sleeper", content, runner)
}

func (w *workshop) goApp(ctx context.Context, arch string) (v1.Image, string, error) {
	folder, err := os.MkdirTemp(w.temp, "go-app-")
	if err != nil {
		return nil, "", err
	}
	if err := unpack("data/go-app", folder); err != nil {
		return nil, "", err
	}
	note := ""
	program, err := goBuild(ctx, folder, arch)
	if err != nil {
		if ctx.Err() != nil {
			return nil, "", err
		}
		note = fmt.Sprintf("the old modules could not be fetched or built, the image holds the standard library's packages alone (%v)", err)
		if program, err = w.sleeper(ctx, arch); err != nil {
			return nil, "", err
		}
	}
	files := rootfs{}
	files.addExecutable("app/go-app", program)
	layer, err := files.layer()
	if err != nil {
		return nil, "", err
	}
	image, err := assemble(arch, "/app/go-app", layer)
	return image, note, err
}

func buildGoApp(ctx context.Context, w *workshop) (built, error) {
	image, note, err := w.goApp(ctx, w.arch)
	return built{image: image, note: note}, err
}

func buildGoAppIndex(ctx context.Context, w *workshop) (built, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	notes := ""
	for _, arch := range []string{"amd64", "arm64"} {
		image, note, err := w.goApp(ctx, arch)
		if err != nil {
			return built{}, err
		}
		if note != "" {
			notes = note
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        image,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}},
		})
	}
	return built{index: index, note: notes}, nil
}
