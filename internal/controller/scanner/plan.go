package scanner

import (
	"hash/fnv"
	"slices"
	"time"

	scannerv1 "github.com/scanner-operator/scanner-operator/api/scanner/v1"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/scanjob"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

const (
	firstBackoff = 30 * time.Second
	maxBackoff   = time.Hour
	// watchInterval is how often scans under way are looked at when nothing happens.
	watchInterval = 30 * time.Second
	// retryNode is when a node that is not known is looked for again, the first time.
	retryNode = 5 * time.Second
	// retryRead is when a Job that could not be read or deleted is looked at again.
	retryRead = 5 * time.Second
	// firstPause is the pause of a registry that does not request a duration.
	firstPause = time.Minute
)

// Limits limit the concurrent scans of all Scanners.
type Limits struct {
	Scans int
	// PerRegistry limits the concurrent scans that pull from one registry.
	PerRegistry int
	// PerNode limits the concurrent scans of image volumes on one node.
	PerNode int
}

// DefaultLimits returns the limits that are used when a user chooses none.
func DefaultLimits() Limits { return Limits{Scans: 10, PerRegistry: 4, PerNode: 2} }

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
	// pause is that of the registry, nil for none.
	pause *store.RegistryPause
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
	case attempt.Outdated:
		r.at = now
	// The size class is that of the repository: an image without one has none to raise.
	case outcome.Reason == model.ReasonOutOfMemory && image.Key.Repository() != "":
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
			pause = firstPause
		}
		r.pause = &store.RegistryPause{Host: used.host, Namespace: used.namespace, Until: now.Add(pause), Reason: outcome.Message}
	}
	return r
}

// plan is what to do next.
type plan struct {
	start []scanjob.Request
	// running counts the Scanner's own attempts at images in its scope that are under way, with those to be started; queued the images
	// that wait for a slot, for their registry or, suspended, for good. paused are those of them that have failed and whose next attempt
	// waits for their registry.
	running int
	queued  int
	paused  int
	// recataloging counts the Scanner's attempts to catalog an image again; again is the image of the one to be started, which is the last
	// of start.
	recataloging int
	again        model.ImageKey
	// lookup is the lookup of newer tags to be started, nil for none.
	lookup *scanjob.Request
	// waits says what keeps queued images, waiting how many of them wait for slots.
	waits   map[model.ImageKey]wait
	waiting demand
	// problem is why the API server rejects all that the Scanner starts, or nil.
	problem *specError
	// hurried: no start may take long.
	hurried bool
	// next is when to look again.
	next time.Duration
}

// fail keeps scans from being started because of an error in the spec of the Scanner. It takes no slots, and no part in the order of those that
// wait for them.
func (p *plan) fail(problem *specError, rest []scanjob.Request) {
	p.problem, p.waiting, p.next = problem, demand{}, max(p.next, watchInterval)
	for i := range rest {
		p.take(rest[i].Key, -1)
		if rest[i].Key != p.again {
			p.queued++
			p.waits[rest[i].Key] = wait{why: "waiting until an error in the spec of the Scanner is corrected: " + problem.Error()}
		}
	}
}

// served lists the namespaces whose images are cataloged now.
func (p *plan) served() []string {
	namespaces := make([]string, 0, len(p.start))
	for i := range p.start {
		namespaces = append(namespaces, p.start[i].For)
	}
	return namespaces
}

// wait says why an image is not cataloged now. until is zero where nobody knows.
type wait struct {
	why   string
	until time.Time
	// limit has no slot for the namespace; empty when the image does not wait for a slot.
	limit     limit
	namespace string
}

// The reasons why images wait.
const (
	waitsSuspended = "the Scanner is suspended"
	waitsScanner   = "waiting for a scan slot of the Scanner (spec.concurrency)"
	waitsOperator  = "waiting for a scan slot of the operator (--scan-concurrency)"
)

// makePlan decides which images to catalog now: new ones before retries, in the order in which their pods were created, as
// long as the Scanner, the operator and the registry have free slots for the namespaces that run them; and last one to catalog again.
func makePlan(scanner *scannerv1.Scanner, v *observed, limits Limits, again Recatalog, now time.Time) plan {
	p := plan{next: auditInterval, waits: map[model.ImageKey]wait{}, waiting: demand{}}
	for i := range v.active {
		image, wanted := v.images[v.active[i].Key]
		switch {
		case v.active[i].Lookup != "":
		case !wanted || v.active[i].ScannerUID != string(scanner.UID):
		// Also after its SBOM has arrived: the Job ends some time later.
		case cataloged(&image) && (image.Recatalog.Cataloger != "" || image.Recatalog.Open):
			p.recataloging++
		default:
			p.running++
		}
	}
	keys := due(v, now, &p.next)
	free := newLimited(scanner, v, limits, keys, now)
	for _, key := range keys {
		namespace, volume, w := choose(scanner, v, key, free, false)
		if w.why == "" {
			p.running++
			p.start = append(p.start, request(scanner, v, key, namespace, volume))
			continue
		}
		p.queued++
		p.waits[key] = w
		if w.limit != "" {
			p.waiting.add(w.limit, w.namespace)
			p.next = min(p.next, watchInterval)
		}
		if !w.until.IsZero() {
			p.next = min(p.next, max(w.until.Sub(now), time.Second))
			if v.images[key].State == store.StateFailed {
				p.paused++
			}
		}
	}
	p.startSlow(scanner, v, free, now)
	p.catalogAgain(scanner, v, again, free, now)
	p.lookUp(scanner, v, free, now)
	if p.running+p.recataloging > 0 {
		p.next = min(p.next, watchInterval)
	}
	if p.running+p.recataloging > 0 || len(p.waiting) > 0 {
		p.next = v.nextBlocked(p.next, now)
	}
	for _, attempt := range v.attempts {
		if attempt.Retry {
			p.next = min(p.next, retryRead)
		}
	}
	if len(p.start) > 0 {
		p.next = min(p.next, scanjob.PodDelay)
	}
	// It may never be known: the times between grow.
	for _, missed := range v.found.ghosts {
		p.next = min(p.next, max(retryNode, now.Sub(missed)))
	}
	return p
}

// choose takes the slots for the next attempt at an image, and returns the namespace for which it is made and the image volume that it reads, if
// any; or what keeps the image from being cataloged now. slow: it may be made in a namespace that was slow not long ago.
func choose(scanner *scannerv1.Scanner, v *observed, key model.ImageKey, free *limited, slow bool) (namespace string, volume *scanjob.ImageVolume, why wait) {
	if scanner.Spec.Suspend {
		return "", nil, wait{why: waitsSuspended}
	}
	namespaces, paused := v.places(key)
	if len(namespaces) == 0 {
		return "", nil, wait{why: "waiting until the pause that the registry " + key.Registry() + " requested ends", until: paused}
	}
	for _, namespace := range namespaces {
		w, waits := v.stalled(v.jobNamespace(key, namespace))
		if !waits && !slow && v.waitsFor(v.jobNamespace(key, namespace)) {
			w, waits = wait{why: waitsSlow}, true
		}
		if waits {
			if why.limit == "" && (why.why == "" || w.why == waitsSlow) {
				why = w
			}
			continue
		}
		volume := v.volume(key, namespace)
		w, admitted := free.admit(key, volume, namespace)
		if admitted {
			return namespace, volume, wait{}
		}
		if why.why == "" || why.limit == "" {
			why = w // Another namespace may be stalled: what takes part in the order is that this one waits for a slot.
		}
	}
	return "", nil, why
}

// due lists the images to be cataloged now, and shortens next to the time when another will be due.
func due(v *observed, now time.Time, next *time.Duration) []model.ImageKey {
	var fresh, retries []model.ImageKey
	for _, key := range v.wanted() {
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
