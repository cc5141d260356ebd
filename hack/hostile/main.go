// Command hostile counts the cases of the hostile corpus: it reads the output of "go test -json" for the tests whose names begin with
// TestHostile, and the results that Playwright wrote for the browser. It prints a line for each group and fails if a case failed.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"text/tabwriter"
)

func main() {
	browser := flag.String("browser", "", "File with the results of Playwright in JSON")
	flag.Parse()
	if err := run(os.Stdin, *browser, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "hostile:", err)
		os.Exit(1)
	}
}

func run(tests io.Reader, browser string, out io.Writer) error {
	var r report
	if err := r.readTests(tests); err != nil {
		return err
	}
	if browser != "" {
		content, err := os.ReadFile(browser)
		if err != nil {
			return err
		}
		if err := r.readBrowser(content); err != nil {
			return fmt.Errorf("%s: %w", browser, err)
		}
	}
	return r.write(out)
}

// group counts the cases of one test function, or of one file of browser tests.
type group struct {
	name                   string
	passed, failed, missed int
}

// report is what all cases led to.
type report struct {
	groups []*group
	// problems are the outputs of what failed.
	problems []string
}

func (r *report) group(name string) *group {
	for _, g := range r.groups {
		if g.name == name {
			return g
		}
	}
	r.groups = append(r.groups, &group{name: name})
	return r.groups[len(r.groups)-1]
}

// add counts one case by the word that the test tool has for its end.
func (g *group) add(end string) {
	switch end {
	case "pass", "expected", "flaky":
		g.passed++
	case "skip", "skipped":
		g.missed++
	default:
		g.failed++
	}
}

// event is a line of "go test -json".
type event struct{ Action, Package, Test, Output string }

// readTests counts the tests without subtests. A package that fails for another reason than a test is a problem of its own.
func (r *report) readTests(in io.Reader) error {
	ends, outputs := map[[2]string]string{}, map[[2]string]string{}
	var order [][2]string
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			// The compiler's messages are not JSON.
			r.problems = append(r.problems, lines.Text())
			continue
		}
		key := [2]string{e.Package, e.Test}
		switch e.Action {
		case "run":
			// A test that never ends has failed.
			ends[key] = "fail"
			order = append(order, key)
		case "pass", "fail", "skip":
			ends[key] = e.Action
		case "output", "build-output":
			outputs[key] += e.Output
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	for key, end := range ends {
		if key[1] == "" && end == "fail" {
			order = append(order, key)
		}
	}
	for _, key := range order {
		if ends[key] == "fail" {
			r.problems = append(r.problems, strings.TrimSpace(key[0]+" "+key[1])+"\n"+outputs[key])
		}
		within := func(other [2]string) bool { return other[0] == key[0] && strings.HasPrefix(other[1], key[1]+"/") }
		if key[1] != "" && !slices.ContainsFunc(order, within) {
			test, _, _ := strings.Cut(key[1], "/")
			r.group(path.Base(key[0]) + ": " + strings.TrimPrefix(test, "TestHostile")).add(ends[key])
		}
	}
	return nil
}

// suite is a file, or a block of tests, in the results of Playwright.
type suite struct {
	Title  string
	Suites []suite
	Specs  []struct {
		Title string
		Tests []struct{ Status string }
	}
}

func (r *report) readBrowser(content []byte) error {
	var results struct {
		Suites []suite
		Errors []struct{ Message string }
	}
	if err := json.Unmarshal(content, &results); err != nil {
		return err
	}
	for _, e := range results.Errors {
		r.problems = append(r.problems, e.Message)
	}
	for _, s := range results.Suites {
		r.addSuite(s)
	}
	return nil
}

func (r *report) addSuite(s suite) {
	for _, inner := range s.Suites {
		r.addSuite(inner)
	}
	for _, spec := range s.Specs {
		for _, test := range spec.Tests {
			r.group("browser: every field of every page").add(test.Status)
			if test.Status == "unexpected" {
				r.problems = append(r.problems, "browser: "+spec.Title)
			}
		}
	}
}

func (r *report) write(out io.Writer) error {
	total := group{name: "all"}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	line := func(g group) {
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t\n", g.name, g.passed+g.failed+g.missed, g.passed, g.failed, g.missed)
	}
	fmt.Fprintln(table, "hostile corpus\tcases\tpassed\tfailed\tskipped\t")
	slices.SortFunc(r.groups, func(a, b *group) int { return strings.Compare(a.name, b.name) })
	for _, g := range r.groups {
		line(*g)
		total.passed, total.failed, total.missed = total.passed+g.passed, total.failed+g.failed, total.missed+g.missed
	}
	line(total)
	for _, problem := range r.problems {
		fmt.Fprintln(out, problem)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	switch {
	case total.failed > 0 || len(r.problems) > 0:
		return fmt.Errorf("%d cases failed", total.failed)
	case total.passed == 0:
		return errors.New("no case was run")
	}
	return nil
}
