package dbserver

import "syscall"

// endWithParent has the system send the signal when the thread that starts the process ends.
func endWithParent(attributes *syscall.SysProcAttr, signal syscall.Signal) {
	attributes.Pdeathsig = signal
}
