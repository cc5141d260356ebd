package plugin

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/scanner-operator/scanner-operator/internal/server/api"
)

const (
	// vexKind is the kind of documents that users upload.
	vexKind = api.VEXDocumentKindVEXDocument
	// maxDocument bounds a document in bytes, as the operator does.
	maxDocument = 16 << 20
)

func (o *options) vexCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "vex",
		Short: "List, upload and delete VEX documents",
		Long: `List, upload and delete VEX documents, whose statements decide which findings count, in all namespaces.

These commands need permissions on vexsources in the whole cluster: list to list documents, get to print one, create and update to upload one, delete
to delete one. With --service-account, the ServiceAccount needs them, and you need the verb "update" or "delete" on services/proxy for the Service of the
operator to upload or delete.`,
		Example: `  # Upload a document with the name "shop", or replace it
  kubectl scanner vex upload shop shop.openvex.json

  # What became of the statements of all documents
  kubectl scanner vex list

  # Statements that match nothing
  kubectl scanner vex list -o json`,
		Args: cobra.NoArgs,
	}
	cmd.AddCommand(o.vexListCommand(), o.vexUploadCommand(), o.vexGetCommand(), o.vexDeleteCommand())
	return cmd
}

func (o *options) vexListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List VEXSources and uploaded VEX documents, with what became of their statements",
		Example: `  # With authors, digests, and the reason why statements are not in effect
  kubectl scanner vex list -o wide`,
		Args: cobra.NoArgs,
	}
	cmd.RunE = o.run(func(ctx context.Context, c *client, _ string, _ []string) error {
		list, err := listVEX(ctx, c)
		if err != nil {
			return err
		}
		return show(o, list, "", "VEX documents", o.vexColumns())
	})
	return cmd
}

// listVEX reads all sources, which are on one page.
func listVEX(ctx context.Context, c *client) (rows[api.VEXDocument], error) {
	var page struct {
		Items []json.RawMessage `json:"items"`
	}
	if err := c.get(ctx, &page, nil, "api", "v1", "vex"); err != nil {
		return rows[api.VEXDocument]{}, err
	}
	all := rows[api.VEXDocument]{raw: page.Items, total: len(page.Items)}
	for _, raw := range page.Items {
		var item api.VEXDocument
		if err := json.Unmarshal(raw, &item); err != nil {
			return rows[api.VEXDocument]{}, fmt.Errorf("a VEX document is not what was expected: %w", err)
		}
		all.items = append(all.items, item)
	}
	return all, nil
}

func (o *options) vexColumns() []column[api.VEXDocument] {
	type row = api.VEXDocument
	count := func(n *int) string {
		if n == nil {
			return ""
		}
		return number(*n)
	}
	return []column[row]{
		{header: "KIND", value: func(d row) string { return string(d.Kind) }},
		{header: "NAME", value: func(d row) string { return d.Name }},
		{header: "APPLIED", value: func(d row) string {
			if d.Problem != nil {
				return "False (" + string(d.Problem.Reason) + ")"
			}
			return "True"
		}},
		{header: "STATEMENTS", value: func(d row) string { return number(d.Statements) }},
		{header: "MATCHED", value: func(d row) string { return count(d.Matched) }},
		{header: "SUPPRESSED", value: func(d row) string { return count(d.SuppressedFindings) }},
		{header: "AGE", value: func(d row) string { return o.age(&d.SavedAt) }},
		{header: "AUTHOR", wide: true, value: func(d row) string { return value(d.Author) }},
		{header: "DOCUMENTS", wide: true, value: func(d row) string { return number(d.Documents) }},
		{header: "BYTES", wide: true, value: func(d row) string { return number(int(d.Bytes)) }},
		{header: "SHA256", wide: true, value: func(d row) string { return d.Sha256 }},
		{header: "EXPORTED-DECISIONS", wide: true, value: func(d row) string { return string(d.ExportedDecisions) }},
		{header: "MESSAGE", wide: true, value: func(d row) string {
			if d.Problem == nil {
				return ""
			}
			return d.Problem.Message
		}},
	}
}

func (o *options) vexUploadCommand() *cobra.Command {
	exported := string(api.ExportedDecisionsStatusOnly)
	cmd := &cobra.Command{
		Use:   "upload NAME FILE",
		Short: "Upload a VEX document (OpenVEX, CSAF VEX or CycloneDX VEX, in JSON), or replace the one with the same name",
		Long: `Upload a VEX document (OpenVEX, CSAF VEX or CycloneDX VEX, in JSON), or replace the one with the same name. FILE may be -, for the standard input. The
command fails if the document is refused, or if its statements cannot be applied.`,
		Example: `  # What is known about the images of a team, under the name "shop"
  kubectl scanner vex upload shop shop.openvex.json

  # Decisions that another cluster of yours has exported, with their accepted risks and ends
  kubectl scanner vex upload decisions decisions.openvex.json --exported-decisions=Full`,
		Args: cobra.ExactArgs(2),
	}
	cmd.Flags().StringVar(&exported, "exported-decisions", exported, `What applies of the decisions in a document that scanner-operator has exported: StatusOnly, the VEX status of
their statements, or Full, also accepted risks, until they end. Use Full only for documents of your own clusters`)
	cmd.RunE = func(cmd *cobra.Command, arguments []string) error {
		if !api.ExportedDecisions(exported).Valid() {
			return fmt.Errorf("--exported-decisions: %q is not one of %s, %s", exported, api.ExportedDecisionsStatusOnly, api.ExportedDecisionsFull)
		}
		// An unreadable file is no reason for a request.
		content, err := readDocument(cmd.InOrStdin(), arguments[1])
		if err != nil {
			return err
		}
		return o.run(func(ctx context.Context, c *client, _ string, _ []string) error {
			return o.uploadVEX(ctx, c, arguments[0], api.ExportedDecisions(exported), content)
		})(cmd, arguments)
	}
	return cmd
}

// readDocument reads a file, or the standard input for "-".
func readDocument(stdin io.Reader, name string) ([]byte, error) {
	in := stdin
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer func() { _ = file.Close() }()
		in = file
	}
	content, err := io.ReadAll(io.LimitReader(in, maxDocument+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if len(content) > maxDocument {
		return nil, fmt.Errorf("%s is larger than the limit of %d bytes: split the document", name, maxDocument)
	}
	return content, nil
}

func (o *options) uploadVEX(ctx context.Context, c *client, name string, exported api.ExportedDecisions, content []byte) error {
	upload := call{method: http.MethodPut, segments: []string{"api", "v1", "vex", name}, content: content}
	// An older operator does not know the parameter.
	if exported != api.ExportedDecisionsStatusOnly {
		upload.query = url.Values{"exportedDecisions": {string(exported)}}
	}
	body, err := c.do(ctx, upload)
	if err != nil {
		return err
	}
	var stored api.VEXDocument
	if err := json.Unmarshal(body, &stored); err != nil {
		return fmt.Errorf("the response to the upload is not what was expected: %w", err)
	}
	one := rows[api.VEXDocument]{items: []api.VEXDocument{stored}, raw: []json.RawMessage{body}, total: 1}
	if err := show(o, one, "", "VEX documents", o.vexColumns()); err != nil {
		return err
	}
	if stored.Problem != nil {
		return fmt.Errorf("the document is stored, but its statements are not in effect: %s", printable(stored.Problem.Message))
	}
	if o.output == "json" || o.output == "yaml" || stored.Unmatched == nil || *stored.Unmatched == 0 {
		return nil
	}
	_, _ = fmt.Fprintf(o.errOut, "Statements that match no finding: %d\n", *stored.Unmatched)
	for _, s := range stored.UnmatchedStatements {
		_, _ = fmt.Fprintf(o.errOut, "  %s (%s, %s)\n", printable(s.Position), printable(s.Vulnerability), s.Reason)
	}
	if more := *stored.Unmatched - len(stored.UnmatchedStatements); more > 0 {
		_, _ = fmt.Fprintf(o.errOut, "  and %d more\n", more)
	}
	return nil
}

func (o *options) vexGetCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "get NAME", Short: "Print an uploaded VEX document", Args: cobra.ExactArgs(1), ValidArgsFunction: o.completeVEX,
		Example: `  # To try it with an image
  kubectl scanner vex get shop > shop.json && scanner-operator scan --vex shop.json IMAGE`,
	}
	cmd.RunE = o.run(func(ctx context.Context, c *client, _ string, arguments []string) error {
		body, err := c.body(ctx, nil, "api", "v1", "vex", arguments[0])
		if err != nil {
			return err
		}
		return o.document(json.RawMessage(body))
	})
	return cmd
}

func (o *options) vexDeleteCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "delete NAME", Short: "Delete an uploaded VEX document: what its statements decided ends", Args: cobra.ExactArgs(1), ValidArgsFunction: o.completeVEX,
		Example: `  # Findings that the document suppressed count again
  kubectl scanner vex delete shop`,
	}
	cmd.RunE = o.run(func(ctx context.Context, c *client, _ string, arguments []string) error {
		if _, err := c.do(ctx, call{method: http.MethodDelete, segments: []string{"api", "v1", "vex", arguments[0]}}); err != nil {
			return err
		}
		_, err := fmt.Fprintf(o.out, "VEX document %s deleted\n", arguments[0])
		return err
	})
	return cmd
}

// completeVEX completes the name of an uploaded document.
func (o *options) completeVEX(cmd *cobra.Command, arguments []string, text string) ([]string, cobra.ShellCompDirective) {
	if len(arguments) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return o.completions(cmd, func(ctx context.Context, c *client, _ string) ([]string, error) {
		list, err := listVEX(ctx, c)
		var names []string
		for _, d := range list.items {
			if d.Kind == vexKind && strings.HasPrefix(d.Name, text) {
				names = append(names, d.Name)
			}
		}
		return names, err
	})
}
