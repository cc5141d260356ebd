package plugin

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/server/api"
)

// ClusterOptions say how a command that is not part of the plugin reaches the operator: as the plugin does.
type ClusterOptions struct{ o options }

// NewClusterOptions adds the flags --kubeconfig, --context, --namespace, --url and those about the operator's Service to a command. namespaceUsage describes
// --namespace.
func NewClusterOptions(flags *pflag.FlagSet, namespaceUsage string) *ClusterOptions {
	c := &ClusterOptions{options{
		loading: clientcmd.NewDefaultClientConfigLoadingRules(), overrides: &clientcmd.ConfigOverrides{}, limit: maxLimit, now: time.Now, out: io.Discard, errOut: io.Discard,
	}}
	flags.StringVar(&c.o.loading.ExplicitPath, "kubeconfig", "", "Path to the kubeconfig file")
	flags.StringVar(&c.o.overrides.CurrentContext, "context", "", "Context of the kubeconfig file")
	flags.StringVarP(&c.o.overrides.Context.Namespace, "namespace", "n", "", namespaceUsage)
	c.o.addService(flags)
	return c
}

// AddAllNamespaces adds the flag --all-namespaces.
func (c *ClusterOptions) AddAllNamespaces(flags *pflag.FlagSet, usage string) {
	flags.BoolVarP(&c.o.allNamespaces, "all-namespaces", "A", false, usage)
}

// Namespace is the one that the flags or the context name, "default" if there is none, and "" with --all-namespaces.
func (c *ClusterOptions) Namespace() (string, error) { return c.o.namespace() }

// Cluster is what the operator of a cluster knows.
type Cluster struct{ c *client }

// Connect returns the cluster. caFile has certificate authorities that verify the operator at --url; it is not read without this flag.
func (c *ClusterOptions) Connect(ctx context.Context, caFile string) (*Cluster, error) {
	if c.o.url != "" {
		c.o.caFile = caFile
	}
	connected, err := c.o.connect(ctx)
	if err != nil {
		return nil, err
	}
	return &Cluster{connected}, nil
}

// Close ends the connections.
func (c *Cluster) Close() { c.c.http.CloseIdleConnections() }

// Containers lists the containers that run in a namespace, or in all that the caller may see for "": at most 100,000.
func (c *Cluster) Containers(ctx context.Context, namespace string) ([]api.ContainerCoverage, error) {
	query, where := url.Values{}, "the cluster"
	if namespace != "" {
		query.Set("namespace", namespace)
		where = "the namespace " + namespace
	}
	found, err := list[api.ContainerCoverage](ctx, c.c, maxLimit, query, "api", "v1", "coverage")
	if err == nil && found.total > len(found.items) {
		err = fmt.Errorf("%s has %d containers, more than the limit of %d", where, found.total, maxLimit)
	}
	return found.items, err
}

// ImagesWithDigest lists scanned images with a digest, at most 100.
func (c *Cluster) ImagesWithDigest(ctx context.Context, digest string) ([]api.Image, error) {
	found, err := list[api.Image](ctx, c.c, 100, url.Values{"text": {digest}, "state": {"Scanned"}}, "api", "v1", "images")
	return found.items, err
}

// Compare compares two images that the operator knows.
func (c *Cluster) Compare(ctx context.Context, from, to, platform string) (api.Comparison, error) {
	var comparison api.Comparison
	query := url.Values{"from": {from}, "to": {to}}
	set(query, "platform", platform)
	return comparison, c.c.get(ctx, &comparison, query, "api", "v1", "compare")
}

// Findings returns what advice.Compare reads of the findings of an image that count, at most 100,000.
func (c *Cluster) Findings(ctx context.Context, image, platform string) ([]model.Finding, error) {
	query := url.Values{}
	set(query, "platform", platform)
	found, err := list[api.Finding](ctx, c.c, maxLimit, query, findingsOf(image)...)
	if err != nil {
		return nil, err
	}
	if found.total > len(found.items) {
		return nil, fmt.Errorf("the image %s has %d findings, more than the limit of %d", image, found.total, maxLimit)
	}
	findings := make([]model.Finding, len(found.items))
	for i := range found.items {
		f, to := &found.items[i], &findings[i]
		to.Package = model.Package{Name: f.Package.Name, Version: f.Package.Version}
		to.Vulnerability = model.Vulnerability{ID: f.Vulnerability.Id, Risk: f.Vulnerability.Risk}
		to.Fix.State = model.FixState(f.Fix.State)
		if to.Vulnerability.Severity, err = model.ParseSeverity(string(f.Vulnerability.Severity)); err != nil {
			return nil, fmt.Errorf("finding %s of the image %s: %w", strconv.Quote(f.Vulnerability.Id), image, err)
		}
		if f.Vulnerability.Kev != nil {
			to.Vulnerability.KEV = make([]model.KnownExploited, len(*f.Vulnerability.Kev))
		}
	}
	return findings, nil
}

// Build returns the ID of the database build that the findings come from, "" before the first one.
func (c *Cluster) Build(ctx context.Context) (string, error) {
	var databases api.DatabaseList
	if err := c.c.get(ctx, &databases, nil, "api", "v1", "databases"); err != nil {
		return "", err
	}
	for _, d := range databases.Items {
		if d.State == api.Current {
			return d.Id, nil
		}
	}
	return "", nil
}
