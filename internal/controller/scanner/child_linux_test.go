package scanner

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const pidFileEnv = "SCANNER_OPERATOR_TEST_PID_FILE"

// TestHelperManager is no test: it is the manager that TestChildDiesWithKilledManager kills.
func TestHelperManager(t *testing.T) {
	file := os.Getenv(pidFileEnv)
	if file == "" {
		t.Skip("runs in a process of its own")
	}
	shell := exec.Command("sh", "-c", "echo $$ > "+file+".new && mv "+file+".new "+file+" && exec sleep 600")
	if err := runBound(shell, reachable{execute: []string{"/bin", "/usr", "/lib", "/lib64"}, scratch: filepath.Dir(file)}); err != nil {
		t.Log(err)
	}
}

func TestChildDiesWithKilledManager(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	manager := exec.Command(os.Args[0], "-test.run=^TestHelperManager$")
	manager.Env = append(os.Environ(), pidFileEnv+"="+file)
	if err := manager.Start(); err != nil {
		t.Fatal(err)
	}
	child := 0
	waitFor(t, "the child", func() bool {
		content, err := os.ReadFile(file)
		if err != nil {
			return false
		}
		child, err = strconv.Atoi(strings.TrimSpace(string(content)))
		return err == nil
	})
	if err := manager.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = manager.Wait()
	t.Cleanup(func() { _ = syscall.Kill(child, syscall.SIGKILL) })
	waitFor(t, "the end of the child", func() bool { return ended(child) })
}

// ended reports whether a process is gone or a zombie, which whoever inherited it may be slow to collect.
func ended(pid int) bool {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return true
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(state, "Z") || strings.HasPrefix(state, "X")
}

func waitFor(t *testing.T, what string, reached func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !reached(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}
