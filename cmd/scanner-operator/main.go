// Command scanner-operator finds the vulnerabilities of all images that run in a Kubernetes cluster. Each subcommand has a
// file of its own.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	// The image holds no files but this program: without these no registry's certificate would be trusted.
	_ "golang.org/x/crypto/x509roots/fallback"

	"github.com/scanner-operator/scanner-operator/internal/version"
)

func main() {
	os.Exit(run())
}

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := &cobra.Command{
		Use:           "scanner-operator",
		Short:         "Finds the vulnerabilities of all images that run in a Kubernetes cluster",
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       version.String(),
	}
	root.AddCommand(newManagerCommand(), newCatalogCommand(), newScanCommand(), newDBCommand(), newVersionCommand())
	err := root.ExecuteContext(ctx)
	var exit exitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return int(exit)
	default:
		fmt.Fprintln(os.Stderr, "Error:", err)
		return 1
	}
}

// exitError ends the program with this code; what there is to say has been said.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit code %d", int(e)) }
