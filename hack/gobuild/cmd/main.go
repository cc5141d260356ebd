// Command cmd is "go build" with the build flags of this repository and its progress. It needs the standard library alone, so that it runs
// before any module is downloaded.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/scanner-operator/scanner-operator/hack/gobuild"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	build := gobuild.Build{Progress: os.Stderr}
	flag.StringVar(&build.Title, "title", "", "what is built, for the progress")
	flag.StringVar(&build.Dir, "dir", "", "folder of the module (default the working directory)")
	flag.StringVar(&build.Output, "output", "", "file to write, or folder with a slash at its end")
	flag.StringVar(&build.LDFlags, "ldflags", "", "linker flags, after -s -w")
	flag.Parse()
	build.Packages = flag.Args()
	if err := build.Run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
