// Command image builds the operator's image as an OCI archive, without a container engine: one layer with one static
// binary, which carries the root certificates and the UI itself.
package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

func main() {
	output := flag.String("output", "dist/scanner-operator.tar", "the OCI archive to write")
	name := flag.String("name", "scanner-operator:dev", "name and tag of the image")
	platforms := flag.String("platforms", "linux/amd64", "comma-separated platforms")
	version := flag.String("version", "", "version to build into the binary")
	flag.Parse()
	if err := run(*output, *name, *version, strings.Split(*platforms, ",")); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(output, name, version string, platforms []string) (err error) {
	work, err := os.MkdirTemp("", "scanner-operator-image-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()

	index := v1.ImageIndex(empty.Index)
	for _, platform := range platforms {
		goos, goarch, ok := strings.Cut(platform, "/")
		if !ok {
			return fmt.Errorf("platform %q is not of the form os/architecture", platform)
		}
		image, err := build(work, goos, goarch, version)
		if err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{
			Platform: &v1.Platform{OS: goos, Architecture: goarch},
			// The names that containerd and other tools give the image on import.
			Annotations: map[string]string{
				"io.containerd.image.name":          canonical(name),
				"org.opencontainers.image.ref.name": name,
			},
		}})
	}
	dir := filepath.Join(work, "layout")
	if _, err := layout.Write(dir, index); err != nil {
		return fmt.Errorf("write the OCI layout: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(output), 0o755); err != nil {
		return err
	}
	size, err := archive(dir, output)
	if err != nil {
		return err
	}
	fmt.Printf("%s: %s for %s, %.1f MB\n", output, name, strings.Join(platforms, ", "), float64(size)/1e6)
	return nil
}

// canonical is the name as Kubernetes looks for it.
func canonical(name string) string {
	if first, _, found := strings.Cut(name, "/"); found && strings.ContainsAny(first, ".:") {
		return name
	}
	if strings.Contains(name, "/") {
		return "docker.io/" + name
	}
	return "docker.io/library/" + name
}

// build compiles the binary and makes the image of one platform. Equal sources give an equal digest.
func build(work, goos, goarch, version string) (v1.Image, error) {
	binary := filepath.Join(work, goos+"-"+goarch)
	flags := "-s -w"
	if version != "" {
		flags += " -X github.com/scanner-operator/scanner-operator/internal/version.Version=" + version
	}
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags="+flags, "-o", binary, "./cmd/scanner-operator") //nolint:gosec,noctx // a build tool
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+goarch)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("build the binary for %s/%s: %w", goos, goarch, err)
	}
	content, err := layer(binary)
	if err != nil {
		return nil, err
	}
	added, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(content)), nil
	}, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, fmt.Errorf("make the layer: %w", err)
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	if image, err = mutate.AppendLayers(image, added); err != nil {
		return nil, fmt.Errorf("add the layer: %w", err)
	}
	return mutate.ConfigFile(image, config(image, goos, goarch))
}

func config(image v1.Image, goos, goarch string) *v1.ConfigFile {
	file, err := image.ConfigFile()
	if err != nil {
		// The image is in memory.
		panic(err)
	}
	file = file.DeepCopy()
	file.OS, file.Architecture = goos, goarch
	file.Created = v1.Time{Time: time.Unix(0, 0).UTC()}
	file.Config = v1.Config{
		Entrypoint: []string{"/scanner-operator"}, Cmd: []string{"manager"}, User: "65532:65532", WorkingDir: "/",
		Labels: map[string]string{
			"org.opencontainers.image.title":    "scanner-operator",
			"org.opencontainers.image.licenses": "Apache-2.0",
		},
	}
	return file
}

// layer is a tar with the binary.
func layer(binary string) ([]byte, error) {
	content, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	header := &tar.Header{
		Typeflag: tar.TypeReg, Name: "scanner-operator", Mode: 0o755, Size: int64(len(content)), ModTime: time.Unix(0, 0).UTC(),
	}
	if err := w.WriteHeader(header); err != nil {
		return nil, err
	}
	if _, err := w.Write(content); err != nil {
		return nil, err
	}
	return buf.Bytes(), w.Close()
}

// archive writes the folder as a tar and returns its size.
func archive(dir, output string) (_ int64, err error) {
	file, err := os.Create(output)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	w := tar.NewWriter(file)
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		header := &tar.Header{Typeflag: tar.TypeReg, Name: filepath.ToSlash(name), Mode: 0o644, Size: int64(len(content)), ModTime: time.Unix(0, 0).UTC()}
		if err := w.WriteHeader(header); err != nil {
			return err
		}
		_, err = w.Write(content)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("write the archive: %w", err)
	}
	if err := w.Close(); err != nil {
		return 0, fmt.Errorf("write the archive: %w", err)
	}
	info, err := file.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}
