package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// TestWriteArchive packs the same files in another order at another time.
func TestWriteArchive(t *testing.T) {
	at := time.Unix(1700000000, 0)
	entries := []entry{{"b", 0o755, []byte("two")}, {"a", 0o644, []byte("one")}, {"c/d", 0o644, nil}}
	reversed := slices.Clone(entries)
	slices.Reverse(reversed)
	var written [2][]byte
	for i, list := range [][]entry{entries, reversed} {
		path := filepath.Join(t.TempDir(), "archive.tar.gz")
		if err := writeArchive(path, list, at.In(time.FixedZone("", i*3600))); err != nil {
			t.Fatal(err)
		}
		var err error
		if written[i], err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(written[0], written[1]) {
		t.Error("the archives differ")
	}
	compressed, err := gzip.NewReader(bytes.NewReader(written[0]))
	if err != nil {
		t.Fatal(err)
	}
	if h := compressed.Header; h.Name != "" || h.Comment != "" || !h.ModTime.IsZero() {
		t.Errorf("gzip has a name or a time: %+v", h)
	}
	r := tar.NewReader(compressed)
	for _, want := range []string{"a", "b", "c/d"} {
		header, err := r.Next()
		if err != nil || header.Name != want || !header.ModTime.Equal(at) || header.Uid != 0 || header.Uname != "" {
			t.Fatalf("got %+v, %v, want %s", header, err, want)
		}
	}
	read, err := readArchive(bytes.NewReader(written[0]))
	if err != nil || len(read) != 3 || read[1].mode != 0o755 || string(read[1].content) != "two" {
		t.Errorf("read %+v, %v", read, err)
	}
}

func TestChecksums(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"b", "a"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := writeChecksums(dir); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(dir, checksums))
	want := "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb  a\n" +
		"3e23e8160039594a33894f6564e1b1348bbd7a0088d42c4acb73eeaed59c009d  b\n"
	if err != nil || string(got) != want {
		t.Errorf("got %q, %v", got, err)
	}
}

// TestSetImage uses the values of the chart: an image that was not replaced would leave the chart of a release without one.
func TestSetImage(t *testing.T) {
	values, err := os.ReadFile("../../charts/scanner-operator/values.yaml")
	must(t, err)
	path := filepath.Join(t.TempDir(), "values.yaml")
	must(t, os.WriteFile(path, values, 0o600))
	must(t, setImage(path, "registry.example.com/security/scanner-operator"))
	set, err := os.ReadFile(path)
	must(t, err)
	if !bytes.Contains(set, []byte("\n  registry: registry.example.com\n  repository: security/scanner-operator\n")) {
		t.Errorf("the values do not name the image: %s", set[:min(len(set), 600)])
	}
	if err := setImage(path, "another.example.com/image"); err == nil {
		t.Error("an image that is set already is replaced")
	}
}
