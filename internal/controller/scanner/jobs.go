package scanner

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/scanjob"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// cacheLag is how long a new Job may be missing from the cache before it is read from the API server.
const cacheLag = 5 * time.Second

// recordTimeout bounds how long the record of a Job that was created may take. It is shorter than the time that a manager has to stop.
const recordTimeout = 10 * time.Second

// Jobs catalogs each image in a Kubernetes Job. It trusts the Jobs in its records alone, whatever the labels of others say.
type Jobs struct {
	// UploadCA returns in PEM the CAs that a scan pod trusts for the upload besides those of its system. It may be nil.
	UploadCA func() (string, error)

	client  client.Client
	live    client.Reader
	records store.ScanJobs
	clock   clock.Clock
	options scanjob.Options

	mu sync.Mutex
	// created holds when this process created the Jobs that the cache has not shown yet.
	created map[types.UID]createdJob
	// gone holds the Jobs that do not exist any more.
	gone map[types.UID]bool
	// ended holds the Jobs that are over and exist.
	ended     map[types.UID]endedJob
	deletions deletions
	// failing holds what failed last about recorded Jobs, by name.
	failing map[string]string
	// problems holds the problems of the pods of running Jobs: at its deadline a Job deletes its pods, and the reason with
	// them. outcomes holds the outcomes of failed Jobs, which never change.
	problems, outcomes map[types.UID]model.Outcome

	// madeMu is not held during I/O: events of pods wait for it.
	madeMu sync.RWMutex
	// made holds the recorded Jobs.
	made map[types.UID]madeJob
	// reserved holds the images of the Jobs whose UID is not recorded: they are being created, or could not be recorded.
	reserved map[types.NamespacedName]string
}

// madeJob is where a recorded Job is, the image that its pods run, whether they mount the one that they catalog, and the hash of what the Scanner specified.
type madeJob struct {
	namespace, image string
	volume           bool
	jobSpec          string
}

// createdJob is when a Job was created, and the hosts that it names.
type createdJob struct {
	at    time.Time
	hosts []string
}

// NewJobs returns a Cataloger that creates Jobs. live reads from the API server, not from a cache.
func NewJobs(c client.Client, live client.Reader, records store.ScanJobs, clk clock.Clock, options scanjob.Options) *Jobs {
	return &Jobs{
		client: c, live: live, records: records, clock: clk, options: options, made: map[types.UID]madeJob{}, reserved: map[types.NamespacedName]string{},
		created: map[types.UID]createdJob{}, gone: map[types.UID]bool{}, failing: map[string]string{}, problems: map[types.UID]model.Outcome{}, outcomes: map[types.UID]model.Outcome{},
	}
}

// Made implements Cataloger. The owner in a pod is what its creator wrote, so that the pod must also be in the namespace of the Job and run
// what the Job runs.
func (j *Jobs) Made(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil {
		return false
	}
	j.madeMu.RLock()
	defer j.madeMu.RUnlock()
	if job, recorded := j.made[owner.UID]; recorded {
		return job.namespace == pod.Namespace && scanjob.RunsOnly(pod, job.image)
	}
	image, reserved := j.reserved[types.NamespacedName{Namespace: pod.Namespace, Name: owner.Name}]
	return reserved && owner.Kind == "Job" && scanjob.RunsOnly(pod, image)
}

// Grow implements Cataloger.
func (j *Jobs) Grow(wanted corev1.ResourceRequirements, class model.SizeClass) (model.SizeClass, bool) {
	return j.options.Grow(wanted, class)
}

// Mounts implements Cataloger. The pod runs the operator's image on a node of that architecture.
func (j *Jobs) Mounts(architecture string) bool {
	return j.options.Architecture == "" || j.options.Architecture == architecture
}

// Attempts implements Cataloger. An error about one Job does not concern the others: who can cause it in a namespace must not stop all scans.
func (j *Jobs) Attempts(ctx context.Context) (map[string]Attempt, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	before, reserved := j.remembered()
	// Read first: the cache cannot have lost a Job that is recorded after this.
	records, err := j.readRecords(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the recorded scan Jobs: %w", err)
	}
	var list batchv1.JobList
	if err := j.client.List(ctx, &list, client.HasLabels{scanjob.LabelScan}); err != nil {
		return nil, fmt.Errorf("list scan Jobs: %w", err)
	}
	cached := make(map[types.UID]*batchv1.Job, len(list.Items))
	for i := range list.Items {
		cached[list.Items[i].UID] = &list.Items[i]
	}
	j.noteReserved(records, reserved)
	j.ended = map[types.UID]endedJob{}
	attempts, known := make(map[string]Attempt, len(records)), make(map[types.UID]bool, len(records))
	names := make(map[string]bool, len(records))
	var ended []string
	for i := range records {
		record := &records[i]
		j.note(record)
		attempt, exists, err := j.attempt(ctx, record, cached[types.UID(record.UID)])
		known[types.UID(record.UID)], names[record.Name] = true, true // An adopted Job has a UID now.
		if err != nil && ctx.Err() != nil {
			return nil, err
		}
		j.report(ctx, record.Name, err)
		if err != nil {
			// It may be under way. Like one that is blocked, it holds a slot of its own namespace only.
			attempt.Retry, attempt.Blocked, attempt.Done = true, record.Open, attempt.Done || !record.Open
			exists = attempt.Created.IsZero() || j.clock.Since(attempt.Created) < forgetAfter
		}
		switch {
		case exists || record.UID != "" && record.Open:
			attempts[record.Name] = attempt
		case !record.Open:
			ended = append(ended, record.Name)
		}
	}
	if err := j.records.ForgetScanJobs(ctx, ended); err != nil {
		return nil, fmt.Errorf("delete the records of scan Jobs: %w", err)
	}
	maps.DeleteFunc(j.failing, func(name, _ string) bool { return !names[name] })
	// One that was created since is not among the records.
	j.forget(func(uid types.UID) bool { return before[uid] && !known[uid] })
	return attempts, nil
}

// readRecords reads the records of scan Jobs, and remembers what the pods are of those that it did not know. Specs can be long and many, so that only those
// of Jobs that are not recorded stay in memory.
func (j *Jobs) readRecords(ctx context.Context) ([]store.ScanJob, error) {
	listed, err := j.records.ListScanJobs(ctx)
	if err != nil {
		return nil, err
	}
	records := listed[:0]
	for _, record := range listed {
		if !j.isNoted(types.UID(record.UID)) {
			spec, err := j.records.ScanJobSpec(ctx, record.Name)
			if errors.Is(err, store.ErrNotFound) {
				continue // It was deleted since.
			}
			if err != nil {
				return nil, err
			}
			record.Spec = spec
			if record.UID != "" {
				j.note(&record)
				record.Spec = nil
			}
		}
		records = append(records, record)
	}
	return records, nil
}

// remembered returns the Jobs of which something is remembered, and those that are reserved.
func (j *Jobs) remembered() (map[types.UID]bool, []types.NamespacedName) {
	j.madeMu.Lock()
	defer j.madeMu.Unlock()
	uids := make(map[types.UID]bool, len(j.made)+len(j.created))
	for uid := range j.made {
		uids[uid] = true
	}
	for uid := range j.created {
		uids[uid] = true
	}
	return uids, slices.Collect(maps.Keys(j.reserved))
}

// noteReserved remembers the records without a UID, and forgets what was reserved before they were read and is not any more.
func (j *Jobs) noteReserved(records []store.ScanJob, before []types.NamespacedName) {
	j.madeMu.Lock()
	defer j.madeMu.Unlock()
	for _, name := range before {
		delete(j.reserved, name)
	}
	for i := range records {
		if records[i].UID == "" {
			j.reserved[types.NamespacedName{Namespace: records[i].Namespace, Name: records[i].Name}] = scanjob.Image(records[i].Spec)
		}
	}
}

// forget removes what is remembered of Jobs that are not recorded any more.
func (j *Jobs) forget(unknown func(types.UID) bool) {
	j.madeMu.Lock()
	defer j.madeMu.Unlock()
	maps.DeleteFunc(j.made, func(uid types.UID, _ madeJob) bool { return unknown(uid) })
	maps.DeleteFunc(j.created, func(uid types.UID, _ createdJob) bool { return unknown(uid) })
	maps.DeleteFunc(j.gone, func(uid types.UID, _ bool) bool { return unknown(uid) })
	maps.DeleteFunc(j.deletions.kept, func(uid types.UID, _ later) bool { return unknown(uid) })
	maps.DeleteFunc(j.problems, func(uid types.UID, _ model.Outcome) bool { return unknown(uid) })
	maps.DeleteFunc(j.outcomes, func(uid types.UID, _ model.Outcome) bool { return unknown(uid) })
}

// note remembers what the pods of a recorded Job are.
func (j *Jobs) note(record *store.ScanJob) {
	uid := types.UID(record.UID)
	j.madeMu.Lock()
	defer j.madeMu.Unlock()
	if uid != "" {
		delete(j.reserved, types.NamespacedName{Namespace: record.Namespace, Name: record.Name})
	}
	if _, noted := j.made[uid]; !noted && uid != "" {
		source, err := scanjob.Source(record.Spec)
		j.made[uid] = madeJob{record.Namespace, scanjob.Image(record.Spec), err == nil && source == model.SourceImageVolume, scanjob.JobSpec(record.Spec)}
	}
}

// isNoted says whether something is remembered of a recorded Job.
func (j *Jobs) isNoted(uid types.UID) bool {
	j.madeMu.RLock()
	defer j.madeMu.RUnlock()
	_, noted := j.made[uid]
	return noted
}

// noted returns what is remembered of a recorded Job.
func (j *Jobs) noted(uid types.UID) madeJob {
	j.madeMu.RLock()
	defer j.madeMu.RUnlock()
	return j.made[uid]
}

// attempt returns the attempt of a recorded Job, and whether its Job exists. cached is the Job as the cache shows it, or nil.
func (j *Jobs) attempt(ctx context.Context, record *store.ScanJob, cached *batchv1.Job) (_ Attempt, exists bool, err error) {
	attempt := Attempt{Key: record.Key, Lookup: record.Lookup, ScannerUID: record.ScannerUID, SizeClass: record.SizeClass, Namespace: record.Namespace, For: record.For}
	if record.UID == "" {
		if adopted, err := j.adopt(ctx, record); err != nil || !adopted {
			return attempt, false, err
		}
	}
	uid, job := types.UID(record.UID), cached
	made := j.noted(uid)
	attempt.Volume, attempt.JobSpec = made.volume, made.jobSpec
	if job == nil {
		if created, fresh := j.created[uid]; fresh && j.clock.Since(created.at) <= cacheLag {
			attempt.Created, attempt.Hosts = created.at, created.hosts
			return attempt, true, nil
		}
		if job, err = j.find(ctx, record); apierrors.IsForbidden(err) {
			attempt.Done, attempt.Outcome = true, unreadable(record.Namespace, err)
			return attempt, false, nil
		} else if err != nil {
			return attempt, false, err
		}
	}
	if job == nil {
		attempt.Done, attempt.Outcome = true, scanjob.Deleted(record.Namespace, record.Name)
		if outcome, ended := j.outcomes[uid]; ended {
			attempt.Outcome = outcome
		}
		return attempt, false, nil
	}
	delete(j.created, uid)
	evaluation, err := j.evaluate(ctx, job)
	if err != nil {
		return attempt, false, err
	}
	attempt.Created, attempt.Started, attempt.Blocked = job.CreationTimestamp.Time, evaluation.Started, evaluation.Blocked
	attempt.Done, attempt.Outcome = evaluation.Done, evaluation.Outcome
	attempt.Hosts, attempt.RunsOn, attempt.Node = scanjob.Hosts(job), evaluation.RunsOn, evaluation.Node
	if !record.Open {
		attempt.Blocked = false
		err := j.conclude(ctx, record, job, &attempt)
		return attempt, j.clock.Since(job.CreationTimestamp.Time) < forgetAfter, err
	}
	return attempt, true, nil
}

// find reads a recorded Job that the cache does not show: it is new or was deleted, or somebody removed its label. It returns nil when
// the Job does not exist.
func (j *Jobs) find(ctx context.Context, record *store.ScanJob) (*batchv1.Job, error) {
	uid := types.UID(record.UID)
	if j.gone[uid] {
		return nil, nil
	}
	key := types.NamespacedName{Namespace: record.Namespace, Name: record.Name}
	job := &batchv1.Job{}
	if err := j.live.Get(ctx, key, job); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("get scan Job %s: %w", key, err)
	}
	if job.UID != uid {
		j.gone[uid] = true
		return nil, nil
	}
	return job, nil
}
