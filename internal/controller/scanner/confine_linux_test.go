package scanner

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Variables of the processes that TestChildCannotReadTheManager starts: the directory of the manager and its measures, and what
// the child is to open.
const (
	secretsEnv  = "SCANNER_OPERATOR_TEST_SECRETS"
	measuresEnv = "SCANNER_OPERATOR_TEST_MEASURES"
	targetsEnv  = "SCANNER_OPERATOR_TEST_TARGETS"
)

const managerSecret = "secret-of-the-manager"

// noMemoryLimit is for children that are instrumented by the race detector, which reserves terabytes.
const noMemoryLimit = math.MaxInt64

// unprivileged is the user of the processes if the test runs as root, whom /proc would not keep from anything.
const unprivileged = 65532

// TestHelperSecretiveManager is no test: it is a manager with secrets that starts a child as InProcess does.
func TestHelperSecretiveManager(t *testing.T) {
	dir := os.Getenv(secretsEnv)
	if dir == "" {
		t.Skip("runs in a process of its own")
	}
	token, err := os.Open(filepath.Join(dir, "token"))
	if err != nil {
		t.Fatal(err)
	}
	defer token.Close()
	scratch, self := filepath.Join(dir, "scratch"), fmt.Sprintf("/proc/%d/", os.Getpid())
	targets, err := json.Marshal(map[string]string{
		"environ": self + "environ", "memory": self + "mem", "open file": fmt.Sprintf("%sfd/%d", self, token.Fd()), "root": self + "root" + token.Name(),
		"token": token.Name(), "store": filepath.Join(dir, "store.db"), "hosts": "/etc/hosts", "null": os.DevNull,
	})
	if err != nil {
		t.Fatal(err)
	}
	executable := filepath.Join(dir, "program")
	child := exec.Command(executable, "-test.run=^TestHelperCuriousChild$")
	child.Dir, child.Env = scratch, append(childEnvironment(scratch, childMemoryLimit), targetsEnv+"="+string(targets))
	measures := os.Getenv(measuresEnv)
	if strings.Contains(measures, "hide") {
		if err := hideMemory(); err != nil {
			t.Fatal(err)
		}
	}
	if strings.Contains(measures, "confine") {
		err = runBound(child, childFiles(executable, scratch), noMemoryLimit)
	} else {
		err = child.Run()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestHelperCuriousChild is no test: it is a child that reads what it can of its manager.
func TestHelperCuriousChild(t *testing.T) {
	if os.Getenv(targetsEnv) == "" {
		t.Skip("runs in a process of its own")
	}
	var targets map[string]string
	if err := json.Unmarshal([]byte(os.Getenv(targetsEnv)), &targets); err != nil {
		t.Fatal(err)
	}
	opened := map[string]bool{"own environment": strings.Contains(strings.Join(os.Environ(), "\n"), managerSecret)}
	for name, path := range targets {
		file, err := os.Open(path)
		opened[name] = err == nil
		if err == nil {
			_ = file.Close()
		}
	}
	result, err := json.Marshal(opened)
	if err != nil {
		t.Fatal(err)
	}
	// As the child of a scan does, it works in directories of its own.
	if err := os.MkdirAll("a/b", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("a/b/result", result, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename("a/b/result", "result.json"); err != nil {
		t.Fatal(err)
	}
}

func TestChildCannotReadTheManager(t *testing.T) {
	for _, test := range []struct {
		measures string
		// want names what the child could open.
		want []string
	}{
		{"hide and confine", []string{"hosts", "null"}},
		{"confine", []string{"hosts", "null"}},
		// Without Landlock, the child has the files of its user, but neither the manager's environment nor its memory.
		{"hide", []string{"hosts", "null", "store", "token"}},
		// This shows that the child would find something.
		{"nothing", []string{"environ", "hosts", "null", "open file", "root", "store", "token"}},
	} {
		t.Run(test.measures, func(t *testing.T) {
			if err := canConfine(); err != nil && strings.Contains(test.measures, "confine") {
				if os.Getenv("CI") == "true" {
					t.Fatal(err)
				}
				t.Skip(err)
			}
			opened := curiousChild(t, test.measures)
			if test.measures == "nothing" {
				// The Linux security module Yama may deny this one, whatever the manager does.
				delete(opened, "memory")
			}
			want := map[string]bool{}
			for name := range opened {
				want[name] = false
			}
			for _, name := range test.want {
				want[name] = true
			}
			if diff := cmp.Diff(want, opened); diff != "" {
				t.Errorf("what the child opened (-want +got):\n%s", diff)
			}
		})
	}
}

// curiousChild runs a manager with these measures, and returns what its child could open.
func curiousChild(t *testing.T, measures string) map[string]bool {
	t.Helper()
	dir, err := os.MkdirTemp("", "manager-") //nolint:usetesting // another user must be able to enter it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	program, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"program": program, "token": []byte(managerSecret), "store.db": []byte(managerSecret)} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "scratch"), 0o700); err != nil {
		t.Fatal(err)
	}
	manager := exec.Command(filepath.Join(dir, "program"), "-test.run=^TestHelperSecretiveManager$")
	manager.Dir, manager.Env = dir, []string{"TMPDIR=" + dir, "DSN=" + managerSecret, secretsEnv + "=" + dir, measuresEnv + "=" + measures}
	if os.Geteuid() == 0 {
		manager.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: unprivileged, Gid: unprivileged}}
		for _, name := range []string{"", "program", "token", "store.db", "scratch"} {
			if err := os.Chown(filepath.Join(dir, name), unprivileged, unprivileged); err != nil {
				t.Fatal(err)
			}
		}
	}
	if out, err := manager.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	content, err := os.ReadFile(filepath.Join(dir, "scratch", "result.json"))
	if err != nil {
		t.Fatal(err)
	}
	var opened map[string]bool
	if err := json.Unmarshal(content, &opened); err != nil {
		t.Fatal(err)
	}
	return opened
}
