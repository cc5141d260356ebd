package dbserver

import (
	"fmt"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// process is a server's.
type process struct {
	command *exec.Cmd
	// ended is closed when it has.
	ended chan struct{}
}

// startProcess starts a server that gets deathSignal when this process ends, however it ends.
func startProcess(command *exec.Cmd, deathSignal syscall.Signal) (*process, error) {
	p := &process{command: command, ended: make(chan struct{})}
	endWithParent(command.SysProcAttr, deathSignal)
	started := make(chan error)
	go func() {
		// The signal is sent when the thread that started the server ends, so the thread has to stay.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := command.Start()
		started <- err
		if err == nil {
			_ = command.Wait() // How it ended is in its log.
		}
		close(p.ended)
	}()
	return p, <-started
}

// stop sends a signal and waits until the server has ended.
func (p *process) stop(signal syscall.Signal) error {
	select {
	case <-p.ended:
		return nil
	default:
	}
	if err := p.command.Process.Signal(signal); err != nil {
		return fmt.Errorf("signal the server: %w", err)
	}
	timer := time.NewTimer(stopTimeout)
	defer timer.Stop()
	select {
	case <-p.ended:
		return nil
	case <-timer.C:
	}
	if err := p.command.Process.Kill(); err != nil {
		return fmt.Errorf("kill the server: %w", err)
	}
	<-p.ended
	return fmt.Errorf("the server had not ended %s after signal %s and was killed", stopTimeout, signal)
}
