package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/scanner-operator/scanner-operator/internal/advice"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/report"
)

type diffOptions struct{ scanOptions }

func newDiffCommand() *cobra.Command {
	o := &diffOptions{scanOptions{database: dbOptions{output: outputTable}}}
	command := &cobra.Command{
		Use:   "diff FROM TO",
		Short: "Compare the vulnerabilities of two images, without a cluster",
		Long: `Scan two images and print which vulnerabilities the second one opens and closes. FROM and TO are as the argument of "scan": images, archives,
directories or SBOMs. A vulnerability is identified by its ID and the name of the package, as for rollouts: another version of the package with the same
vulnerability is not a difference.

Exit codes: 0 on success, 1 on an error, 2 if an opened vulnerability has the severity of --fail-on or a higher one.`,
		Example: `  # What an update of the base image changes
  scanner-operator diff debian:12.5 debian:12.8

  # Fail if the new image opens a high or critical vulnerability
  scanner-operator diff registry.example.com/app:1.0 app.tar --fail-on high`,
		Args: cobra.ExactArgs(2),
		RunE: func(command *cobra.Command, args []string) error {
			err := o.run(command.Context(), args[0], args[1], command.OutOrStdout(), command.ErrOrStderr())
			if err != nil && command.Context().Err() != nil {
				return errors.New("interrupted") // the error that follows from it does not matter
			}
			return err
		},
	}
	flags := command.Flags()
	flags.StringVarP(&o.output, "output", "o", outputTable, "Output format: table or json")
	flags.StringVar(&o.failOn, "fail-on", "", "Exit with code 2 if an opened vulnerability has this severity or a higher one: negligible, low, medium, high or critical")
	o.vex.addFileFlags(flags)
	o.addSourceFlags(flags, "PEM file of certificate authorities to trust for registries and database downloads, in addition to those of the system")
	return command
}

// diffSide is one of the images in the output.
type diffSide struct {
	// Image is the argument; a tag is replaced by the digest.
	Image    string `json:"image"`
	Platform string `json:"platform,omitempty"`
	// Findings counts the vulnerabilities of the image.
	Findings model.SeverityCounts `json:"findings"`
}

// diffOutput is the output in JSON.
type diffOutput struct {
	From     diffSide             `json:"from"`
	To       diffSide             `json:"to"`
	Database *model.DatabaseBuild `json:"database"`
	changesOutput
}

// changesOutput are changes with their counts.
type changesOutput struct {
	Opened       model.SeverityCounts `json:"opened"`
	Closed       model.SeverityCounts `json:"closed"`
	OpenedDetail []advice.Change      `json:"openedVulnerabilities"`
	ClosedDetail []advice.Change      `json:"closedVulnerabilities"`
}

func outputOf(c advice.Comparison) changesOutput {
	return changesOutput{
		Opened: advice.Count(c.Opened), Closed: advice.Count(c.Closed),
		OpenedDetail: append([]advice.Change{}, c.Opened...), ClosedDetail: append([]advice.Change{}, c.Closed...),
	}
}

// run validates the flags and the arguments before it downloads anything.
func (o *diffOptions) run(ctx context.Context, from, to string, stdout, stderr io.Writer) (err error) {
	if err := checkChangesOutput(o.output); err != nil {
		return err
	}
	threshold, err := parseFailOn(o.failOn)
	if err != nil {
		return err
	}
	if err := o.readPlatform(); err != nil {
		return err
	}
	statements, err := o.vex.read(report.FormatJSON)
	if err != nil {
		return err
	}
	sources, files := [2]string{from, to}, [2]bool{}
	for i, source := range sources {
		if files[i], err = isSBOMFile(source); err != nil {
			return err
		}
	}
	scanner, err := o.open(ctx, stderr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, scanner.close()) }()
	var found [2]*scannedSource
	var sides [2]diffSide
	for i, source := range sources {
		if found[i], err = scanner.scan(ctx, source, files[i], statements); err != nil {
			return fmt.Errorf("%s: %w", source, err)
		}
		sides[i] = diffSide{Image: found[i].input.ImageID, Platform: found[i].input.Platform.String()}
		for j := range found[i].findings {
			sides[i].Findings.Add(found[i].findings[j].Vulnerability.Severity)
		}
	}
	compared := advice.Compare(found[0].findings, found[1].findings)
	if o.output == outputJSON {
		err = writeJSON(stdout, diffOutput{From: sides[0], To: sides[1], Database: &scanner.installed.Build, changesOutput: outputOf(compared)})
	} else {
		err = writeChanges(stdout, compared)
	}
	if err != nil {
		return err
	}
	return failOnOpened(compared.Opened, threshold, stderr)
}

func checkChangesOutput(output string) error {
	if output != outputTable && output != outputJSON {
		return fmt.Errorf("--output %.40q is not one of table, json", output)
	}
	return nil
}

// failOnOpened prints how many opened vulnerabilities reach the threshold and returns an exit code that differs from that of an error.
func failOnOpened(opened []advice.Change, threshold *model.Severity, stderr io.Writer) error {
	if threshold == nil {
		return nil
	}
	count := 0
	for i := range opened {
		if opened[i].Severity >= *threshold {
			count++
		}
	}
	if count == 0 {
		return nil
	}
	_, _ = fmt.Fprintf(stderr, "Opened vulnerabilities of severity %s or higher: %d\n", threshold, count)
	return errFailOn
}
