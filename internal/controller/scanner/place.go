package scanner

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	scannerv1 "github.com/scanner-operator/scanner-operator/api/scanner/v1"
	"github.com/scanner-operator/scanner-operator/internal/inventory"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/scanjob"
)

// Home is where scans run that need no credentials of another namespace.
type Home struct {
	// Namespace is the operator's own, "" when no scans can run there.
	Namespace string
	// PullSecrets are those with which the kubelet pulls the operator's image there.
	PullSecrets []corev1.LocalObjectReference
	// ServiceAccount is that of scan pods there, "" for the default one.
	ServiceAccount string
	// credentials are the pull secrets that the Scanner offers for images.
	credentials []corev1.LocalObjectReference
}

// of returns the home of the scans of a Scanner.
func (h Home) of(scanner *scannerv1.Scanner) Home {
	h.credentials = h.jobSpec(scanner, h.Namespace).ImagePullSecrets
	return h
}

// jobSpec returns what a Scanner may decide about Jobs in a namespace. Jobs in the operator's namespace are configured by its own Scanners
// alone, except for how they read images: others would use its quota and its Secrets.
func (h Home) jobSpec(scanner *scannerv1.Scanner, namespace string) scannerv1.ScanJobSpec {
	if namespace == h.Namespace && scanner.Namespace != namespace {
		return scannerv1.ScanJobSpec{Source: scanner.Spec.Job.Source}
	}
	return scanner.Spec.Job
}

// hashOf returns a short hash of what a Scanner specifies for its Jobs.
func hashOf(spec scannerv1.ScanJobSpec) string {
	content, err := json.Marshal(spec)
	if err != nil {
		return "" // Not for a type of the API.
	}
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:8])
}

// needs reports whether the image of a container may need credentials that are only in the container's namespace. A pod names those of its
// ServiceAccount too. Where it names none, the nodes pull the image without.
func (h Home) needs(c *inventory.Container) bool {
	return h.Namespace == "" || c.Namespace != h.Namespace && slices.ContainsFunc(c.PullSecrets, func(name string) bool {
		return !slices.Contains(h.credentials, corev1.LocalObjectReference{Name: name})
	})
}

// runners are the namespaces with containers that run an image and are not skipped, in the order of the containers, and those of them
// whose credentials it may need. free: a container runs it without. nodes are up to maxRunning of the nodes that run it.
type runners struct {
	all, needing, nodes []string
	free                bool
}

// maxRunning bounds the nodes that are known to run an image.
const maxRunning = 100

func (v *observed) runners(key model.ImageKey) runners {
	if v.runsIn == nil {
		v.runsIn = map[model.ImageKey]runners{}
		for i := range v.containers {
			c := &v.containers[i]
			if c.Skip != "" {
				continue
			}
			found := v.runsIn[c.Key]
			if !slices.Contains(found.all, c.Namespace) {
				found.all = append(found.all, c.Namespace)
			}
			if c.Node != "" && len(found.nodes) < maxRunning && !slices.Contains(found.nodes, c.Node) {
				found.nodes = append(found.nodes, c.Node)
			}
			if !v.home.needs(c) {
				found.free = true
			} else if !slices.Contains(found.needing, c.Namespace) {
				found.needing = append(found.needing, c.Namespace)
			}
			v.runsIn[c.Key] = found
		}
	}
	return v.runsIn[key]
}

// atHome reports whether the next attempt at an image is made in the operator's namespace, so that nobody else decides the result: if a
// container runs the image without credentials of its own namespace. When the registry has denied the pull there, those who have
// credentials are next.
func (v *observed) atHome(key model.ImageKey) bool {
	if where := v.scannedIn(key); where != "" {
		return where == v.home.Namespace
	}
	r := v.runners(key)
	return r.free && (len(r.needing) == 0 || v.images[key].Reason != model.ReasonImagePullDenied)
}

// scannedIn returns the namespace in which an image is cataloged again: where it was cataloged, so that no other namespace decides the result and
// pull secrets that it needed are there. It is "" for other images, and where that namespace is not known.
func (v *observed) scannedIn(key model.ImageKey) string {
	if image := v.images[key]; cataloged(&image) {
		return image.ScannedIn
	}
	return ""
}

// places lists the namespaces for whose workloads the next attempt at an image can be made: those with a pod that runs it, the first choice
// first. Each attempt begins with another namespace, if there are several, so that one that takes no Jobs or has the wrong pull secrets
// does not prevent the scan. A namespace whose credentials the registry has paused is left out, unless the image is read from a volume; when it has paused all, paused is when the
// first pause ends.
func (v *observed) places(key model.ImageKey) (namespaces []string, paused time.Time) {
	all := v.runners(key).all
	if !v.atHome(key) {
		all = v.runners(key).needing
		if where := v.scannedIn(key); where != "" {
			all = slices.DeleteFunc(slices.Clone(all), func(namespace string) bool { return namespace != where })
		}
	}
	for i := range all {
		namespace := all[(v.images[key].Attempts+i)%len(all)]
		pause, waits := v.pauses[v.credentialOf(key, v.jobNamespace(key, namespace))]
		waits = waits && v.volume(key, namespace) == nil
		switch {
		case !waits:
			namespaces = append(namespaces, namespace)
		case paused.IsZero() || pause.Until.Before(paused):
			paused = pause.Until
		}
	}
	if len(namespaces) > 0 {
		return namespaces, time.Time{}
	}
	return nil, paused
}

// jobNamespace returns where the next attempt at an image for the workloads of a namespace runs.
func (v *observed) jobNamespace(key model.ImageKey, workloads string) string {
	if v.atHome(key) {
		return v.home.Namespace
	}
	return workloads
}

// request asks for the next attempt at an image for the workloads of a namespace, with the pull secrets of the pods that run it in the
// namespace of the Job, up to inventory.MaxPullSecrets. volume is the image volume that the attempt reads, nil for the registry.
func request(scanner *scannerv1.Scanner, v *observed, key model.ImageKey, workloads string, volume *scanjob.ImageVolume) scanjob.Request {
	req := requestIn(scanner, v, key, workloads, v.jobNamespace(key, workloads))
	req.Name, req.Attempt, req.Volume = v.attemptName(key), v.images[key].Attempts, volume
	req.Fallbacks = v.fallbacks(key, workloads, req.Namespace)
	return req
}

// requestIn asks for an attempt about an image for the workloads of a namespace, with a Job in a namespace. The caller says which attempt it is.
func requestIn(scanner *scannerv1.Scanner, v *observed, key model.ImageKey, workloads, namespace string) scanjob.Request {
	image, spec := v.images[key], v.home.jobSpec(scanner, namespace)
	req := scanjob.Request{
		Key: key, Namespace: namespace, For: workloads, ScannerUID: string(scanner.UID),
		SizeClass: image.SizeClass.OrSmall(), OperatorPullSecrets: spec.ImagePullSecrets, Resources: spec.Resources,
		JobSpec: hashOf(spec), NodeSelector: spec.NodeSelector, Tolerations: spec.Tolerations, PriorityClassName: spec.PriorityClassName,
	}
	if namespace == v.home.Namespace {
		req.ServiceAccount, req.OperatorPullSecrets = v.home.ServiceAccount, slices.Clone(v.home.PullSecrets)
		for _, ref := range spec.ImagePullSecrets {
			if !slices.Contains(req.OperatorPullSecrets, ref) {
				req.OperatorPullSecrets = append(req.OperatorPullSecrets, ref)
			}
		}
	}
	add := func(name string) {
		if !slices.Contains(req.PullSecrets, name) {
			req.PullSecrets = append(req.PullSecrets, name)
		}
	}
	for i := range v.containers {
		if c := &v.containers[i]; c.Key == key && c.Skip == "" && c.Namespace == namespace {
			for _, name := range c.PullSecrets {
				// Each pod may name others, and the spec of a Job has a maximum length.
				if len(req.PullSecrets) < inventory.MaxPullSecrets {
					add(name)
				}
			}
		}
	}
	for _, ref := range spec.ImagePullSecrets {
		add(ref.Name)
	}
	return req
}

// fallbacks lists the repositories that the pods of a namespace name for an image, without the one that the image ID names: the container
// runtime reports one of several names of an image, which may be that of a registry that scans cannot reach. The Job runs in a namespace of its
// own or in that of the operator. An attempt uses the references of the namespace for which it is made alone, so that nobody's reference takes the
// place of another's. The first of them changes whenever it is the turn of the namespace.
func (v *observed) fallbacks(key model.ImageKey, workloads, namespace string) []string {
	own := model.RepositoryOf(key.Repository())
	var found []string
	for i := range v.containers {
		c := &v.containers[i]
		if c.Key != key || c.Skip != "" || c.Namespace != workloads {
			continue
		}
		repository := model.RepositoryOf(c.Image)
		if repository == "" || repository == own || slices.Contains(found, repository) {
			continue
		}
		at := model.ImageKey{ImageID: repository + "@" + key.Digest()}
		if _, paused := v.pauses[v.credentialOf(at, namespace)]; !paused && !at.Imported() {
			found = append(found, repository)
		}
	}
	if len(found) == 0 {
		return nil
	}
	first := v.images[key].Attempts / len(v.runners(key).all) % len(found)
	found = slices.Concat(found[first:], found[:first])
	return found[:min(len(found), model.MaxFallbacks)]
}
