package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/spf13/cobra"

	"github.com/scanner-operator/scanner-operator/internal/candidates"
	"github.com/scanner-operator/scanner-operator/internal/catalog"
	"github.com/scanner-operator/scanner-operator/internal/model"
)

type catalogNewerTagsOptions struct {
	catalogOptions
	limit int
	known []string
}

func newCatalogNewerTagsCommand() *cobra.Command {
	var o catalogNewerTagsOptions
	command := &cobra.Command{
		Use:   "catalog-newer-tags REPOSITORY:TAG",
		Short: "Generate the SBOMs of newer tags of an image, as scan Jobs do",
		Long: `List the tags of REPOSITORY, choose those that are newer than TAG as "newer-tags" does, generate the SBOM of the image of each, and upload them to the operator
together. Images that the operator knows (--known-digest) are not pulled. An image that cannot be cataloged does not prevent the others.

The environment variables SCANNER_REGISTRIES and SCANNER_UPLOAD_CA are those of "catalog". Scan Jobs of Scanners with spec.newerTags run this command. It writes
its result to the termination message of the container as "catalog" does.`,
		Args:          cobra.ExactArgs(1),
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(command *cobra.Command, args []string) error {
			ctx, stop := notifyTermination(command.Context())
			defer stop()
			err := o.run(ctx, args[0], command.ErrOrStderr())
			if reportErr := writeOutcome(o.terminationMessage, catalog.OutcomeOf(err)); reportErr != nil {
				_, _ = fmt.Fprintln(command.ErrOrStderr(), "Error: write the termination message:", reportErr)
			}
			return err
		},
	}
	flags := command.Flags()
	addImageFlags(flags, &o.request, &o.platform)
	flags.IntVar(&o.limit, "limit", candidates.DefaultLimit, fmt.Sprintf("Maximum number of newer tags, 1 to %d", candidates.MaxLimit))
	flags.StringArrayVar(&o.known, "known-digest", nil, "Digest of an image whose SBOM the operator has; may be repeated")
	flags.StringVar(&o.imageID, "image-id", "", "Image ID of the image that runs, under which the result is uploaded")
	flags.StringVar(&o.uploadURL, "upload-url", "", "Base URL of the operator API to upload the result to")
	o.addUploadFlags(flags)
	for _, required := range []string{"platform", "image-id", "upload-url"} {
		_ = command.MarkFlagRequired(required) // They exist.
	}
	return command
}

// run looks up newer tags, and delivers their SBOMs.
func (o *catalogNewerTagsOptions) run(ctx context.Context, image string, stderr io.Writer) error {
	if o.limit < 1 || o.limit > candidates.MaxLimit {
		return &catalog.Error{Reason: model.ReasonCatalogFailed, Err: fmt.Errorf("--limit %d is not between 1 and %d", o.limit, candidates.MaxLimit)}
	}
	tag, err := name.NewTag(image, name.StrictValidation)
	if err != nil {
		return &catalog.Error{Reason: model.ReasonNotPullable, Err: fmt.Errorf("the image reference: %s", printableText(err.Error()))}
	}
	if err := o.prepare(stderr); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, o.request.Limits.Timeout)
	defer cancel()
	report, err := o.list(ctx, tag)
	if err != nil {
		return err
	}
	if err := o.catalogTags(ctx, tag, report, stderr); err != nil {
		return err
	}
	upload := o.upload()
	if upload.NewerTags, err = json.Marshal(report); err != nil {
		return fmt.Errorf("encode newer tags: %w", err)
	}
	_, _ = fmt.Fprintf(stderr, "Newer tags of %s: %d of %d\n", tag.Name(), len(report.Tags), report.Listed)
	return catalog.Upload(ctx, upload)
}

// list chooses newer tags.
func (o *catalogNewerTagsOptions) list(ctx context.Context, tag name.Tag) (*candidates.Report, error) {
	report := &candidates.Report{Tags: []candidates.ReportedTag{}}
	// Nobody is asked about a tag that is no version.
	choice := candidates.Choose(tag.TagStr(), nil, o.limit)
	if choice.Reason != candidates.ReasonNoVersion {
		request := o.request
		request.Image = tag.Name()
		list, err := catalog.Tags(ctx, request)
		if err != nil {
			return nil, err
		}
		report.Listed, report.Incomplete = len(list.Tags), list.Cut
		if list.Repository != tag.Context().Name() {
			report.Source = list.Repository
		}
		choice = candidates.Choose(tag.TagStr(), list.Tags, o.limit)
	}
	report.Reason, report.Message = choice.Reason, choice.Message
	for _, candidate := range choice.Candidates {
		report.Tags = append(report.Tags, candidates.ReportedTag{Candidate: candidate})
	}
	return report, nil
}

// catalogTags adds the SBOMs of the tags. Each tag gets an equal part of the remaining time, so that the last one leaves enough to deliver the others.
func (o *catalogNewerTagsOptions) catalogTags(ctx context.Context, tag name.Tag, report *candidates.Report, stderr io.Writer) error {
	size, limited := 0, false
	for i := range report.Tags {
		one := &report.Tags[i]
		if limited {
			one.Problem = "not pulled, because the registry limits requests"
			continue
		}
		deadline, _ := ctx.Deadline()
		part, cancel := context.WithTimeout(ctx, time.Until(deadline)/time.Duration(len(report.Tags)-i+1))
		err := o.catalogTag(part, tag.Context(), one)
		cancel()
		if size += len(one.SBOM); err == nil && size > candidates.MaxReportedSBOMs {
			size -= len(one.SBOM)
			err = fmt.Errorf("its SBOM and those of the other newer tags have more than %d bytes", candidates.MaxReportedSBOMs)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			one.SBOM, one.Problem = nil, err.Error()
			failure, typed := errors.AsType[*catalog.Error](err)
			limited = typed && failure.Reason == model.ReasonRegistryRateLimited
			_, _ = fmt.Fprintf(stderr, "Warning: %s is not cataloged: %v\n", tag.Context().Tag(one.Tag).Name(), err)
		}
	}
	return nil
}

// catalogTag finds the digest of a tag and, unless the operator knows it, generates the SBOM of the image.
func (o *catalogNewerTagsOptions) catalogTag(ctx context.Context, repository name.Repository, one *candidates.ReportedTag) error {
	request := o.request
	request.Image = repository.Tag(one.Tag).Name()
	digest, err := catalog.Digest(ctx, request)
	if err != nil {
		return err
	}
	one.Digest = digest
	if slices.Contains(o.known, digest) {
		return nil
	}
	request.Image = repository.Digest(digest).Name()
	result, err := catalog.Run(ctx, request)
	if err != nil {
		return err
	}
	if one.SBOM, err = catalog.CompressSBOM(result.SBOM); err != nil {
		return err
	}
	o.known = append(o.known, digest) // Another tag can have the same image.
	return nil
}
