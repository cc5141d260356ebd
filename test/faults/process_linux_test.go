//go:build faults

package faults

import (
	"os/exec"
	"syscall"
)

// endWithTests has the kernel kill a program when the thread that started it has ended, as it has when the tests are killed.
func endWithTests(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
