package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

const (
	stopGrace = 20 * time.Second
	killGrace = 10 * time.Second
	pollEvery = 50 * time.Millisecond
)

// process is one running component. Its start time tells it from a later process with the same number, and the boot from
// one of another boot, since the start may be counted from there.
type process struct {
	Name    string `json:"name"`
	PID     int    `json:"pid"`
	Started string `json:"started"`
	// Boot is empty where start times are absolute.
	Boot string `json:"boot,omitempty"`
}

// alive says whether this very process still runs.
func (p process) alive() bool {
	if p.PID <= 0 || (p.Boot != "" && p.Boot != bootID()) {
		return false
	}
	started, err := startTime(p.PID)
	return err == nil && started == p.Started
}

// spec says how a component is started.
type spec struct {
	name string
	bin  string
	args []string
	env  []string
}

// start runs a component in a session of its own, so that it outlives this program and its terminal.
func start(s spec, logDir string) (process, error) {
	if err := os.MkdirAll(logDir, 0o700); err != nil {
		return process{}, err
	}
	log, err := os.OpenFile(filepath.Join(logDir, s.name+".log"), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return process{}, err
	}
	defer log.Close()
	cmd := exec.Command(s.bin, s.args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), s.env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return process{}, fmt.Errorf("start %s: %w", s.name, err)
	}
	pid := cmd.Process.Pid
	// Waited for, so that a component that dies at once is gone and no zombie.
	go func() { _ = cmd.Wait() }()
	started, err := startTime(pid)
	if err != nil {
		return process{}, fmt.Errorf("%s ended as soon as it was started; its log is %s", s.name, log.Name())
	}
	return process{Name: s.name, PID: pid, Started: started, Boot: bootID()}, nil
}

// stop ends a component, at first politely.
func (p process) stop() error { return p.stopWithin(stopGrace, killGrace) }

func (p process) stopWithin(stopGrace, killGrace time.Duration) error {
	if !p.alive() {
		return nil
	}
	for _, attempt := range []struct {
		signal syscall.Signal
		wait   time.Duration
	}{{syscall.SIGTERM, stopGrace}, {syscall.SIGKILL, killGrace}} {
		if err := syscall.Kill(p.PID, attempt.signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("stop %s (process %d): %w", p.Name, p.PID, err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), attempt.wait)
		err := until(ctx, func() error {
			if p.alive() {
				return errors.New("still running")
			}
			return nil
		})
		cancel()
		if err == nil {
			return nil
		}
	}
	return fmt.Errorf("%s (process %d) does not end", p.Name, p.PID)
}

// fatalError ends a wait at once: waiting longer cannot help.
type fatalError struct{ error }

func (e fatalError) Unwrap() error { return e.error }

// until calls check until it returns nil or a fatalError; when ctx ends first, the last error of check is returned.
func until(ctx context.Context, check func() error) error {
	for {
		err := check()
		var fatal fatalError
		if err == nil || errors.As(err, &fatal) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w (%w)", err, context.Cause(ctx))
		case <-time.After(pollEvery):
		}
	}
}
