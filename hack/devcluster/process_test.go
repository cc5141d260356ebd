package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// startScript starts a shell as a component and returns when it has printed "ready".
func startScript(t *testing.T, script string) process {
	t.Helper()
	logs := t.TempDir()
	p, err := start(spec{name: "script", bin: "sh", args: []string{"-c", script}, env: []string{"SAID=ready"}}, logs)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if p.alive() {
			_ = syscall.Kill(p.PID, syscall.SIGKILL)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := until(ctx, func() error {
		log, err := os.ReadFile(filepath.Join(logs, "script.log"))
		if err == nil && !strings.Contains(string(log), "ready") {
			err = errors.New("it has not printed ready")
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return p
}

const waiting = `echo "$SAID"; exec sleep 600`

func TestStartAndStop(t *testing.T) {
	p := startScript(t, waiting)
	if p.Name != "script" || !p.alive() {
		t.Fatalf("%+v is not alive after its start", p)
	}
	if err := p.stop(); err != nil {
		t.Fatal(err)
	}
	if p.alive() {
		t.Error("alive after its stop")
	}
	if err := p.stop(); err != nil {
		t.Errorf("a second stop: %v", err)
	}
}

func TestStopKillsWhatIgnoresTermination(t *testing.T) {
	p := startScript(t, `trap "" TERM; `+waiting)
	if err := p.stopWithin(time.Millisecond, killGrace); err != nil {
		t.Fatal(err)
	}
	if p.alive() {
		t.Error("alive after its stop")
	}
}

// A component that has ended may have left its number to anybody: nobody else may be signalled.
func TestAnotherProcessIsNeverSignalled(t *testing.T) {
	p := startScript(t, waiting)
	for name, other := range map[string]process{
		"recycled number": {Name: "other", PID: p.PID, Started: p.Started + "0", Boot: p.Boot},
		"no start time":   {Name: "other", PID: p.PID, Boot: p.Boot},
		"another boot":    {Name: "other", PID: p.PID, Started: p.Started, Boot: "of the past"},
		// To kill, these numbers mean groups of processes.
		"number 0":        {Name: "other", PID: 0, Started: p.Started, Boot: p.Boot},
		"negative number": {Name: "other", PID: -p.PID, Started: p.Started, Boot: p.Boot},
	} {
		t.Run(name, func(t *testing.T) {
			if other.alive() {
				t.Error("taken for alive")
			}
			if err := other.stop(); err != nil {
				t.Errorf("stop: %v", err)
			}
			if !p.alive() {
				t.Fatal("its stop ended somebody else")
			}
		})
	}
	// As a state says it that was written before boots were remembered.
	if old := (process{PID: p.PID, Started: p.Started}); !old.alive() {
		t.Error("not alive without a boot")
	}
}

func TestZombieIsNotAlive(t *testing.T) {
	cmd := exec.Command("true")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	// Nobody has waited for it, so that it stays in the table of processes.
	if err := until(ctx, func() error {
		if _, err := startTime(cmd.Process.Pid); !errors.Is(err, errNoProcess) {
			return errors.New("has a start time")
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

func TestStartOfNothing(t *testing.T) {
	if _, err := start(spec{name: "nothing", bin: filepath.Join(t.TempDir(), "nothing")}, t.TempDir()); err == nil {
		t.Error("started a file that does not exist")
	}
}

func TestUntil(t *testing.T) {
	problem := errors.New("not yet")
	t.Run("success after failures", func(t *testing.T) {
		calls := 0
		err := until(t.Context(), func() error {
			if calls++; calls < 3 {
				return problem
			}
			return nil
		})
		if err != nil || calls != 3 {
			t.Errorf("%v after %d calls", err, calls)
		}
	})
	t.Run("fatal error", func(t *testing.T) {
		calls := 0
		err := until(t.Context(), func() error { calls++; return fatalError{problem} })
		if !errors.Is(err, problem) || calls != 1 {
			t.Errorf("%v after %d calls", err, calls)
		}
	})
	t.Run("end of the context", func(t *testing.T) {
		cause := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		if err := until(ctx, func() error { return problem }); !errors.Is(err, problem) || !errors.Is(err, cause) {
			t.Errorf("%v does not hold both the last error and the cause", err)
		}
	})
}
