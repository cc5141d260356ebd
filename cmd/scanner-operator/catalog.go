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
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/scanner-operator/scanner-operator/internal/catalog"
	"github.com/scanner-operator/scanner-operator/internal/vuln"
)

// maxTerminationMessage is the limit that Kubernetes puts on a termination message, in bytes.
const maxTerminationMessage = 4096

type catalogOptions struct {
	request            catalog.Request
	platform           string
	imageID            string
	uploadURL          string
	tokenFile          string
	uploadCAFile       string
	output             string
	terminationMessage string
}

func newCatalogCommand() *cobra.Command {
	var o catalogOptions
	limits := catalog.DefaultLimits()
	command := &cobra.Command{
		Use:   "catalog IMAGE|PATH",
		Short: "Catalogue the packages of one image, and upload or write the SBOM",
		Long: `Catalogue the packages of one image with Syft. IMAGE is pulled by digest from its registry; PATH is an OCI layout
folder, an OCI archive or a docker archive. The SBOM (syft-json) goes to the operator with --upload-url, or to a file
with --output; "-" is the standard output, to which nothing else is written.

This is what a scan Job runs. Its outcome is written to the termination message as {"reason": …, "message": …};
without a reason, it succeeded.`,
		Args:          cobra.ExactArgs(1),
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(command *cobra.Command, args []string) error {
			o.request.Image = args[0]
			ctx, stop := notifyTermination(command.Context())
			defer stop()
			err := o.run(ctx, command.OutOrStdout(), command.ErrOrStderr())
			if reportErr := writeOutcome(o.terminationMessage, catalog.OutcomeOf(err)); reportErr != nil {
				_, _ = fmt.Fprintln(command.ErrOrStderr(), "Could not write the termination message:", reportErr)
			}
			return err
		},
	}
	flags := command.Flags()
	flags.StringVar(&o.platform, "platform", "", "platform of the image as os/architecture[/variant] (default linux on this machine's architecture for an index)")
	flags.StringVar(&o.imageID, "image-id", "", "image ID that the SBOM is uploaded for (default IMAGE)")
	flags.StringVar(&o.uploadURL, "upload-url", "", "address of the operator that the SBOM is uploaded to")
	flags.StringVar(&o.tokenFile, "token-file", "", "file with the bearer token for the upload")
	flags.StringVar(&o.uploadCAFile, "upload-ca-file", "", "PEM bundle to trust for the upload, besides the system's")
	flags.StringVar(&o.output, "output", "", `file that the SBOM is written to, "-" for the standard output`)
	flags.StringArrayVar(&o.request.DockerConfigs, "docker-config", nil, "docker configuration file with credentials; may be repeated, all that fit are tried")
	flags.StringArrayVar(&o.request.PlainHTTP, "plain-http-registry", nil, "registry (host or host:port) that may be asked without TLS; loopback always may; may be repeated")
	flags.StringArrayVar(&o.request.TokenHosts, "token-host", nil, "host outside of the registry's own domain whose token service may receive credentials; may be repeated")
	flags.StringVar(&o.request.CAFile, "ca-file", "", "PEM bundle to trust for registries, besides the system's")
	flags.StringVar(&o.request.ScratchDir, "scratch-dir", "", "folder for temporary files; all of them are removed at the end (default the system's)")
	o.request.Limits = limits
	flags.Var((*byteSize)(&o.request.Limits.ImageBytes), "max-image-bytes", "largest image, compressed, in bytes or as a quantity such as 8Gi")
	flags.Var((*byteSize)(&o.request.Limits.DecompressedBytes), "max-decompressed-bytes", "most bytes of all layers after decompression, in bytes or as a quantity")
	flags.Int64Var(&o.request.Limits.Files, "max-files", limits.Files, "most files in all layers")
	flags.DurationVar(&o.request.Limits.Timeout, "timeout", limits.Timeout, "most time for cataloguing and upload together")
	flags.StringVar(&o.terminationMessage, "termination-message-path", "/dev/termination-log", "existing file that the outcome is written to")
	command.MarkFlagsMutuallyExclusive("upload-url", "output")
	command.MarkFlagsOneRequired("upload-url", "output")
	return command
}

// notifyTermination ends the context on the first SIGTERM or SIGINT, and says why.
func notifyTermination(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
	done := make(chan struct{})
	go func() {
		select {
		case s := <-signals:
			cancel(&catalog.Error{
				Reason: vuln.ReasonDeadlineExceeded,
				Err:    fmt.Errorf("the process was told to end (%s), as at the deadline of its Job", s),
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

func (o *catalogOptions) run(ctx context.Context, stdout, stderr io.Writer) error {
	if o.platform != "" {
		platform, err := vuln.ParsePlatform(o.platform)
		if err != nil {
			return &catalog.Error{Reason: vuln.ReasonCatalogFailed, Err: fmt.Errorf("--platform: %w", err)}
		}
		o.request.Platform = platform
	}
	if o.request.ScratchDir != "" {
		// Libraries that ask for a temporary folder find it where alone this process may write.
		if err := os.Setenv("TMPDIR", o.request.ScratchDir); err != nil {
			return fmt.Errorf("set the temporary folder: %w", err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, o.request.Limits.Timeout)
	defer cancel()
	result, err := catalog.Run(ctx, o.request)
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(stderr, "Catalogued %s for %s: %d packages in %d files, %d bytes; pulled in %s, catalogued in %s\n",
		o.request.Image, result.Platform, result.Stats.Packages, result.Stats.Files, result.Stats.DecompressedBytes,
		result.Stats.Pull.Round(time.Millisecond), result.Stats.Catalogue.Round(time.Millisecond))
	if o.uploadURL == "" {
		return o.write(stdout, result.SBOM)
	}
	upload := catalog.UploadRequest{
		URL: o.uploadURL, TokenFile: o.tokenFile, CAFile: o.uploadCAFile,
		ImageID: o.imageID, Platform: o.request.Platform, SBOM: result.SBOM,
	}
	if upload.ImageID == "" {
		upload.ImageID = o.request.Image
	}
	if upload.Platform == (vuln.Platform{}) {
		upload.Platform = result.Platform
	}
	return catalog.Upload(ctx, upload)
}

func (o *catalogOptions) write(stdout io.Writer, sbom []byte) error {
	if o.output == "-" {
		if _, err := stdout.Write(sbom); err != nil {
			return fmt.Errorf("write the SBOM: %w", err)
		}
		return nil
	}
	if err := os.WriteFile(o.output, sbom, 0o600); err != nil {
		if errors.Is(err, syscall.ENOSPC) {
			return &catalog.Error{Reason: vuln.ReasonOutOfDisk, Err: err}
		}
		return fmt.Errorf("write the SBOM: %w", err)
	}
	return nil
}

// writeOutcome writes the outcome where the kubelet looks for it. A path that does not exist is not in a pod.
func writeOutcome(path string, outcome vuln.Outcome) error {
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

// encodeOutcome writes JSON within the limit, by shortening the message.
func encodeOutcome(outcome vuln.Outcome) []byte {
	outcome.Message = strings.ToValidUTF8(outcome.Message, "?")
	for {
		encoded, err := json.Marshal(outcome)
		if err != nil || len(encoded) <= maxTerminationMessage {
			return encoded
		}
		// Escapes make the text longer by a factor that differs from place to place, hence the loop.
		cut := max(0, len(outcome.Message)*maxTerminationMessage/len(encoded)-16)
		for cut > 0 && !utf8.RuneStart(outcome.Message[cut]) {
			cut--
		}
		outcome.Message = outcome.Message[:cut]
	}
}

// byteSize is a flag that takes plain bytes or a resource quantity.
type byteSize int64

func (b *byteSize) String() string { return strconv.FormatInt(int64(*b), 10) }
func (b *byteSize) Type() string   { return "quantity" }

func (b *byteSize) Set(s string) error {
	quantity, err := resource.ParseQuantity(s)
	if err != nil {
		return fmt.Errorf("%q is neither a number of bytes nor a quantity such as 8Gi", s)
	}
	value := quantity.Value()
	if value <= 0 || value == math.MaxInt64 {
		return fmt.Errorf("%q is not between 1 byte and 8 EiB", s)
	}
	*b = byteSize(value)
	return nil
}
