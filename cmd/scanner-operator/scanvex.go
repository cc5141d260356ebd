package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/pflag"

	"github.com/scanner-operator/scanner-operator/internal/match"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/report"
	"github.com/scanner-operator/scanner-operator/internal/vex"
)

// maxUnmatched bounds how many VEX statements that match nothing are listed.
const maxUnmatched = 5

// vexOptions are the flags of "scan" about VEX documents.
type vexOptions struct {
	// files are documents, and exported those whose decisions apply in full.
	files, exported []string
	showSuppressed  bool
}

// addFileFlags adds the flags that name documents.
func (o *vexOptions) addFileFlags(flags *pflag.FlagSet) {
	flags.StringArrayVar(&o.files, "vex", nil,
		"VEX document (OpenVEX, CSAF or CycloneDX, in JSON) whose statements suppress vulnerabilities. May be repeated")
	flags.StringArrayVar(&o.exported, "decisions", nil,
		"VEX document that scanner-operator has exported, whose decisions apply in full: accepted risks suppress vulnerabilities, too, and decisions end when they state. May be repeated")
}

func (o *vexOptions) addFlags(flags *pflag.FlagSet) {
	o.addFileFlags(flags)
	flags.BoolVar(&o.showSuppressed, "suppressed", false,
		"List suppressed vulnerabilities with status, justification and source: after the table, in sarif as suppressions, in cyclonedx-json as analysis, in csv in columns. json always contains them")
}

// read reads the documents. It returns nil when there is none.
func (o *vexOptions) read(format report.Format) (*vex.Set, error) {
	if o.showSuppressed && !report.ShowsSuppressed(format) {
		return nil, fmt.Errorf("--suppressed does not support the output format %s; use another one", format)
	}
	count := len(o.files) + len(o.exported)
	if o.showSuppressed && count == 0 {
		return nil, errors.New("--suppressed requires --vex or --decisions")
	}
	if count == 0 {
		return nil, nil //nolint:nilnil // no document is no error
	}
	if count > vex.MaxDocuments {
		return nil, fmt.Errorf("--vex and --decisions: %d documents are more than the limit of %d", count, vex.MaxDocuments)
	}
	documents := make([]*vex.Document, 0, count)
	for _, name := range o.files {
		document, err := readVEX(name)
		if err != nil {
			return nil, fmt.Errorf("--vex: %w", err)
		}
		documents = append(documents, document)
	}
	for _, name := range o.exported {
		document, err := readVEX(name)
		if err != nil {
			return nil, fmt.Errorf("--decisions: %w", err)
		}
		document.ExportedDecisions = true
		documents = append(documents, document)
	}
	set, err := vex.NewSet(documents)
	if err != nil {
		return nil, fmt.Errorf("--vex: %w", err)
	}
	return set, nil
}

func readVEX(name string) (*vex.Document, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	return vex.Read(name, file, vex.Limits{})
}

// apply returns the findings that count, adds the others to the report, and prints what the documents did.
func (o *vexOptions) apply(
	ctx context.Context, set *vex.Set, names model.ImageNames, findings []model.Finding, input *report.Input, stderr io.Writer,
) ([]model.Finding, error) {
	if set == nil {
		return findings, nil
	}
	result, err := set.Apply(ctx, names, findings, match.Versions{}, time.Now())
	if err != nil {
		return nil, err
	}
	input.Suppressed, input.ShowSuppressed = append([]model.SuppressedFinding{}, result.Suppressed...), o.showSuppressed
	_, _ = fmt.Fprintf(stderr, "Vulnerabilities suppressed by VEX documents: %d\n", len(result.Suppressed))
	if len(result.Unmatched) == 0 {
		return result.Open, nil
	}
	_, _ = fmt.Fprintf(stderr, "VEX statements that match no vulnerability of the image: %d\n", len(result.Unmatched))
	for i, u := range result.Unmatched {
		if i == maxUnmatched {
			_, _ = fmt.Fprintf(stderr, "  and %d more\n", len(result.Unmatched)-i)
			break
		}
		reason := ""
		switch {
		case u.Ended:
			reason = "; the decision ended at " + u.Statement.Decided.ExpiresAt.Format(time.RFC3339)
		case !u.Statement.Identified():
			reason = "; no product has a PURL, a CPE or a digest"
		}
		_, _ = fmt.Fprintf(stderr, "  %s: %s (%.100q, %s%s)\n", u.Source, u.Statement.Position, u.Statement.Vulnerability, u.Statement.Status, reason)
	}
	return result.Open, nil
}
