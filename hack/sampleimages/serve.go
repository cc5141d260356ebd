package sampleimages

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// Server is a registry in this process.
type Server struct {
	// Addr is host:port.
	Addr string
	// References are "host:port/name@digest" in the order of the images that were given; Tagged "host:port/name:tag".
	References, Tagged []string
	server             *http.Server
}

// Close ends the registry.
func (s *Server) Close() error { return s.server.Close() }

// Serve starts a registry with the images in it, in memory. addr is host:port on loopback, with port 0 for any. It ends
// with ctx or Close.
func Serve(ctx context.Context, addr string, images []Image) (*Server, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("the address %q is not host:port: %w", addr, err)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, fmt.Errorf("the sample registry has no access control and serves on loopback alone, not on %q", host)
	}
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("start the sample registry: %w", err)
	}
	handler := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := &Server{Addr: listener.Addr().String(), server: &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}}
	go func() { _ = server.server.Serve(listener) }()
	context.AfterFunc(ctx, func() { _ = server.server.Close() })
	server.References, server.Tagged, err = Push(ctx, server.Addr, images)
	if err != nil {
		_ = server.Close()
		return nil, err
	}
	return server, nil
}

// Push copies the images to a registry (host or host:port) and returns their references there, by digest and by tag.
// A registry on loopback may speak plain HTTP.
func Push(ctx context.Context, registryHost string, images []Image) (references, tagged []string, err error) {
	for _, image := range images {
		tag, err := name.NewTag(registryHost + "/" + image.Reference())
		if err != nil {
			return nil, nil, err
		}
		if image.Index != nil {
			err = remote.WriteIndex(tag, image.Index, remote.WithContext(ctx))
		} else {
			err = remote.Write(tag, image.Image, remote.WithContext(ctx))
		}
		if err != nil {
			return nil, nil, fmt.Errorf("push %s: %w", image.Reference(), err)
		}
		digest, err := image.Digest()
		if err != nil {
			return nil, nil, err
		}
		references = append(references, tag.Context().Name()+"@"+digest.String())
		tagged = append(tagged, tag.Name())
	}
	return references, tagged, nil
}

// WriteLayout writes an OCI layout folder with the image or index.
func (i Image) WriteLayout(folder string) error {
	return writeLayout(folder, built{image: i.Image, index: i.Index})
}

// WriteDockerArchive writes what `docker save` writes. An index has no such form.
func (i Image) WriteDockerArchive(file string) error {
	if i.Image == nil {
		return fmt.Errorf("%s is an index, which a docker archive cannot hold", i.Reference())
	}
	tag, err := name.NewTag(i.Reference())
	if err != nil {
		return err
	}
	return tarball.WriteToFile(file, tag, i.Image)
}

// WriteOCIArchive writes an OCI layout as a tar archive, with the "./" in front of names that tar gives them.
func (i Image) WriteOCIArchive(file string) (err error) {
	folder, err := os.MkdirTemp(filepath.Dir(file), "layout-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	if err := i.WriteLayout(folder); err != nil {
		return err
	}
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	writer := tar.NewWriter(out)
	err = filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		relative, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		header := &tar.Header{Typeflag: tar.TypeReg, Name: "./" + filepath.ToSlash(relative), Mode: 0o644, Size: int64(len(content)), ModTime: buildTime}
		if err := writer.WriteHeader(header); err != nil {
			return err
		}
		_, err = writer.Write(content)
		return err
	})
	return errors.Join(err, writer.Close())
}
