package sqlstore

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// processor measures the processor time that this process and its descendants use, as database servers are, while other processes use the machine too.
type processor struct{ descendants []int }

// newProcessor finds the descendants that there are now.
func newProcessor(tb testing.TB) *processor {
	tb.Helper()
	paths, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		tb.Fatal(err)
	}
	children := map[int][]int{}
	for _, path := range paths {
		if id, parent, _ := readStat(path); id > 0 { // Processes end meanwhile.
			children[parent] = append(children[parent], id)
		}
	}
	p := &processor{}
	for next := []int{os.Getpid()}; len(next) > 0; next = next[1:] {
		p.descendants = append(p.descendants, children[next[0]]...)
		next = append(next, children[next[0]]...)
	}
	return p
}

// readStat reads the parent of a process, and the time of its children that have ended. The ID is 0 if the process has ended.
func readStat(path string) (id, parent int, ended time.Duration) {
	const tick = 10 * time.Millisecond // USER_HZ is 100 on all architectures of Go.
	content, err := os.ReadFile(path)
	end := bytes.LastIndexByte(content, ')') // The name of the process can have any characters.
	if err != nil || end < 0 {
		return 0, 0, 0
	}
	fields := bytes.Fields(content[end+1:])
	number := func(field int) int {
		n, _ := strconv.Atoi(string(fields[field]))
		return n
	}
	id, _ = strconv.Atoi(filepath.Base(filepath.Dir(path)))
	return id, number(1), time.Duration(number(13)+number(14)) * tick
}

// of returns how much processor time a call takes.
func (p *processor) of(call func()) time.Duration {
	before, own := p.used(), ownTime()
	call()
	own = ownTime() - own
	return own + p.used() - before
}

// used is the time of the descendants.
func (p *processor) used() time.Duration {
	var sum time.Duration
	for _, id := range p.descendants {
		_, _, ended := readStat(fmt.Sprintf("/proc/%d/stat", id))
		sum += ended
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", id))
		for _, path := range threads {
			content, _ := os.ReadFile(path)
			if fields := bytes.Fields(content); len(fields) > 0 {
				nanoseconds, _ := strconv.ParseInt(string(fields[0]), 10, 64)
				sum += time.Duration(nanoseconds)
			}
		}
	}
	return sum
}

// ownTime is the processor time of this process.
func ownTime() time.Duration {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
