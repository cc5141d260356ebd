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
	"github.com/scanner-operator/scanner-operator/internal/plugin"
	"github.com/scanner-operator/scanner-operator/internal/report"
	"github.com/scanner-operator/scanner-operator/internal/vex"
)

type newerTagsOptions struct {
	scanOptions
	limit     int
	listOnly  bool
	cluster   *plugin.ClusterOptions
	maxImages int
	// asked is what registries answered during the run.
	asked registryState
}

func newNewerTagsCommand() *cobra.Command {
	o := &newerTagsOptions{scanOptions: scanOptions{database: dbOptions{output: outputTable}}, asked: registryState{limited: map[string]error{}}}
	command := &cobra.Command{
		Use:   "newer-tags IMAGE | -n NAMESPACE | -A",
		Short: "Compare the vulnerabilities of an image, or of the images that run, with those of newer tags",
		Long: `List the tags of the repository of IMAGE, choose newer ones of the same variant, scan IMAGE and each of them, and print which vulnerabilities each newer tag
opens and closes. IMAGE is an image reference with a tag that is a version. With a tag and a digest (REPOSITORY:TAG@DIGEST), the image with the digest is
compared, and the tag says what is newer.

A tag is of the same variant if it has the same prefix, as many numbers and the same suffix; versions in the suffix may be higher, as in -alpine3.20 after -alpine3.19. The newest tag of
the same minor line, of the same major line, and of all are chosen; with --limit above 3, also those of other minor lines. Pre-releases are only chosen for an
image with a pre-release of the same line.

Images are compared as by "diff". The recommended tag is the one that removes the most risk, and opens no vulnerability that is High, Critical or known to be exploited.

Without IMAGE, the images that run in a namespace (-n) or in all that you may see (-A) are compared, and the recommended tag that removes the most risk is printed first. What runs is read
from the operator, which is reached as by the kubectl plugin (see "scanner-operator kubectl --help"). All images are scanned on this machine, so that exceptions of the cluster do
not apply. After a registry has limited requests, it is not asked for anything more.

Registries are reached as by "scan", also with the environment variable SCANNER_REGISTRIES.

Exit codes: 0 on success, 1 on an error, also if one of the images or tags cannot be compared; the others are printed.`,
		Example: `  # Which newer tags of nginx close vulnerabilities
  scanner-operator newer-tags nginx:1.27.1-alpine

  # Which tags would be compared
  scanner-operator newer-tags registry.example.com/app:v1.4.2 --list-only --limit 10

  # Which updates of the images in the namespace "shop" remove the most risk
  scanner-operator newer-tags -n shop --service-account viewer`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			err := o.runFor(command, args)
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
	o.vex.addFileFlags(flags)
	flags.IntVar(&o.maxImages, "max-images", defaultClusterImages, fmt.Sprintf("Without IMAGE: maximum number of images that run and are compared, 1 to %d", maxClusterImages))
	o.addSourceFlags(flags, "PEM file of certificate authorities to trust for registries, database downloads and --url, in addition to those of the system")
	o.cluster = plugin.NewClusterOptions(flags, "Namespace whose images are compared")
	o.cluster.AddAllNamespaces(flags, "Compare the images of all namespaces that you may see")
	return command
}

// runFor validates the flags before anything is asked, and compares one image or those that run.
func (o *newerTagsOptions) runFor(command *cobra.Command, args []string) error {
	ctx, stdout, stderr := command.Context(), command.OutOrStdout(), command.ErrOrStderr()
	if err := checkChangesOutput(o.output); err != nil {
		return err
	}
	if o.limit < 1 || o.limit > candidates.MaxLimit {
		return fmt.Errorf("--limit %d is not between 1 and %d", o.limit, candidates.MaxLimit)
	}
	if o.maxImages < 1 || o.maxImages > maxClusterImages {
		return fmt.Errorf("--max-images %d is not between 1 and %d", o.maxImages, maxClusterImages)
	}
	flags := command.Flags()
	ofCluster := flags.Changed("namespace") || flags.Changed("all-namespaces")
	switch {
	case len(args) == 0 && !ofCluster:
		return errors.New("the argument IMAGE is missing: name an image, or with -n or -A the namespaces whose images are compared")
	case len(args) == 1 && ofCluster:
		return errors.New("IMAGE cannot be used with -n or -A: these compare the images that run")
	case flags.Changed("namespace") && flags.Changed("all-namespaces"):
		return errors.New("-n cannot be used with -A")
	}
	if err := o.readPlatform(); err != nil {
		return err
	}
	statements, err := o.vex.read(report.FormatJSON)
	if err != nil {
		return err
	}
	if ofCluster {
		return o.runCluster(ctx, statements, stdout, stderr)
	}
	return o.run(ctx, args[0], statements, stdout, stderr)
}

// run compares one image.
func (o *newerTagsOptions) run(ctx context.Context, source string, statements *vex.Set, stdout, stderr io.Writer) (err error) {
	tag, current, err := parseTagged(source)
	if err != nil {
		return err
	}
	found := &newerTags{Repository: tag.Context().Name(), Tag: tag.TagStr(), Candidates: []newerTag{}, listOnly: o.listOnly}
	if err := o.choose(ctx, tag, found, stderr); err != nil {
		return err
	}
	if !o.listOnly && len(found.Candidates) > 0 {
		scanner, err := o.open(ctx, stderr)
		if err != nil {
			return err
		}
		found.Database = &scanner.installed.Build
		scans := &scanCache{scanner: scanner, statements: statements, known: map[scanKey]*localScan{}}
		if err := errors.Join(o.compare(ctx, tag, current, scans, found), scanner.close()); err != nil {
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
	list, err := o.tags(ctx, tag, image)
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

// tags lists the tags of a repository. The list of the last one is kept, for other images of it.
func (o *newerTagsOptions) tags(ctx context.Context, tag name.Tag, image string) (list *catalog.TagList, err error) {
	if o.asked.list != nil && o.asked.repository == tag.Context().Name() {
		return o.asked.list, nil
	}
	request := o.request
	request.Image, request.CAFile = image, o.database.caFile
	if request.Registries, err = configuredRegistries(); err != nil {
		return nil, err
	}
	list, err = catalog.Tags(ctx, request)
	o.asked.note(tag.Context(), err)
	if err == nil {
		o.asked.repository, o.asked.list = tag.Context().Name(), list
	}
	return list, err
}

// registryState is what registries answered.
type registryState struct {
	// limited has the errors of registries that limited requests.
	limited map[string]error
	// list has the tags of the repository that was listed last.
	repository string
	list       *catalog.TagList
}

func (s *registryState) note(repository name.Repository, err error) {
	if err != nil && catalog.ReasonOf(err) == model.ReasonRegistryRateLimited {
		s.limited[repository.RegistryStr()] = err
	}
}

// compare scans the image and its newer tags.
func (o *newerTagsOptions) compare(ctx context.Context, tag name.Tag, current name.Reference, scans *scanCache, found *newerTags) error {
	platform := o.request.Platform.String()
	from, err := scans.scan(ctx, current, platform)
	if err != nil {
		o.asked.note(current.Context(), err)
		return fmt.Errorf("%s: %w", cell(current.Name()), err)
	}
	found.From = &diffSide{Image: from.imageID, Platform: from.platform}
	for i := range from.findings {
		found.From.Findings.Add(from.findings[i].Vulnerability.Severity)
	}
	for i := range found.Candidates {
		c := &found.Candidates[i]
		if limited := o.asked.limited[tag.Context().RegistryStr()]; limited != nil {
			c.Error = "not pulled, because the registry limits requests: " + limited.Error()
			continue
		}
		to, err := scans.scan(ctx, tag.Context().Tag(c.Tag), platform)
		o.asked.note(tag.Context(), err)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			c.Error = err.Error()
		default:
			upgrade := advice.UpgradeOf(from.findings, to.findings)
			c.set(to.imageID, &upgrade)
		}
	}
	found.recommend()
	return nil
}

// scanCache scans each image once for a platform.
type scanCache struct {
	scanner    *sourceScanner
	statements *vex.Set
	known      map[scanKey]*localScan
}

func (s *scanCache) scan(ctx context.Context, reference name.Reference, platform string) (*localScan, error) {
	image, err := imageOf(reference)
	if err != nil {
		return nil, err
	}
	key := scanKey{image, platform}
	if known := s.known[key]; known != nil {
		return known, known.err
	}
	one := &localScan{}
	s.known[key] = one
	scanned, err := s.scanner.scan(ctx, image, false, s.statements)
	if err != nil {
		one.err = err
		return one, err
	}
	one.imageID, one.platform, one.findings = scanned.input.ImageID, scanned.input.Platform.String(), make([]model.Finding, len(scanned.findings))
	for i := range scanned.findings {
		// Only what a comparison reads is kept, since many images can be scanned.
		f, to := &scanned.findings[i], &one.findings[i]
		to.Package = model.Package{Name: f.Package.Name, Version: f.Package.Version}
		to.Vulnerability = model.Vulnerability{ID: f.Vulnerability.ID, Risk: f.Vulnerability.Risk, Severity: f.Vulnerability.Severity, KEV: f.Vulnerability.KEV}
		to.Fix.State, to.Suppressed = f.Fix.State, f.Suppressed
	}
	return one, nil
}
