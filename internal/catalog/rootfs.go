package catalog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/anchore/stereoscope/pkg/file"
	"github.com/anchore/stereoscope/pkg/filetree"
	"github.com/anchore/stereoscope/pkg/image"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

// rootFS is the root file system of an image in a directory, as the kubelet mounts it. Links are resolved within the directory as they
// are in a container that runs the image, and the operating system keeps the files that are opened within it (os.Root). Nothing is copied.
type rootFS struct {
	root     *os.Root
	platform model.Platform
	limits   Limits
	// files and bytes are what was found so far.
	files, bytes int64
	// unreadable are the files and directories that could not be read and may hold packages.
	unreadable misses
	// hardLinks holds the first path of each regular file that has several.
	hardLinks map[inode]string
}

// misses are paths that could not be read, each once. Catalogers read at the same time.
type misses struct {
	mu    sync.Mutex
	paths map[string]struct{}
}

func (m *misses) add(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.paths == nil {
		m.paths = map[string]struct{}{}
	}
	m.paths[name] = struct{}{}
}

func (m *misses) count() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return int64(len(m.paths))
}

// holdNoPackages are directories that only root or a user of the distribution may read in the images of most distributions: caches of the
// dynamic linker, and incomplete downloads of apt. Installed packages are never there.
var holdNoPackages = map[string]bool{"var/cache/ldconfig": true, "var/cache/apt/archives/partial": true, "var/lib/apt/lists/partial": true}

// inode identifies a file of a file system.
type inode struct{ device, number uint64 }

// openRootFS opens the directory. The caller must close it.
func openRootFS(folder string, platform model.Platform, limits Limits) (*rootFS, error) {
	if platform == (model.Platform{}) {
		return nil, failf(model.ReasonCatalogFailed, "the platform of the image in %s is required; specify --platform", folder)
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, failf(model.ReasonCatalogFailed, "open the root file system %s: %w", folder, withoutPath(err))
	}
	return &rootFS{root: root, platform: platform, limits: limits, hardLinks: map[inode]string{}}, nil
}

func (r *rootFS) close() { _ = r.root.Close() }

// read returns the tree as an image of one layer without a digest, in the form that Syft reads images in.
func (r *rootFS) read(ctx context.Context) (*image.Image, error) {
	tree, catalog := filetree.New(), image.NewFileCatalog()
	layer := &image.Layer{Tree: tree, SquashedTree: tree}
	b := rootFSBuilder{rootFS: r, catalog: catalog, tree: filetree.NewBuilder(tree, catalog.Index), layer: layer}
	if err := b.walk(ctx); err != nil {
		return nil, err
	}
	search := filetree.NewSearchContext(tree, catalog)
	layer.Metadata.Size, layer.SearchContext, layer.SquashedSearchContext = r.bytes, search, search
	img := &image.Image{Layers: []*image.Layer{layer}, FileCatalog: catalog, SquashedSearchContext: search}
	img.Metadata.Size = r.bytes
	img.Metadata.OS, img.Metadata.Architecture, img.Metadata.Variant = r.platform.OS, r.platform.Architecture, r.platform.Variant
	return img, nil
}

// rootFSBuilder adds the files of a root file system to a tree and its catalog.
type rootFSBuilder struct {
	*rootFS
	catalog *image.FileCatalog
	tree    *filetree.Builder
	layer   *image.Layer
}

// walk visits all directories, parents first and names in order, as the archives of layers have them.
func (b *rootFSBuilder) walk(ctx context.Context) error {
	directories := []string{"."}
	for len(directories) > 0 {
		last := len(directories) - 1
		directory := directories[last]
		children, err := b.directory(ctx, directory)
		if err != nil {
			return err
		}
		slices.Reverse(children)
		directories = append(directories[:last], children...)
	}
	return nil
}

// directory adds the entries of a directory and returns those that are directories.
func (b *rootFSBuilder) directory(ctx context.Context, name string) (directories []string, err error) {
	root, err := b.root.OpenRoot(name)
	if errors.Is(err, fs.ErrPermission) && holdNoPackages[name] {
		return nil, nil
	}
	if err != nil {
		return nil, b.skip(name, err)
	}
	defer func() { _ = root.Close() }()
	entries, err := b.entries(ctx, root, name)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		child := path.Join(name, entry.Name())
		if len(child) > maxPathBytes {
			return nil, failf(model.ReasonCatalogFailed, "a path has %d bytes, more than the limit of %d", len(child), maxPathBytes)
		}
		info, err := root.Lstat(entry.Name())
		if err != nil {
			if err := b.skip(child, err); err != nil {
				return nil, err
			}
			continue
		}
		if err := b.add(root, child, info); err != nil {
			return nil, err
		}
		if info.IsDir() {
			directories = append(directories, child)
		}
	}
	return directories, nil
}

// entriesAtATime is how many entries of a directory are read before the limits are checked.
const entriesAtATime = 1024

// entries returns the entries of a directory, sorted by name.
func (b *rootFSBuilder) entries(ctx context.Context, root *os.Root, name string) ([]fs.DirEntry, error) {
	directory, err := root.Open(".")
	if err != nil {
		return nil, b.skip(name, err)
	}
	defer func() { _ = directory.Close() }()
	var all []fs.DirEntry
	for {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		entries, err := directory.ReadDir(entriesAtATime)
		all = append(all, entries...)
		b.files += int64(len(entries))
		if b.files > b.limits.Files {
			return nil, failf(model.ReasonImageTooLarge, "the image has more files than the limit of %d", b.limits.Files)
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			if err := b.skip(name, err); err != nil {
				return nil, err
			}
			break
		}
	}
	slices.SortFunc(all, func(x, y fs.DirEntry) int { return cmp.Compare(x.Name(), y.Name()) })
	return all, nil
}

// add adds a directory, a link or a regular file. Devices, pipes and sockets hold nothing that is cataloged; opening them may block.
func (b *rootFSBuilder) add(parent *os.Root, name string, info fs.FileInfo) error {
	metadata := file.Metadata{FileInfo: info, Path: "/" + name, Type: file.TypeFromMode(info.Mode())}
	stat, _ := info.Sys().(*syscall.Stat_t)
	if stat != nil {
		metadata.UserID, metadata.GroupID = int(stat.Uid), int(stat.Gid)
	}
	switch {
	case info.IsDir():
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := parent.Readlink(info.Name())
		if err != nil {
			return b.skip(name, err)
		}
		metadata.LinkDestination = target
	case info.Mode().IsRegular():
		if stat != nil && stat.Nlink > 1 {
			id := inode{uint64(stat.Dev), stat.Ino} //nolint:unconvert // its type depends on the platform
			if first, found := b.hardLinks[id]; found {
				metadata.Type, metadata.LinkDestination = file.TypeHardLink, first
				break
			}
			b.hardLinks[id] = metadata.Path
		}
		if err := b.regular(parent, &metadata); err != nil {
			return err
		}
	default:
		return nil
	}
	reference, err := b.tree.Add(metadata)
	if err != nil {
		return fmt.Errorf("add %s to the tree of files: %w", quoteText(metadata.Path, 100), err)
	}
	b.catalog.Add(*reference, metadata, b.layer, func() (io.ReadCloser, error) { return b.content(name) })
	return nil
}

// content opens a regular file for a cataloger. One that it needs and cannot read is missed.
func (r *rootFS) content(name string) (io.ReadCloser, error) {
	content, err := openRegular(r.root, name)
	if err != nil {
		r.unreadable.add(name)
		return nil, err
	}
	return content, nil
}

// openRegular opens a regular file. What was one when it was listed may be a pipe now, for whose other end an open file would wait.
func openRegular(root *os.Root, name string) (*os.File, error) {
	content, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := content.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: name, Err: errNotRegular}
	}
	if err != nil {
		_ = content.Close()
		return nil, err
	}
	return content, nil
}

// errNotRegular says that a file is no regular file any longer.
var errNotRegular = errors.New("not a regular file")

// regular counts a regular file and finds its MIME type.
func (b *rootFSBuilder) regular(parent *os.Root, metadata *file.Metadata) error {
	if b.bytes += metadata.Size(); b.bytes > b.limits.DecompressedBytes {
		return failf(model.ReasonImageTooLarge, "the files of the image have more bytes than the limit of %d", b.limits.DecompressedBytes)
	}
	content, err := openRegular(parent, metadata.Name())
	if errors.Is(err, fs.ErrPermission) && !program(metadata) {
		// Catalogers look for it by its name, if at all: content notes that they miss it. /etc/shadow is one that none needs.
		return nil
	}
	if err != nil {
		return b.skip(metadata.Path[1:], err)
	}
	defer func() { _ = content.Close() }()
	metadata.MIMEType = file.MIMEType(content)
	return nil
}

// program reports whether a file may be an executable or a library, which catalogers find by their content.
func program(metadata *file.Metadata) bool {
	return metadata.Mode().Perm()&0o111 != 0 || strings.Contains(metadata.Name(), ".so")
}

// skip notes what may not be read, or is not what it was when it was listed, which makes the result partial. Any other error ends the scan.
func (b *rootFSBuilder) skip(name string, err error) error {
	for _, expected := range []error{fs.ErrPermission, fs.ErrNotExist, syscall.ENOTDIR, syscall.ELOOP, errNotRegular} {
		if errors.Is(err, expected) {
			b.unreadable.add(name)
			return nil
		}
	}
	return fmt.Errorf("read the root file system: %w", err)
}
