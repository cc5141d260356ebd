//go:build faults

package main

import (
	"fmt"
	"os"
	"os/signal"
	"runtime/pprof"
	"syscall"
)

// On SIGQUIT, the program writes its goroutines and ends, as the Go runtime does by itself. The runtime however interrupts a thread to do so, and
// fails where that thread is in C code, as that of the race detector.
func init() {
	quit := make(chan os.Signal, 1)
	signal.Notify(quit, syscall.SIGQUIT)
	go func() {
		<-quit
		fmt.Fprintln(os.Stderr, "\nSIGQUIT: quit")
		fmt.Fprintln(os.Stderr)
		_ = pprof.Lookup("goroutine").WriteTo(os.Stderr, 2)
		os.Exit(2)
	}()
}
