package scanner

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scannerv1 "github.com/scanner-operator/scanner-operator/api/scanner/v1"
	"github.com/scanner-operator/scanner-operator/internal/coverage"
	"github.com/scanner-operator/scanner-operator/internal/inventory"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/scanjob"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

var errForeignSelector = &specError{"spec.namespaceSelector is only allowed in the namespace of the operator"}

// observed is the observed state that a reconcile decides on.
type observed struct {
	// scope are the namespaces that the Scanner covers.
	scope      map[string]bool
	containers []inventory.Container
	// owners has the owners of the workloads, none of those without one.
	owners map[store.Workload]string
	nodes  nodes
	// reads says which images can be read, fallback where image volumes failed.
	reads    readable
	fallback *fallback
	now      time.Time
	// home is where scans run that need no credentials of another namespace.
	home Home
	// omitted counts the containers that are left out because there are too many, by namespace.
	omitted map[string]int
	// beyond lists the namespaces that the Scanner selects and the operator does not watch, in order.
	beyond []string
	// images holds the images that can be cataloged.
	images   map[model.ImageKey]store.Image
	attempts map[string]Attempt
	// active are the attempts that are under way, of all Scanners.
	active []Attempt
	// pauses are those of registries.
	pauses map[credential]store.RegistryPause
	// stalls are the namespaces in which no scan is to be started now.
	stalls map[string]stall
	// slow are the namespaces in which starts were slow not long ago, rested is when a scan may be started there.
	slow   map[string]stall
	rested rests
	// operator is the namespace of the operator.
	operator string
	// keys is what wanted returns, results what coverage does.
	keys    []model.ImageKey
	results []coverage.Result
	// runsIn is what runners returns.
	runsIn map[model.ImageKey]runners
	// queues knows what waits for slots, of all Scanners.
	queues   *queues
	build    model.DatabaseBuild
	hasBuild bool
	// missing and missingMessage are those of Databases.
	missing, missingMessage string
	// lookups are those of newer tags, those of the most severe findings first. tagsOmitted counts the images that spec.newerTags leaves out, and noNewerTags says why
	// there are no lookups.
	lookups     []store.TagLookup
	tagsOmitted int
	noNewerTags string
	// found is what tells whether a pod that comes runs something new.
	found found
}

// credential is what a registry knows scans by: a host, and the namespace whose pull secrets a scan uses, empty for none of a tenant. A
// registry that pauses one of them does not pause the others: who can pause one can do so only with the pods of that namespace.
type credential struct{ host, namespace string }

// credentialOf returns the credential of a scan of an image in a namespace.
func (v *observed) credentialOf(key model.ImageKey, namespace string) credential {
	if namespace == v.operator {
		namespace = ""
	}
	return credential{key.Registry(), namespace}
}

// otherNamespace is what a Scanner is told of a failure in a namespace that it does not cover.
const otherNamespace = "the scan ran in a namespace that this Scanner does not cover; a Scanner that covers it has the details"

// detail returns the message of an outcome as users may see it who can read the Scanner: one of an attempt in a namespace that the Scanner
// does not cover may name Secrets and users there.
func (v *observed) detail(namespace string, outcome model.Outcome) string {
	if namespace == "" || v.scope[namespace] {
		return outcome.Message
	}
	return otherNamespace
}

func (v *observed) attemptName(key model.ImageKey) string {
	image := v.images[key]
	return scanjob.Name(key, image.Nonce, image.Attempts)
}

// observe reads the store and the cluster, of it the pods that list returns. Attempts are read before images: when an attempt has succeeded, its SBOM
// is in the store by then, and the images show it.
func (r *Reconciler) observe(ctx context.Context, scanner *scannerv1.Scanner, list podLister) (*observed, error) {
	attempts, err := r.Cataloger.Attempts(ctx)
	if err != nil {
		return nil, err
	}
	within, err := r.scope(ctx, scanner)
	if err != nil {
		return nil, err
	}
	nodes, err := r.readNodes(ctx)
	if err != nil {
		return nil, err
	}
	read := r.readPods(scanner, nodes)
	pods, err := list(ctx, within, read)
	if err != nil {
		return nil, err
	}
	containers := containersOf(pods)
	owners, err := r.owners(ctx, within, pods)
	if err != nil {
		return nil, err
	}
	v := &observed{scope: within.namespaces, containers: containers, owners: owners, nodes: nodes, reads: readable{scanner, r.Cataloger.Mounts, nodes}}
	for i := range pods {
		v.omit(pods[i].containers[0].Namespace, pods[i].omitted)
	}
	v.home, v.fallback, v.now = r.Home.of(scanner), &r.fallback, r.Clock.Now()
	wanted := v.wanted()
	images := make(map[model.ImageKey]store.Image, len(wanted))
	for chunk := range slices.Chunk(wanted, store.MaxKeys) {
		known, err := r.Store.WantImages(ctx, chunk)
		if err != nil {
			return nil, fmt.Errorf("read the state of images: %w", err)
		}
		counts, err := r.Store.CountsWithin(ctx, store.OnlyNamespaces(slices.Collect(maps.Keys(within.namespaces))...), chunk)
		if err != nil {
			return nil, fmt.Errorf("count the findings of images: %w", err)
		}
		for key := range known {
			image := known[key]
			if count, counted := counts[key]; counted {
				image.Counts = count
			}
			correctImage(&image, v.now)
			images[key] = image
		}
	}
	v.beyond, v.images, v.attempts = within.beyond, images, attempts
	v.stalls, v.slow, v.rested = r.stalls.current(v.now)
	v.active, v.queues, v.operator = active(attempts), &r.queues, r.Namespace
	v.found = found{within.namespaces, set(wanted), read, v.reads, r.pace.ghosts(client.ObjectKeyFromObject(scanner), containers, v.now)}
	if v.pauses, err = r.registryPauses(ctx); err != nil {
		return nil, err
	}
	v.build, v.hasBuild = r.Databases.Build()
	v.missing, v.missingMessage = r.Databases.Missing()
	return v, nil
}

// active lists the attempts under way, with those of other Scanners and those whose pods have gone: pods that come and go cannot make
// more scans run than the limit.
func active(attempts map[string]Attempt) []Attempt {
	var active []Attempt
	for _, name := range slices.Sorted(maps.Keys(attempts)) {
		if !attempts[name].Done {
			active = append(active, attempts[name])
		}
	}
	return active
}

// registryPauses reads the paused registries.
func (r *Reconciler) registryPauses(ctx context.Context) (map[credential]store.RegistryPause, error) {
	list, err := r.Store.RegistryPauses(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the paused registries: %w", err)
	}
	pauses := make(map[credential]store.RegistryPause, len(list))
	for _, pause := range list {
		pauses[credential{pause.Host, pause.Namespace}] = pause
	}
	return pauses, nil
}

// wanted lists the images to catalog, each once.
func (v *observed) wanted() []model.ImageKey {
	if v.keys == nil {
		v.keys = v.wantedKeys()
	}
	return v.keys
}

// coverage returns the coverage of each container, as the images are when it is called first.
func (v *observed) coverage() []coverage.Result {
	if v.results == nil {
		v.results = make([]coverage.Result, len(v.containers))
		for i := range v.containers {
			v.results[i] = cover(&v.containers[i], v)
		}
	}
	return v.results
}

// wantedKeys computes what wanted returns.
func (v *observed) wantedKeys() []model.ImageKey {
	seen := map[model.ImageKey]bool{}
	var keys []model.ImageKey
	for i := range v.containers {
		c := &v.containers[i]
		if seen[c.Key] || !v.reads.image(c) {
			continue
		}
		seen[c.Key] = true
		keys = append(keys, c.Key)
	}
	return keys
}

func set(keys []model.ImageKey) map[model.ImageKey]bool {
	all := make(map[model.ImageKey]bool, len(keys))
	for _, key := range keys {
		all[key] = true
	}
	return all
}

// readPods says how a Scanner reads pods.
func (r *Reconciler) readPods(scanner *scannerv1.Scanner, nodes nodes) inventory.Options {
	ignoreLabel := scanner.Spec.IgnoreLabel
	if ignoreLabel == "" {
		ignoreLabel = scannerv1.DefaultIgnoreLabel
	}
	return inventory.Options{IgnoreLabel: ignoreLabel, ScanPod: r.Cataloger.Made, Platform: nodes.platform}
}

// podContainers are the containers of a pod, and the owner that the pod names.
type podContainers struct {
	created    metav1.Time
	containers []inventory.Container
	owner      string
	// omitted counts those that are left out.
	omitted int
}

// podLister lists pods with containers in the scope of a Scanner.
type podLister func(ctx context.Context, within scope, read inventory.Options) ([]podContainers, error)

// allPods lists all pods in the scope of a Scanner. It is a podLister.
func (r *Reconciler) allPods(ctx context.Context, within scope, read inventory.Options) ([]podContainers, error) {
	var pods []podContainers
	// A list holds a shallow copy of each pod, which takes more memory than all else here: one of all namespaces would be the peak.
	for _, namespace := range slices.Sorted(maps.Keys(within.namespaces)) {
		var list corev1.PodList
		// The pods are not modified, and a deep copy of all of them would cost more than all else.
		if err := r.Client.List(ctx, &list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("list pods: %w", err)
		}
		for i := range list.Items {
			if found := inventory.Containers(&list.Items[i], read); len(found) > 0 {
				pods = append(pods, podContainers{list.Items[i].CreationTimestamp, found, r.ownerOf(ctx, "Pod", &list.Items[i]), inventory.Omitted(&list.Items[i], found)})
			}
		}
	}
	return pods, nil
}

// containersOf lists the containers of pods and orders both, those of the oldest pods first.
func containersOf(pods []podContainers) []inventory.Container {
	// The order of a cached list is random; decisions should not be.
	slices.SortFunc(pods, func(a, b podContainers) int {
		return cmp.Or(a.created.Compare(b.created.Time),
			cmp.Compare(a.containers[0].Namespace, b.containers[0].Namespace), cmp.Compare(a.containers[0].Pod, b.containers[0].Pod))
	})
	count := 0
	for i := range pods {
		count += len(pods[i].containers)
	}
	containers := make([]inventory.Container, 0, count)
	for i := range pods {
		containers = append(containers, pods[i].containers...)
	}
	return containers
}

// scope is where a Scanner looks.
type scope struct {
	namespaces map[string]bool
	// beyond are selected namespaces that the operator does not look at, in order.
	beyond []string
}

// scope says which namespaces the Scanner looks after.
func (r *Reconciler) scope(ctx context.Context, scanner *scannerv1.Scanner) (scope, error) {
	if scanner.Spec.NamespaceSelector == nil {
		return scope{namespaces: map[string]bool{scanner.Namespace: true}}, nil
	}
	if scanner.Namespace != r.Namespace {
		return scope{}, errForeignSelector
	}
	selector, err := metav1.LabelSelectorAsSelector(scanner.Spec.NamespaceSelector)
	if err != nil {
		return scope{}, &specError{fmt.Sprintf("spec.namespaceSelector: %v", err)}
	}
	namespaces := &metav1.PartialObjectMetadataList{}
	namespaces.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NamespaceList"))
	if err := r.Client.List(ctx, namespaces, client.MatchingLabelsSelector{Selector: selector}); err != nil {
		return scope{}, fmt.Errorf("list namespaces: %w", err)
	}
	selected := scope{namespaces: make(map[string]bool, len(namespaces.Items))}
	for i := range namespaces.Items {
		name := namespaces.Items[i].Name
		if len(r.WatchNamespaces) > 0 && !slices.Contains(r.WatchNamespaces, name) {
			selected.beyond = append(selected.beyond, name)
			continue
		}
		selected.namespaces[name] = true
	}
	slices.Sort(selected.beyond)
	return selected, nil
}
