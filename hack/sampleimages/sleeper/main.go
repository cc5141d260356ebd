// Command sleeper is the entry point of the sample images: it waits for SIGTERM, so that a real kubelet can run them.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
	<-signals
}
