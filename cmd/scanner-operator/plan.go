package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/scanner-operator/scanner-operator/internal/advice"
	"github.com/scanner-operator/scanner-operator/internal/manifest"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/plugin"
)

type planOptions struct {
	scanOptions
	cluster *plugin.ClusterOptions
	file    string
}

func newPlanCommand() *cobra.Command {
	o := &planOptions{scanOptions: scanOptions{database: dbOptions{output: outputTable}}}
	command := &cobra.Command{
		Use:   "plan -f FILE",
		Short: "Show what a manifest opens and closes before it is applied",
		Long: `Read manifests, compare the image of each container with the one that runs now, and print which vulnerabilities applying the manifests opens and closes. Pods,
objects with a pod template at the place where the kinds of Kubernetes have it, also custom resources, and lists of them are read. Nothing is applied.

What runs is read from the operator, which is reached as by the kubectl plugin (see "scanner-operator kubectl --help"). An image that the operator knows is
compared there, without suppressed vulnerabilities. A reference with a digest is known if an image with this digest was scanned; one with a tag if a container
in the namespaces of the manifests runs with the same reference. Other images are scanned on this machine, as by "scan". A container whose image reference does not change is not
compared.

Exit codes: 0 on success, 1 on an error, 2 if an opened vulnerability has the severity of --fail-on or a higher one.`,
		Example: `  # What an update of a Helm release changes
  helm template web ./chart --namespace shop | scanner-operator plan -f - -n shop --service-account viewer

  # In a pipeline: fail if a change opens a critical vulnerability
  scanner-operator plan -f deploy.yaml --url https://scanner.example.com --fail-on critical`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			err := o.run(command)
			if err != nil && command.Context().Err() != nil {
				return errors.New("interrupted") // the error that follows from it does not matter
			}
			return err
		},
	}
	flags := command.Flags()
	flags.StringVarP(&o.file, "filename", "f", "", `File with the manifests, in YAML or JSON; "-" for the standard input`)
	flags.StringVarP(&o.output, "output", "o", outputTable, "Output format: table or json")
	flags.StringVar(&o.failOn, "fail-on", "", "Exit with code 2 if an opened vulnerability has this severity or a higher one: negligible, low, medium, high or critical")
	o.addSourceFlags(flags, "PEM file of certificate authorities to trust for registries, database downloads and --url, in addition to those of the system")
	o.cluster = plugin.NewClusterOptions(flags, "Namespace of objects that name none. If absent, the one of the context")
	return command
}

// run validates the flags and the manifests before it asks anybody.
func (o *planOptions) run(command *cobra.Command) (err error) {
	ctx, stdout, stderr := command.Context(), command.OutOrStdout(), command.ErrOrStderr()
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
	workloads, err := o.read(command.InOrStdin())
	if err != nil {
		return err
	}
	cluster, err := o.cluster.Connect(ctx, o.database.caFile)
	if err != nil {
		return err
	}
	defer cluster.Close()
	p := &planner{cluster: cluster, platform: o.platform, stderr: stderr, scanned: map[scanKey]*localScan{}, open: func(ctx context.Context) (*sourceScanner, error) {
		return o.open(ctx, stderr)
	}}
	defer func() { err = errors.Join(err, p.close()) }()
	planned, err := p.plan(ctx, workloads)
	if err != nil {
		return err
	}
	if o.output == outputJSON {
		err = writeJSON(stdout, planned)
	} else {
		err = planned.write(stdout)
	}
	return errors.Join(err, planned.result(threshold, stderr))
}

// read reads the manifests.
func (o *planOptions) read(stdin io.Reader) ([]manifest.Workload, error) {
	namespace, err := o.cluster.Namespace()
	if err != nil {
		return nil, err
	}
	switch o.file {
	case "":
		return nil, errors.New(`-f is missing: name a file, or "-" for the standard input`)
	case "-":
		return manifest.Read(stdin, namespace)
	}
	file, err := os.Open(o.file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	return manifest.Read(file, namespace)
}

// plannedContainer is what a manifest does to one container.
type plannedContainer struct {
	Namespace string `json:"namespace"`
	Kind      string `json:"kind"`
	Name      string `json:"name"`
	Container string `json:"container"`
	// From is the image reference that runs now, "" for a container that does not run yet; FromImageID the image that it means.
	From        string `json:"from,omitempty"`
	FromImageID string `json:"fromImageId,omitempty"`
	// To is the image reference of the manifest, ToImageID the image that was compared.
	To        string `json:"to"`
	ToImageID string `json:"toImageId,omitempty"`
	State     string `json:"state"`
	// Error is why the images could not be compared.
	Error string `json:"error,omitempty"`
	*changesOutput
	compared advice.Comparison
}

// The states of plannedContainer.
const (
	planUnchanged = "unchanged"
	planNew       = "new"
	planCompared  = "compared"
	planFailed    = "failed"
)

// planned is the output.
type planned struct {
	Containers []plannedContainer `json:"containers"`
}

// write writes the plan for terminals.
func (p *planned) write(w io.Writer) error {
	if len(p.Containers) == 0 {
		_, err := fmt.Fprintln(w, "The manifests run no containers.")
		return err
	}
	for i := range p.Containers {
		c := &p.Containers[i]
		if i > 0 {
			_, _ = fmt.Fprintln(w) // an error of the writer stays
		}
		_, _ = fmt.Fprintf(w, "%s/%s %s, container %s\n", cell(c.Namespace), cell(c.Kind), cell(c.Name), cell(c.Container))
		switch c.State {
		case planUnchanged:
			_, _ = fmt.Fprintf(w, "Image:  %s (unchanged)\n", cell(c.To))
			continue
		case planNew:
			_, _ = fmt.Fprintf(w, "Image:  %s (new)\n", cell(c.To))
		case planFailed:
			_, _ = fmt.Fprintf(w, "Image:  %s\nError:  %s\n", cell(c.To), printableText(c.Error))
			continue
		default:
			_, _ = fmt.Fprintf(w, "Image:  %s -> %s\n", cell(c.From), cell(c.To))
		}
		if err := writeChanges(w, c.compared); err != nil {
			return err
		}
	}
	return nil
}

// result returns an error if containers could not be compared, and otherwise what --fail-on demands.
func (p *planned) result(threshold *model.Severity, stderr io.Writer) error {
	var opened []advice.Change
	failed := 0
	for i := range p.Containers {
		opened = append(opened, p.Containers[i].compared.Opened...)
		if p.Containers[i].State == planFailed {
			failed++
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d containers could not be compared", failed, len(p.Containers))
	}
	return failOnOpened(opened, threshold, stderr)
}
