package catalog

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

// databases are files that Syft's catalogers for images read, at least one for each of them.
var databases = []string{
	"lib/apk/db/installed", "usr/lib/apk/db/installed", "var/lib/dpkg/status.d/evil", "var/lib/dpkg/info/evil.list", "var/lib/dpkg/info/evil.md5sums",
	"var/lib/opkg/status", "usr/lib/opkg/info/evil.control", "usr/share/doc/evil/copyright", "app/evil.deb",
	"var/lib/rpm/Packages", "var/lib/rpm/Packages.db", "var/lib/rpm/rpmdb.sqlite", "usr/lib/sysimage/rpm/rpmdb.sqlite", "usr/share/rpm/Packages",
	"var/lib/rpmmanifest/container-manifest-2", "app/evil.rpm",
	"var/lib/pacman/local/evil-1/desc", "var/lib/pacman/local/evil-1/mtree", "var/lib/pacman/local/evil-1/files", "var/db/pkg/app/evil-1/CONTENTS", "var/db/pkg/app/evil-1/LICENSE",
	"opt/conda/conda-meta/evil.json", "opt/bitnami/evil/.spdx-evil.spdx",
	"usr/lib/python3/site-packages/evil.dist-info/METADATA", "usr/lib/python3/site-packages/evil.dist-info/RECORD", "usr/lib/python3/site-packages/evil.dist-info/direct_url.json",
	"usr/lib/python3/site-packages/evil.egg-info", "usr/lib/python3/site-packages/evil.egg-info/PKG-INFO",
	"usr/lib/node_modules/evil/package.json", "app/package-lock.json", "app/yarn.lock", "app/pnpm-lock.yaml", "app/bun.lock", "app/deno.lock",
	"usr/lib/ruby/gems/specifications/evil.gemspec", "app/Gemfile.lock", "app/Cargo.lock", "app/go.mod", "app/go.sum",
	"app/composer.lock", "app/vendor/composer/installed.json", "usr/share/php/.registry/evil.reg", "usr/share/php/.registry/.channel.evil/evil.reg",
	"app/evil.jar", "app/evil.war", "app/evil.zip", "app/evil.tar.gz", "app/pom.xml", "app/gradle.lockfile", "usr/lib/jvm/evil/release",
	"app/evil.deps.json", "app/packages.lock.json", "app/project.assets.json", "app/evil.dll", "app/evil.exe",
	"usr/lib/R/library/evil/DESCRIPTION", "app/evil.rockspec", "app/evil.opam", "app/pack.pl", "app/stack.yaml.lock", "app/cabal.project.freeze",
	"app/mix.lock", "app/rebar.lock", "app/evil.app", "app/pubspec.lock", "app/Podfile.lock", "app/Package.resolved", "app/conan.lock", "app/conaninfo.txt", "app/vcpkg.json",
	"usr/bin/evil", "usr/lib/libevil.so", "lib/modules/5.0/kernel/evil.ko", "boot/vmlinuz-5.0", "usr/share/doc/linux-modules-evil/changelog.Debian.gz",
	"app/evil.spdx.json", "app/evil.spdx", "app/evil.cdx.json", "app/evil.cdx.xml", "app/evil.syft.json", "app/bom.json",
	"app/.terraform.lock.hcl", "app/.github/workflows/evil.yaml", "snap/manifest.yaml", "snap/snapcraft.yaml", "usr/share/snappy/dpkg.yaml",
	"var/www/wp-content/plugins/evil/evil.php", "nix/var/nix/db/db.sqlite", "nix/store/00000000000000000000000000000000-evil-1.drv",
	"app/model.gguf", "app/model.safetensors", "app/requirements.txt", "app/setup.py", "app/poetry.lock", "app/Pipfile.lock", "app/uv.lock", "app/pdm.lock",
	"home/linuxbrew/.linuxbrew/Cellar/evil/1/.brew/evil.rb", "Applications/Evil.app/Contents/Info.plist", "usr/lib/os-release", "etc/evil-release", "etc/redhat-release",
}

// magics are the first bytes of binary formats.
var magics = map[string]string{
	"SQLite":     "SQLite format 3\x00\x10\x00\x01\x01\x00\x40\x20\x20",
	"BerkeleyDB": strings.Repeat("\x00", 12) + "\x61\x15\x06\x00\x09\x00\x00\x00\x00\x10\x00\x00\x00\x08",
	"ndb":        "RpmP\x00\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00",
	"RPM":        "\xed\xab\xee\xdb\x03\x00\x00\x00\x00\xff",
	"ELF":        "\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x03\x00\x3e\x00\x01\x00\x00\x00",
	"PE":         "MZ" + strings.Repeat("\x00", 58) + "\x40\x00\x00\x00PE\x00\x00\x64\x86\xff\xff",
	"Mach-O":     "\xcf\xfa\xed\xfe\x07\x00\x00\x01\x03\x00\x00\x00\x02\x00\x00\x00\xff\xff\xff\xff",
	"Mach-O fat": "\xca\xfe\xba\xbe\xff\xff\xff\xff",
	"zip":        "PK\x03\x04\x14\x00\x00\x00\x08\x00",
	"gzip":       "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03",
	"ar":         "!<arch>\ndebian-binary   0           0     0     100644  4294967295`\n",
	"GGUF":       "GGUF\x03\x00\x00\x00\xff\xff\xff\xff\xff\xff\xff\x7f\xff\xff\xff\xff\xff\xff\xff\x7f",
	"tensors":    "\xff\xff\xff\xff\xff\xff\xff\x7f{",
	"Nix":        "Derive([(",
	"Unicode":    "\xff\xfe{\x00\"\x00",
}

// noise is the same in every run.
func noise(size int) string {
	random, content := rand.NewChaCha8([32]byte{1}), make([]byte, size)
	_, _ = random.Read(content)
	return string(content)
}

// Package databases and lock files that are corrupt: what is sound beside them is found.
func TestHostileDatabases(t *testing.T) {
	contents := map[string]string{
		"empty": "", "zeros": strings.Repeat("\x00", 64<<10), "ones": strings.Repeat("\xff", 64<<10), "noise": noise(64 << 10), "spaces": strings.Repeat(" \n", 200),
		"one long line": strings.Repeat("a", 256<<10), "many lines": strings.Repeat("k: b\n", 200), "many names": strings.Repeat("Package: a\nVersion: 1\nP:a\nV:1\n\n", 200),
		"deep JSON": strings.Repeat(`{"a":[`, 5_000), "deep lists": strings.Repeat("[", 20_000), "deep objects": strings.Repeat("{", 20_000), "deep calls": strings.Repeat("a=(", 5_000),
		"deep XML": "<project>" + strings.Repeat("<a>", 20_000), "XML entities": `<!DOCTYPE a [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]><project><name>&b;</name></project>`,
		"PHP of any size": `s:2147483647:"`,
		"YAML aliases":    "k: &a [x,x,x,x,x,x,x,x,x]\n" + aliases("bcdefghi"), "numbers": `{"lockfileVersion":1e999999999,"packages":[-9223372036854775809,1e-999999999]}`,
		"types":      `{"name":{},"version":[],"packages":"x","dependencies":7,"license":{"type":[]},"author":1,"lockfileVersion":3,"targets":[],"libraries":3,"artifacts":{},"metadata":null}`,
		"surrogates": `{"name":"\ud800","version":"\u0000\u202e","license":"\uffff"}`, "formats": "name = \"%s%n%x\"\nversion = \"${jndi:ldap://evil}\" {{.}} $(reboot) `reboot`\n",
	}
	for name, magic := range magics {
		contents[name] = magic + noise(4<<10)
		contents[name+", only its first bytes"] = magic
	}
	for name, content := range contents {
		t.Run(name, func(t *testing.T) {
			entries := sound()
			for _, path := range databases {
				file := regular(path, content)
				file.Mode = 0o755
				entries = append(entries, file)
			}
			layer := tarOf(t, entries...)
			result, err := runHostile(t, Request{Image: newRegistry(t).push(t, imageOf(t, newRawLayer(layer, layer)))})
			wantSound(t, result, err)
		})
	}
}

// Parsers that give up on a file, or panic, do not take the process with them.
func TestHostileParsers(t *testing.T) {
	for name, test := range map[string]struct{ path, content string }{
		"apk, owner before any file": {"lib/apk/db/installed", "a:0:0:755\n"},
	} {
		t.Run(name, func(t *testing.T) {
			layer := tarOf(t, append(sound(), regular(test.path, test.content))...)
			_, err := runHostile(t, Request{Image: newRegistry(t).push(t, imageOf(t, newRawLayer(layer, layer)))})
			wantFailure(t, err, model.ReasonCatalogFailed, "panic")
		})
	}
}

// aliases makes each key a list of the one before, many times over.
func aliases(keys string) string {
	var out strings.Builder
	for i, key := range keys {
		before := string(key - 1)
		out.WriteString(string(keys[i]) + ": &" + string(key) + " [" + strings.TrimSuffix(strings.Repeat("*"+before+",", 9), ",") + "]\n")
	}
	return out.String()
}
