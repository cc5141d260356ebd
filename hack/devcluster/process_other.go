//go:build unix && !linux

package main

import (
	"errors"
	"os/exec"
	"strconv"
	"strings"
)

var errNoProcess = errors.New("no such process")

// startTime is the start of a process as ps prints it.
func startTime(pid int) (string, error) {
	out, err := exec.Command("ps", "-o", "state=,lstart=", "-p", strconv.Itoa(pid)).Output()
	fields := strings.Fields(string(out))
	if err != nil || len(fields) < 2 || strings.HasPrefix(fields[0], "Z") {
		return "", errNoProcess
	}
	return strings.Join(fields[1:], " "), nil
}

// bootID is empty: ps prints dates.
func bootID() string { return "" }
