package scanner

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	utilversion "k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scannerv1 "github.com/scanner-operator/scanner-operator/api/scanner/v1"
	"github.com/scanner-operator/scanner-operator/internal/inventory"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/scanjob"
)

// nodes are the nodes of the cluster, by name. They are shared with the cache and not modified.
type nodes map[string]*corev1.Node

// readNodes reads the nodes.
func (r *Reconciler) readNodes(ctx context.Context) (nodes, error) {
	var list corev1.NodeList
	if err := r.Client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	all := make(nodes, len(list.Items))
	for i := range list.Items {
		all[list.Items[i].Name] = &list.Items[i]
	}
	return all, nil
}

// platform returns the platform of a node from its well-known labels, false for an unknown node. A node without them is taken for one like the
// operator's own.
func (n nodes) platform(name string) (model.Platform, bool) {
	node, known := n[name]
	if !known {
		return model.Platform{}, false
	}
	p, err := model.ParsePlatform(node.Labels[corev1.LabelOSStable] + "/" + node.Labels[corev1.LabelArchStable])
	if err != nil {
		p = model.Platform{OS: "linux", Architecture: runtime.GOARCH}
	}
	return p, true
}

// minUserNamespaces is the first version of the kubelet, and so of the API server, with which Pod Security "restricted" admits root in a user
// namespace of its own.
var minUserNamespaces = utilversion.MustParseGeneric("1.35.0")

// The first versions of the kubelet and of containerd that support image volumes without being configured to. The versions of CRI-O are those of
// Kubernetes.
var (
	minImageVolumes = utilversion.MustParseGeneric("1.35.0")
	minContainerd   = utilversion.MustParseGeneric("2.1.0")
)

// mountsImages reports whether a node supports image volumes, as far as the versions of its kubelet and container runtime tell.
func mountsImages(node *corev1.Node) bool {
	if !kubeletAtLeast(node, minImageVolumes) {
		return false
	}
	name, text, _ := strings.Cut(node.Status.NodeInfo.ContainerRuntimeVersion, "://")
	installed, err := utilversion.ParseGeneric(text)
	return name == "cri-o" || name == "containerd" && err == nil && installed.AtLeast(minContainerd)
}

// userNamespaces reports whether a node runs pods in user namespaces of their own, with the container runtime's default handler.
func userNamespaces(node *corev1.Node) bool {
	return kubeletAtLeast(node, minUserNamespaces) && slices.ContainsFunc(node.Status.RuntimeHandlers, func(handler corev1.NodeRuntimeHandler) bool {
		return handler.Name == "" && handler.Features != nil && handler.Features.UserNamespaces != nil && *handler.Features.UserNamespaces
	})
}

func kubeletAtLeast(node *corev1.Node, minimum *utilversion.Version) bool {
	kubelet, err := utilversion.ParseGeneric(node.Status.NodeInfo.KubeletVersion)
	return err == nil && kubelet.AtLeast(minimum)
}

// fits reports whether the pod of a scan of an image volume can run on a node, as far as its platform, the selector and the tolerations of spec.job
// tell.
func fits(node *corev1.Node, spec *scannerv1.ScanJobSpec, platform model.Platform) bool {
	if node.Labels[corev1.LabelOSStable] != platform.OS || node.Labels[corev1.LabelArchStable] != platform.Architecture || node.Labels[corev1.LabelHostname] == "" {
		return false
	}
	return labels.SelectorFromSet(spec.NodeSelector).Matches(labels.Set(node.Labels)) &&
		!slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool {
			return taint.Effect != corev1.TaintEffectPreferNoSchedule && !slices.ContainsFunc(spec.Tolerations, func(toleration corev1.Toleration) bool {
				return toleration.ToleratesTaint(logr.Discard(), &taint, false)
			})
		})
}

// readable says which images scans of a Scanner can read. The zero value reads images from registries alone.
type readable struct {
	scanner *scannerv1.Scanner
	// mounts is Cataloger.Mounts.
	mounts func(architecture string) bool
	nodes  nodes
}

func (r readable) source() scannerv1.ImageSource {
	if r.scanner == nil {
		return scannerv1.SourceRegistry
	}
	return cmp.Or(r.scanner.Spec.Job.Source, scannerv1.SourceAuto)
}

// onNode reports whether the image of a container can be read from the node of the container only: it has no repository.
func (r readable) onNode(c *inventory.Container) bool {
	if c.Key.Repository() != "" || c.Key.Digest() == "" {
		return false
	}
	node, known := r.nodes[c.Node]
	return r.source() == scannerv1.SourceImageVolume ||
		r.source() == scannerv1.SourceAuto && known && mountsImages(node) && r.mounts(c.Key.Platform.Architecture)
}

// image reports whether the image of a container can be read, and is to be. One without a repository, because it was built or imported on its node,
// is read from there.
func (r readable) image(c *inventory.Container) bool {
	return c.Skip == "" && c.Key.Validate() == nil && (c.Key.Pullable() || r.onNode(c))
}

// volume returns how the next attempt at an image, for the workloads of a namespace, reads it from an image volume, and nil if it reads it from its
// registry. What a volume shows is of the platform of its node, and scan pods run on Linux.
func (v *observed) volume(key model.ImageKey, workloads string) *scanjob.ImageVolume {
	source := v.reads.source()
	if source == scannerv1.SourceRegistry || key.Platform.OS != "linux" {
		return nil
	}
	spec := v.home.jobSpec(v.reads.scanner, v.jobNamespace(key, workloads))
	if source == scannerv1.SourceAuto {
		return v.autoVolume(&spec, key, workloads)
	}
	var fitting, running []*corev1.Node
	for name, node := range v.nodes {
		if fits(node, &spec, key.Platform) {
			fitting = append(fitting, node)
			if slices.Contains(v.runners(key).nodes, name) {
				running = append(running, node)
			}
		}
	}
	// Only the nodes that run it have an image without a repository.
	return newVolume(running, !key.Pullable() && len(running) > 0, len(fitting) > 0 && all(fitting, userNamespaces))
}

// autoVolume returns how an attempt reads an image from a node that runs it, if all of it can be read there: nothing is pulled then. An image without
// a repository cannot be read from anywhere else.
func (v *observed) autoVolume(spec *scannerv1.ScanJobSpec, key model.ImageKey, workloads string) *scanjob.ImageVolume {
	if !v.reads.mounts(key.Platform.Architecture) || key.Pullable() && v.fallback.usesRegistry(key, v.images[key].Attempts) || v.incomplete(key) {
		return nil
	}
	var running, able []*corev1.Node
	for _, name := range v.runners(key).nodes {
		node, known := v.nodes[name]
		if !known || !mountsImages(node) || !fits(node, spec, key.Platform) {
			continue
		}
		running = append(running, node)
		if userNamespaces(node) && !v.fallback.paused(node, workloads, v.now) {
			able = append(able, node)
		}
	}
	switch {
	case len(able) > 0:
		volume := newVolume(able, true, true)
		volume.Auto = key.Pullable()
		return volume
	case key.Pullable():
		return nil
	default:
		return newVolume(running, len(running) > 0, len(running) > 0 && all(running, userNamespaces))
	}
}

func all(nodes []*corev1.Node, holds func(*corev1.Node) bool) bool {
	return !slices.ContainsFunc(nodes, func(node *corev1.Node) bool { return !holds(node) })
}

// newVolume returns an image volume of nodes that have the image.
func newVolume(nodes []*corev1.Node, required, userNamespace bool) *scanjob.ImageVolume {
	hosts := make([]string, 0, len(nodes))
	for _, node := range nodes {
		hosts = append(hosts, node.Labels[corev1.LabelHostname])
	}
	slices.Sort(hosts)
	return &scanjob.ImageVolume{Nodes: hosts, Required: required, UserNamespace: userNamespace}
}
