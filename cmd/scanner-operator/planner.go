package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/scanner-operator/scanner-operator/internal/advice"
	"github.com/scanner-operator/scanner-operator/internal/manifest"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/plugin"
	"github.com/scanner-operator/scanner-operator/internal/server/api"
)

// maxLocalScans bounds the images of one plan that are scanned on this machine.
const maxLocalScans = 100

// planner compares what manifests run with what a cluster runs.
type planner struct {
	cluster  *plugin.Cluster
	platform string
	stderr   io.Writer
	// open opens the vulnerability database when the first image is scanned on this machine.
	open    func(ctx context.Context) (*sourceScanner, error)
	scanner *sourceScanner
	scanned map[scanKey]*localScan
	// running are the containers of the namespaces of the manifests.
	running map[runningKey][]api.ContainerCoverage
	// platforms are those of containers that run.
	platforms map[string]bool
	// tags are images that run, by image reference and platform.
	tags map[scanKey]string
}

type runningKey struct{ namespace, kind, name, container string }

// scanKey is an image reference for a platform; "" is any.
type scanKey struct{ reference, platform string }

// localScan is the result of a scan on this machine.
type localScan struct {
	imageID, platform string
	findings          []model.Finding
	err               error
}

func (p *planner) close() error {
	if p.scanner == nil {
		return nil
	}
	return p.scanner.close()
}

// plan compares each container of the workloads.
func (p *planner) plan(ctx context.Context, workloads []manifest.Workload) (*planned, error) {
	if err := p.observe(ctx, workloads); err != nil {
		return nil, err
	}
	all := &planned{Containers: []plannedContainer{}}
	for i := range workloads {
		w := &workloads[i]
		for _, c := range w.Containers {
			one := plannedContainer{Namespace: w.Namespace, Kind: w.Kind, Name: w.Name, Container: c.Name, To: c.Image}
			err := p.compare(ctx, &one)
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			if err != nil {
				one.State, one.Error = planFailed, err.Error()
			}
			all.Containers = append(all.Containers, one)
		}
	}
	return all, nil
}

// observe reads what runs in the namespaces of the workloads.
func (p *planner) observe(ctx context.Context, workloads []manifest.Workload) error {
	p.running, p.tags, p.platforms = map[runningKey][]api.ContainerCoverage{}, map[scanKey]string{}, map[string]bool{}
	var namespaces []string
	for i := range workloads {
		namespaces = append(namespaces, workloads[i].Namespace)
	}
	slices.Sort(namespaces)
	for _, namespace := range slices.Compact(namespaces) {
		containers, err := p.cluster.Containers(ctx, namespace)
		if err != nil {
			return fmt.Errorf("read what runs in the namespace %s: %w", cell(namespace), err)
		}
		for _, c := range containers {
			key := runningKey{c.Workload.Namespace, c.Workload.Kind, c.Workload.Name, c.Container}
			p.running[key] = append(p.running[key], c)
			if c.Platform != "" {
				p.platforms[c.Platform] = true
			}
			if c.ImageId != "" && c.State == api.CoverageStateScanned {
				p.tags[scanKey{c.Reference, ""}], p.tags[scanKey{c.Reference, c.Platform}] = c.ImageId, c.ImageId
			}
		}
	}
	return nil
}

// compare compares a container with the one that runs: of several, with that of the most pods.
func (p *planner) compare(ctx context.Context, one *plannedContainer) error {
	var now *api.ContainerCoverage
	candidates := p.running[runningKey{one.Namespace, one.Kind, one.Name, one.Container}]
	for i := range candidates {
		if now == nil || candidates[i].Pods > now.Pods {
			now = &candidates[i]
		}
	}
	platform := p.platform
	if now == nil {
		one.State = planNew
		if platform == "" && len(p.platforms) == 1 {
			platform = slices.Collect(maps.Keys(p.platforms))[0]
		}
	} else {
		one.State, one.From, one.FromImageID = planCompared, now.Reference, now.ImageId
		if platform == "" {
			platform = now.Platform
		}
	}
	if one.From == one.To {
		one.State = planUnchanged
		return nil
	}
	if now != nil && now.State != api.CoverageStateScanned && now.State != api.CoverageStatePartial && now.State != api.CoverageStateStale {
		return fmt.Errorf("the image that runs is not scanned: %s %s", now.State, orText(now.Reason))
	}
	known, err := p.find(ctx, one.To, platform)
	if err != nil {
		return err
	}
	one.ToImageID = known
	if known != "" && now != nil {
		compared, done, err := p.compareThere(ctx, one.FromImageID, known, platform)
		if err != nil {
			return err
		}
		if done {
			one.set(compared)
			return nil
		}
	}
	var before, after []model.Finding
	if now != nil {
		if before, err = p.cluster.Findings(ctx, one.FromImageID, platform); err != nil {
			return err
		}
	}
	if known != "" {
		after, err = p.cluster.Findings(ctx, known, platform)
	} else {
		after, err = p.scan(ctx, one, platform)
	}
	if err != nil {
		return err
	}
	one.set(advice.Compare(before, after))
	return nil
}

func (c *plannedContainer) set(compared advice.Comparison) {
	output := outputOf(compared)
	c.compared, c.changesOutput = compared, &output
}

func orText(reason *string) string {
	if reason == nil {
		return ""
	}
	return cell(*reason)
}

// find returns the ID of an image that the operator has scanned, "" if it knows none.
func (p *planner) find(ctx context.Context, reference, platform string) (string, error) {
	_, digest, found := strings.Cut(reference, "@")
	if !found {
		return p.tags[scanKey{reference, platform}], nil
	}
	images, err := p.cluster.ImagesWithDigest(ctx, digest)
	if err != nil {
		return "", err
	}
	for i := range images {
		if strings.HasSuffix(images[i].ImageId, "@"+digest) && (platform == "" || images[i].Platform == platform) {
			return images[i].ImageId, nil
		}
	}
	return "", nil
}

// compareThere lets the operator compare. done is false if it names fewer changes than there are, or does not know one of the images any more.
func (p *planner) compareThere(ctx context.Context, from, to, platform string) (compared advice.Comparison, done bool, err error) {
	answer, err := p.cluster.Compare(ctx, from, to, platform)
	if err != nil {
		return advice.Comparison{}, false, err
	}
	if answer.Evaluation.State != api.Evaluated || answer.Evaluation.Opened == nil || answer.Evaluation.Closed == nil {
		return advice.Comparison{}, false, nil
	}
	compared.Opened, compared.Closed = changesOf(answer.Opened), changesOf(answer.Closed)
	done = len(compared.Opened) == totalOf(*answer.Evaluation.Opened) && len(compared.Closed) == totalOf(*answer.Evaluation.Closed)
	return compared, done, nil
}

func totalOf(c api.SeverityCounts) int {
	return c.Critical + c.High + c.Medium + c.Low + c.Negligible + c.Unknown
}

func changesOf(findings []api.RolloutFinding) []advice.Change {
	changes := make([]advice.Change, len(findings))
	for i, f := range findings {
		severity, err := model.ParseSeverity(string(f.Severity))
		if err != nil {
			severity = model.SeverityUnknown
		}
		changes[i] = advice.Change{VulnerabilityID: f.VulnerabilityId, Package: f.Package, Severity: severity, KEV: f.Kev, Fixable: f.Fixable}
	}
	return changes
}

// scan scans an image on this machine, once for each platform.
func (p *planner) scan(ctx context.Context, one *plannedContainer, platform string) ([]model.Finding, error) {
	key := scanKey{one.To, platform}
	result := p.scanned[key]
	if result == nil {
		if len(p.scanned) == maxLocalScans {
			return nil, fmt.Errorf("more than %d images would be scanned on this machine: split the manifests", maxLocalScans)
		}
		result = &localScan{}
		result.imageID, result.findings, result.err = p.scanHere(ctx, key)
		p.scanned[key] = result
	}
	one.ToImageID = result.imageID
	return result.findings, result.err
}

// imageOf returns the full name of an image in a registry, which "scan" cannot read as the name of a file.
func imageOf(reference name.Reference) (string, error) {
	image := reference.Name()
	if strings.HasPrefix(image, ".") {
		return "", fmt.Errorf("the image reference %s names no registry", cell(reference.String()))
	}
	if _, err := os.Stat(image); err == nil || !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("%s is a file of this machine", cell(image))
	}
	return image, nil
}

func (p *planner) scanHere(ctx context.Context, key scanKey) (string, []model.Finding, error) {
	// A manifest must not name a file of this machine.
	reference, err := name.ParseReference(key.reference)
	if err != nil {
		return "", nil, fmt.Errorf("the image reference: %w", err)
	}
	image, err := imageOf(reference)
	if err != nil {
		return "", nil, err
	}
	if p.scanner == nil {
		if p.scanner, err = p.open(ctx); err != nil {
			return "", nil, err
		}
		p.warnOfBuilds(ctx)
	}
	p.scanner.o.request.Platform = model.Platform{}
	if key.platform != "" {
		if p.scanner.o.request.Platform, err = model.ParsePlatform(key.platform); err != nil {
			return "", nil, err
		}
	}
	_, _ = fmt.Fprintf(p.stderr, "Scanning %s, which the operator does not know\n", cell(key.reference))
	found, err := p.scanner.scan(ctx, image, false, nil)
	if err != nil {
		return "", nil, err
	}
	return found.input.ImageID, found.findings, nil
}

// warnOfBuilds warns if this machine and the operator use different database builds.
func (p *planner) warnOfBuilds(ctx context.Context) {
	here := p.scanner.installed.Build.ID
	there, err := p.cluster.Build(ctx)
	switch {
	case err != nil:
		_, _ = fmt.Fprintf(p.stderr, "Warning: the database build of the operator is not known: %v\n", printableText(err.Error()))
	case here != there:
		_, _ = fmt.Fprintf(p.stderr, "Warning: the operator uses the database build %q, this machine %q. What differs between the builds counts as opened or closed.\n", there, here)
	}
}
