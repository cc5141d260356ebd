// Command sampleimages builds the sample images and serves, pushes or writes them.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/scanner-operator/scanner-operator/hack/sampleimages"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "sampleimages:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	serve := flag.String("serve", "", "serve the images on this loopback address, such as 127.0.0.1:5000, until interrupted")
	push := flag.String("push", "", "push the images to this registry, as host or host:port")
	layouts := flag.String("layouts", "", "write an OCI layout of each image into this folder")
	cache := flag.String("cache", "", "folder that built images are kept in (default in the user's cache folder)")
	flag.Parse()

	images, err := sampleimages.Build(ctx, *cache, func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) })
	if err != nil {
		return err
	}
	if *layouts != "" {
		for _, image := range images {
			folder := filepath.Join(*layouts, strings.NewReplacer("/", "_", ":", "_").Replace(image.Reference()))
			if err := image.WriteLayout(folder); err != nil {
				return err
			}
			fmt.Println(folder)
		}
	}
	if *push != "" {
		references, _, err := sampleimages.Push(ctx, *push, images)
		if err != nil {
			return err
		}
		fmt.Println(strings.Join(references, "\n"))
	}
	if *serve != "" {
		server, err := sampleimages.Serve(ctx, *serve, images)
		if err != nil {
			return err
		}
		fmt.Println(strings.Join(server.References, "\n"))
		<-ctx.Done()
		return server.Close()
	}
	return nil
}
