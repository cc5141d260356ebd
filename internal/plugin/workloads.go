package plugin

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/scanner-operator/scanner-operator/internal/server/api"
	"github.com/scanner-operator/scanner-operator/internal/since"
)

// coverageStates are those of containers.
var coverageStates = []string{"Scanned", "Partial", "Stale", "Pending", "Failed", "Skipped"}

func (o *options) coverageCommand() *cobra.Command {
	var f filters
	var states []string
	var reason string
	cmd := &cobra.Command{
		Use:   "coverage [TEXT]",
		Short: "List containers with the state of their scan, and the reason",
		Long: `List containers with the state of their scan and, if they are not scanned, the reason. TEXT is a part of the image reference, the image ID, the name of
the workload or of the container.`,
		Example: `  # Containers that are not scanned, with the message of the last attempt
  kubectl scanner coverage -A --state Failed,Pending -o wide`,
		Args: cobra.MaximumNArgs(1),
	}
	o.addLimit(cmd.Flags())
	cmd.Flags().StringSliceVar(&states, "state", nil, "Only containers in this state: Scanned, Partial, Stale, Pending, Failed, Skipped. May be repeated")
	cmd.Flags().StringVar(&reason, "reason", "", "Only containers with this reason, for example ImageNotFound")
	cmd.Flags().StringVar(&f.workload, "workload", "", "Only containers of workloads with this name")
	f.addOwner(cmd)
	must(cmd.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(coverageStates, cobra.ShellCompDirectiveNoFileComp)))
	cmd.RunE = o.run(func(ctx context.Context, c *client, namespace string, arguments []string) error {
		if len(arguments) == 1 {
			f.text = arguments[0]
		}
		query, err := f.query(namespace)
		if err != nil {
			return err
		}
		query["state"] = states
		set(query, "reason", reason)
		list, err := list[api.ContainerCoverage](ctx, c, o.limit, query, "api", "v1", "coverage")
		if err != nil {
			return err
		}
		if err := show(o, list, namespace, "containers", o.coverageColumns()); err != nil || o.output == "json" || o.output == "yaml" {
			return err
		}
		var page struct{ Summary api.CoverageSummary }
		if err := json.Unmarshal(list.first, &page); err != nil {
			return fmt.Errorf("read the summary of the coverage: %w", err)
		}
		s := page.Summary
		if required := s.Scanned + s.Partial + s.Stale + s.Pending + s.Failed; required > 0 {
			_, _ = fmt.Fprintf(o.errOut, "Coverage: %s of %d containers. Skipped: %d\n", percent(s.Ratio), required, s.Skipped)
		}
		return nil
	})
	return cmd
}

func (o *options) coverageColumns() []column[api.ContainerCoverage] {
	type row = api.ContainerCoverage
	return []column[row]{
		{header: "NAMESPACE", namespaced: true, value: func(c row) string { return c.Workload.Namespace }},
		{header: "WORKLOAD", value: func(c row) string { return workload(c.Workload) }},
		{header: "CONTAINER", value: func(c row) string { return c.Container }},
		{header: "STATE", value: func(c row) string { return string(c.State) }},
		{header: "REASON", value: func(c row) string { return value(c.Reason) }},
		{header: "IMAGE", value: func(c row) string { return o.shortImage(c.Reference) }},
		{header: "AGE", value: func(c row) string { return o.age(c.Since) }},
		{header: "OWNER", wide: true, value: func(c row) string { return value(c.Workload.Owner) }},
		{header: "PODS", wide: true, value: func(c row) string { return number(c.Pods) }},
		{header: "PLATFORM", wide: true, value: func(c row) string { return c.Platform }},
		{header: "IMAGE-ID", wide: true, value: func(c row) string { return c.ImageId }},
		{header: "NEXT-ATTEMPT", wide: true, value: func(c row) string {
			if c.NextAttempt == nil {
				return ""
			}
			return c.NextAttempt.UTC().Format(time.RFC3339)
		}},
		{header: "MESSAGE", wide: true, value: func(c row) string { return value(c.Message) }},
	}
}

func (o *options) rolloutsCommand() *cobra.Command {
	var f filters
	var image, from string
	cmd := &cobra.Command{
		Use:     "rollouts",
		Aliases: []string{"rollout"},
		Short:   "List rollouts, with the numbers of findings that they opened and closed",
		Long: `List rollouts, the latest first: changes of the image in a container of a workload, with the numbers of findings that only the new image has (opened) and
that only the previous image had (closed), as critical/high/medium/low.`,
		Example: `  # Rollouts of the last day in all namespaces
  kubectl scanner rollouts -A --since 1d

  # Rollouts of one workload
  kubectl scanner rollouts -n shop --workload web`,
		Args: cobra.NoArgs,
	}
	o.addLimit(cmd.Flags())
	cmd.Flags().StringVar(&f.workload, "workload", "", "Only rollouts of workloads with this name")
	f.addOwner(cmd)
	cmd.Flags().StringVar(&image, "image", "", "Only rollouts from or to this image, as for \"findings\"")
	cmd.Flags().StringVar(&from, "since", "", "Only later rollouts: a duration such as 7d, 2w or 36h, a date such as 2026-03-01, or a time")
	must(cmd.RegisterFlagCompletionFunc("image", o.completeImages))
	cmd.RunE = o.run(func(ctx context.Context, c *client, namespace string, _ []string) error {
		query, err := f.query(namespace)
		if err != nil {
			return err
		}
		if from != "" {
			now := o.now()
			start, err := since.Parse(from, now)
			if err != nil {
				return fmt.Errorf("--since: %w", err)
			}
			if start.After(now) {
				return fmt.Errorf("--since: %.40q is in the future", from)
			}
			query.Set("since", start.UTC().Format(time.RFC3339))
		}
		if image != "" {
			id, err := c.resolve(ctx, namespace, image)
			if err != nil {
				return err
			}
			query.Set("imageId", id)
		}
		list, err := list[api.Rollout](ctx, c, o.limit, query, "api", "v1", "rollouts")
		if err != nil {
			return err
		}
		return show(o, list, namespace, "rollouts", o.rolloutColumns())
	})
	return cmd
}

func (o *options) rolloutColumns() []column[api.Rollout] {
	return []column[api.Rollout]{
		{header: "NAMESPACE", namespaced: true, value: func(r api.Rollout) string { return r.Workload.Namespace }},
		{header: "WORKLOAD", value: func(r api.Rollout) string { return workload(r.Workload) }},
		{header: "CONTAINER", value: func(r api.Rollout) string { return r.Container }},
		{header: "FROM", value: func(r api.Rollout) string { return o.shortImage(r.From.ImageId) }},
		{header: "TO", value: func(r api.Rollout) string { return o.shortImage(r.To.ImageId) }},
		{header: "EVALUATION", value: func(r api.Rollout) string { return string(r.Evaluation.State) }},
		{header: "OPENED", value: func(r api.Rollout) string { return severityCounts(r.Evaluation.Opened) }},
		{header: "CLOSED", value: func(r api.Rollout) string { return severityCounts(r.Evaluation.Closed) }},
		{header: "AGE", value: func(r api.Rollout) string { return o.age(&r.At) }},
	}
}

func severityCounts(c *api.SeverityCounts) string {
	if c == nil {
		return ""
	}
	return fmt.Sprintf("%d/%d/%d/%d", c.Critical, c.High, c.Medium, c.Low)
}
