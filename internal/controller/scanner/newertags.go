package scanner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scannerv1 "github.com/scanner-operator/scanner-operator/api/scanner/v1"
	"github.com/scanner-operator/scanner-operator/internal/candidates"
	"github.com/scanner-operator/scanner-operator/internal/inventory"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/scanjob"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

const (
	// maxLookups is the maximum number of concurrent lookups of newer tags, of all Scanners. A Scanner has one.
	maxLookups = 2
	// lookupTries is after how many failures in a row the next attempt of a lookup waits for the interval.
	lookupTries = 3
)

// The reasons of the condition NewerTagsComplete.
const (
	reasonLookedUp     = "LookedUp"
	reasonLookupsWait  = "LookupsPending"
	reasonLookupsFail  = "LookupsFailed"
	reasonOmitted      = "ImagesOmitted"
	reasonNotSupported = "NotSupported"
)

// newerTags is spec.newerTags with its defaults.
type newerTags struct {
	interval         time.Duration
	limit, maxImages int
}

func newerTagsOf(scanner *scannerv1.Scanner) (newerTags, bool) {
	settings := newerTags{scannerv1.DefaultNewerTagsInterval, int(scannerv1.DefaultNewerTagsLimit), int(scannerv1.DefaultNewerTagsImages)}
	spec := scanner.Spec.NewerTags
	if spec == nil {
		return settings, false
	}
	if spec.Interval != nil {
		settings.interval = spec.Interval.Duration
	}
	if spec.Limit != nil {
		settings.limit = int(*spec.Limit)
	}
	if spec.MaxImages != nil {
		settings.maxImages = int(*spec.MaxImages)
	}
	return settings, true
}

// observeLookups records which newer tags are wanted, and the outcome of lookups that failed.
func (r *Reconciler) observeLookups(ctx context.Context, scanner *scannerv1.Scanner, v *observed) error {
	var wanted []store.WantedTags
	settings, enabled := newerTagsOf(scanner)
	if v.noNewerTags = r.NoNewerTags; enabled && v.noNewerTags == "" {
		wanted, v.tagsOmitted = v.wantedTags(settings.maxImages)
	}
	var err error
	if v.lookups, err = r.Store.WantTagLookups(ctx, scopeOf(client.ObjectKeyFromObject(scanner)), wanted); err != nil {
		return fmt.Errorf("record the lookups of newer tags: %w", err)
	}
	for i := range v.lookups {
		lookup := &v.lookups[i]
		correctLookup(lookup, settings.interval, v.now)
		waits := r.lookups.waits(lookup, v.now)
		attempt, started := v.attempts[lookupName(lookup)]
		if !started || !attempt.Done || waits {
			continue
		}
		if attempt.Outcome.Succeeded() {
			attempt.Outcome = model.Outcome{Reason: model.ReasonUploadFailed, Message: "the lookup succeeded, but its result did not reach the operator"}
		}
		if err := r.failLookup(ctx, scanner, v, lookup, attempt, settings.interval); endsReconcile(ctx, err) {
			return err
		} else if err != nil {
			r.lookups.postpone(ctx, lookup.ID, err, v.now)
			r.lookups.waits(lookup, v.now)
		}
	}
	return nil
}

// wantedTags lists what is looked up: images with findings that containers name with a tag that is a version. The namespaces take turns, each with its images
// with the most severe findings first, so that none of them can take the places of the others. omitted counts those beyond the maximum.
func (v *observed) wantedTags(maxImages int) (wanted []store.WantedTags, omitted int) {
	type what struct {
		key             model.ImageKey
		repository, tag string
	}
	type named struct {
		key       model.ImageKey
		reference string
	}
	// Many containers run the same image.
	names, namespaces := map[named]what{}, map[what]map[string]bool{}
	for i := range v.containers {
		c := &v.containers[i]
		image := v.images[c.Key]
		if c.Skip != "" || !cataloged(&image) || image.Counts.Total() == 0 {
			continue
		}
		w, known := names[named{c.Key, c.Image}]
		if !known {
			w.key = c.Key
			w.repository, w.tag = taggedBy(c)
			names[named{c.Key, c.Image}] = w
		}
		if w.tag == "" {
			continue
		}
		if namespaces[w] == nil {
			namespaces[w] = map[string]bool{}
		}
		namespaces[w][c.Namespace] = true
	}
	sorted := slices.SortedFunc(maps.Keys(namespaces), func(a, b what) int {
		return cmp.Or(worse(v.images[b.key].Counts, v.images[a.key].Counts), strings.Compare(a.key.String(), b.key.String()),
			strings.Compare(a.repository, b.repository), strings.Compare(a.tag, b.tag))
	})
	// The place of an image is the best one that it has in the turns of a namespace.
	turns, used := map[what]int{}, map[string]int{}
	for _, w := range sorted {
		best := len(sorted)
		for namespace := range namespaces[w] {
			best = min(best, used[namespace])
			used[namespace]++
		}
		turns[w] = best
	}
	slices.SortStableFunc(sorted, func(a, b what) int { return cmp.Compare(turns[a], turns[b]) })
	limit := min(maxImages, store.MaxTagLookups)
	for _, w := range sorted[:min(len(sorted), limit)] {
		wanted = append(wanted, store.WantedTags{Key: w.key, Repository: w.repository, Tag: w.tag, Namespaces: slices.Sorted(maps.Keys(namespaces[w]))})
	}
	return wanted, max(0, len(sorted)-limit)
}

// taggedBy returns the repository and the tag with which a container names its image; the tag is "" if nothing can be newer. Of a reference without a registry, the
// image ID has the repository that the node resolved it to.
func taggedBy(c *inventory.Container) (repository, tag string) {
	reference, _, _ := strings.Cut(c.Image, "@")
	colon := strings.LastIndexByte(reference, ':')
	if colon <= strings.LastIndexByte(reference, '/') || c.Key.Platform == (model.Platform{}) || c.Key.Digest() == "" {
		return "", ""
	}
	repository, tag = model.RepositoryOf(reference), reference[colon+1:]
	host, _, slash := strings.Cut(reference, "/")
	if named := slash && (strings.ContainsAny(host, ".:") || host == "localhost"); !named && c.Key.Pullable() {
		repository = model.RepositoryOf(c.Key.Repository())
	}
	at := model.ImageKey{ImageID: repository + "@" + c.Key.Digest(), Platform: c.Key.Platform}
	if repository == "" || at.Imported() || at.Validate() != nil || candidates.Choose(tag, nil, 1).Reason == candidates.ReasonNoVersion {
		return "", ""
	}
	return repository, tag
}

// worse compares counts by their most severe findings.
func worse(a, b store.Counts) int {
	return cmp.Or(cmp.Compare(a.KEV, b.KEV), cmp.Compare(a.Critical, b.Critical), cmp.Compare(a.High, b.High), cmp.Compare(a.Medium, b.Medium), cmp.Compare(a.Total(), b.Total()))
}

// lookupKey is the image of the Jobs of a lookup: the digest that runs in the repository whose tags are listed.
func lookupKey(lookup *store.TagLookup) model.ImageKey {
	return model.ImageKey{ImageID: lookup.Repository + "@" + lookup.Key.Digest(), Platform: lookup.Key.Platform}
}

// lookupName is the name of the Job of the current attempt of a lookup.
func lookupName(lookup *store.TagLookup) string {
	return scanjob.Name(lookupKey(lookup), lookup.Nonce, lookup.Attempts)
}

// failLookup ends the current attempt of a lookup as failed. The first failures are followed soon by other attempts, as those of scans are.
func (r *Reconciler) failLookup(ctx context.Context, scanner *scannerv1.Scanner, v *observed, lookup *store.TagLookup, attempt Attempt, interval time.Duration) error {
	image := v.images[lookup.Key]
	image.Key, image.Attempts = lookup.Key, lookup.Failures
	used := v.credentialOf(lookupKey(lookup), attempt.Namespace)
	grow := func(class model.SizeClass) (model.SizeClass, bool) {
		return r.Cataloger.Grow(r.Home.jobSpec(scanner, attempt.Namespace).Resources, class)
	}
	next := planRetry(&image, attempt, used, grow, r.Clock.Now())
	if next.raise != "" && model.RepositoryOf(lookup.Key.Repository()) == lookup.Repository {
		if err := r.Store.RaiseSizeClass(ctx, lookup.Key.Repository(), next.raise); err != nil {
			return fmt.Errorf("record the size class: %w", err)
		}
	}
	if next.pause != nil {
		if err := r.Store.PauseRegistry(ctx, *next.pause); err != nil {
			return fmt.Errorf("pause a registry: %w", err)
		}
		if before, paused := v.pauses[used]; !paused || before.Until.Before(next.pause.Until) {
			v.pauses[used] = *next.pause
		}
	}
	if wait := r.Clock.Now().Add(interval); !attempt.Outdated && lookup.Failures+1 >= lookupTries && next.at.Before(wait) {
		next.at = wait
	}
	ended, err := r.Store.FailTagLookup(ctx, lookup.ID, lookup.Attempts, attempt.Outcome, attempt.For, next.at)
	if err != nil {
		return fmt.Errorf("record a failed lookup of newer tags: %w", err)
	}
	if ended {
		logr.FromContextOrDiscard(ctx).Info("Lookup of newer tags failed", "image", lookup.Key.ImageID, "repository", lookup.Repository, "tag", lookup.Tag,
			"reason", attempt.Outcome.Reason, "message", attempt.Outcome.Message)
	}
	lookup.Attempts, lookup.Failures, lookup.NextAttempt, lookup.Failure = lookup.Attempts+1, lookup.Failures+1, next.at, attempt.Outcome
	return nil
}

// lookUp chooses the next lookup of newer tags: one at a time, and none while any image waits for a slot that it would take.
func (p *plan) lookUp(scanner *scannerv1.Scanner, v *observed, free *limited, now time.Time) {
	settings, _ := newerTagsOf(scanner)
	underway, own := 0, false
	for i := range v.active {
		if v.active[i].Lookup != "" {
			underway++
			own = own || v.active[i].ScannerUID == string(scanner.UID)
		}
	}
	if own {
		p.next = min(p.next, watchInterval)
	}
	if scanner.Spec.Suspend {
		return
	}
	// The one that is due for longest is first, new ones before all others, so that none waits for ever.
	order := slices.Clone(v.lookups)
	slices.SortStableFunc(order, func(a, b store.TagLookup) int {
		return lookupDue(&a, settings.interval).Compare(lookupDue(&b, settings.interval))
	})
	idle := !own && underway < maxLookups && len(p.start) == 0 && !p.awaited(v, free, []limit{free.scanner, limitOperator})
	for i := range order {
		lookup := &order[i]
		wait := lookupDue(lookup, settings.interval).Sub(now)
		if wait > 0 {
			p.next = min(p.next, wait)
			continue
		}
		if !idle {
			p.next = min(p.next, watchInterval)
			return
		}
		if p.awaited(v, free, free.of(lookupKey(lookup), false)) {
			p.next = min(p.next, watchInterval)
			continue
		}
		place, paused, found := v.lookupPlace(lookup)
		if !found {
			p.next = min(p.next, max(paused.Sub(now), time.Second))
			continue
		}
		key := lookupKey(lookup)
		if _, admitted := free.admit(key, nil, place.workloads); !admitted {
			p.next = min(p.next, watchInterval)
			continue
		}
		req := requestIn(scanner, v, lookup.Key, place.workloads, place.namespace)
		req.Name, req.Key, req.Attempt = lookupName(lookup), key, lookup.Attempts
		req.Lookup = &scanjob.Lookup{ID: lookup.ID, Reference: lookup.Repository + ":" + lookup.Tag, Limit: settings.limit}
		p.lookup, p.next = &req, min(p.next, scanjob.PodDelay)
		return
	}
}

// lookupDue is when the next attempt of a lookup is due.
func lookupDue(lookup *store.TagLookup, interval time.Duration) time.Time {
	due := lookup.NextAttempt
	if !lookup.LookedUpAt.IsZero() {
		if again := lookup.LookedUpAt.Add(interval + spread(interval/10, lookupKey(lookup))); due.Before(again) {
			due = again
		}
	}
	return due
}

// jobPlace is where a Job runs, and for the workloads of which namespace.
type jobPlace struct{ workloads, namespace string }

// lookupPlace chooses where the next attempt of a lookup is made: in the namespace of the operator if a container runs the image without credentials of its own
// namespace, or in one that runs it. When the registry has denied the pull, it is the turn of the next one: no other failure lets a namespace decide the result. If the registry has paused all of them, it returns when the first pause ends.
func (v *observed) lookupPlace(lookup *store.TagLookup) (_ jobPlace, paused time.Time, found bool) {
	runs := v.runners(lookup.Key)
	var places []jobPlace
	home := false
	for _, namespace := range runs.all {
		switch {
		case !slices.Contains(lookup.Namespaces, namespace):
		case slices.Contains(runs.needing, namespace):
			places = append(places, jobPlace{namespace, namespace})
		case !home:
			home = true
			places = append([]jobPlace{{namespace, v.home.Namespace}}, places...)
		}
	}
	if home && lookup.Failure.Reason != model.ReasonImagePullDenied {
		places = places[:1]
	}
	for i := range places {
		place := places[(lookup.Failures+i)%len(places)]
		pause, waits := v.pauses[v.credentialOf(lookupKey(lookup), place.namespace)]
		until := pause.Until
		if one, stalled := v.stalls[place.namespace]; stalled && one.until.After(until) {
			waits, until = true, one.until
		}
		// A lookup is not worth the time that the API server may take again, unless one request only was not answered.
		if one, slow := v.slow[place.namespace]; slow && !one.accident && one.until.Add(stallMemory).After(until) {
			waits, until = true, one.until.Add(stallMemory)
		}
		if !waits {
			return place, time.Time{}, true
		}
		if paused.IsZero() || until.Before(paused) {
			paused = until
		}
	}
	return jobPlace{}, paused, false
}

// startLookup starts the lookup of a plan.
func (r *Reconciler) startLookup(ctx context.Context, scanner *scannerv1.Scanner, v *observed, p *plan) error {
	if p.lookup == nil {
		return nil
	}
	req, owner := *p.lookup, client.ObjectKeyFromObject(scanner)
	known, err := r.Store.KnownTagDigests(ctx, scopeOf(owner), req.Namespace, model.RepositoryOf(req.Key.Repository()), req.Key.Platform, r.Recatalog.Cataloger, scanjob.MaxKnown)
	if err != nil {
		return fmt.Errorf("read the images of newer tags: %w", err)
	}
	req.Lookup.Known = known
	calls := apiCalls{clock: r.Clock}
	err = r.Cataloger.Start(calls.in(ctx), owner, req)
	took, outcome := calls.took, model.Outcome{}
	if refused, ok := errors.AsType[*RefusedError](err); ok {
		outcome = refused.Outcome
		if took >= slowStart {
			r.stall(ctx, v, &NamespaceError{req.Namespace, refused}, took)
		}
	} else if problem, ok := errors.AsType[*specError](err); ok {
		outcome = model.Outcome{Reason: model.ReasonUnschedulable, Message: problem.Error()}
	} else if _, stalled := r.stall(ctx, v, err, took); stalled {
		p.next = min(p.next, watchInterval)
		return nil
	} else if err != nil {
		return fmt.Errorf("start a lookup of newer tags: %w", err)
	}
	if outcome.Succeeded() {
		logr.FromContextOrDiscard(ctx).Info("Started lookup of newer tags", "repository", model.RepositoryOf(req.Key.Repository()), "attempt", req.Name)
		return nil
	}
	settings, _ := newerTagsOf(scanner)
	for i := range v.lookups {
		if lookup := &v.lookups[i]; lookup.ID == req.Lookup.ID {
			attempt := Attempt{Key: req.Key, Lookup: lookup.ID, SizeClass: req.SizeClass, Namespace: req.Namespace, For: req.For, Outcome: outcome}
			return r.failLookup(ctx, scanner, v, lookup, attempt, settings.interval)
		}
	}
	return nil
}

// setNewerTagsComplete sets the condition NewerTagsComplete, or removes it without spec.newerTags.
func setNewerTagsComplete(scanner *scannerv1.Scanner, v *observed) {
	if _, enabled := newerTagsOf(scanner); !enabled {
		meta.RemoveStatusCondition(&scanner.Status.Conditions, scannerv1.ConditionNewerTagsComplete)
		return
	}
	pending, failed := 0, 0
	for i := range v.lookups {
		switch lookup := &v.lookups[i]; {
		case !lookup.Failure.Succeeded():
			failed++
		case lookup.LookedUpAt.IsZero():
			pending++
		}
	}
	status, reason := metav1.ConditionFalse, reasonLookedUp
	message := fmt.Sprintf("Newer tags of %s were looked up.", plural(len(v.lookups), "image", "images"))
	switch {
	case v.noNewerTags != "":
		reason, message = reasonNotSupported, "Newer tags are not looked up: "+v.noNewerTags+"."
	case pending > 0:
		reason, message = reasonLookupsWait, fmt.Sprintf("Newer tags of %s are not looked up yet.", plural(pending, "image", "images"))
	case failed > 0:
		reason, message = reasonLookupsFail, fmt.Sprintf("Looking up newer tags of %s failed. The page of each image shows the reason.", plural(failed, "image", "images"))
	case v.tagsOmitted > 0:
		reason, message = reasonOmitted, fmt.Sprintf("%s with findings: spec.newerTags.maxImages leaves them out.", plural(v.tagsOmitted, "more image", "more images"))
	default:
		status = metav1.ConditionTrue
	}
	setCondition(scanner, scannerv1.ConditionNewerTagsComplete, status, reason, message)
}
