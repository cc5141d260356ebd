package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/spf13/cobra"

	"github.com/scanner-operator/scanner-operator/internal/advice"
	"github.com/scanner-operator/scanner-operator/internal/candidates"
	"github.com/scanner-operator/scanner-operator/internal/catalog"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/report"
	"github.com/scanner-operator/scanner-operator/internal/vex"
)

type newerTagsOptions struct {
	scanOptions
	limit    int
	listOnly bool
}

func newNewerTagsCommand() *cobra.Command {
	o := &newerTagsOptions{scanOptions: scanOptions{database: dbOptions{output: outputTable}}}
	command := &cobra.Command{
		Use:   "newer-tags IMAGE",
		Short: "Compare the vulnerabilities of an image with those of its newer tags, without a cluster",
		Long: `List the tags of the repository of IMAGE, choose newer ones of the same variant, scan IMAGE and each of them, and print which vulnerabilities each newer tag
opens and closes. IMAGE is an image reference with a tag that is a version. With a tag and a digest (REPOSITORY:TAG@DIGEST), the image with the digest is
compared, and the tag says what is newer.

A tag is of the same variant if it has the same prefix, as many numbers and the same suffix; versions in the suffix may be higher, as in -alpine3.20 after -alpine3.19. The newest tag of
the same minor line, of the same major line, and of all are chosen; with --limit above 3, also those of other minor lines. Pre-releases are only chosen for an
image with a pre-release of the same line.

Images are compared as by "diff". The recommended tag is the one that removes the most risk, and opens no vulnerability that is High, Critical or known to be exploited.

Registries are reached as by "scan", also with the environment variable SCANNER_REGISTRIES.

Exit codes: 0 on success, 1 on an error, also if one of the tags cannot be scanned; the others are printed.`,
		Example: `  # Which newer tags of nginx close vulnerabilities
  scanner-operator newer-tags nginx:1.27.1-alpine

  # Which tags would be compared
  scanner-operator newer-tags registry.example.com/app:v1.4.2 --list-only --limit 10`,
		Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			err := o.run(command.Context(), args[0], command.OutOrStdout(), command.ErrOrStderr())
			if err != nil && command.Context().Err() != nil {
				return errors.New("interrupted") // the error that follows from it does not matter
			}
			return err
		},
	}
	flags := command.Flags()
	flags.StringVarP(&o.output, "output", "o", outputTable, "Output format: table or json")
	flags.IntVar(&o.limit, "limit", candidates.DefaultLimit, fmt.Sprintf("Maximum number of newer tags, 1 to %d", candidates.MaxLimit))
	flags.BoolVar(&o.listOnly, "list-only", false, "Print the newer tags without scanning any image")
	flags.StringArrayVar(&o.vex.files, "vex", nil, "VEX document (OpenVEX, CSAF or CycloneDX, in JSON) whose statements suppress vulnerabilities. May be repeated")
	o.addSourceFlags(flags, "PEM file of certificate authorities to trust for registries and database downloads, in addition to those of the system")
	return command
}

// run validates the flags and the argument before it asks the registry.
func (o *newerTagsOptions) run(ctx context.Context, source string, stdout, stderr io.Writer) (err error) {
	if err := checkChangesOutput(o.output); err != nil {
		return err
	}
	if o.limit < 1 || o.limit > candidates.MaxLimit {
		return fmt.Errorf("--limit %d is not between 1 and %d", o.limit, candidates.MaxLimit)
	}
	if err := o.readPlatform(); err != nil {
		return err
	}
	statements, err := o.vex.read(report.FormatJSON)
	if err != nil {
		return err
	}
	tag, current, err := parseTagged(source)
	if err != nil {
		return err
	}
	found := &newerTags{Repository: tag.Context().Name(), Tag: tag.TagStr(), Candidates: []newerTag{}, listOnly: o.listOnly}
	if err := o.choose(ctx, tag, found, stderr); err != nil {
		return err
	}
	if !o.listOnly && len(found.Candidates) > 0 {
		if err := o.compare(ctx, tag, current, statements, found, stderr); err != nil {
			return err
		}
	}
	if o.output == outputJSON {
		err = writeJSON(stdout, found)
	} else {
		err = found.write(stdout)
	}
	return errors.Join(err, found.result())
}

// parseTagged reads an image reference with a tag, and returns what to scan: the digest if the reference has one.
func parseTagged(source string) (tag name.Tag, current name.Reference, err error) {
	base, _, pinned := strings.Cut(source, "@")
	if pinned && strings.LastIndexByte(base, ':') <= strings.LastIndexByte(base, '/') {
		return name.Tag{}, nil, fmt.Errorf("%s has a digest and no tag, so nothing says which tags are newer: use REPOSITORY:TAG@DIGEST", cell(source))
	}
	if tag, err = name.NewTag(base); err != nil {
		return name.Tag{}, nil, fmt.Errorf("the image reference: %s", printableText(err.Error()))
	}
	current = tag
	if pinned {
		if current, err = name.NewDigest(source); err != nil {
			return name.Tag{}, nil, fmt.Errorf("the image reference: %s", printableText(err.Error()))
		}
	}
	return tag, current, nil
}

// choose lists the tags and chooses newer ones.
func (o *newerTagsOptions) choose(ctx context.Context, tag name.Tag, found *newerTags, stderr io.Writer) error {
	image, err := imageOf(tag)
	if err != nil {
		return err
	}
	// Nobody is asked about a tag that is no version.
	if choice := candidates.Choose(tag.TagStr(), nil, o.limit); choice.Reason == candidates.ReasonNoVersion {
		found.Reason, found.Message = choice.Reason, choice.Message
		return nil
	}
	request := o.request
	request.Image, request.CAFile = image, o.database.caFile
	if request.Registries, err = configuredRegistries(); err != nil {
		return err
	}
	list, err := catalog.Tags(ctx, request)
	if err != nil {
		return err
	}
	found.Listed, found.Incomplete = len(list.Tags), list.Cut
	if list.Repository != found.Repository {
		found.Mirror = list.Repository
		_, _ = fmt.Fprintf(stderr, "The tags are those that the mirror %s lists; the registry can have more.\n", cell(list.Repository))
	}
	choice := candidates.Choose(tag.TagStr(), list.Tags, o.limit)
	found.Reason, found.Message = choice.Reason, choice.Message
	for _, c := range choice.Candidates {
		found.Candidates = append(found.Candidates, newerTag{Candidate: c})
	}
	if list.Cut != "" {
		_, _ = fmt.Fprintf(stderr, "Warning: the list of tags is incomplete, so that newer tags can be missing: %s.\n", list.Cut)
	}
	return nil
}

// compare scans the image and its newer tags.
func (o *newerTagsOptions) compare(ctx context.Context, tag name.Tag, current name.Reference, statements *vex.Set, found *newerTags, stderr io.Writer) (err error) {
	image, err := imageOf(current)
	if err != nil {
		return err
	}
	scanner, err := o.open(ctx, stderr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, scanner.close()) }()
	from, err := scanner.scan(ctx, image, false, statements)
	if err != nil {
		return fmt.Errorf("%s: %w", cell(image), err)
	}
	found.From = &diffSide{Image: from.input.ImageID, Platform: from.input.Platform.String()}
	for i := range from.findings {
		found.From.Findings.Add(from.findings[i].Vulnerability.Severity)
	}
	found.Database = &scanner.installed.Build
	var limited error
	for i := range found.Candidates {
		c := &found.Candidates[i]
		if limited != nil {
			c.Error = "not pulled, because the registry limits requests: " + limited.Error()
			continue
		}
		image, upgrade, err := compareTag(ctx, scanner, tag.Context().Tag(c.Tag), statements, from.findings)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			c.Error = err.Error()
			if catalog.ReasonOf(err) == model.ReasonRegistryRateLimited {
				limited = err
			}
		default:
			c.set(image, upgrade)
		}
	}
	found.recommend()
	return nil
}

// compareTag scans a newer tag and compares it with findings.
func compareTag(ctx context.Context, scanner *sourceScanner, tag name.Tag, statements *vex.Set, from []model.Finding) (string, *advice.Upgrade, error) {
	image, err := imageOf(tag)
	if err != nil {
		return "", nil, err
	}
	to, err := scanner.scan(ctx, image, false, statements)
	if err != nil {
		return "", nil, err
	}
	upgrade := advice.UpgradeOf(from, to.findings)
	return to.input.ImageID, &upgrade, nil
}
