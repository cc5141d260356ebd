package scanner

import (
	"os/exec"
	"runtime"
	"syscall"
)

// runBound runs a child that the kernel kills when this process ends, however that happens: a child that outlives a killed
// manager would go on beside those of the next one.
func runBound(cmd *exec.Cmd) error {
	// The signal is sent when the thread that started the child ends, so that it must stay until the child has ended.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd.Run()
}
