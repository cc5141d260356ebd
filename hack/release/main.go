// Command release makes everything that a release consists of, from a commit: binaries, an image index, the chart, SBOMs,
// provenance, checksums and a signature. The same commit gives the same bytes on every machine. Run it with "make release".
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// options are what the command line and the environment say.
type options struct {
	// Version is the release's; the tag of the commit when empty.
	Version string
	// Platforms are those of the binaries. The image has those of Linux.
	Platforms []v1.Platform
	// Output is the folder in which the folder of the version is made.
	Output string
	// Image is the image's name with its registry, without a tag.
	Image string
	// Downloads is the URL below which the files of each version are published.
	Downloads string
	// Helm is the helm command.
	Helm string
	// BuilderID names who builds, in the provenance.
	BuilderID string
	// SigningKey is a private key in PEM; nothing is signed when empty.
	SigningKey string
	// RequireSignature refuses to go on without SigningKey.
	RequireSignature bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	o := options{SigningKey: os.Getenv("SIGNING_KEY")}
	flag.StringVar(&o.Version, "version", "", "version of the release, such as v1.2.3 (default: the tag of the commit)")
	platforms := flag.String("platforms", "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64", "comma-separated platforms of the binaries; the image has those of Linux")
	flag.StringVar(&o.Output, "output", "dist/release", "directory in which the directory of the version is created")
	flag.StringVar(&o.Image, "image", "", "name of the image with its registry, without a tag (required)")
	flag.StringVar(&o.Downloads, "downloads", repository+"/releases/download", "URL below which the files of each version are published, for the manifest of the kubectl plugin")
	flag.StringVar(&o.Helm, "helm", "helm", "helm command")
	flag.StringVar(&o.BuilderID, "builder-id", defaultBuilderID, "URI of the builder, for the provenance")
	flag.BoolVar(&o.RequireSignature, "require-signature", false, "fail when the environment variable SIGNING_KEY is empty")
	sign := flag.String("sign", "", "sign an existing release, such as dist/release/v1.2.3, instead of building one")
	push := flag.String("push", "", "push the image index of an existing release instead of building one")
	flag.Parse()
	if *sign != "" {
		return signRelease(*sign, o)
	}
	if _, err := name.NewRepository(o.Image, name.StrictValidation); err != nil {
		return fmt.Errorf("-image (RELEASE_IMAGE of make): %w", err)
	}
	if *push != "" {
		return pushImage(ctx, *push, o.Image)
	}
	for platform := range strings.SplitSeq(*platforms, ",") {
		parsed, err := v1.ParsePlatform(platform)
		if err != nil || parsed.OS == "" || parsed.Architecture == "" {
			return fmt.Errorf("platform %q is not of the form os/architecture", platform)
		}
		o.Platforms = append(o.Platforms, *parsed)
	}
	return release(ctx, o)
}

// release builds in a temporary folder beside its destination, so that a folder of a version is always complete.
func release(ctx context.Context, o options) (err error) {
	signer, err := newSigner(o)
	if err != nil {
		return err
	}
	src, err := openSource(ctx, o.Version)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(o.Output, 0o755); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(o.Output, ".incomplete-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	work, err := os.MkdirTemp("", "scanner-operator-release-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()

	binaries, err := buildBinaries(ctx, src, o.Platforms, work)
	if err != nil {
		return err
	}
	for _, binary := range binaries {
		if err := packBinary(src, binary, dir); err != nil {
			return err
		}
	}
	if err := writeKrew(src, o.Platforms, o.Downloads, dir); err != nil {
		return err
	}
	image, err := writeImage(src, o.Image, binaries, dir)
	if err != nil {
		return err
	}
	if err := writeSBOMs(ctx, src, image, dir); err != nil {
		return err
	}
	if err := packChart(ctx, src, o.Image, o.Helm, work, dir); err != nil {
		return err
	}
	if err := writeProvenance(src, o, image, dir); err != nil {
		return err
	}
	if err := writeChecksums(dir); err != nil {
		return err
	}
	if err := signer.sign(filepath.Join(dir, checksums)); err != nil {
		return err
	}
	if signer == nil {
		fmt.Fprintln(os.Stderr, "The release is not signed: the environment variable SIGNING_KEY is empty.")
	}
	return publish(dir, filepath.Join(o.Output, src.Version))
}

// signRelease signs a release that was built without the key.
func signRelease(dir string, o options) error {
	o.RequireSignature = true
	signer, err := newSigner(o)
	if err != nil {
		return err
	}
	return signer.sign(filepath.Join(dir, checksums))
}

// publish gives the finished folder its name, in place of an earlier one.
func publish(dir, destination string) error {
	if err := os.RemoveAll(destination); err != nil {
		return err
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	if err := os.Rename(dir, destination); err != nil {
		return err
	}
	files, err := os.ReadDir(destination)
	if err != nil {
		return err
	}
	for _, file := range files {
		info, err := file.Info()
		if err != nil {
			return err
		}
		fmt.Printf("%s  %.1f MB\n", filepath.Join(destination, file.Name()), float64(info.Size())/1e6)
	}
	return nil
}
