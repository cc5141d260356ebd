// Package gobuild runs "go build" with the build flags of this repository and reports progress in packages.
package gobuild

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// maxErrorLines bounds how much of the compiler's output an error holds.
const maxErrorLines = 30

// Build is one call of "go build".
type Build struct {
	// Title says what is built, such as "the operator".
	Title string
	// Dir is the folder of the module; empty for the working directory.
	Dir string
	// Output is the file, or with a slash at its end the folder, of the programs.
	Output   string
	Packages []string
	// LDFlags follow "-s -w".
	LDFlags, Tags string
	// Env is added to the environment, such as "GOOS=linux".
	Env []string
	// Progress gets the progress; on a terminal one line is updated in place.
	Progress io.Writer
}

// Environment returns the environment with the build flags of this repository, those of "make env". They are the same for every program, so
// that the build cache holds each package once.
func Environment() []string {
	return append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-trimpath -buildvcs=false", "GOWORK=off")
}

// Run builds the packages. Packages in the build cache take no time, and a build of seconds reports nothing.
func (b Build) Run(ctx context.Context) error {
	args := []string{"build", "-v", "-tags", b.Tags, "-ldflags", strings.TrimSpace("-s -w " + b.LDFlags), "-o", b.Output}
	cmd := b.command(ctx, append(args, b.Packages...)...)
	output, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("build %s: %w; Go must be installed and on the PATH", b.Title, err)
	}
	listing, stopListing := context.WithCancel(ctx)
	defer stopListing()
	p := newProgress(b.Title, b.Progress)
	stopReports := p.start()
	compiled, other := false, []string(nil)
	lines := bufio.NewScanner(output)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		switch line := lines.Text(); {
		case strings.HasPrefix(line, "go: downloading "):
			p.download()
		case isPackage(line):
			p.compile(line)
			if !compiled {
				compiled = true
				go b.list(listing, p)
			}
		case len(other) < maxErrorLines:
			other = append(other, line)
		}
	}
	// A line beyond the bound ends the scan; the build must not wait for a reader.
	_, _ = io.Copy(io.Discard, output)
	err = cmd.Wait()
	stopListing()
	stopReports(err == nil)
	if err != nil {
		return fmt.Errorf("build %s: %w\n%s", b.Title, errors.Join(err, ctx.Err()), strings.Join(other, "\n"))
	}
	return nil
}

// list gives the progress all packages of the build and which of them have to be compiled. Without that the progress has no total.
func (b Build) list(ctx context.Context, p *progress) {
	cmd := b.command(ctx, append([]string{"list", "-deps", "-tags", b.Tags, "-f", "{{.ImportPath}} {{.Stale}}"}, b.Packages...)...)
	output, err := cmd.Output()
	if err != nil {
		return
	}
	var all, stale []string
	for line := range bytes.Lines(output) {
		name, state, _ := strings.Cut(strings.TrimSpace(string(line)), " ")
		all = append(all, name)
		if state == "true" {
			stale = append(stale, name)
		}
	}
	p.plan(len(all), stale)
}

func (b Build) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = b.Dir
	cmd.Env = append(Environment(), b.Env...)
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// isPackage tells the name of a package from what the compiler and the linker print.
func isPackage(line string) bool {
	return line != "" && !strings.ContainsAny(line, " \t:#") && !strings.HasPrefix(line, "go:")
}
