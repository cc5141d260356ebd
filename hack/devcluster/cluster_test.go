package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestNames(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	for name, valid := range map[string]bool{
		"a": true, "real": true, "a-1": true, strings.Repeat("a", 32): true,
		"": false, "-a": false, "a-": false, "A": false, "a.b": false, "a/b": false, "..": false, "a\n": false, strings.Repeat("a", 33): false,
	} {
		if _, err := openCluster(name, io.Discard); (err == nil) != valid {
			t.Errorf("name %q: %v", name, err)
		}
	}
}

func TestSettings(t *testing.T) {
	for flag, test := range map[string]struct {
		settings settings
		mode     string
		valid    bool
	}{
		"":                      {settings{}, modeReal, true},
		"--resolve-images":      {settings{ResolveImages: true}, modeReal, false},
		"--containerd-env":      {settings{ContainerdEnv: []string{"A=B=C", "A="}}, modeReal, true},
		"--containerd-env=A":    {settings{ContainerdEnv: []string{"A"}}, modeReal, false},
		"--containerd-env==B":   {settings{ContainerdEnv: []string{"=B"}}, modeReal, false},
		"--kubelet-arg=--v=1":   {settings{KubeletArgs: []string{"--v=1"}}, modeReal, true},
		"--kubelet-arg=--v=2":   {settings{KubeletArgs: []string{"--v=2"}}, modeSimulated, false},
		"--containerd-env=HOME": {settings{ContainerdEnv: []string{"HOME=/"}}, modeSimulated, false},
	} {
		if err := test.settings.validate(test.mode); (err == nil) != test.valid {
			t.Errorf("%s with --mode=%s: %v", flag, test.mode, err)
		}
	}
}

func TestStateRoundTrip(t *testing.T) {
	root := t.TempDir()
	t.Setenv("XDG_STATE_HOME", root)
	c, err := openCluster("a", io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.check(t.Context()); err == nil {
		t.Error("a cluster that was never started is healthy")
	}
	if _, err := os.Stat(c.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("looking at a cluster made its folder: %v", err)
	}
	c.state = state{
		Mode: modeSimulated, Binaries: "/bin", Ports: map[string]int{"etcd": 1},
		Processes: []process{{Name: "etcd", PID: 1, Started: "2", Boot: "3"}}, Complete: true,
		settings: settings{ResolveImages: true, ContainerdEnv: []string{"A=B"}, KubeletArgs: []string{"--v=1"}},
	}
	if err := c.save(); err != nil {
		t.Fatal(err)
	}
	again, err := openCluster("a", io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(again.state, c.state) {
		t.Errorf("got %+v, want %+v", again.state, c.state)
	}
	if info, err := os.Stat(c.dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder holds keys: %v, %v", info.Mode(), err)
	}
	// Its process belongs to another boot: not healthy, and nothing to end.
	var fatal fatalError
	if err := again.check(t.Context()); !errors.As(err, &fatal) {
		t.Errorf("got %v for a dead component", err)
	}
	if err := again.down(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(c.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder is left: %v", err)
	}
}

func TestDamagedState(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	c, err := openCluster("a", io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.save(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(c.path("state.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openCluster("a", io.Discard); err == nil || !strings.Contains(err.Error(), c.path("state.json")) {
		t.Errorf("got %v", err)
	}
}

func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "folder", "a.lock")
	first, err := acquireLock(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if second, err := tryLock(path); second != nil || err != nil {
		t.Fatalf("locked twice: %v, %v", second, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	waits := 0
	if _, err := acquireLock(ctx, path, func() { waits++; cancel() }); !errors.Is(err, context.Canceled) || waits != 1 {
		t.Errorf("got %v after %d waits", err, waits)
	}
	first.release()
	third, err := tryLock(path)
	if third == nil || err != nil {
		t.Fatalf("not free after its release: %v", err)
	}
	third.remove()
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file is left: %v", err)
	}
}

func TestFindModuleDir(t *testing.T) {
	t.Chdir("coredns")
	dir, err := findModuleDir("")
	if err != nil {
		t.Fatal(err)
	}
	if here, err := filepath.Abs(".."); err != nil || dir != here {
		t.Errorf("got %s from a nested module, want %s (%v)", dir, here, err)
	}
	if _, err := findModuleDir("."); err == nil {
		t.Error("another module is taken")
	}
}

// A real cluster has sockets, whose paths Linux limits.
func TestStateDirHasRoomForSockets(t *testing.T) {
	for home, short := range map[string]bool{"/root": false, "/home/" + strings.Repeat("a", 60): os.Geteuid() == 0} {
		t.Setenv("XDG_STATE_HOME", home)
		dir, err := stateDir("e2e")
		if err != nil || strings.HasPrefix(dir, shortRoot) != short || short && len(filepath.Join(dir, longestSocket)) > maxSocketPath {
			t.Errorf("%s: %s, %v", home, dir, err)
		}
		if other, err := stateDir("other"); err != nil || filepath.Dir(other) != filepath.Dir(dir) {
			t.Errorf("%s: %s, %v; want it beside %s", home, other, err, dir)
		}
	}
}
