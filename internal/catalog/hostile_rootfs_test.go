package catalog

import (
	"archive/tar"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

// TestHostileRootFS mounts trees that lead out of the directory or have no end. What is sound is found, and nothing outside is read.
func TestHostileRootFS(t *testing.T) {
	outside := t.TempDir()
	secrets := "Package: outside\nStatus: install ok installed\nArchitecture: amd64\nVersion: 1.0-1\nMaintainer: x\n\n"
	for name, content := range map[string]string{"status": secrets, "package.json": `{"name":"outside","version":"1.0.0"}`} {
		if err := os.WriteFile(filepath.Join(outside, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	chain := []tarEntry{regular("chain/0", "x")}
	for i := range 10_000 {
		chain = append(chain, entry(tar.TypeSymlink, fmt.Sprintf("chain/%d", i+1), fmt.Sprint(i)))
	}
	deep := strings.Repeat("d/", 1200)
	hidden := "\u200b\u202e\x1b[2J"
	database := rpmDatabase(t, "outside")
	for name, content := range map[string]string{
		"rpmdb.sqlite": database, "installed": "P:outside\nV:1.0-r0\nA:x86_64\n\n", "METADATA": "Metadata-Version: 2.1\nName: outside\nVersion: 1.0\n",
		"outside-1.0.jar": zipOf(t, map[string]string{"META-INF/maven/g/outside/pom.properties": "groupId=g\nartifactId=outside\nversion=1.0\n"}),
	} {
		if err := os.WriteFile(filepath.Join(outside, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	up := strings.Repeat("../", 40) + outside[1:]
	for name, entries := range map[string][]tarEntry{
		"absolute links":   {entry(tar.TypeSymlink, "app", outside), entry(tar.TypeSymlink, "var/lib/dpkg/status.d", outside), entry(tar.TypeSymlink, "srv/package.json", outside+"/package.json")},
		"relative links":   {entry(tar.TypeSymlink, "app", "../../../../../../../../../../.."+outside), entry(tar.TypeSymlink, "srv/package.json", "../../../../../../../../.."+outside+"/package.json")},
		"links to devices": {entry(tar.TypeSymlink, "var/lib/rpm/Packages", "/dev/zero"), entry(tar.TypeSymlink, "lib/apk/db/installed", "/proc/self/environ")},
		"loops":            {entry(tar.TypeSymlink, "loop", "loop"), entry(tar.TypeSymlink, "a", "b"), entry(tar.TypeSymlink, "b", "a"), entry(tar.TypeSymlink, "usr/lib/node_modules", "/")},
		"chain of links":   chain,
		"pipes":            {entry(tar.TypeFifo, "var/lib/rpm/Packages", ""), entry(tar.TypeFifo, "lib/apk/db/installed", ""), entry(tar.TypeFifo, "app/package.json", "")},
		"directories":      {entry(tar.TypeDir, "lib/apk/db/installed/", ""), entry(tar.TypeDir, "app/package.json/", "")},
		"deep":             {entry(tar.TypeDir, deep, ""), entry(tar.TypeSymlink, deep+"up", strings.Repeat("../", 1300)+outside[1:]), entry(tar.TypeSymlink, deep+"top", "/")},
		"links to databases": {
			entry(tar.TypeSymlink, "var/lib/rpm/rpmdb.sqlite", outside+"/rpmdb.sqlite"), entry(tar.TypeSymlink, "usr/lib/sysimage/rpm", outside),
			entry(tar.TypeSymlink, "usr/share/rpm/rpmdb.sqlite", up+"/rpmdb.sqlite"), entry(tar.TypeSymlink, "lib/apk/db/installed", outside+"/installed"),
			entry(tar.TypeSymlink, "app/outside-1.0.jar", up+"/outside-1.0.jar"), entry(tar.TypeSymlink, "usr/lib/python3/dist-packages/outside-1.0.dist-info", outside),
		},
		"links to links": {
			entry(tar.TypeSymlink, "a", "b"), entry(tar.TypeSymlink, "b", "c/../../.."), entry(tar.TypeSymlink, "c", "/"), entry(tar.TypeSymlink, "app", "a"+outside),
			entry(tar.TypeSymlink, "srv/package.json", "../c/../b/../a"+outside+"/package.json"),
		},
		"links to the host": {
			entry(tar.TypeSymlink, "proc", "/proc"), entry(tar.TypeSymlink, "sys", "/sys"), entry(tar.TypeSymlink, "var/lib/dpkg/status.d", "/var/lib/dpkg"),
			entry(tar.TypeSymlink, "usr/lib/python3", "/usr/lib/python3"), entry(tar.TypeSymlink, "opt", "/"), entry(tar.TypeSymlink, "app/package.json", "/proc/self/root"+outside+"/package.json"),
			entry(tar.TypeSymlink, "root", "/proc/self/cwd"), entry(tar.TypeSymlink, "lib/apk/db/installed", "/proc/self/fd/0"),
		},
		"hidden names": {
			regular("app/a\nb/package.json", `{"name":"x","version":"1.0.0"}`), regular("app/"+hidden+"/package.json", `{"name":"x","version":"1.0.0"}`),
			regular("app/\xff\xfe\x80/package.json", `{"name":"x","version":"1.0.0"}`), regular("app/"+strings.Repeat("n", 255), "x"), regular("app/.wh.package.json", "x"),
			regular("app/.wh..wh..opq", "x"), regular("app/**/{a,b}[!c]/package.json", `{"name":"x","version":"1.0.0"}`), entry(tar.TypeSymlink, "app/link\n", "a\nb"), regular(`app/..\..\package.json`, "{}"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			for _, e := range append(sound(), entries...) {
				if err := writeEntry(root, &e.Header, strings.NewReader(e.content)); err != nil {
					t.Fatal(err)
				}
			}
			addSpecial(t, root)
			result, err := runHostile(t, Request{Image: "team/app", RootFS: root, Platform: amd64})
			wantSound(t, result, err)
			if strings.Contains(string(result.SBOM), `"outside"`) {
				t.Error("a package outside of the directory is in the SBOM")
			}
		})
	}
}

// addSpecial adds what an archive of a layer cannot hold or only root may create: a socket and devices.
func addSpecial(t *testing.T, root string) {
	t.Helper()
	folder := filepath.Join(root, "special")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	// The path of a socket is short.
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join("/tmp", fmt.Sprintf("rootfs-%d.sock", os.Getpid())), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	listener.SetUnlinkOnClose(false)
	defer listener.Close()
	if err := os.Rename(listener.Addr().String(), filepath.Join(folder, "package.json")); err != nil && !errors.Is(err, syscall.EXDEV) {
		t.Fatal(err)
	}
	_ = os.Remove(listener.Addr().String())
	for name, device := range map[string]int{"zero.jar": 1<<8 | 5, "tty": 5 << 8} {
		if err := syscall.Mknod(filepath.Join(folder, name), syscall.S_IFCHR|0o666, device); err != nil && !errors.Is(err, syscall.EPERM) {
			t.Fatal(err)
		}
	}
}

// TestHostileRootFSDepth refuses paths that are longer than those of Linux, which are made one directory at a time.
func TestHostileRootFSDepth(t *testing.T) {
	folder := t.TempDir()
	root, err := os.OpenRoot(folder)
	if err != nil {
		t.Fatal(err)
	}
	for range 25 {
		name := strings.Repeat("d", 200)
		if err := root.Mkdir(name, 0o755); err != nil {
			t.Fatal(err)
		}
		next, err := root.OpenRoot(name)
		if err != nil {
			t.Fatal(err)
		}
		_ = root.Close()
		root = next
	}
	_ = root.Close()
	_, err = runHostile(t, Request{Image: "team/app", RootFS: folder, Platform: amd64})
	wantFailure(t, err, model.ReasonCatalogFailed, "limit of 4096")
}

// TestHostileRootFSChanges replaces files while they are read. Nothing outside is read, and no scan waits.
func TestHostileRootFSChanges(t *testing.T) {
	outside, root := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "package.json"), []byte(`{"name":"outside","version":"1.0.0"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, e := range sound() {
		if err := writeEntry(root, &e.Header, strings.NewReader(e.content)); err != nil {
			t.Fatal(err)
		}
	}
	file, folder := filepath.Join(root, "app", "package.json"), filepath.Join(root, "app")
	states := []func() error{
		func() error {
			return errors.Join(os.MkdirAll(folder, 0o755), os.WriteFile(file, []byte(`{"name":"inside","version":"1.0.0"}`), 0o600))
		},
		func() error { return errors.Join(os.Remove(file), syscall.Mkfifo(file, 0o600)) },
		func() error {
			return errors.Join(os.Remove(file), os.Symlink(filepath.Join(outside, "package.json"), file))
		},
		func() error { return errors.Join(os.RemoveAll(folder), os.Symlink(outside, folder)) },
		func() error { return os.Remove(folder) },
	}
	done := make(chan struct{})
	var changing sync.WaitGroup
	changing.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			default:
			}
			if err := states[i%len(states)](); err != nil {
				t.Error(err)
				return
			}
			runtime.Gosched()
		}
	})
	for range 5 {
		result, err := runHostile(t, Request{Image: "team/app", RootFS: root, Platform: amd64})
		if err == nil {
			wantSound(t, result, nil)
		} else if ReasonOf(err) != model.ReasonCatalogFailed {
			t.Errorf("the scan failed with %v", err)
		}
		if err == nil && strings.Contains(string(result.SBOM), `"outside"`) {
			t.Error("a package outside of the directory is in the SBOM")
		}
	}
	close(done)
	changing.Wait()
}

// TestHostilePipe: a file that has become a pipe is not waited for, and one that has gone is missed.
func TestHostilePipe(t *testing.T) {
	folder := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(folder, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	root, err := openRootFS(folder, amd64, DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	defer root.close()
	for _, name := range []string{"pipe", "pipe", "gone", "../etc/passwd", "."} {
		if content, err := root.content(name); err == nil || content != nil {
			t.Errorf("%s: it was opened", name)
		}
	}
	if got := root.unreadable.count(); got != 4 {
		t.Errorf("%d files are missed, want 4", got)
	}
}
