package catalog

import (
	"archive/tar"
	"bytes"
	"database/sql"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// unpack writes the root file system of an image into a directory, as a container runtime does: layer by layer, the whiteouts of a layer
// first. What only root may create is left out.
func unpack(t *testing.T, image v1.Image) string {
	t.Helper()
	folder := t.TempDir()
	layers, err := image.Layers()
	if err != nil {
		t.Fatal(err)
	}
	for _, layer := range layers {
		for _, whiteouts := range []bool{true, false} {
			if err := unpackLayer(folder, layer, whiteouts); err != nil {
				t.Fatal(err)
			}
		}
	}
	return folder
}

// unpackLayer applies the whiteouts of a layer to a directory, or adds its other entries.
func unpackLayer(folder string, layer v1.Layer, whiteouts bool) error {
	content, err := layer.Uncompressed()
	if err != nil {
		return err
	}
	defer content.Close()
	for reader := tar.NewReader(content); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		parent, name := path.Split(path.Clean("/" + header.Name))
		removed, whiteout := strings.CutPrefix(name, ".wh.")
		switch {
		case whiteout != whiteouts:
		case name == ".wh..wh..opq":
			err = emptied(filepath.Join(folder, parent))
		case whiteout:
			err = os.RemoveAll(filepath.Join(folder, parent, removed))
		default:
			err = writeEntry(folder, header, reader)
		}
		if err != nil {
			return err
		}
	}
}

// emptied removes what is in a directory.
func emptied(folder string) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(folder, entry.Name())))
	}
	return err
}

// writeEntry replaces what is in its place, except a directory by a directory. Parents may be links within the directory.
func writeEntry(folder string, header *tar.Header, content io.Reader) error {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer root.Close()
	target := "." + path.Clean("/"+header.Name)
	if err := root.MkdirAll(path.Dir(target), 0o755); err != nil {
		return err
	}
	before, err := root.Lstat(target)
	if err == nil && (!before.IsDir() || header.Typeflag != tar.TypeDir) {
		if err := root.RemoveAll(target); err != nil {
			return err
		}
	}
	switch header.Typeflag {
	case tar.TypeDir:
		return root.MkdirAll(target, 0o755)
	case tar.TypeSymlink:
		return root.Symlink(header.Linkname, target)
	case tar.TypeLink:
		return root.Link("."+path.Clean("/"+header.Linkname), target)
	case tar.TypeFifo:
		return syscall.Mkfifo(filepath.Join(folder, target), 0o644)
	case tar.TypeReg:
		f, err := root.Create(target)
		if err != nil {
			return err
		}
		_, err = io.Copy(f, content)
		return errors.Join(err, f.Close())
	}
	return nil
}

// rpmDatabase is a database of RPM with packages of these names, as the rpmdb.sqlite of Fedora has it.
func rpmDatabase(t *testing.T, names ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "rpmdb.sqlite")
	db, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.ExecContext(t.Context(), "CREATE TABLE Packages (hnum INTEGER PRIMARY KEY AUTOINCREMENT, blob BLOB NOT NULL)")
	for _, name := range names {
		if err == nil {
			_, err = db.ExecContext(t.Context(), "INSERT INTO Packages (blob) VALUES (?)", rpmHeader(name))
		}
	}
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// rpmHeader is the header of a package: the numbers of its entries and bytes, the entries, and their texts.
func rpmHeader(name string) []byte {
	const text = 6
	var entries, values bytes.Buffer
	for _, tag := range []struct {
		id    int32
		value string
	}{{1000, name}, {1001, "1.0"}, {1002, "2.fc41"}, {1011, "Fedora Project"}, {1014, "MIT"}, {1022, "x86_64"}, {1044, name + "-1.0-2.fc41.src.rpm"}} {
		_ = binary.Write(&entries, binary.BigEndian, [4]int32{tag.id, text, int32(values.Len()), 1}) //nolint:gosec // small
		values.WriteString(tag.value + "\x00")
	}
	var header bytes.Buffer
	_ = binary.Write(&header, binary.BigEndian, [2]int32{int32(entries.Len() / 16), int32(values.Len())}) //nolint:gosec // small
	header.Write(entries.Bytes())
	header.Write(values.Bytes())
	return header.Bytes()
}
