package plugin

import (
	"context"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/scanner-operator/scanner-operator/internal/server/api"
)

// filters are the flags that select rows by findings and workloads.
type filters struct {
	text, severity string
	fixable, kev   bool
	epss           float64
	workload, kind string
	owner          string
	noOwner        bool
	flags          *pflag.FlagSet
}

// severities are those of findings, the worst first.
var severities = []string{"Critical", "High", "Medium", "Low", "Negligible", "Unknown"}

// addFindings adds the flags about findings.
func (f *filters) addFindings(cmd *cobra.Command) {
	f.flags = cmd.Flags()
	f.flags.StringVar(&f.severity, "severity", "", "This severity or higher: "+strings.Join(severities, ", "))
	f.flags.BoolVar(&f.fixable, "fixable", false, "Only findings with a fix")
	f.flags.BoolVar(&f.kev, "kev", false, "Only findings that are known to be exploited (in KEV)")
	f.flags.Float64Var(&f.epss, "epss", 0, "Only findings with at least this EPSS probability, from 0 to 1")
	must(cmd.RegisterFlagCompletionFunc("severity", cobra.FixedCompletions(severities, cobra.ShellCompDirectiveNoFileComp)))
}

// addWorkloads adds the flags about workloads.
func (f *filters) addWorkloads(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.workload, "workload", "", "Only what workloads with this name run")
	cmd.Flags().StringVar(&f.kind, "workload-kind", "", "Only what workloads of this kind run, for example Deployment")
	f.addOwner(cmd)
}

// addOwner adds the flags about owners.
func (f *filters) addOwner(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.owner, "owner", "", "Only what workloads with this owner run")
	cmd.Flags().BoolVar(&f.noOwner, "no-owner", false, "Only what workloads without an owner run")
	cmd.MarkFlagsMutuallyExclusive("owner", "no-owner")
}

// query returns the parameters for a list, "" for all namespaces.
func (f *filters) query(namespace string) (url.Values, error) {
	query := url.Values{}
	set(query, "namespace", namespace)
	set(query, "text", f.text)
	set(query, "workload", f.workload)
	set(query, "workloadKind", f.kind)
	set(query, "owner", f.owner)
	if f.noOwner {
		query.Set("noOwner", "true")
	}
	if f.severity != "" {
		i := slices.IndexFunc(severities, func(s string) bool { return strings.EqualFold(s, f.severity) })
		if i < 0 {
			return nil, fmt.Errorf("--severity %q is not one of %s", f.severity, strings.Join(severities, ", "))
		}
		query.Set("severity", severities[i])
	}
	if f.fixable {
		query.Set("fixable", "true")
	}
	if f.kev {
		query.Set("kev", "true")
	}
	if f.epss != 0 {
		query.Set("epss", strconv.FormatFloat(f.epss, 'g', -1, 64))
	}
	return query, nil
}

// set sets a parameter that is not empty.
func set(query url.Values, name, value string) {
	if value != "" {
		query.Set(name, value)
	}
}

func (o *options) imagesCommand() *cobra.Command {
	var f filters
	var states []string
	var sort string
	var endOfLifeWithin, olderThan int
	var overdue bool
	cmd := &cobra.Command{
		Use:     "images [TEXT]",
		Aliases: []string{"image"},
		Short:   "List the images that run, with the number of their findings",
		Long:    "List the images that run in a namespace, with their state and the number of their findings. TEXT is a part of the image ID.",
		Example: `  # Images of the namespace "shop", those with the most severe findings first
  kubectl scanner images -n shop --sort=-severity

  # Images in all namespaces with at least one critical finding that has a fix
  kubectl scanner images -A --severity critical --fixable

  # Images that could not be scanned, with the reason
  kubectl scanner images -A --state Failed -o wide

  # Images whose distribution has reached its end of life or does so within 90 days
  kubectl scanner images -A --end-of-life-within 90 -o wide

  # Images with at least one finding that is overdue
  kubectl scanner images -A --overdue -o wide`,
		Args: cobra.MaximumNArgs(1),
	}
	f.addFindings(cmd)
	f.addWorkloads(cmd)
	o.addLimit(cmd.Flags())
	cmd.Flags().StringSliceVar(&states, "state", nil, "Only images in this state: Pending, Failed, Cataloged, Scanned, Reported. May be repeated")
	cmd.Flags().StringVar(&sort, "sort", "imageId", "Order: imageId, -severity, or created for the oldest images first")
	cmd.Flags().IntVar(&endOfLifeWithin, "end-of-life-within", -1,
		"Only images whose distribution reaches its end of life within this number of days, or has reached it; 0 for only the latter, -1 for all")
	cmd.Flags().IntVar(&olderThan, "older-than", 0, "Only images that were created at least this number of days ago; 0 for all")
	cmd.Flags().BoolVar(&overdue, "overdue", false, "Only images with at least one finding whose due date has passed")
	cmd.RunE = o.run(func(ctx context.Context, c *client, namespace string, arguments []string) error {
		if len(arguments) == 1 {
			f.text = arguments[0]
		}
		query, err := f.query(namespace)
		if err != nil {
			return err
		}
		query["state"] = states
		if overdue {
			query.Set("overdue", "true")
		}
		if endOfLifeWithin >= 0 {
			query.Set("endOfLifeWithin", strconv.Itoa(endOfLifeWithin))
		}
		if olderThan > 0 {
			query.Set("olderThan", strconv.Itoa(olderThan))
		}
		query.Set("sort", sort)
		list, err := list[api.Image](ctx, c, o.limit, query, "api", "v1", "images")
		if err != nil {
			return err
		}
		return show(o, list, namespace, "images", o.imageColumns())
	})
	return cmd
}

func (o *options) imageColumns() []column[api.Image] {
	return []column[api.Image]{
		{header: "IMAGE", value: func(i api.Image) string { return o.shortImage(i.ImageId) }},
		{header: "PLATFORM", wide: true, value: func(i api.Image) string { return i.Platform }},
		{header: "STATE", value: imageState},
		{header: "CRITICAL", value: func(i api.Image) string { return number(i.Counts.Critical) }},
		{header: "HIGH", value: func(i api.Image) string { return number(i.Counts.High) }},
		{header: "MEDIUM", value: func(i api.Image) string { return number(i.Counts.Medium) }},
		{header: "LOW", wide: true, value: func(i api.Image) string { return number(i.Counts.Low) }},
		{header: "KEV", value: func(i api.Image) string { return number(i.Counts.Kev) }},
		{header: "FIXABLE", value: func(i api.Image) string { return number(i.Counts.Fixable) }},
		{header: "OVERDUE", wide: true, value: func(i api.Image) string {
			if i.Overdue == nil {
				return ""
			}
			return number(*i.Overdue)
		}},
		{header: "PACKAGES", wide: true, value: func(i api.Image) string { return number(i.Packages) }},
		{header: "DISTRO", wide: true, value: func(i api.Image) string { return value(i.Distro) }},
		{header: "END-OF-LIFE", wide: true, value: func(i api.Image) string { return endOfLife(i.Distribution) }},
		{header: "CREATED", wide: true, value: func(i api.Image) string { return o.age(i.Created) }},
		{header: "SIZE", wide: true, value: func(i api.Image) string {
			if i.Size == 0 {
				return ""
			}
			return resource.NewQuantity(i.Size>>20<<20, resource.BinarySI).String()
		}},
		{header: "AGE", value: func(i api.Image) string { return o.age(&i.FirstSeen) }},
		{header: "REASON", wide: true, value: func(i api.Image) string { return value(i.Reason) }},
		{header: "MESSAGE", wide: true, value: func(i api.Image) string { return value(i.Message) }},
	}
}

// endOfLife is the date of the end of life of a distribution, and says whether it has passed.
func endOfLife(d *api.Distribution) string {
	if d == nil || d.EndOfLife == nil {
		return ""
	}
	if d.EndOfLifeReached != nil && *d.EndOfLifeReached {
		return d.EndOfLife.String() + " (reached)"
	}
	return d.EndOfLife.String()
}

// imageState says of an image that is scanned whether its SBOM is partial, as coverage does.
func imageState(i api.Image) string {
	if i.State == api.ImageStateScanned && i.Partial != nil && *i.Partial {
		return "Partial"
	}
	return string(i.State)
}

// imageID matches an image ID with a whole digest.
var imageID = regexp.MustCompile(`@sha256:[0-9a-f]{64}$`)

// maxCandidates bounds the images that an error names.
const maxCandidates = 5

// resolve returns the image ID that an argument means: the ID, a part that only one image has, or an image reference that pods name.
func (c *client) resolve(ctx context.Context, namespace, argument string) (string, error) {
	if imageID.MatchString(argument) {
		return argument, nil
	}
	query := url.Values{"text": {argument}}
	set(query, "namespace", namespace)
	images, err := list[api.Image](ctx, c, maxPage, query, "api", "v1", "images")
	if err != nil {
		return "", err
	}
	var ids []string
	for _, i := range images.items {
		if i.ImageId == argument {
			return argument, nil
		}
		ids = append(ids, i.ImageId)
	}
	if len(ids) == 0 {
		containers, err := list[api.ContainerCoverage](ctx, c, maxPage, query, "api", "v1", "coverage")
		if err != nil {
			return "", err
		}
		for _, row := range containers.items {
			if row.Reference == argument && row.ImageId != "" {
				ids = append(ids, row.ImageId)
			}
		}
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	where := "in the namespaces that you see"
	if namespace != "" {
		where = "in the namespace " + namespace + "; use -A for all namespaces"
	}
	switch len(ids) {
	case 0:
		return "", fmt.Errorf("no image %q was found %s", argument, printable(where))
	case 1:
		return ids[0], nil
	default:
		shown := ids[:min(len(ids), maxCandidates)]
		return "", fmt.Errorf("%d images match %q; use more of the image ID, for example the digest:\n%s", len(ids), argument, printableLines(shown))
	}
}

// printableLines joins texts as lines.
func printableLines(texts []string) string {
	var lines []string
	for _, text := range texts {
		lines = append(lines, "  "+printable(text))
	}
	return strings.Join(lines, "\n")
}
