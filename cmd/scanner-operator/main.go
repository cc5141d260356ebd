// Command scanner-operator scans the container images of a Kubernetes cluster for vulnerabilities. Each subcommand is in a
// file of its own; flags.go holds the flags that they share.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	// The container image contains only this executable; without these roots it would trust no certificate.
	_ "golang.org/x/crypto/x509roots/fallback"

	"github.com/scanner-operator/scanner-operator/internal/plugin"
	"github.com/scanner-operator/scanner-operator/internal/version"
)

func main() {
	os.Exit(run())
}

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	command := plugin.Command(os.Args[0], os.Args[1:])
	if command == nil {
		command = newRootCommand()
	}
	err := command.ExecuteContext(ctx)
	var exit exitError
	var notAffected plugin.NotAffectedError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return int(exit)
	case errors.As(err, &notAffected):
		fmt.Fprintln(os.Stderr, notAffected.Error())
		return int(errNotAffected)
	default:
		fmt.Fprintln(os.Stderr, "Error:", err)
		return 1
	}
}

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "scanner-operator",
		Short: "Scan the container images of a Kubernetes cluster for vulnerabilities",
		Long: "Scan the container images of a Kubernetes cluster for vulnerabilities.\n\n" +
			"\"scanner-operator kubectl\" is the kubectl plugin, with the flags of kubectl: see \"scanner-operator kubectl --help\".",
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       version.String(),
	}
	root.AddCommand(newManagerCommand(), newCatalogCommand(), newCatalogNewerTagsCommand(), newScanCommand(), newDiffCommand(), newNewerTagsCommand(), newPlanCommand(), newDBCommand(), plugin.ReportCommand("scanner-operator"), newVersionCommand())
	return root
}

// errNotAffected is the exit code of the plugin for an image that does not have the vulnerability.
const errNotAffected exitError = 2

// exitError is an exit code for a result that was already printed.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit code %d", int(e)) }
