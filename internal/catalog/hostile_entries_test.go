package catalog

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

func entry(kind byte, name, target string) tarEntry {
	return tarEntry{tar.Header{Typeflag: kind, Name: name, Linkname: target}, ""}
}

// sound is the content of debianTar, entry by entry: what has to be found beside whatever else there is.
func sound() []tarEntry {
	return []tarEntry{
		regular("etc/os-release", "ID=debian\nVERSION_ID=\"11\"\n"),
		regular("var/lib/dpkg/status", "Package: openssl\nStatus: install ok installed\nArchitecture: amd64\nVersion: 1.1.1k-1\nMaintainer: x\n\n"),
	}
}

// wantSound checks that the scan found the sound package beside the hostile ones.
func wantSound(t *testing.T, result *Result, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if got := names(t, result); !slices.Contains(got, wantDebian[0]) {
		t.Errorf("%s is not found among %v", wantDebian[0], got)
	}
}

// Entries that lead somewhere else, or are no files: they change nothing outside, and what is sound is found.
func TestHostileEntries(t *testing.T) {
	outside := t.TempDir()
	evil := filepath.Join(outside, "evil")
	chain := []tarEntry{regular("chain/0", "x")}
	for i := range 10_000 {
		chain = append(chain, entry(tar.TypeSymlink, fmt.Sprintf("chain/%d", i+1), fmt.Sprint(i)))
	}
	members := zipOf(t, map[string]string{
		"../../../../../../../../.." + evil: "x", evil: "x", "a/../../x.jar": "x", "META-INF/maven/g/a/pom.properties": "groupId=g\nartifactId=a\nversion=1\n",
	})
	for name, entries := range map[string][]tarEntry{
		"archives":             {regular("app/evil.jar", members), regular("app/evil.zip", members), regular("app/evil.whl", members)},
		"traversal":            {regular("../../../../../../../.."+evil, "x"), regular("a/../../../../../../../.."+evil, "x"), regular(".//.././/..//"+evil, "x")},
		"absolute names":       {regular(evil, "x"), regular("//"+evil, "x")},
		"through a link":       {entry(tar.TypeSymlink, "out", outside), regular("out/evil", "x"), entry(tar.TypeSymlink, "up", "../../../../.."), regular("up"+evil, "x")},
		"links to outside":     {entry(tar.TypeSymlink, "etc/copy", "/etc/hostname"), entry(tar.TypeLink, "hard", "../../../../../../etc/hostname"), entry(tar.TypeLink, "hard2", "/etc/hostname")},
		"database is a link":   {entry(tar.TypeSymlink, "lib/apk/db/installed", "/proc/self/environ"), entry(tar.TypeSymlink, "var/lib/rpm/Packages", "/dev/zero"), entry(tar.TypeLink, "var/lib/rpm/rpmdb.sqlite", "/dev/zero")},
		"loops":                {entry(tar.TypeSymlink, "loop", "loop"), entry(tar.TypeSymlink, "var/lib/a", "b"), entry(tar.TypeSymlink, "var/lib/b", "a"), entry(tar.TypeSymlink, "deep/deep", "../deep")},
		"link to the root":     {entry(tar.TypeSymlink, "a/root", "/"), entry(tar.TypeSymlink, "b/root", "../a/root/b/root"), entry(tar.TypeSymlink, "usr/lib/node_modules", "/")},
		"chain of links":       chain,
		"pipes and devices":    {entry(tar.TypeFifo, "var/lib/rpm/Packages", ""), {tar.Header{Typeflag: tar.TypeBlock, Name: "dev/sda", Devmajor: 8}, ""}, {tar.Header{Typeflag: tar.TypeChar, Name: "usr/lib/os-release", Devmajor: 1, Devminor: 5}, ""}, entry(tar.TypeFifo, "lib/apk/db/installed", "")},
		"folders for files":    {entry(tar.TypeDir, "lib/apk/db/installed/", ""), entry(tar.TypeDir, "var/lib/rpm/rpmdb.sqlite/", ""), entry(tar.TypeDir, "app/package.json/", ""), entry(tar.TypeDir, "app/a.jar/", "")},
		"whiteouts":            {regular(".wh.", ""), regular(".wh..", ""), regular(".wh...", ""), regular("a/.wh..wh..opq", ""), regular(".wh..wh..plnk/1.2", ""), regular("b/.wh./c", ""), entry(tar.TypeSymlink, ".wh.link", "/")},
		"odd names":            {regular("new\nline\r\x1b[31m", "x"), regular("\xff\xfe\xfd", "x"), regular("\u202egnp.exe", "x"), regular("a\\..\\..\\b", "x"), regular(strings.Repeat("n", 255), "x"), regular("*?[", "x"), regular("{a,b}/**", "x")},
		"odd metadata":         {{tar.Header{Typeflag: tar.TypeReg, Name: "m", Uid: 1 << 40, Gid: 1 << 40, Mode: 0o7777, Uname: strings.Repeat("u", 1000), Format: tar.FormatPAX}, ""}, {tar.Header{Typeflag: 'Z', Name: "unknown type"}, ""}},
		"thousands of records": {{tar.Header{Typeflag: tar.TypeReg, Name: "pax", PAXRecords: records(5000), Format: tar.FormatPAX}, ""}},
	} {
		t.Run(name, func(t *testing.T) {
			content := tarOf(t, append(entries, sound()...)...)
			result, err := runHostile(t, Request{Image: newRegistry(t).push(t, imageOf(t, newRawLayer(content, content)))})
			wantSound(t, result, err)
			if left, err := os.ReadDir(outside); err != nil || len(left) != 0 {
				t.Errorf("written outside of the scratch folder: %v (%v)", left, err)
			}
		})
	}
}

// Entries that contradict each other have no meaning that is worth a guess.
func TestHostileContradictions(t *testing.T) {
	for name, entries := range map[string][]tarEntry{
		"a file that is a folder": {regular("x", "file"), regular("x/y", "below a file"), entry(tar.TypeDir, "x/", "")},
		"a folder that is a link": {entry(tar.TypeDir, "x/", ""), regular("x/y", ""), entry(tar.TypeSymlink, "x", "y"), regular("x/z", "below a link")},
		"no name":                 {regular("", "x")},
		"the name of the root":    {regular(".", "x")},
	} {
		t.Run(name, func(t *testing.T) {
			content := tarOf(t, append(entries, sound()...)...)
			result, err := runHostile(t, Request{Image: newRegistry(t).push(t, imageOf(t, newRawLayer(content, content)))})
			if err == nil {
				wantSound(t, result, err)
				return
			}
			wantFailure(t, err, model.ReasonCatalogFailed, "read the image's layers")
		})
	}
}

func records(count int) map[string]string {
	records := map[string]string{}
	for i := range count {
		records[fmt.Sprintf("EVIL.%d", i)] = "x"
	}
	return records
}

// sparse is the header of a sparse file as old versions of GNU tar write it: it states a size that the archive does not have.
func sparse(t *testing.T, size int64) []byte {
	t.Helper()
	block := tarOf(t, regular("sparse", ""))[:512]
	copy(block[257:], "ustar  \x00")
	block[156] = tar.TypeGNUSparse
	copy(block[124:], "00000000000\x00")
	copy(block[386:], fmt.Sprintf("%011o\x00%011o\x00", size, 0))
	copy(block[483:], fmt.Sprintf("%011o\x00", size))
	checksum(block)
	return append(block, make([]byte, 1024)...)
}

// extended is an extended header of that size.
func extended(t *testing.T, size int) []byte {
	t.Helper()
	content := tarOf(t, regular("x", strings.Repeat("x", size)), regular("y", ""))
	content[156] = tar.TypeXHeader
	checksum(content[:512])
	return content
}

// checksum puts the checksum into the header of an entry.
func checksum(block []byte) {
	copy(block[148:], "        ")
	sum := 0
	for _, b := range block {
		sum += int(b)
	}
	copy(block[148:], fmt.Sprintf("%06o\x00 ", sum))
}

// Archives of more files, longer names or larger files than there may be.
func TestHostileCounts(t *testing.T) {
	deep := make([]tarEntry, 600)
	for i := range deep {
		deep[i] = regular(fmt.Sprintf("%d/%sf", i, strings.Repeat("d/", 2000)), "")
	}
	for name, test := range map[string]struct {
		content []byte
		limits  Limits
		reason  model.Reason
		phrase  string
	}{
		"a million folders by name": {tarOf(t, deep...), Limits{}, model.ReasonImageTooLarge, "1000000 files"},
		"a long name":               {tarOf(t, regular(strings.Repeat("n", maxPathBytes+1), "")), Limits{}, model.ReasonCatalogFailed, "4096"},
		"a long link":               {tarOf(t, entry(tar.TypeSymlink, "l", strings.Repeat("n", maxPathBytes+1))), Limits{}, model.ReasonCatalogFailed, "4096"},
		"a record of 2 MiB":         {extended(t, 2<<20), Limits{}, model.ReasonCatalogFailed, "tar"},
		"a sparse file":             {sparse(t, 1<<32), Limits{DecompressedBytes: 1 << 30}, model.ReasonImageTooLarge, "1073741824 bytes"},
		"size without content":      {tarOf(t, regular("x", strings.Repeat("x", 2000)))[:1024], Limits{}, model.ReasonCatalogFailed, "tar"},
	} {
		t.Run(name, func(t *testing.T) {
			layer := newRawLayer(gzipped(t, test.content), test.content)
			_, err := runHostile(t, Request{Image: newRegistry(t).push(t, imageOf(t, layer)), Limits: test.limits})
			wantFailure(t, err, test.reason, test.phrase)
		})
	}
	t.Run("a million tiny files", func(t *testing.T) {
		layer := millionFiles(t)
		_, err := runHostile(t, Request{Image: newRegistry(t).push(t, imageOf(t, layer))})
		wantFailure(t, err, model.ReasonImageTooLarge, "1000000 files")
	})
}

// millionFiles is a layer of 1,001,000 empty files: 1,000 of them over and over, in as many frames.
func millionFiles(t *testing.T) *rawLayer {
	t.Helper()
	var files []byte
	for i := range 1000 {
		files = append(files, tarOf(t, regular(fmt.Sprintf("app/f%d", i), ""))[:512]...)
	}
	compress := func(content []byte) []byte {
		var out bytes.Buffer
		writer := newZstdWriter(t)(&out)
		if _, err := writer.Write(content); err != nil {
			t.Fatal(err)
		}
		if err := writer.Close(); err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}
	hasher, end := sha256.New(), make([]byte, 1024)
	for range 1001 {
		_, _ = hasher.Write(files)
	}
	_, _ = hasher.Write(end)
	layer := newRawLayer(append(bytes.Repeat(compress(files), 1001), compress(end)...), nil)
	layer.diffID.Hex = fmt.Sprintf("%x", hasher.Sum(nil))
	return layer
}
