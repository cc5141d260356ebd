package scanner

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	apiwait "k8s.io/apimachinery/pkg/util/wait"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

const pidFileEnv = "SCANNER_OPERATOR_TEST_PID_FILE"

// TestHelperManager is no test: it is the manager that TestChildDiesWithKilledManager kills.
func TestHelperManager(t *testing.T) {
	file := os.Getenv(pidFileEnv)
	if file == "" {
		t.Skip("runs in a process of its own")
	}
	shell := exec.Command("sh", "-c", "echo $$ > "+file+".new && mv "+file+".new "+file+" && exec sleep 600")
	if err := runBound(shell, reachable{execute: []string{"/bin", "/usr", "/lib", "/lib64"}, scratch: filepath.Dir(file)}, noMemoryLimit); err != nil {
		t.Log(err)
	}
}

// TestChildCannotExhaustTheContainer runs in a process of its own: what the kernel says of the memory of a child includes that of the process that started it.
func TestChildCannotExhaustTheContainer(t *testing.T) {
	const own = "TEST_CHILD_MEMORY"
	if os.Getenv(own) == "" {
		test := exec.Command(os.Args[0], "-test.run=^TestChildCannotExhaustTheContainer$")
		test.Env = append(os.Environ(), own+"=1")
		if out, err := test.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	// It keeps its input, which has no end, in memory.
	child := exec.Command("tail", "-n", "1", "/dev/zero")
	child.Env = []string{"PATH=" + os.Getenv("PATH")}
	memory := maxChildMemory(64 << 20)
	err := runBound(child, reachable{execute: []string{"/bin", "/usr", "/lib", "/lib64"}, read: []string{"/dev/zero"}, scratch: t.TempDir()}, memory)
	if child.ProcessState == nil || child.ProcessState.ExitCode() != 1 {
		t.Fatalf("%v, want that it gets no more memory and exits with 1", err)
	}
	// The limit does not count the program and its libraries.
	const program = 16 << 20
	if used := child.ProcessState.SysUsage().(*syscall.Rusage).Maxrss << 10; used > memory+program {
		t.Errorf("the child took %d MiB of memory, want at most %d", used>>20, memory>>20)
	}
}

func TestOutcomeOfChildrenWithoutMemory(t *testing.T) {
	for text, want := range map[string]model.Reason{
		"fatal error: runtime: cannot allocate memory\n\ngoroutine 1 [running]:\n" + strings.Repeat("x", 3*maxChildLog): model.ReasonOutOfMemory,
		"fatal error: runtime: out of memory\n": model.ReasonOutOfMemory,
		"panic: out of range\n":                 model.ReasonCatalogFailed,
	} {
		child := exec.Command("sh", "-c", "cat >&2; exit 2")
		var said output
		child.Stdin, child.Stderr = strings.NewReader(text), &said
		if got := outcomeOf(child.Run(), &said); got.Reason != want {
			t.Errorf("%.60q: %+v, want %s", text, got, want)
		}
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
	waitFor(t, "the kernel to prefer the child", func() bool {
		score, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(child), "oom_score_adj"))
		return err == nil && strings.TrimSpace(string(score)) == "1000"
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
	check := func(context.Context) (bool, error) { return reached(), nil }
	if err := apiwait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, 10*time.Second, true, check); err != nil {
		t.Fatalf("waited in vain for %s", what)
	}
}
