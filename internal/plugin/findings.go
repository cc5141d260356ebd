package plugin

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/scanner-operator/scanner-operator/internal/server/api"
)

func (o *options) findingsCommand() *cobra.Command {
	var f filters
	var platform, sort string
	var closed, suppressed, overdue bool
	var dueWithin int
	cmd := &cobra.Command{
		Use:     "findings [IMAGE]",
		Aliases: []string{"finding", "vulnerabilities", "vulns"},
		Short:   "List the findings of an image, or the vulnerabilities of all images",
		Long: `List the findings of an image, the ones with the highest risk first. Without IMAGE, list the vulnerabilities of the images that run in a
namespace, each with the number of affected images and workloads.

IMAGE is an image ID, a part of it that only one image has, or the image reference in the spec of a pod.`,
		Example: `  # Vulnerabilities in the namespace of the current context
  kubectl scanner findings

  # Findings of one image that are high or critical
  kubectl scanner findings nginx:1.27 --severity high

  # Findings of an image that were closed
  kubectl scanner findings sha256:1e42bbe25081 --closed

  # Findings of an image with those that decisions suppress
  kubectl scanner findings nginx:1.27 --suppressed

  # Findings of an image that are overdue or due within a week, the earliest date first
  kubectl scanner findings nginx:1.27 --due-within 7 --sort due`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: o.completeArguments(o.completeImages),
	}
	f.addFindings(cmd)
	f.addWorkloads(cmd)
	o.addLimit(cmd.Flags())
	cmd.Flags().StringVar(&f.text, "text", "", "Part of the ID of the vulnerability or, with IMAGE, of the name of the package")
	cmd.Flags().StringVar(&sort, "sort", "-risk", "Order: -risk, -severity; with IMAGE also package and due, otherwise also -epss and id")
	cmd.Flags().StringVar(&platform, "platform", "", "Platform of IMAGE, for example linux/amd64. If absent, a scanned platform is selected")
	cmd.Flags().BoolVar(&closed, "closed", false, "Closed findings of IMAGE instead of open ones")
	cmd.Flags().BoolVar(&suppressed, "suppressed", false, "Include the findings of IMAGE that decisions suppress")
	cmd.Flags().BoolVar(&overdue, "overdue", false, "Only findings of IMAGE whose due date has passed")
	cmd.Flags().IntVar(&dueWithin, "due-within", -1, "Only findings of IMAGE that are due within this number of days, or overdue; -1 for all")
	cmd.RunE = o.run(func(ctx context.Context, c *client, namespace string, arguments []string) error {
		if len(arguments) == 0 && (platform != "" || closed || suppressed || overdue || dueWithin >= 0) {
			return errors.New("--platform, --closed, --suppressed, --overdue and --due-within require IMAGE")
		}
		if len(arguments) == 1 && (f.workload != "" || f.kind != "" || f.owner != "" || f.noOwner) {
			return errors.New("--workload, --workload-kind, --owner and --no-owner cannot be combined with IMAGE")
		}
		query, err := f.query(namespace)
		if err != nil {
			return err
		}
		query.Set("sort", sort)
		if len(arguments) == 0 {
			list, err := list[api.VulnerabilitySummary](ctx, c, o.limit, query, "api", "v1", "vulnerabilities")
			if err != nil {
				return err
			}
			return show(o, list, namespace, "vulnerabilities", o.vulnerabilityColumns())
		}
		id, err := c.resolve(ctx, namespace, arguments[0])
		if err != nil {
			return err
		}
		query.Del("namespace")
		set(query, "platform", platform)
		if closed {
			query.Set("closed", "true")
		}
		if suppressed {
			query.Set("suppressed", "true")
		}
		if overdue {
			query.Set("overdue", "true")
		}
		if dueWithin >= 0 {
			query.Set("dueBefore", o.now().AddDate(0, 0, dueWithin).UTC().Format(time.RFC3339))
		}
		list, err := list[api.Finding](ctx, c, o.limit, query, findingsOf(id)...)
		if err != nil {
			return err
		}
		return show(o, list, "", "findings", o.findingColumns(closed, suppressed))
	})
	return cmd
}

// findingsOf is the path of the findings of an image.
func findingsOf(id string) []string { return []string{"api", "v1", "images", id, "findings"} }

func (o *options) vulnerabilityColumns() []column[api.VulnerabilitySummary] {
	type row = api.VulnerabilitySummary
	return []column[row]{
		{header: "VULNERABILITY", value: func(v row) string { return v.Id }},
		{header: "SEVERITY", value: func(v row) string { return string(v.Severity) }},
		{header: "KEV", value: func(v row) string { return yes(v.Kev) }},
		{header: "EPSS", value: func(v row) string { return percent(v.Epss) }},
		{header: "RISK", value: func(v row) string { return decimal(v.Risk) }},
		{header: "FIXABLE", value: func(v row) string { return yes(v.Fixable) }},
		{header: "IMAGES", value: func(v row) string { return number(v.Images) }},
		{header: "WORKLOADS", value: func(v row) string { return number(v.Workloads) }},
		{header: "PACKAGES", wide: true, value: func(v row) string { return number(v.Packages) }},
		{header: "AGE", value: func(v row) string { return o.age(v.FirstSeen) }},
	}
}

// owners joins the names of owners, if there are any.
func owners(names *[]string) string {
	if names == nil {
		return ""
	}
	return strings.Join(*names, ", ")
}

// due is the day on which a finding is due, and says whether it has passed.
func due(d *api.Deadline) string {
	if d == nil {
		return ""
	}
	if d.Overdue {
		return day(d.At) + " (overdue)"
	}
	return day(d.At)
}

// findingColumns are the columns of the findings of an image.
func (o *options) findingColumns(closed, suppressed bool) []column[api.Finding] {
	columns := []column[api.Finding]{
		{header: "VULNERABILITY", value: func(f api.Finding) string { return f.Vulnerability.Id }},
		{header: "SEVERITY", value: func(f api.Finding) string { return string(f.Vulnerability.Severity) }},
		{header: "PACKAGE", value: func(f api.Finding) string { return f.Package.Name }},
		{header: "VERSION", value: func(f api.Finding) string { return f.Package.Version }},
		{header: "FIXED-IN", value: func(f api.Finding) string { return fixedIn(f.Fix) }},
		{header: "TYPE", wide: true, value: func(f api.Finding) string { return f.Package.Type }},
		{header: "KEV", value: func(f api.Finding) string { return yes(f.Vulnerability.Kev != nil) }},
		{header: "EPSS", value: func(f api.Finding) string {
			if f.Vulnerability.Epss == nil {
				return ""
			}
			return percent(f.Vulnerability.Epss.Score)
		}},
		{header: "RISK", value: func(f api.Finding) string { return decimal(f.Vulnerability.Risk) }},
		{header: "AGE", value: func(f api.Finding) string { return o.age(f.FirstSeen) }},
	}
	if closed {
		columns = append(columns, column[api.Finding]{header: "CLOSED", value: func(f api.Finding) string { return o.age(f.FixedAt) }})
	} else {
		columns = append(columns,
			column[api.Finding]{header: "DUE", value: func(f api.Finding) string { return due(f.Due) }},
			column[api.Finding]{header: "POLICY", wide: true, value: func(f api.Finding) string {
				if f.Due == nil {
					return ""
				}
				return f.Due.Policy
			}},
		)
	}
	columns = append(columns, column[api.Finding]{header: "OWNER", wide: true, value: func(f api.Finding) string { return owners(f.Owners) }})
	if suppressed {
		columns = append(columns, column[api.Finding]{header: "SUPPRESSED", value: func(f api.Finding) string { return suppression(f.Suppressed, f.Decisions) }})
	}
	return append(columns, column[api.Finding]{header: "LOCATIONS", wide: true, value: func(f api.Finding) string { return locations(f.Locations) }})
}

// suppression says which decision suppresses a finding, "" for one that is not suppressed.
func suppression(suppressed *bool, decisions *api.Decisions) string {
	if suppressed == nil || !*suppressed || decisions == nil || len(*decisions) == 0 {
		return ""
	}
	first := (*decisions)[0]
	who := first.Object.Name
	if first.Author != nil {
		who += ", " + *first.Author
	}
	return string(first.Status) + " (" + who + ")"
}

func locations(list []api.Location) string {
	var paths []string
	for _, l := range list {
		paths = append(paths, l.Path)
	}
	return strings.Join(paths, ", ")
}

func (o *options) affectedCommand() *cobra.Command {
	var f filters
	var on string
	var closed, suppressed bool
	cmd := &cobra.Command{
		Use:   "affected CVE",
		Short: "List the images and workloads that a vulnerability affects",
		Long:  "List the packages in images that a vulnerability affects, with the workloads that run the images. CVE is the ID or an alias of the vulnerability.",
		Example: `  # What has Log4Shell now, in all namespaces
  kubectl scanner affected CVE-2021-44228 -A

  # What ran with it on a day
  kubectl scanner affected CVE-2021-44228 -A --on 2026-01-31`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: o.completeArguments(o.completeVulnerabilities),
	}
	f.addWorkloads(cmd)
	o.addLimit(cmd.Flags())
	cmd.Flags().StringVar(&on, "on", "", "What ran on this day (UTC, YYYY-MM-DD) and was affected then")
	cmd.Flags().BoolVar(&closed, "closed", false, "What was affected and no longer is")
	cmd.Flags().BoolVar(&suppressed, "suppressed", false, "Include what decisions suppress")
	cmd.RunE = o.run(func(ctx context.Context, c *client, namespace string, arguments []string) error {
		query, err := f.query(namespace)
		if err != nil {
			return err
		}
		set(query, "on", on)
		if closed {
			query.Set("closed", "true")
		}
		if suppressed {
			query.Set("suppressed", "true")
		}
		list, err := list[api.Affected](ctx, c, o.limit, query, "api", "v1", "vulnerabilities", arguments[0], "affected")
		if err != nil {
			return err
		}
		return show(o, list, namespace, "affected images", o.affectedColumns(namespace == "", suppressed))
	})
	return cmd
}

func (o *options) affectedColumns(allNamespaces, suppressed bool) []column[api.Affected] {
	columns := []column[api.Affected]{
		{header: "IMAGE", value: func(a api.Affected) string { return o.shortImage(a.ImageId) }},
		{header: "PLATFORM", wide: true, value: func(a api.Affected) string { return a.Platform }},
		{header: "PACKAGE", value: func(a api.Affected) string { return a.Package.Name }},
		{header: "VERSION", value: func(a api.Affected) string { return a.Package.Version }},
		{header: "FIXED-IN", value: func(a api.Affected) string { return fixedIn(a.Fix) }},
		{header: "SEVERITY", value: func(a api.Affected) string { return string(a.Severity) }},
		{header: "RUNNING", value: func(a api.Affected) string { return yes(a.Running) }},
		{header: "WORKLOADS", value: func(a api.Affected) string { return o.workloads(a, allNamespaces) }},
		{header: "OWNER", wide: true, value: func(a api.Affected) string { return owners(a.Owners) }},
		{header: "EXPOSED", value: func(a api.Affected) string { return o.age(a.ExposedSince) }},
		{header: "RECORD", wide: true, value: func(a api.Affected) string { return a.VulnerabilityId + " (" + a.Namespace + ")" }},
		{header: "FIRST-SEEN", wide: true, value: func(a api.Affected) string { return o.age(a.FirstSeen) }},
		{header: "CLOSED", wide: true, value: func(a api.Affected) string { return o.age(a.FixedAt) }},
	}
	if suppressed {
		columns = append(columns, column[api.Affected]{header: "SUPPRESSED", value: func(a api.Affected) string { return suppression(a.Suppressed, a.Decisions) }})
	}
	return columns
}

// workloads names the first workloads that run an image: two, or in a wide table all that the operator names.
func (o *options) workloads(a api.Affected, allNamespaces bool) string {
	shown := a.Workloads
	if o.output != "wide" {
		shown = shown[:min(len(shown), 2)]
	}
	var names []string
	for _, w := range shown {
		name := workload(w)
		if allNamespaces {
			name = w.Namespace + "/" + name
		}
		names = append(names, name)
	}
	if more := a.WorkloadCount - len(shown); more > 0 {
		names = append(names, "+"+number(more))
	}
	return strings.Join(names, ", ")
}
