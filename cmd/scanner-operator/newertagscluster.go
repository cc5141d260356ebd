package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/scanner-operator/scanner-operator/internal/candidates"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/server/api"
	"github.com/scanner-operator/scanner-operator/internal/vex"
)

// Bounds of the images that run and are compared.
const (
	defaultClusterImages = 20
	maxClusterImages     = 100
)

// runCluster compares the images that run.
func (o *newerTagsOptions) runCluster(ctx context.Context, statements *vex.Set, stdout, stderr io.Writer) error {
	namespace, err := o.cluster.Namespace()
	if err != nil {
		return err
	}
	cluster, err := o.cluster.Connect(ctx, o.database.caFile)
	if err != nil {
		return err
	}
	defer cluster.Close()
	containers, err := cluster.Containers(ctx, namespace)
	if err != nil {
		return fmt.Errorf("read what runs: %w", err)
	}
	all := &clusterTags{Images: imagesOf(containers, o.platform), listOnly: o.listOnly}
	all.bound(o.maxImages)
	if err := o.compareAll(ctx, all, statements, stderr); err != nil {
		return err
	}
	all.order()
	if o.output == outputJSON {
		err = writeJSON(stdout, all)
	} else {
		err = all.write(stdout)
	}
	return errors.Join(err, all.result())
}

// imagesOf returns the distinct images of containers: the reference, the image ID that runs, and the platform. Those of the most workloads are first.
func imagesOf(containers []api.ContainerCoverage, platform string) []*clusterImage {
	type key struct{ reference, imageID, platform string }
	found := map[key]*clusterImage{}
	for i := range containers {
		c := &containers[i]
		k := key{c.Reference, c.ImageId, cmp.Or(platform, c.Platform)}
		image := found[k]
		if image == nil {
			image = &clusterImage{Reference: k.reference, ImageID: k.imageID, Platform: k.platform}
			image.read()
			found[k] = image
		}
		image.Workloads = append(image.Workloads, clusterWorkload{c.Workload.Namespace, c.Workload.Kind, c.Workload.Name})
	}
	images := slices.Collect(maps.Values(found))
	for _, image := range images {
		slices.SortFunc(image.Workloads, clusterWorkload.compare)
		image.Workloads = slices.Compact(image.Workloads)
	}
	slices.SortFunc(images, func(a, b *clusterImage) int {
		return cmp.Or(cmp.Compare(len(b.Workloads), len(a.Workloads)), a.compare(b))
	})
	return images
}

// read parses the reference. Container references are those that a tenant wrote.
func (c *clusterImage) read() {
	base, pinned, _ := strings.Cut(c.Reference, "@")
	if strings.LastIndexByte(base, ':') <= strings.LastIndexByte(base, '/') {
		c.State, c.Message = clusterNoVersion, "the reference has no tag"
		return
	}
	tag, err := name.NewTag(base)
	if err != nil {
		c.State, c.Message = clusterNotScanned, "the image reference: "+printableText(err.Error())
		return
	}
	repository, digest, found := strings.Cut(c.ImageID, "@")
	if !found {
		digest = pinned
	}
	// The node decides which registry a reference without one means.
	if host, _, slash := strings.Cut(base, "/"); found && (!slash || !strings.ContainsAny(host, ".:") && host != "localhost") {
		if resolved, err := name.NewRepository(repository); err == nil {
			tag = resolved.Tag(tag.TagStr())
		}
	}
	c.tag = tag
	if choice := candidates.Choose(tag.TagStr(), nil, 1); choice.Reason == candidates.ReasonNoVersion {
		c.State, c.Message = clusterNoVersion, choice.Message
		return
	}
	if digest == "" {
		return
	}
	current := tag.Context().Digest(digest)
	if _, err := name.NewDigest(current.Name()); err == nil {
		c.current = current
	}
}

// bound leaves out images beyond a number. Those without a version are not counted, since nothing is asked about them.
func (a *clusterTags) bound(limit int) {
	for _, image := range a.Images {
		switch {
		case image.State != "":
		case limit == 0:
			image.State, image.Message = clusterLeftOut, "more images run than --max-images permits"
		default:
			limit--
		}
	}
}

// compareAll compares one image after the other, those of one repository together.
func (o *newerTagsOptions) compareAll(ctx context.Context, all *clusterTags, statements *vex.Set, stderr io.Writer) (err error) {
	slices.SortFunc(all.Images, (*clusterImage).compare)
	var scans *scanCache
	defer func() {
		if scans != nil {
			err = errors.Join(err, scans.scanner.close())
		}
	}()
	for _, image := range all.Images {
		if image.State != "" {
			continue
		}
		if limited := o.asked.limited[image.tag.Context().RegistryStr()]; limited != nil {
			image.State, image.Message = clusterRateLimited, "not asked, because the registry limits requests: "+limited.Error()
			continue
		}
		found := &newerTags{Repository: image.tag.Context().Name(), Tag: image.tag.TagStr(), Candidates: []newerTag{}, listOnly: o.listOnly}
		image.Found = found
		if err := o.choose(ctx, image.tag, found, stderr); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			image.fail(clusterNotListed, o.asked.limited, err)
			continue
		}
		switch {
		case len(found.Candidates) == 0 && found.Incomplete != "":
			image.State, image.Message = clusterNotListed, "the list of tags is incomplete ("+found.Incomplete+"), and none of the listed tags is newer"
			continue
		case len(found.Candidates) == 0:
			image.State, image.Message = clusterNewest, found.Message
			continue
		case o.listOnly:
			image.State = clusterListed
			continue
		case image.current == nil:
			image.State, image.Message = clusterNotScanned, "the digest that runs is not known"
			continue
		}
		if scans == nil {
			scanner, err := o.open(ctx, stderr)
			if err != nil {
				return err
			}
			all.Database = &scanner.installed.Build
			scans = &scanCache{scanner: scanner, statements: statements, known: map[scanKey]*localScan{}}
			_, _ = fmt.Fprintln(stderr, "Images are scanned on this machine: exceptions of the cluster do not apply to them.")
		}
		err := o.compareOne(ctx, image, scans)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			image.fail(clusterNotScanned, o.asked.limited, err)
		default:
			image.conclude(o.asked.limited)
		}
	}
	return nil
}

func (o *newerTagsOptions) compareOne(ctx context.Context, image *clusterImage, scans *scanCache) (err error) {
	o.request.Platform = model.Platform{}
	if image.Platform != "" {
		if o.request.Platform, err = model.ParsePlatform(image.Platform); err != nil {
			return err
		}
	}
	return o.compare(ctx, image.tag, image.current, scans, image.Found)
}
