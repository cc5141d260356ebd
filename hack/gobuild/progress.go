package gobuild

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"time"
)

// How often progress is reported: on a terminal, where one line is updated in place, and elsewhere.
const (
	terminalInterval = 500 * time.Millisecond
	lineInterval     = 15 * time.Second
)

// progress counts the packages of one build.
type progress struct {
	title    string
	out      io.Writer
	terminal bool
	begin    time.Time

	mu        sync.Mutex
	downloads int
	compiled  map[string]bool
	// total is how many packages the build has, 0 until it is known; todo are those that were not in the cache.
	total    int
	todo     map[string]bool
	reported bool
}

func newProgress(title string, out io.Writer) *progress {
	if out == nil {
		out = io.Discard
	}
	return &progress{title: title, out: out, terminal: isTerminal(out), begin: time.Now(), compiled: map[string]bool{}}
}

func isTerminal(out io.Writer) bool {
	file, ok := out.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

func (p *progress) download() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.downloads++
}

func (p *progress) compile(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.compiled[name] = true
}

// plan tells the progress how many packages there are, and which the build cache does not hold.
func (p *progress) plan(total int, stale []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.total, p.todo = total, map[string]bool{}
	for _, name := range stale {
		p.todo[name] = true
	}
}

// start reports until the function that it returns is called with whether the build succeeded.
func (p *progress) start() (stop func(ok bool)) {
	interval := lineInterval
	if p.terminal {
		interval = terminalInterval
	}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				p.report(p.line())
			}
		}
	}()
	return func(ok bool) {
		close(done)
		<-ended
		switch {
		case !p.reported:
		case ok:
			p.report(p.result())
			p.end()
		default:
			p.end()
		}
	}
}

func (p *progress) report(line string) {
	if line == "" {
		return
	}
	p.reported = true
	if p.terminal {
		fmt.Fprintf(p.out, "\r%s\x1b[K", line)
	} else {
		fmt.Fprintln(p.out, line)
	}
}

// end leaves the line that was updated in place.
func (p *progress) end() {
	if p.terminal {
		fmt.Fprintln(p.out)
	}
}

// line is the state of the build, or "" when nothing is known.
func (p *progress) line() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	left := 0
	for name := range p.todo {
		if !p.compiled[name] {
			left++
		}
	}
	switch {
	case p.total > 0 && left == 0:
		return fmt.Sprintf("building %s: linking", p.title)
	case p.total > 0:
		return fmt.Sprintf("building %s: %s of %s packages", p.title, thousands(p.total-left), thousands(p.total))
	case len(p.compiled) > 0:
		return fmt.Sprintf("building %s: %s packages compiled", p.title, thousands(len(p.compiled)))
	case p.downloads > 0:
		return fmt.Sprintf("building %s: %s modules downloaded", p.title, thousands(p.downloads))
	default:
		return ""
	}
}

func (p *progress) result() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return fmt.Sprintf("built %s in %d s: %s packages compiled, %s modules downloaded",
		p.title, int(time.Since(p.begin).Seconds()), thousands(len(p.compiled)), thousands(p.downloads))
}

// thousands writes a number as 1,240.
func thousands(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
