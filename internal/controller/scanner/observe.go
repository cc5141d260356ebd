package scanner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scannerv1 "github.com/scanner-operator/scanner-operator/api/scanner/v1"
	"github.com/scanner-operator/scanner-operator/internal/inventory"
	"github.com/scanner-operator/scanner-operator/internal/scanjob"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/vuln"
)

var errForeignSelector = errors.New("spec.namespaceSelector may be set only on a Scanner in the operator's own namespace")

// view is everything that one reconciliation decides on.
type view struct {
	containers []inventory.Container
	// images holds the images that can be catalogued.
	images   map[vuln.ImageKey]store.Image
	attempts map[string]Attempt
	// leftover counts the Scanner's attempts that are under way for images that no pod in its scope runs any more.
	leftover int
	build    vuln.DatabaseBuild
	hasBuild bool
}

func (v *view) attemptName(key vuln.ImageKey) string {
	image := v.images[key]
	return scanjob.Name(key, image.Nonce, image.Attempts)
}

// observe reads the cluster and the store. Attempts are read before images: when an attempt has succeeded, its SBOM is
// in the store by then, and the images show it.
func (r *Reconciler) observe(ctx context.Context, scanner *scannerv1.Scanner) (*view, error) {
	attempts, err := r.Cataloguer.Attempts(ctx)
	if err != nil {
		return nil, err
	}
	containers, err := r.containers(ctx, scanner)
	if err != nil {
		return nil, err
	}
	images := map[vuln.ImageKey]store.Image{}
	wanted := wantedKeys(containers)
	for chunk := range slices.Chunk(wanted, store.MaxKeys) {
		found, err := r.Store.WantImages(ctx, chunk)
		if err != nil {
			return nil, fmt.Errorf("read the state of images: %w", err)
		}
		maps.Copy(images, found)
	}
	v := &view{containers: containers, images: images, attempts: attempts}
	if v.leftover, err = r.leftover(ctx, scanner, v); err != nil {
		return nil, err
	}
	v.build, v.hasBuild = r.Databases.Build()
	return v, nil
}

// leftover counts attempts whose pods have gone, so that pods that come and go cannot make more scans run than the limit. Only a
// name that the nonce of a known image gives counts: a Job that somebody else labelled like ours takes no slot.
func (r *Reconciler) leftover(ctx context.Context, scanner *scannerv1.Scanner, v *view) (int, error) {
	count := 0
	for name, attempt := range v.attempts {
		if _, wanted := v.images[attempt.Key]; wanted || attempt.Done || attempt.ScannerUID != string(scanner.UID) || attempt.Key.ImageID == "" {
			continue
		}
		image, err := r.Store.Image(ctx, attempt.Key)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("read the state of an image: %w", err)
		}
		if image.Key == attempt.Key && name == scanjob.Name(image.Key, image.Nonce, image.Attempts) {
			count++
		}
	}
	return count, nil
}

// wantedKeys lists the images to catalogue, each once.
func wantedKeys(containers []inventory.Container) []vuln.ImageKey {
	seen := map[vuln.ImageKey]bool{}
	var keys []vuln.ImageKey
	for i := range containers {
		c := &containers[i]
		if c.Skip == "" && c.Key.Pullable() && c.Key.Validate() == nil && !seen[c.Key] {
			seen[c.Key] = true
			keys = append(keys, c.Key)
		}
	}
	return keys
}

// containers lists the containers in the Scanner's scope.
func (r *Reconciler) containers(ctx context.Context, scanner *scannerv1.Scanner) ([]inventory.Container, error) {
	platforms, err := r.platforms(ctx)
	if err != nil {
		return nil, err
	}
	inScope, err := r.scope(ctx, scanner)
	if err != nil {
		return nil, err
	}
	var opts []client.ListOption
	if scanner.Spec.NamespaceSelector == nil {
		opts = append(opts, client.InNamespace(scanner.Namespace))
	}
	var pods corev1.PodList
	if err := r.Client.List(ctx, &pods, opts...); err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	// The order of a cached list is random; decisions should not be.
	slices.SortFunc(pods.Items, func(a, b corev1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
			cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	ignoreLabel := scanner.Spec.IgnoreLabel
	if ignoreLabel == "" {
		ignoreLabel = scannerv1.DefaultIgnoreLabel
	}
	read := inventory.Options{IgnoreLabel: ignoreLabel, ScanLabel: scanjob.LabelScan, Platform: func(node string) vuln.Platform {
		if p, known := platforms[node]; known {
			return p
		}
		return vuln.Platform{OS: "linux", Architecture: runtime.GOARCH}
	}}
	var containers []inventory.Container
	for i := range pods.Items {
		if inScope(pods.Items[i].Namespace) {
			containers = append(containers, inventory.Containers(&pods.Items[i], read)...)
		}
	}
	return containers, nil
}

// scope says which namespaces the Scanner looks after.
func (r *Reconciler) scope(ctx context.Context, scanner *scannerv1.Scanner) (func(namespace string) bool, error) {
	if scanner.Spec.NamespaceSelector == nil {
		return func(namespace string) bool { return namespace == scanner.Namespace }, nil
	}
	if scanner.Namespace != r.Namespace {
		return nil, errForeignSelector
	}
	selector, err := metav1.LabelSelectorAsSelector(scanner.Spec.NamespaceSelector)
	if err != nil {
		return nil, fmt.Errorf("spec.namespaceSelector: %w", err)
	}
	namespaces := &metav1.PartialObjectMetadataList{}
	namespaces.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NamespaceList"))
	if err := r.Client.List(ctx, namespaces, client.MatchingLabelsSelector{Selector: selector}); err != nil {
		return nil, fmt.Errorf("list namespaces: %w", err)
	}
	selected := make(map[string]bool, len(namespaces.Items))
	for i := range namespaces.Items {
		selected[namespaces.Items[i].Name] = true
	}
	return func(namespace string) bool { return selected[namespace] }, nil
}

// platforms reads the platform of each node from its well-known labels.
func (r *Reconciler) platforms(ctx context.Context) (map[string]vuln.Platform, error) {
	nodes := &metav1.PartialObjectMetadataList{}
	nodes.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NodeList"))
	if err := r.Client.List(ctx, nodes); err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	platforms := make(map[string]vuln.Platform, len(nodes.Items))
	for i := range nodes.Items {
		node := &nodes.Items[i]
		p, err := vuln.ParsePlatform(node.Labels[corev1.LabelOSStable] + "/" + node.Labels[corev1.LabelArchStable])
		if err == nil {
			platforms[node.Name] = p
		}
	}
	return platforms, nil
}
