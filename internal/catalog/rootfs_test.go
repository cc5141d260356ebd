package catalog

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

var amd64 = model.Platform{OS: "linux", Architecture: "amd64"}

// extracted writes the root file system of an image into a directory. What only root may create is left out.
func extracted(t *testing.T, image v1.Image) string {
	t.Helper()
	folder := t.TempDir()
	content := mutate.Extract(image)
	defer content.Close()
	for reader := tar.NewReader(content); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return folder
		}
		if err == nil {
			err = writeEntry(folder, header, reader)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func writeEntry(folder string, header *tar.Header, content io.Reader) error {
	target := filepath.Join(folder, filepath.Clean("/"+header.Name))
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	switch header.Typeflag {
	case tar.TypeDir:
		return os.MkdirAll(target, 0o755)
	case tar.TypeSymlink:
		return os.Symlink(header.Linkname, target)
	case tar.TypeLink:
		return os.Link(filepath.Join(folder, filepath.Clean("/"+header.Linkname)), target)
	case tar.TypeFifo:
		return syscall.Mkfifo(target, 0o644)
	case tar.TypeReg:
		f, err := os.Create(target)
		if err != nil {
			return err
		}
		_, err = io.Copy(f, content)
		return errors.Join(err, f.Close())
	}
	return nil
}

// layered is an image of one layer per list of entries.
func layered(t *testing.T, layers ...[]tarEntry) v1.Image {
	t.Helper()
	raw := make([]v1.Layer, len(layers))
	for i, entries := range layers {
		content := tarOf(t, entries...)
		layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil })
		if err != nil {
			t.Fatal(err)
		}
		raw[i] = layer
	}
	return imageOf(t, raw...)
}

// TestRootFSEqualsLayers compares what is found in a root file system with what is found in the layers that it was made from.
func TestRootFSEqualsLayers(t *testing.T) {
	status := func(name string) tarEntry {
		return regular("var/lib/dpkg/status.d/"+name, "Package: "+name+"\nStatus: install ok installed\nArchitecture: amd64\nVersion: 1.0-1\nMaintainer: x\n\n")
	}
	jar := zipOf(t, map[string]string{"META-INF/maven/g/a/pom.properties": "groupId=g\nartifactId=a\nversion=1\n"})
	npm := `{"name":"linked","version":"1.2.3","license":"MIT"}`
	for name, image := range map[string]v1.Image{
		"one layer": layered(t, sound()),
		"whiteouts": layered(t, append(sound(), entry(tar.TypeDir, "var/lib/dpkg/status.d/", ""), status("kept"), status("removed"), regular("app/node_modules/gone/package.json", npm)),
			[]tarEntry{regular("var/lib/dpkg/status.d/.wh.removed", ""), regular("app/node_modules/.wh..wh..opq", ""), regular("app/package.json", npm)}),
		"replaced by another kind": layered(t, append(sound(), regular("app/package.json", npm)), []tarEntry{regular("app/.wh.package.json", ""), entry(tar.TypeDir, "app/package.json/", "")}),
		"links": layered(t, []tarEntry{
			regular("usr/lib/os-release", "ID=debian\nVERSION_ID=\"11\"\n"), entry(tar.TypeSymlink, "etc/os-release", "../usr/lib/os-release"),
			entry(tar.TypeSymlink, "lib", "usr/lib"), entry(tar.TypeSymlink, "var/lib/dpkg", "/opt/dpkg"), regular("opt/dpkg/status", sound()[1].content),
			regular("srv/app/package.json", npm), entry(tar.TypeSymlink, "srv/current", "/srv/app"), entry(tar.TypeSymlink, "srv/loop", "loop"),
			entry(tar.TypeSymlink, "srv/dead", "/nowhere/package.json"), entry(tar.TypeSymlink, "srv/up", "../../../../../srv/app/package.json"),
		}),
		"hard links": layered(t, append(sound(), regular("app/a-1.jar", jar), entry(tar.TypeLink, "app/b-1.jar", "app/a-1.jar"), entry(tar.TypeLink, "z/c-1.jar", "app/a-1.jar"))),
		"odd names":  layered(t, append(sound(), regular("app/\xff\xfe/package.json", npm), regular("new\nline/package.json", npm), regular("*?[/package.json", npm))),
	} {
		t.Run(name, func(t *testing.T) {
			want, err := runIn(t, t.Context(), Request{Image: newRegistry(t).push(t, image)})
			if err != nil {
				t.Fatal(err)
			}
			got, err := runIn(t, t.Context(), Request{Image: "team/app", RootFS: extracted(t, image), Platform: amd64})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(details(t, decode(t, want.SBOM)), details(t, decode(t, got.SBOM))); diff != "" {
				t.Errorf("the root file system differs from the layers (-layers +rootfs):\n%s", diff)
			}
			if len(decode(t, got.SBOM).Artifacts.Packages.Sorted()) == 0 || got.Stats.Unreadable != 0 || got.Platform != amd64 {
				t.Errorf("got %+v for %s", got.Stats, got.Platform)
			}
		})
	}
}

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
	for name, entries := range map[string][]tarEntry{
		"absolute links":   {entry(tar.TypeSymlink, "app", outside), entry(tar.TypeSymlink, "var/lib/dpkg/status.d", outside), entry(tar.TypeSymlink, "srv/package.json", outside+"/package.json")},
		"relative links":   {entry(tar.TypeSymlink, "app", "../../../../../../../../../../.."+outside), entry(tar.TypeSymlink, "srv/package.json", "../../../../../../../../.."+outside+"/package.json")},
		"links to devices": {entry(tar.TypeSymlink, "var/lib/rpm/Packages", "/dev/zero"), entry(tar.TypeSymlink, "lib/apk/db/installed", "/proc/self/environ")},
		"loops":            {entry(tar.TypeSymlink, "loop", "loop"), entry(tar.TypeSymlink, "a", "b"), entry(tar.TypeSymlink, "b", "a"), entry(tar.TypeSymlink, "usr/lib/node_modules", "/")},
		"chain of links":   chain,
		"pipes":            {entry(tar.TypeFifo, "var/lib/rpm/Packages", ""), entry(tar.TypeFifo, "lib/apk/db/installed", ""), entry(tar.TypeFifo, "app/package.json", "")},
		"directories":      {entry(tar.TypeDir, "lib/apk/db/installed/", ""), entry(tar.TypeDir, "app/package.json/", "")},
		"deep":             {entry(tar.TypeDir, deep, "")},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			for _, e := range append(sound(), entries...) {
				if err := writeEntry(root, &e.Header, strings.NewReader(e.content)); err != nil {
					t.Fatal(err)
				}
			}
			result, err := runHostile(t, Request{Image: "team/app", RootFS: root, Platform: amd64})
			wantSound(t, result, err)
			if strings.Contains(string(result.SBOM), `"outside"`) {
				t.Error("a package outside of the directory is in the SBOM")
			}
		})
	}
}

// TestRootFSLimits has more files and more bytes than the limits.
func TestRootFSLimits(t *testing.T) {
	root := t.TempDir()
	for i := range 20 {
		if err := os.WriteFile(filepath.Join(root, fmt.Sprint(i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, err := runIn(t, t.Context(), Request{Image: "team/app", RootFS: root, Platform: amd64, Limits: Limits{Files: 19}})
	wantFailure(t, err, model.ReasonImageTooLarge, "more files than the limit of 19")
	if err := os.Truncate(filepath.Join(root, "7"), 1<<40); err != nil {
		t.Fatal(err)
	}
	_, err = runIn(t, t.Context(), Request{Image: "team/app", RootFS: root, Platform: amd64})
	wantFailure(t, err, model.ReasonImageTooLarge, "more bytes than the limit")

	_, err = runIn(t, t.Context(), Request{Image: "team/app", RootFS: root})
	wantFailure(t, err, model.ReasonCatalogFailed, "platform")
	_, err = runIn(t, t.Context(), Request{Image: "team/app", RootFS: filepath.Join(root, "absent"), Platform: amd64})
	wantFailure(t, err, model.ReasonCatalogFailed, "open the root file system")
}

// unreadableVariable names the root file system that TestUnreadableRootFS scans without the rights of root.
const unreadableVariable = "CATALOG_TEST_UNREADABLE"

// TestUnreadableRootFS counts what the process may not read, and catalogs the rest.
func TestUnreadableRootFS(t *testing.T) {
	if root := os.Getenv(unreadableVariable); root != "" {
		result, err := Run(t.Context(), Request{Image: "team/app", RootFS: root, Platform: amd64, ScratchDir: root + "/scratch"})
		wantSound(t, result, err)
		if result.Stats.Unreadable != 2 {
			t.Errorf("%d unreadable files are counted, want 2", result.Stats.Unreadable)
		}
		return
	}
	root, err := os.MkdirTemp("", "rootfs-") //nolint:usetesting // the directories of the test belong to root alone
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(root)
	for _, e := range append(sound(), entry(tar.TypeDir, "secret", ""), regular("secret/a", "x"), regular("etc/shadow", "x"), entry(tar.TypeDir, "scratch", "")) {
		if err := writeEntry(root, &e.Header, strings.NewReader(e.content)); err != nil {
			t.Fatal(err)
		}
	}
	for name, mode := range map[string]os.FileMode{"": 0o755, "secret": 0, "etc/shadow": 0, "scratch": 0o777} {
		if err := os.Chmod(filepath.Join(root, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// The directory of the test binary belongs to the user that built it.
	copied := filepath.Join(root, "scratch", "test")
	content, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(copied, content, 0o755); err != nil { //nolint:gosec // another user executes it
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), copied, "-test.run=^TestUnreadableRootFS$")
	command.Dir, command.Env = root, append(os.Environ(), unreadableVariable+"="+root, "HOME="+root, "TMPDIR="+root+"/scratch")
	if os.Geteuid() == 0 {
		command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
	}
	if output, err := command.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, output)
	}
}
