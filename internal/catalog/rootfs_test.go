package catalog

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

var amd64 = model.Platform{OS: "linux", Architecture: "amd64"}

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
		"merged /usr": layered(t, append(sound(), entry(tar.TypeDir, "usr/lib/", ""), entry(tar.TypeSymlink, "lib", "usr/lib"), entry(tar.TypeSymlink, "bin", "usr/bin"),
			regular("usr/lib/apk/db/installed", "C:Q1x\nP:musl\nV:1.2.5-r0\nA:x86_64\no:musl\n\n"), regular("usr/lib/python3/dist-packages/a-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: a\nVersion: 1.0\n"))),
		"rpm": layered(t, []tarEntry{regular("usr/lib/os-release", "ID=fedora\nVERSION_ID=41\n"), entry(tar.TypeSymlink, "etc/os-release", "../usr/lib/os-release"),
			regular("usr/lib/sysimage/rpm/rpmdb.sqlite", rpmDatabase(t, "bash", "openssl-libs")), entry(tar.TypeSymlink, "var/lib/rpm", "../../usr/lib/sysimage/rpm")}),
		"rpm, replaced": layered(t, []tarEntry{regular("etc/os-release", "ID=fedora\nVERSION_ID=41\n"), regular("var/lib/rpm/rpmdb.sqlite", rpmDatabase(t, "bash", "gone"))},
			[]tarEntry{regular("var/lib/rpm/rpmdb.sqlite", rpmDatabase(t, "bash"))}),
		"Node, Python, Java and Ruby": layered(t, append(sound(), regular("app/package-lock.json", `{"name":"app","version":"1.0.0","lockfileVersion":3,"packages":{"":{"name":"app","version":"1.0.0"},"node_modules/lodash":{"version":"4.17.20"}}}`),
			regular("app/node_modules/lodash/package.json", `{"name":"lodash","version":"4.17.20","license":"MIT"}`), regular("app/requirements.txt", "django==3.2.1\nrequests==2.25.0\n"),
			regular("app/Gemfile.lock", "GEM\n  remote: https://rubygems.org/\n  specs:\n    rack (2.2.2)\n\nPLATFORMS\n  ruby\n"), regular("app/go.mod", "module example.org/app\n\ngo 1.22\n\nrequire golang.org/x/net v0.1.0\n"),
			regular("app/outer.jar", zipOf(t, map[string]string{"BOOT-INF/lib/inner-1.jar": jar, "META-INF/MANIFEST.MF": "Manifest-Version: 1.0\nImplementation-Title: outer\nImplementation-Version: 7\n"})))),
		"links over layers": layered(t, append(sound(), regular("opt/a/package.json", npm), entry(tar.TypeSymlink, "srv/app", "/opt/a"), entry(tar.TypeSymlink, "srv/b", "app/../../opt/a")),
			[]tarEntry{regular("opt/.wh.a", ""), regular("opt/b/package.json", strings.Replace(npm, "linked", "moved", 1)), regular("srv/.wh.app", ""), entry(tar.TypeSymlink, "srv/app", "../opt/b")},
			[]tarEntry{entry(tar.TypeLink, "opt/c/package.json", "opt/b/package.json")}),
		"a directory replaced by a link": layered(t, append(sound(), regular("old/package.json", npm), regular("new/package.json", strings.Replace(npm, "1.2.3", "2.0.0", 1))),
			[]tarEntry{regular(".wh.old", ""), entry(tar.TypeSymlink, "old", "new")}),
		"odd names": layered(t, append(sound(), regular("app/\xff\xfe/package.json", npm), regular("new\nline/package.json", npm), regular("*?[/package.json", npm))),
	} {
		t.Run(name, func(t *testing.T) {
			want, err := runIn(t, t.Context(), Request{Image: newRegistry(t).push(t, image)})
			if err != nil {
				t.Fatal(err)
			}
			got, err := runIn(t, t.Context(), Request{Image: "team/app", RootFS: unpack(t, image), Platform: amd64})
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

// TestRootFSLayerWritesThroughLink: a layer may name a file by a directory that is a link in an earlier layer. Syft reports the path that the
// layer names; in a root file system, as in a container, the file is where the link leads. Packages, versions, PURLs and CPEs are the same.
func TestRootFSLayerWritesThroughLink(t *testing.T) {
	metadata := "Metadata-Version: 2.1\nName: b\nVersion: 2.0\n"
	image := layered(t, append(sound(), entry(tar.TypeDir, "usr/lib/", ""), entry(tar.TypeSymlink, "lib", "usr/lib")),
		[]tarEntry{regular("lib/python3/dist-packages/b-2.0.dist-info/METADATA", metadata)})
	layers, err := runIn(t, t.Context(), Request{Image: newRegistry(t).push(t, image)})
	if err != nil {
		t.Fatal(err)
	}
	mounted, err := runIn(t, t.Context(), Request{Image: "team/app", RootFS: unpack(t, image), Platform: amd64})
	if err != nil {
		t.Fatal(err)
	}
	identities := func(encoded []byte) (all []string) {
		for _, p := range decode(t, encoded).Artifacts.Packages.Sorted() {
			all = append(all, fmt.Sprint(p.Type, p.Name, p.Version, p.PURL, p.CPEs))
		}
		slices.Sort(all)
		return all
	}
	if diff := cmp.Diff(identities(layers.SBOM), identities(mounted.SBOM)); diff != "" {
		t.Errorf("the root file system differs from the layers (-layers +rootfs):\n%s", diff)
	}
	const path = "/lib/python3/dist-packages/b-2.0.dist-info/METADATA"
	if !strings.Contains(string(layers.SBOM), `"`+path+`"`) || !strings.Contains(string(mounted.SBOM), `"/usr`+path+`"`) {
		t.Error("the paths are others")
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
		if result.Stats.Unreadable != 4 {
			t.Errorf("%d unreadable files are counted, want 4: a directory, a program, a library, and a file that a cataloger needs", result.Stats.Unreadable)
		}
		return
	}
	root, err := os.MkdirTemp("", "rootfs-") //nolint:usetesting // the directories of the test belong to root alone
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(root)
	for _, e := range append(sound(), entry(tar.TypeDir, "secret", ""), regular("secret/a", "x"), regular("etc/shadow", "x"), entry(tar.TypeDir, "scratch", ""),
		regular("app/package.json", `{"name":"hidden","version":"1.0.0"}`), regular("usr/bin/program", "x"), regular("usr/lib/libx.so.1", "x"), regular("var/cache/ldconfig/aux-cache", "x")) {
		if err := writeEntry(root, &e.Header, strings.NewReader(e.content)); err != nil {
			t.Fatal(err)
		}
	}
	for name, mode := range map[string]os.FileMode{
		"": 0o755, "secret": 0, "etc/shadow": 0, "scratch": 0o777, "app/package.json": 0, "usr/bin/program": 0o100, "usr/lib/libx.so.1": 0, "var/cache/ldconfig": 0,
	} {
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
