package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

var errNoProcess = errors.New("no such process")

// startTime is the start of a process in ticks since boot, from field 22 of /proc/PID/stat. A zombie counts as ended.
func startTime(pid int) (string, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", errNoProcess
	}
	return parseStartTime(string(data))
}

func parseStartTime(stat string) (string, error) {
	// The second field, in parentheses, may itself hold spaces and parentheses.
	_, rest, found := cutLast(stat, ") ")
	fields := strings.Fields(rest)
	if !found || len(fields) < 20 || fields[0] == "Z" || fields[0] == "X" {
		return "", errNoProcess
	}
	return fields[19], nil
}

// bootID differs after each boot of the machine.
func bootID() string {
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}
