// Command image builds the operator's image as an OCI archive, without a container engine.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	imagename "github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/scanner-operator/scanner-operator/hack/gobuild"
	"github.com/scanner-operator/scanner-operator/hack/image/ociimage"
)

func main() {
	output := flag.String("output", "dist/scanner-operator.tar", "the OCI archive to write")
	name := flag.String("name", "scanner-operator:dev", "name and tag of the image")
	platforms := flag.String("platforms", "linux/amd64", "comma-separated platforms")
	version := flag.String("version", "", "version to build into the binary")
	dockerOutput := flag.String("docker-output", "", "also write the image of the first platform as a Docker archive")
	push := flag.Bool("push", false, "push the image to its registry, with the credentials of \"docker login\"")
	flag.Parse()
	if err := run(*output, *dockerOutput, *name, *version, strings.Split(*platforms, ","), *push); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(output, dockerOutput, name, version string, platforms []string, push bool) (err error) {
	work, err := os.MkdirTemp("", "scanner-operator-image-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()

	tag, err := imagename.NewTag(name)
	if err != nil {
		return err
	}
	annotations, err := ociimage.Annotations(name)
	if err != nil {
		return err
	}
	index := v1.ImageIndex(empty.Index)
	for i, platform := range platforms {
		goos, goarch, ok := strings.Cut(platform, "/")
		if !ok {
			return fmt.Errorf("platform %q is not of the form os/architecture", platform)
		}
		binary := ociimage.Binary{Path: filepath.Join(work, goos+"-"+goarch), Platform: v1.Platform{OS: goos, Architecture: goarch}}
		if err := build(binary, version); err != nil {
			return err
		}
		// Equal sources give an equal digest, whenever they are built.
		image, err := ociimage.Image(binary, time.Unix(0, 0), nil)
		if err != nil {
			return err
		}
		if i == 0 && dockerOutput != "" {
			if err := writeDockerArchive(dockerOutput, tag, image); err != nil {
				return err
			}
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{
			Platform: &binary.Platform, Annotations: annotations,
		}})
	}
	size, err := ociimage.WriteArchive(index, output)
	if err != nil {
		return err
	}
	fmt.Printf("%s: %s for %s, %.1f MB\n", output, name, strings.Join(platforms, ", "), float64(size)/1e6)
	if !push {
		return nil
	}
	if err := remote.WriteIndex(tag, mutate.IndexMediaType(index, types.OCIImageIndex), remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
		return fmt.Errorf("push %s: %w", tag, err)
	}
	fmt.Printf("pushed %s\n", tag)
	return nil
}

// writeDockerArchive writes what "docker load" reads.
func writeDockerArchive(output string, tag imagename.Tag, image v1.Image) error {
	if err := os.MkdirAll(filepath.Dir(output), 0o755); err != nil {
		return err
	}
	if err := tarball.WriteToFile(output, tag, image); err != nil {
		return fmt.Errorf("write the Docker archive: %w", err)
	}
	fmt.Printf("%s: %s for Docker\n", output, tag)
	return nil
}

// build compiles the binary of one platform.
func build(binary ociimage.Binary, version string) error {
	flags := "-funcalign=8" // As "make build" has it.
	if version != "" {
		flags += " -X github.com/scanner-operator/scanner-operator/internal/version.Version=" + version
	}
	build := gobuild.Build{
		Title: "the operator for " + binary.Platform.String(), Output: binary.Path, Packages: []string{"./cmd/scanner-operator"}, LDFlags: flags,
		Env: []string{"GOOS=" + binary.Platform.OS, "GOARCH=" + binary.Platform.Architecture}, Progress: os.Stderr,
	}
	return build.Run(context.Background())
}
