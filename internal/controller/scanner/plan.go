package scanner

import (
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	scannerv1 "github.com/scanner-operator/scanner-operator/api/scanner/v1"
	"github.com/scanner-operator/scanner-operator/internal/inventory"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/scanjob"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

const (
	firstBackoff = 30 * time.Second
	maxBackoff   = time.Hour
	// watchInterval is how often scans under way are looked at when nothing happens.
	watchInterval = 30 * time.Second
	// retryNode is when a node that is not known is looked for again.
	retryNode = 5 * time.Second
	// firstHold is the pause of a registry that does not request a duration.
	firstHold = time.Minute
)

// Limits limit the concurrent scans of all Scanners.
type Limits struct {
	Scans int
	// PerRegistry limits the concurrent scans that pull from one registry.
	PerRegistry int
}

// DefaultLimits returns the limits that are used when a user chooses none.
func DefaultLimits() Limits { return Limits{Scans: 10, PerRegistry: 4} }

// backoff is the time from the end of a failed attempt to the next. attempt counts from zero. The spread of up to a
// fifth comes from the image, so that images that failed together do not come back together.
func backoff(attempt int, key model.ImageKey) time.Duration {
	d := maxBackoff
	if attempt < 7 {
		d = min(firstBackoff<<max(attempt, 0), maxBackoff)
	}
	return d + spread(d/5, key)
}

// spread is a time from 0 to most that is always the same for one image.
func spread(most time.Duration, key model.ImageKey) time.Duration {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(key.String()))
	return most * time.Duration(hash.Sum32()%1000) / 1000
}

// retry is what follows from a failed attempt.
type retry struct {
	at time.Time
	// raise is the size class that the repository gets, empty when it stays.
	raise model.SizeClass
	// hold pauses the registry; nil for no pause.
	hold *store.RegistryPause
}

// planRetry decides when the next attempt at an image is due, after one that ran in a size class. An attempt that ran out of memory is
// followed soon by one with more of it, if there is more to be had. A registry that requests a delay is paused for the credential of the
// attempt alone; the next attempt may use another. grow is Cataloger.Grow for the attempt's resources.
func planRetry(
	image *store.Image, attempt Attempt, used credential, grow func(model.SizeClass) (model.SizeClass, bool), now time.Time,
) retry {
	r := retry{at: now.Add(backoff(image.Attempts, image.Key))}
	ranIn, outcome := attempt.SizeClass, attempt.Outcome
	switch {
	case outcome.Reason == model.ReasonOutOfMemory:
		class := image.SizeClass.OrSmall()
		if next, grows := grow(class); ranIn.Factor() >= class.Factor() && grows {
			r.raise, r.at = next, now.Add(backoff(0, image.Key))
		} else if ranIn.Factor() < class.Factor() {
			// Another image of the repository has raised it in the meantime.
			r.at = now.Add(backoff(0, image.Key))
		}
	case outcome.Reason == model.ReasonRegistryRateLimited || outcome.RetryAfter > 0:
		pause := min(outcome.RetryAfter, model.MaxRetryAfter)
		if pause <= 0 {
			pause = firstHold
		}
		r.hold = &store.RegistryPause{Host: used.host, Namespace: used.namespace, Until: now.Add(pause), Reason: outcome.Message}
	}
	return r
}

// plan is what to do next.
type plan struct {
	start []scanjob.Request
	// running counts the Scanner's own attempts at images in its scope that are under way, with those to be started; queued the images
	// that wait for a slot or, suspended, for good.
	running int
	queued  int
	// waits says what keeps queued images.
	waits map[model.ImageKey]wait
	// contends: images wait for a slot of the operator that other Scanners have.
	contends bool
	// next is when to look again.
	next time.Duration
}

// wait says why an image is not cataloged now. until is zero where nobody knows.
type wait struct {
	why   string
	until time.Time
}

// The reasons why images wait.
const (
	waitsSuspended = "the Scanner is suspended"
	waitsScanner   = "waiting for a scan slot of the Scanner (spec.concurrency)"
	waitsOperator  = "waiting for a scan slot of the operator (--scan-concurrency)"
)

// slots counts what is free.
type slots struct {
	scanner, operator int
	perRegistry       map[string]int
}

// makePlan decides which images to catalog now: new ones before retries, in the order in which their pods were created, as
// long as the Scanner, the operator and the registry have free slots.
func makePlan(scanner *scannerv1.Scanner, v *observed, limits Limits, now time.Time) plan {
	p := plan{next: auditInterval, waits: map[model.ImageKey]wait{}}
	free := freeSlots(scanner, v, limits, &p)
	for _, key := range due(v, now, &p.next) {
		namespace, paused := v.place(key)
		if w, waits := mustWait(scanner, key, paused, free, limits); waits {
			p.queued++
			p.waits[key] = w
			p.contends = p.contends || w.why == waitsOperator
			if !w.until.IsZero() {
				p.next = min(p.next, max(w.until.Sub(now), time.Second))
			}
			continue
		}
		free.scanner--
		free.operator--
		free.perRegistry[key.Registry()]--
		p.running++
		p.start = append(p.start, request(scanner, v, key, namespace))
	}
	if p.running > 0 {
		p.next = min(p.next, watchInterval)
	}
	if slices.ContainsFunc(v.containers, func(c inventory.Container) bool { return c.NodeUnknown }) {
		p.next = min(p.next, retryNode)
	}
	return p
}

// freeSlots counts what the attempts under way leave, and those of the Scanner itself. While other Scanners wait too, a Scanner gets no
// more than its share of the operator's slots.
func freeSlots(scanner *scannerv1.Scanner, v *observed, limits Limits, p *plan) slots {
	free := slots{scanner: int(scannerv1.DefaultConcurrency), operator: limits.Scans - len(v.active), perRegistry: map[string]int{}}
	if scanner.Spec.Concurrency != nil {
		free.scanner = int(*scanner.Spec.Concurrency)
	}
	own := 0
	for _, attempt := range v.active {
		free.perRegistry[attempt.Key.Registry()]--
		if attempt.ScannerUID != string(scanner.UID) {
			continue
		}
		own++
		if _, wanted := v.images[attempt.Key]; wanted {
			p.running++
		}
	}
	free.scanner -= own
	share := max(1, limits.Scans/(v.others+1))
	free.operator = min(free.operator, share-own)
	return free
}

// place chooses the namespace for the next attempt at an image, among those with a pod that runs it. Each attempt is made in another
// namespace, if there are several, so that one that takes no Jobs or has the wrong pull secrets does not prevent the scan; one whose
// credentials the registry has paused is left out. When the registry has paused all, paused is when the first pause ends.
func (v *observed) place(key model.ImageKey) (namespace string, paused time.Time) {
	namespaces := v.namespaces(key)
	for i := range namespaces {
		namespace := namespaces[(v.images[key].Attempts+i)%len(namespaces)]
		hold, held := v.holds[v.credentialOf(key, namespace)]
		if !held {
			return namespace, time.Time{}
		}
		if paused.IsZero() || hold.Until.Before(paused) {
			paused = hold.Until
		}
	}
	return "", paused
}

// mustWait says what keeps an image that is due from being cataloged now. paused is from observed.place.
func mustWait(scanner *scannerv1.Scanner, key model.ImageKey, paused time.Time, free slots, limits Limits) (wait, bool) {
	host := key.Registry()
	switch {
	case scanner.Spec.Suspend:
		return wait{why: waitsSuspended}, true
	case !paused.IsZero():
		return wait{why: "waiting until the pause that the registry " + host + " requested ends", until: paused}, true
	case free.scanner <= 0:
		return wait{why: waitsScanner}, true
	case free.operator <= 0:
		return wait{why: waitsOperator}, true
	case free.perRegistry[host]+limits.PerRegistry <= 0:
		return wait{why: fmt.Sprintf("waiting because %d scans pull from the registry %s (--scan-registry-concurrency)", limits.PerRegistry, host)}, true
	}
	return wait{}, false
}

// due lists the images to be cataloged now, and shortens next to the time when another will be due.
func due(v *observed, now time.Time, next *time.Duration) []model.ImageKey {
	var fresh, retries []model.ImageKey
	for _, key := range wantedKeys(v.containers) {
		image, known := v.images[key]
		if !known || image.State != store.StatePending && image.State != store.StateFailed {
			continue
		}
		if attempt, started := v.attempts[v.attemptName(key)]; started && !attempt.Done {
			continue
		}
		switch wait := image.NextAttempt.Sub(now); {
		case image.State == store.StatePending:
			fresh = append(fresh, key)
		case wait <= 0:
			retries = append(retries, key)
		default:
			*next = min(*next, wait)
		}
	}
	return slices.Concat(fresh, retries)
}

// request asks for the next attempt at an image in a namespace, with the pull secrets of all of that namespace's pods that run it.
func request(scanner *scannerv1.Scanner, v *observed, key model.ImageKey, namespace string) scanjob.Request {
	spec := scanner.Spec.Job
	image := v.images[key]
	req := scanjob.Request{
		Name: v.attemptName(key), Key: key, Namespace: namespace, ScannerUID: string(scanner.UID), SizeClass: image.SizeClass.OrSmall(),
		OperatorPullSecrets: spec.ImagePullSecrets, Resources: spec.Resources, NodeSelector: spec.NodeSelector,
		Tolerations: spec.Tolerations, PriorityClassName: spec.PriorityClassName,
	}
	add := func(name string) {
		if !slices.Contains(req.PullSecrets, name) {
			req.PullSecrets = append(req.PullSecrets, name)
		}
	}
	for i := range v.containers {
		if c := &v.containers[i]; c.Key == key && c.Skip == "" && c.Namespace == namespace {
			for _, name := range c.PullSecrets {
				add(name)
			}
		}
	}
	for _, ref := range spec.ImagePullSecrets {
		add(ref.Name)
	}
	return req
}
