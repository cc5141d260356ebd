package plugin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// ReportCommand returns the subcommand "report" of a program with this name, with the flags of the plugin.
func ReportCommand(program string) *cobra.Command {
	o := newOptions()
	cmd := o.reportCommand(program)
	o.addFlags(cmd.Flags())
	cmd.PreRun = func(cmd *cobra.Command, _ []string) { o.out, o.errOut = cmd.OutOrStdout(), cmd.ErrOrStderr() }
	return cmd
}

func (o *options) reportCommand(program string) *cobra.Command {
	var owner, since, file string
	cmd := &cobra.Command{
		Use:   "report",
		Short: "Write a report about a namespace, an owner or the cluster, as a page of HTML",
		Long: `Write a report about the namespace of the current context, about an owner (--owner), or about all namespaces that you may see (-A): what changed, what is
overdue, and what to fix first. The report is one page of HTML that contains all it needs, to be printed or sent. -o json or -o yaml writes its data.`,
		Example: fmt.Sprintf(`  # What changed in the namespace "shop" within a week
  %[1]s report -n shop --file shop.html

  # The whole cluster, since a day
  %[1]s report -A --since 2026-03-01 > cluster.html

  # The numbers of a team
  %[1]s report --owner team-a --since 30d -o json`, program),
		Args: cobra.NoArgs,
	}
	cmd.Flags().StringVar(&owner, "owner", "", "Report about the workloads of this owner, in all namespaces that you may see")
	cmd.Flags().StringVar(&since, "since", "7d", "What the report compares with: a duration such as 7d, 2w or 36h, a date such as 2026-03-01, or a time")
	cmd.Flags().StringVar(&file, "file", "", "File for the report. If absent, the standard output")
	cmd.RunE = o.run(func(ctx context.Context, c *client, namespace string, _ []string) error {
		segments := []string{"api", "v1", "reports"}
		switch {
		case o.output == "wide":
			return errors.New("a report has no wide output; use -o json, -o yaml or none of them")
		case owner != "" && (o.allNamespaces || o.overrides.Context.Namespace != ""):
			return errors.New("--owner is about all namespaces: it cannot be used with --namespace or --all-namespaces")
		case o.output == "" && file == "" && isTerminal(o.out):
			return errors.New("the report is a page of HTML: set --file or redirect the output, or use -o yaml")
		case owner != "":
			segments = append(segments, "owners", owner)
		case namespace != "":
			segments = append(segments, "namespaces", namespace)
		default:
			segments = append(segments, "cluster")
		}
		format := "html"
		if o.output != "" {
			format = "json"
		}
		content, err := c.body(ctx, url.Values{"since": {since}, "format": {format}}, segments...)
		if err != nil {
			return err
		}
		return o.writeReport(content, file)
	})
	return cmd
}

// writeReport writes a report to a file, or to the standard output.
func (o *options) writeReport(content []byte, file string) error {
	if o.output != "" {
		var document bytes.Buffer
		standard := o.out
		o.out = &document
		err := o.document(json.RawMessage(content))
		if o.out = standard; err != nil {
			return fmt.Errorf("the report is not what was expected: %w", err)
		}
		content = document.Bytes()
	}
	if file != "" {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			return err
		}
		_, _ = fmt.Fprintf(o.errOut, "Report written to %s.\n", printable(file))
		return nil
	}
	_, err := o.out.Write(content)
	return err
}

// isTerminal reports whether what is written to w is shown on a terminal.
func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}
