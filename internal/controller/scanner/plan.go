package scanner

import (
	"hash/fnv"
	"slices"
	"time"

	scannerv1 "github.com/scanner-operator/scanner-operator/api/scanner/v1"
	"github.com/scanner-operator/scanner-operator/internal/inventory"
	"github.com/scanner-operator/scanner-operator/internal/scanjob"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/vuln"
)

const (
	firstBackoff = 30 * time.Second
	maxBackoff   = time.Hour
)

// backoff is the time from the end of a failed attempt to the next. attempt counts from zero. The spread of up to a
// fifth comes from the image, so that images that failed together do not come back together.
func backoff(attempt int, key vuln.ImageKey) time.Duration {
	d := maxBackoff
	if attempt < 7 {
		d = min(firstBackoff<<max(attempt, 0), maxBackoff)
	}
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(key.String()))
	return d + d/5*time.Duration(hash.Sum32()%1000)/1000
}

// plan is what to do next.
type plan struct {
	start []scanjob.Request
	// running counts the Scanner's own attempts that are under way, with those to be started; queued the images that wait for a
	// slot or, suspended, for good.
	running int
	queued  int
	// next is when to look again.
	next time.Duration
}

// makePlan decides which images to catalogue now: new ones before retries, in the order in which their pods were created, as
// long as the Scanner has free slots.
func makePlan(scanner *scannerv1.Scanner, v *view, now time.Time) plan {
	p := plan{next: auditInterval}
	uid := string(scanner.UID)
	// Only names that the nonce of a known image gives count: a Job that somebody else labelled like ours takes no slot.
	for key := range v.images {
		if attempt, started := v.attempts[v.attemptName(key)]; started && !attempt.Done && attempt.ScannerUID == uid {
			p.running++
		}
	}
	slots := int(scannerv1.DefaultConcurrency)
	if scanner.Spec.Concurrency != nil {
		slots = int(*scanner.Spec.Concurrency)
	}
	slots -= p.running + v.leftover

	for _, key := range due(v, now, &p.next) {
		if slots <= 0 || scanner.Spec.Suspend {
			p.queued++
			continue
		}
		slots--
		p.running++
		p.start = append(p.start, request(scanner, v, key))
	}
	return p
}

// due lists the images to be catalogued now, and shortens next to the time when another will be due.
func due(v *view, now time.Time, next *time.Duration) []vuln.ImageKey {
	var fresh, retries []vuln.ImageKey
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

// request asks for the next attempt at an image, in the namespace of the first pod that runs it, with the pull secrets of
// all of that namespace's pods that run it.
func request(scanner *scannerv1.Scanner, v *view, key vuln.ImageKey) scanjob.Request {
	spec := scanner.Spec.Job
	req := scanjob.Request{
		Name: v.attemptName(key), Key: key, ScannerUID: string(scanner.UID),
		OperatorPullSecrets: spec.ImagePullSecrets, Resources: spec.Resources, NodeSelector: spec.NodeSelector,
		Tolerations: spec.Tolerations, PriorityClassName: spec.PriorityClassName,
	}
	add := func(name string) {
		if !slices.Contains(req.PullSecrets, name) {
			req.PullSecrets = append(req.PullSecrets, name)
		}
	}
	runs := func(c *inventory.Container) bool { return c.Key == key && c.Skip == "" }
	for i := range v.containers {
		c := &v.containers[i]
		if !runs(c) {
			continue
		}
		if req.Namespace == "" {
			req.Namespace = c.Namespace
		}
		if c.Namespace == req.Namespace {
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
