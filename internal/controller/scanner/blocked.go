package scanner

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	scannerv1 "github.com/scanner-operator/scanner-operator/api/scanner/v1"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/scanjob"
)

const (
	// blockedGrace is how long a blocked attempt may wait at least, blockedTime how long at most: a cluster may get a new node in that time.
	blockedGrace = 30 * time.Second
	blockedTime  = 5 * time.Minute
	// blockedShare is the part of the slots of a limit that blocked attempts share, at least one.
	blockedShare = 4
)

// endBlocked ends attempts that a known problem keeps from starting: those beyond the share of a limit, newest first, and those that have waited
// for blockedTime. Their images follow the backoff, so that others have the slots.
func (v *observed) endBlocked(scanner *scannerv1.Scanner, limits Limits, now time.Time) {
	size := map[limit]int{limitOperator: limits.Scans, limitOfScanner(client.ObjectKeyFromObject(scanner)): concurrency(scanner)}
	blocked := map[limit][]string{}
	for name, attempt := range v.attempts {
		if attempt.Done || !attempt.Blocked || attempt.Outcome.Succeeded() {
			continue
		}
		of := []limit{limitOperator}
		if !attempt.Volume {
			of = append(of, limitOfRegistry(attempt.Key.Registry()))
		}
		if attempt.ScannerUID == string(scanner.UID) {
			of = append(of, limitOfScanner(client.ObjectKeyFromObject(scanner)))
		}
		for _, l := range of {
			blocked[l] = append(blocked[l], name)
		}
	}
	over := v.outdated(scanner)
	maps.Copy(over, v.hanging(now))
	for l, names := range blocked {
		slices.SortFunc(names, func(a, b string) int {
			return cmp.Or(v.attempts[a].Created.Compare(v.attempts[b].Created), cmp.Compare(a, b))
		})
		slots, known := size[l]
		if !known {
			slots = limits.PerRegistry
		}
		for i, name := range names {
			patience := blockedTime
			attempt := v.attempts[name]
			if i >= max(1, slots/blockedShare) || v.fallsBack(attempt.Key, &attempt) {
				patience = blockedGrace
			}
			over[name] = over[name] || now.Sub(v.attempts[name].Created) >= patience
		}
	}
	for name, ends := range over {
		if attempt := v.attempts[name]; ends {
			attempt.Done = true
			v.attempts[name] = attempt
		}
	}
	v.active = active(v.attempts)
}

// hanging marks the scans of image volumes that do not start, although nothing is known to block them, and whose images can be read from their
// registries instead; and returns their names. The kubelet does not report all errors of volumes and user namespaces in the status of the pod.
func (v *observed) hanging(now time.Time) map[string]bool {
	names := map[string]bool{}
	for name, attempt := range v.attempts {
		if attempt.Done || attempt.Started || attempt.Blocked || attempt.Created.IsZero() || now.Sub(attempt.Created) < volumeStart || !v.fallsBack(attempt.Key, &attempt) {
			continue
		}
		attempt.Outcome = model.Outcome{Reason: model.ReasonUnschedulable, Message: "the scan pod did not start within " + volumeStart.String()}
		v.attempts[name], names[name] = attempt, true
	}
	return names
}

// outdated marks the blocked attempts of a Scanner whose spec.job has changed since, and returns their names: the new one takes effect at once.
func (v *observed) outdated(scanner *scannerv1.Scanner) map[string]bool {
	names := map[string]bool{}
	for name, attempt := range v.attempts {
		current := hashOf(v.home.jobSpec(scanner, attempt.Namespace))
		if attempt.Done || !attempt.Blocked || attempt.ScannerUID != string(scanner.UID) || attempt.JobSpec == "" || attempt.JobSpec == current {
			continue
		}
		attempt.Outdated = true
		if attempt.Outcome.Succeeded() {
			attempt.Outcome = model.Outcome{Reason: model.ReasonUnschedulable, Message: "spec.job of the Scanner was changed before the scan could start"}
		}
		v.attempts[name], names[name] = attempt, true
	}
	return names
}

// nextBlocked returns when an attempt may turn out to be blocked without an event that says so, or the given time if that is sooner.
func (v *observed) nextBlocked(next time.Duration, now time.Time) time.Duration {
	for i := range v.active {
		a := &v.active[i]
		if a.Created.IsZero() || a.Started {
			continue
		}
		// The Job controller may start a Job a second after its creation.
		for _, limit := range []time.Duration{scanjob.PodDelay, scanjob.PodDelay + time.Second, 2 * scanjob.PodDelay, blockedGrace, startGrace, volumeStart, blockedTime} {
			if age := now.Sub(a.Created); age < limit {
				next = min(next, limit-age)
				break
			}
		}
	}
	return next
}
