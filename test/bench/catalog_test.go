package bench

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"sync"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/scanner-operator/scanner-operator/hack/sampleimages"
	"github.com/scanner-operator/scanner-operator/test/grypecmd"
)

var syftPrograms = sync.OnceValues(func() (string, error) {
	return grypecmd.Programs("syftcli", grypecmd.Syft)
})

// BenchmarkCatalog generates the SBOM of sample images: with our command from the root file system, as a scan with an image volume does, and
// with the syft command from an OCI layout, which is the same image without the time of a pull.
func BenchmarkCatalog(b *testing.B) {
	dir, err := syftPrograms()
	if err != nil {
		b.Fatal(err)
	}
	images, err := sampleimages.Build(b.Context(), "", b.Logf)
	if err != nil {
		b.Fatal(err)
	}
	program := buildOurCommand(b)
	for _, image := range images {
		if image.Index != nil {
			continue
		}
		b.Run(path.Base(image.Name), func(b *testing.B) {
			root, layout, home := b.TempDir(), filepath.Join(b.TempDir(), "layout"), b.TempDir()
			if err := errors.Join(extract(root, image.Image), image.WriteLayout(layout)); err != nil {
				b.Fatal(err)
			}
			config, err := image.Image.ConfigFile()
			if err != nil {
				b.Fatal(err)
			}
			platform := config.OS + "/" + config.Architecture
			command := func(name string, arguments ...string) func() *exec.Cmd {
				return func() *exec.Cmd {
					cmd := exec.CommandContext(b.Context(), name, arguments...)
					cmd.Dir, cmd.Env = home, []string{"HOME=" + home, "TMPDIR=" + home, "SYFT_CHECK_FOR_APP_UPDATE=false"}
					return cmd
				}
			}
			ours := median(b, command(program, "catalog", image.Name, "--rootfs="+root, "--platform="+platform, "--file="+filepath.Join(home, "ours.json")), nil)
			theirs := median(b, command(filepath.Join(dir, "syft"), "scan", "oci-dir:"+layout, "-q", "-o", "syft-json="+filepath.Join(home, "theirs.json")), nil)
			against := fmt.Sprintf("syft: %s wall, %s CPU, %.0f MiB", seconds(theirs.Wall), seconds(theirs.CPU), mebibytes(theirs.Peak))
			table.add(b, row{"catalog one image from its root file system", path.Base(image.Name), ours, against, theirs.Wall.Seconds() / ours.Wall.Seconds()})
		})
	}
}

// extract writes the root file system of an image into a directory, without devices.
func extract(folder string, image v1.Image) error {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer root.Close()
	content := mutate.Extract(image)
	defer content.Close()
	for reader := tar.NewReader(content); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = extractEntry(root, header, reader)
		}
		if err != nil {
			return err
		}
	}
}

func extractEntry(root *os.Root, header *tar.Header, content io.Reader) error {
	name := "." + path.Clean("/"+header.Name)
	if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	switch header.Typeflag {
	case tar.TypeDir:
		return root.MkdirAll(name, 0o755)
	case tar.TypeSymlink:
		return root.Symlink(header.Linkname, name)
	case tar.TypeLink:
		return root.Link("."+path.Clean("/"+header.Linkname), name)
	case tar.TypeReg:
		file, err := root.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, header.FileInfo().Mode().Perm()|0o600)
		if err != nil {
			return err
		}
		_, err = io.Copy(file, content)
		return errors.Join(err, file.Close())
	}
	return nil
}
