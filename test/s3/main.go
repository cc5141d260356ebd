// Command s3 is a server with the interface of Amazon S3 for tests: it verifies signatures of version 4 and keeps everything in memory. It ends with its standard
// input.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/rclone/gofakes3"
	"github.com/rclone/gofakes3/s3mem"
)

func main() {
	id := flag.String("access-key-id", "", "ID of the access key")
	secret := flag.String("secret-access-key", "", "Secret access key")
	buckets := flag.String("buckets", "", "Buckets to create, separated by commas")
	flag.Parse()
	if err := run(*id, *secret, strings.Split(*buckets, ",")); err != nil {
		fmt.Fprintln(os.Stderr, "s3:", err)
		os.Exit(1)
	}
}

func run(id, secret string, buckets []string) error {
	backend := s3mem.New()
	for _, bucket := range buckets {
		if err := backend.CreateBucket(context.Background(), bucket); err != nil {
			return err
		}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{
		Handler: gofakes3.New(backend, gofakes3.WithV4Auth(map[string]string{id: secret})).Server(), ReadHeaderTimeout: 10 * time.Second,
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		_ = server.Close()
	}()
	if err := json.NewEncoder(os.Stdout).Encode(map[string]string{"url": "http://" + listener.Addr().String()}); err != nil {
		return err
	}
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
