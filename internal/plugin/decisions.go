package plugin

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/scanner-operator/scanner-operator/internal/server/api"
)

// Values of the flags of decisions.
var (
	decisionStates   = []string{string(api.ListDecisionsParamsStateStanding), string(api.ListDecisionsParamsStateEnded), string(api.ListDecisionsParamsStateAll)}
	decisionStatuses = []string{
		string(api.DecisionStatusNotAffected), string(api.DecisionStatusFalsePositive), string(api.DecisionStatusAcceptedRisk), string(api.DecisionStatusFixed),
		string(api.DecisionStatusUnderInvestigation), string(api.DecisionStatusAffected),
	}
	decisionSources = []string{"kubernetes", "vex"}
	decisionOrders  = []string{string(api.ListDecisionsParamsSortMinusSince), string(api.ListDecisionsParamsSortExpiresAt), string(api.ListDecisionsParamsSortName)}
)

// decisionFilters are the flags that select decisions.
type decisionFilters struct {
	state, source, kind, vulnerability, author, sort string
	statuses                                         []string
	expiringWithin                                   int
}

func (f *decisionFilters) add(o *options, cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.state, "state", decisionStates[0], "Decisions that are in effect (standing), that have ended (ended), or all")
	flags.StringSliceVar(&f.statuses, "status", nil, "Only decisions with this status: "+strings.Join(decisionStatuses, ", ")+". May be repeated")
	flags.StringVar(&f.source, "source", "", "Only decisions from this source: kubernetes for exceptions, vex for statements of VEX documents")
	flags.StringVar(&f.kind, "kind", "", "Only decisions of objects of this kind, for example ClusterVulnerabilityException")
	flags.StringVar(&f.vulnerability, "vulnerability", "", "Only decisions that name this vulnerability")
	flags.StringVar(&f.author, "author", "", "Only decisions of this author. Requires the permission to read all namespaces")
	flags.IntVar(&f.expiringWithin, "expiring-within", -1, "Only decisions that expire within this number of days, -1 for all")
	flags.StringVar(&f.sort, "sort", decisionOrders[0], "Order: -since (the latest first), expiresAt (the earliest end first), or name")
	for name, values := range map[string][]string{"state": decisionStates, "status": decisionStatuses, "source": decisionSources, "sort": decisionOrders} {
		must(cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)))
	}
	must(cmd.RegisterFlagCompletionFunc("vulnerability", o.completeVulnerabilities))
}

func (o *options) decisionsCommand() *cobra.Command {
	var f decisionFilters
	cmd := &cobra.Command{
		Use:     "decisions [NAME]",
		Aliases: []string{"decision", "exceptions"},
		Short:   "List the decisions about findings, with their status, reach, author and end",
		Long: `List the decisions about findings: exceptions and statements of VEX documents, with their status, where they apply, who decided, and when they expire.
NAME is the name of the object that states a decision.

Decisions of objects of the whole cluster apply in all namespaces. The command lists all decisions that you may see; with --namespace, only those of
objects in this namespace. Authors are shown to users who may read all namespaces.`,
		Example: `  # Decisions that are in effect
  kubectl scanner decisions

  # Risks that are accepted until a time within the next 30 days, the earliest first
  kubectl scanner decisions --status AcceptedRisk --expiring-within 30 --sort expiresAt

  # The history of one exception, with its comments
  kubectl scanner decisions accepted --state all -o wide`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: o.completeArguments(o.completeDecisions),
	}
	f.add(o, cmd)
	o.addLimit(cmd.Flags())
	cmd.RunE = o.run(func(ctx context.Context, c *client, _ string, arguments []string) error {
		query := url.Values{"status": f.statuses}
		namespace := o.objectNamespace()
		set(query, "namespace", namespace)
		if len(arguments) == 1 {
			set(query, "name", arguments[0])
		}
		for name, text := range map[string]string{
			"state": f.state, "source": f.source, "kind": f.kind, "vulnerability": f.vulnerability, "author": f.author, "sort": f.sort,
		} {
			set(query, name, text)
		}
		if f.expiringWithin >= 0 {
			set(query, "expiringWithin", strconv.Itoa(f.expiringWithin))
		}
		list, err := list[api.DecisionRecord](ctx, c, o.limit, query, "api", "v1", "decisions")
		if err != nil {
			return err
		}
		return show(o, list, namespace, "decisions", o.decisionColumns(f.state != decisionStates[0]))
	})
	return cmd
}

// objectNamespace is the namespace that --namespace names, "" without the flag: decisions of the cluster apply in every namespace, and so the namespace of
// the context selects none.
func (o *options) objectNamespace() string {
	if o.allNamespaces {
		return ""
	}
	return o.overrides.Context.Namespace
}

// completeDecisions completes the names of objects that state decisions. The names are those of the first decisions by name.
func (o *options) completeDecisions(cmd *cobra.Command, _ []string, text string) ([]string, cobra.ShellCompDirective) {
	return o.completions(cmd, func(ctx context.Context, c *client, _ string) ([]string, error) {
		query := url.Values{"sort": {string(api.ListDecisionsParamsSortName)}, "state": {string(api.ListDecisionsParamsStateAll)}}
		set(query, "namespace", o.objectNamespace())
		rows, err := list[api.DecisionRecord](ctx, c, maxCompletions, query, "api", "v1", "decisions")
		var names []string
		for _, row := range rows.items {
			if strings.HasPrefix(row.Object.Name, text) && !slices.Contains(names, row.Object.Name) {
				names = append(names, row.Object.Name)
			}
		}
		return names, err
	})
}

func (o *options) decisionColumns(ended bool) []column[api.DecisionRecord] {
	type row = api.DecisionRecord
	columns := []column[row]{
		{header: "NAME", value: func(d row) string { return d.Object.Name }},
		{header: "KIND", wide: true, value: func(d row) string { return d.Object.Kind }},
		{header: "STATUS", value: decisionStatus},
		{header: "REACH", value: reach},
		{header: "VULNERABILITIES", value: func(d row) string { return few(o, d.Match.Vulnerabilities) }},
		{header: "PACKAGES", wide: true, value: func(d row) string { return few(o, d.Match.Packages) }},
		{header: "IMAGES", wide: true, value: func(d row) string { return few(o, d.Match.Images) }},
		{header: "PLACES", wide: true, value: func(d row) string { return value(d.Match.Places) }},
		{header: "FINDINGS", value: func(d row) string {
			if d.MatchedFindings == nil {
				return ""
			}
			return number(*d.MatchedFindings)
		}},
		{header: "AUTHOR", value: func(d row) string { return value(d.Author) }},
		{header: "EXPIRES", value: expires},
		{header: "AGE", value: func(d row) string { return o.age(&d.Since) }},
	}
	if ended {
		columns = append(columns, column[row]{header: "ENDED", value: func(d row) string {
			if d.Until == nil {
				return ""
			}
			if d.DeletedBy != nil {
				return value(d.EndedBy) + " by " + *d.DeletedBy + " " + o.age(d.Until)
			}
			return value(d.EndedBy) + " " + o.age(d.Until)
		}})
	}
	return append(columns,
		column[row]{header: "SOURCE", wide: true, value: func(d row) string { return d.Source }},
		column[row]{header: "JUSTIFICATION", wide: true, value: func(d row) string { return value(d.Justification) }},
		column[row]{header: "COMMENT", wide: true, value: func(d row) string { return value(d.Comment) }},
	)
}

// decisionStatus says of a decision that suppresses findings by its status, and does not, that it is a dry run.
func decisionStatus(d api.DecisionRecord) string {
	if !d.Suppresses && d.Status != api.DecisionStatusUnderInvestigation && d.Status != api.DecisionStatusAffected {
		return string(d.Status) + " (dry run)"
	}
	return string(d.Status)
}

// reach is where a decision applies: in the cluster or a namespace, and in all images or in those that it names.
func reach(d api.DecisionRecord) string {
	where := "cluster"
	if d.Match.Places != nil {
		where = "selected places"
	}
	if namespace := value(d.Object.Namespace); namespace != "" {
		where = "namespace " + namespace
	}
	switch {
	case d.Source == "vex":
		// The document names the products.
		return where + ", products"
	case d.Match.Images == nil || len(*d.Match.Images) == 0:
		return where
	case len(*d.Match.Images) == 1:
		return where + ", 1 image"
	default:
		return fmt.Sprintf("%s, %d images", where, len(*d.Match.Images))
	}
}

// expires is the end that a decision states.
func expires(d api.DecisionRecord) string {
	var ends []string
	if d.ExpiresAt != nil {
		ends = append(ends, day(*d.ExpiresAt))
	}
	if d.ExpireWhenFixed != nil && *d.ExpireWhenFixed {
		ends = append(ends, "when fixed")
	}
	return cmp.Or(strings.Join(ends, " or "), "never")
}

// day is the day of a time in UTC.
func day(at time.Time) string { return at.UTC().Format(time.DateOnly) }

// few names the first two texts and the number of the others, or in a wide table all.
func few(o *options, texts *[]string) string {
	if texts == nil {
		return ""
	}
	shown := *texts
	if o.output != "wide" && len(shown) > 2 {
		shown = append(slices.Clone(shown[:2]), "+"+number(len(shown)-2))
	}
	return strings.Join(shown, ", ")
}
