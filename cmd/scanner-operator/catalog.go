package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/scanner-operator/scanner-operator/internal/catalog"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/scanjob"
	"github.com/scanner-operator/scanner-operator/internal/truncate"
)

// maxTerminationMessage is the maximum size of a termination message in Kubernetes, in bytes.
const maxTerminationMessage = 4096

type catalogOptions struct {
	request            catalog.Request
	platform           string
	imageID            string
	uploadURL          string
	tokenFile          string
	uploadCAFile       string
	file               string
	terminationMessage string
}

// gcPercent is how much the heap of a scan grows until garbage is collected. What the catalogers keep is most of it. The benchmarks in
// docs/explanation compare this value with others.
const gcPercent = 30

func newCatalogCommand() *cobra.Command {
	var o catalogOptions
	command := &cobra.Command{
		Use:   "catalog IMAGE|ARCHIVE|DIRECTORY",
		Short: "Generate the SBOM of one image, as scan Jobs do",
		Long: `Generate the SBOM of one image with Syft. IMAGE is pulled by digest from its registry. ARCHIVE is a Docker or OCI archive,
DIRECTORY an OCI image layout. The SBOM, in the JSON format of Syft, is uploaded to the operator (--upload-url) or written to
a file (--file); "-" writes it to the standard output.

With --rootfs, no layer is pulled: the SBOM is generated from the root file system of the image in a directory, for example an image volume
of a pod. IMAGE is then its name only, and --platform is required. Links are resolved within the directory. Files that cannot be read are
counted; their packages are missing. If IMAGE has a digest, its registry is asked for the manifest and the configuration, which name the layers of
the image. If it does not answer, the SBOM has no layers, and a warning says why.

The environment variable SCANNER_REGISTRIES says in JSON or YAML how to reach registries (proxy, mirrors, certificate authorities, plain HTTP), the
keys whose attested SBOMs are used instead of pulling images, and whether to ask for layers with --rootfs (askLayers).

For the upload, the certificate authorities in the environment variable SCANNER_UPLOAD_CA (PEM) are trusted in addition to those of the
system.

Scan Jobs run this command. It writes its result to the termination message of the container as
{"reason": "…", "message": "…"}; an empty reason means success.`,
		Args:          cobra.ExactArgs(1),
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(command *cobra.Command, args []string) error {
			o.request.Image = args[0]
			ctx, stop := notifyTermination(command.Context())
			defer stop()
			err := o.run(ctx, command.OutOrStdout(), command.ErrOrStderr())
			if reportErr := writeOutcome(o.terminationMessage, catalog.OutcomeOf(err)); reportErr != nil {
				_, _ = fmt.Fprintln(command.ErrOrStderr(), "Error: write the termination message:", reportErr)
			}
			return err
		},
	}
	flags := command.Flags()
	addImageFlags(flags, &o.request, &o.platform)
	flags.StringVar(&o.request.RootFS, "rootfs", "", "Directory with the root file system of IMAGE, to analyze instead of pulling the image; requires --platform")
	flags.StringArrayVar(&o.request.Fallbacks, "fallback-repository", nil,
		"Repository, as HOST/PATH, from which to pull the digest of IMAGE if it cannot be pulled from its own; may be repeated, at most 4 are used")
	flags.StringVar(&o.imageID, "image-id", "", "Image ID under which the SBOM is uploaded (default: IMAGE)")
	flags.StringVar(&o.uploadURL, "upload-url", "", "Base URL of the operator API to upload the SBOM to")
	o.addUploadFlags(flags)
	flags.StringVar(&o.file, "file", "", `File to write the SBOM to; "-" is the standard output`)
	command.MarkFlagsMutuallyExclusive("upload-url", "file")
	command.MarkFlagsOneRequired("upload-url", "file")
	return command
}

// addUploadFlags adds the flags of commands that scan Jobs run.
func (o *catalogOptions) addUploadFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.tokenFile, "token-file", "", "File that contains the bearer token of the upload")
	flags.StringVar(&o.uploadCAFile, "upload-ca-file", "", "PEM file of certificate authorities to trust for the upload, in addition to those of the system")
	flags.StringVar(&o.request.CAFile, "registry-ca-file", "", "PEM file of certificate authorities to trust for registries, in addition to those of the system")
	flags.StringVar(&o.request.ScratchDir, "scratch-dir", "", "Directory for temporary files, which are removed on exit (default: the temporary directory of the system)")
	flags.Var((*byteSize)(&o.request.Limits.ImageBytes), "max-image-bytes", "Maximum compressed size of the image, in bytes or as a quantity such as 8Gi")
	flags.Var((*byteSize)(&o.request.Limits.DecompressedBytes), "max-decompressed-bytes",
		"Maximum size of all layers after decompression, in bytes or as a quantity such as 16Gi")
	flags.Int64Var(&o.request.Limits.Files, "max-files", o.request.Limits.Files, "Maximum number of files in all layers")
	flags.DurationVar(&o.request.Limits.Timeout, "timeout", o.request.Limits.Timeout, "Maximum duration of pulling, analyzing and uploading")
	flags.StringVar(&o.terminationMessage, "termination-message-path", "/dev/termination-log",
		"Existing file to write the result to; ignored if it does not exist")
}

// notifyTermination cancels the context on the first SIGTERM or SIGINT, with a cause.
func notifyTermination(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
	done := make(chan struct{})
	go func() {
		select {
		case s := <-signals:
			cancel(&catalog.Error{
				Reason: model.ReasonDeadlineExceeded,
				Err:    fmt.Errorf("the process received the signal %q, which the kubelet sends at the deadline of the Job or when the pod is deleted", s),
			})
		case <-done:
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(done)
		cancel(nil)
	}
}

// prepare reads the platform and the configuration of registries.
func (o *catalogOptions) prepare(stderr io.Writer) error {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	if o.platform != "" {
		platform, err := model.ParsePlatform(o.platform)
		if err != nil {
			return &catalog.Error{Reason: model.ReasonCatalogFailed, Err: fmt.Errorf("--platform: %w", err)}
		}
		o.request.Platform = platform
	}
	var err error
	if o.request.Registries, err = configuredRegistries(); err != nil {
		return &catalog.Error{Reason: model.ReasonCatalogFailed, Err: err}
	}
	if o.request.ScratchDir != "" {
		// Libraries create their temporary files in TMPDIR; the root file system of a scan pod is read-only.
		if err := os.Setenv("TMPDIR", o.request.ScratchDir); err != nil {
			return fmt.Errorf("set the temporary directory: %w", err)
		}
	}
	o.request.Warn = func(text string) { _, _ = fmt.Fprintln(stderr, "Warning:", text) }
	return nil
}

func (o *catalogOptions) run(ctx context.Context, stdout, stderr io.Writer) error {
	if err := o.prepare(stderr); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, o.request.Limits.Timeout)
	defer cancel()
	result, err := catalog.Run(ctx, o.request)
	if err != nil {
		return err
	}
	if result.AttestedBy != "" {
		_, _ = fmt.Fprintf(stderr, "Used the SBOM of %s that is attested in its registry, verified with the key %s: %d packages\n",
			o.request.Image, result.AttestedBy, result.Stats.Packages)
		return o.deliver(ctx, stdout, result)
	}
	_, _ = fmt.Fprintf(stderr, "Generated the SBOM of %s for %s: %d packages in %d files, %d bytes; pulled in %s, analyzed in %s\n",
		o.request.Image, result.Platform, result.Stats.Packages, result.Stats.Files, result.Stats.DecompressedBytes,
		result.Stats.Pull.Round(time.Millisecond), result.Stats.Catalog.Round(time.Millisecond))
	if n := result.Stats.Unreadable; n > 0 {
		_, _ = fmt.Fprintf(stderr, "Warning: %d files or directories of %s could not be read; the SBOM is incomplete. Run the command as a user that may read them.\n",
			n, o.request.RootFS)
	}
	if result.LayersUnknown != "" {
		_, _ = fmt.Fprintf(stderr, "Warning: the layers of %s are not known: %s\n", o.request.Image, result.LayersUnknown)
	}
	return o.deliver(ctx, stdout, result)
}

// deliver writes or uploads an SBOM.
func (o *catalogOptions) deliver(ctx context.Context, stdout io.Writer, result *catalog.Result) error {
	if o.uploadURL == "" {
		return o.write(stdout, result.SBOM)
	}
	upload := o.upload()
	upload.Unreadable, upload.LayersUnknown, upload.SBOM = result.Stats.Unreadable, result.LayersUnknown, result.SBOM
	if upload.ImageID == "" {
		upload.ImageID = o.request.Image
	}
	if upload.Platform == (model.Platform{}) {
		upload.Platform = result.Platform
	}
	return catalog.Upload(ctx, upload)
}

// upload is an upload without anything to deliver.
func (o *catalogOptions) upload() catalog.UploadRequest {
	return catalog.UploadRequest{
		URL: o.uploadURL, TokenFile: o.tokenFile, CAFile: o.uploadCAFile, CAs: os.Getenv(scanjob.UploadCAVariable), ImageID: o.imageID, Platform: o.request.Platform,
	}
}

func (o *catalogOptions) write(stdout io.Writer, sbom []byte) error {
	if o.file == "-" {
		if _, err := stdout.Write(sbom); err != nil {
			return fmt.Errorf("write the SBOM: %w", err)
		}
		return nil
	}
	if err := os.WriteFile(o.file, sbom, 0o600); err != nil {
		if errors.Is(err, syscall.ENOSPC) {
			return &catalog.Error{Reason: model.ReasonOutOfDisk, Err: err}
		}
		return fmt.Errorf("write the SBOM: %w", err)
	}
	return nil
}

// writeOutcome writes the termination message. The file exists in pods only.
func writeOutcome(path string, outcome model.Outcome) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
	if errors.Is(err, os.ErrNotExist) || path == "" {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = file.Write(encodeOutcome(outcome))
	return errors.Join(err, file.Close())
}

// encodeOutcome encodes the outcome as JSON and truncates its message to the maximum size of a termination message.
func encodeOutcome(outcome model.Outcome) []byte {
	outcome.Message = strings.ToValidUTF8(outcome.Message, "?")
	for {
		encoded, err := json.Marshal(outcome)
		if err != nil || len(encoded) <= maxTerminationMessage {
			return encoded
		}
		// Escapes make the text longer by a factor that differs from place to place, hence the loop.
		outcome.Message = truncate.Text(outcome.Message, len(outcome.Message)*maxTerminationMessage/len(encoded)-16)
	}
}

// byteSize is a flag of bytes, given as a resource quantity.
type byteSize int64

func (b *byteSize) String() string { return strconv.FormatInt(int64(*b), 10) }
func (b *byteSize) Type() string   { return "quantity" }

func (b *byteSize) Set(s string) error {
	quantity, err := resource.ParseQuantity(s)
	if err != nil {
		return fmt.Errorf("%q is not a number of bytes or a quantity such as 8Gi", s)
	}
	value := quantity.Value()
	if value <= 0 || value == math.MaxInt64 {
		return fmt.Errorf("%q is out of range: use 1 byte to 8 EiB", s)
	}
	*b = byteSize(value)
	return nil
}
