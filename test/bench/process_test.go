package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// usage is what a process took from its start to its end.
type usage struct {
	Wall time.Duration
	// CPU is user and system time.
	CPU time.Duration
	// Peak is the most memory that was resident, in bytes; 0 on systems other than Linux.
	Peak int64
}

// plus is what two processes took that ran one after the other.
func (u usage) plus(other usage) usage {
	return usage{u.Wall + other.Wall, u.CPU + other.CPU, max(u.Peak, other.Peak)}
}

// measure runs a program and returns what it took and what it wrote.
func measure(cmd *exec.Cmd) (usage, []byte, error) {
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return usage{}, nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	peak := watchPeak(cmd.Process.Pid)
	err := cmd.Wait()
	u := usage{Wall: time.Since(began), Peak: peak()}
	if err != nil {
		return usage{}, nil, fmt.Errorf("run %s: %w\n%s", cmd.Path, err, tail(stderr.Bytes()))
	}
	u.CPU = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return u, stdout.Bytes(), nil
}

func tail(text []byte) []byte { return text[max(0, len(text)-4000):] }

// watchPeak reads the peak of a process until the function that it returns is called. What the kernel reports about a process
// that has ended will not do: it includes its parent's peak, which it was for a moment.
func watchPeak(pid int) func() int64 {
	done, result := make(chan struct{}), make(chan int64, 1)
	go func() {
		var peak int64
		every := time.NewTicker(5 * time.Millisecond)
		defer every.Stop()
		for {
			peak = max(peak, peakOf(pid))
			select {
			case <-done:
				result <- peak
				return
			case <-every.C:
			}
		}
	}()
	return func() int64 {
		close(done)
		return <-result
	}
}

// peakOf is 0 if it is unknown.
func peakOf(pid int) int64 {
	status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if value, found := strings.CutPrefix(line, "VmHWM:"); found {
			kib, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 10, 64)
			return kib << 10
		}
	}
	return 0
}

// measurePhase runs a phase in a process of its own.
func measurePhase(tb testing.TB, p phase) (usage, figures) {
	tb.Helper()
	text, err := json.Marshal(p)
	if err != nil {
		tb.Fatal(err)
	}
	program, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	cmd := exec.CommandContext(tb.Context(), program)
	cmd.Env = append(os.Environ(), phaseVariable+"="+string(text))
	u, output, err := measure(cmd)
	if err != nil {
		tb.Fatalf("phase %s: %v", p.Name, err)
	}
	var f figures
	if err := json.Unmarshal(output, &f); err != nil {
		tb.Fatalf("read the figures of phase %s: %v", p.Name, err)
	}
	return u, f
}
