package scanner

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-logr/logr"
	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	scannerv1 "github.com/scanner-operator/scanner-operator/api/scanner/v1"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/scanjob"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// Start implements Cataloger. A Job is reserved, created and recorded, so that whoever comes back after a crash in between knows where to
// look for it. The Scanner owns the Job when both are in one namespace.
func (j *Jobs) Start(ctx context.Context, owner types.NamespacedName, req scanjob.Request) error {
	options := j.options
	if j.UploadCA != nil {
		var err error
		if options.UploadCA, err = j.UploadCA(); err != nil {
			return fmt.Errorf("create a scan Job: %w", err)
		}
	}
	if err := j.limitCPU(ctx, &req); err != nil {
		return &NamespaceError{req.Namespace, err}
	}
	job := scanjob.Build(req, options)
	if owner.Namespace == req.Namespace {
		var scanner scannerv1.Scanner
		if err := j.client.Get(ctx, owner, &scanner); err != nil {
			return fmt.Errorf("get the Scanner that owns the Job: %w", err)
		}
		if err := controllerutil.SetControllerReference(&scanner, job, j.client.Scheme()); err != nil {
			return fmt.Errorf("set the owner of the Job: %w", err)
		}
	}
	return j.create(ctx, job, &req)
}

// create reserves, creates and records a Job.
func (j *Jobs) create(ctx context.Context, job *batchv1.Job, req *scanjob.Request) error {
	kept, reserved, err := j.reserve(ctx, job, req)
	if err == nil && !reserved {
		done, failed := j.resume(ctx, &kept)
		if failed != nil || done {
			return failed
		}
		kept, _, err = j.reserve(ctx, job, req)
	}
	if errors.Is(err, store.ErrNotFound) {
		return nil // The image was deleted or its SBOM has arrived since the plan was made.
	}
	if err != nil {
		return err
	}
	switch err := callAPI(ctx, func(ctx context.Context) error { return j.client.Create(ctx, job) }); {
	case apierrors.IsAlreadyExists(err):
		_, err := j.resume(ctx, &kept)
		return err
	case err != nil:
		if problem, invalid := invalidJobSpec(err, req.Volume != nil, req.OperatorPullSecrets); invalid && req.Volume != nil && req.Volume.Auto {
			return &RefusedError{model.Outcome{Reason: model.ReasonUnschedulable, Message: problem.Error()}}
		} else if invalid {
			return problem
		}
		if outcome, refused := refusal(err, req.Namespace); refused {
			return &RefusedError{outcome}
		}
		return &NamespaceError{req.Namespace, fmt.Errorf("create a scan Job: %w", err)}
	}
	return j.record(ctx, &kept, job)
}

// reserve keeps in the records what is to be created.
func (j *Jobs) reserve(ctx context.Context, job *batchv1.Job, req *scanjob.Request) (kept store.ScanJob, reserved bool, err error) {
	spec, err := scanjob.Recorded(job)
	if err == nil && len(spec) > store.MaxJobSpec {
		err = fmt.Errorf("its spec has %d bytes, the maximum is %d", len(spec), store.MaxJobSpec)
	}
	if err != nil {
		// What one request causes must not keep others from being started.
		return store.ScanJob{}, false, &RefusedError{model.Outcome{
			Reason: model.ReasonUnschedulable, Message: fmt.Sprintf("the scan Job %s/%s cannot be started: %v", req.Namespace, req.Name, err),
		}}
	}
	lookup := ""
	if req.Lookup != nil {
		lookup = req.Lookup.ID
	}
	kept, reserved, err = j.records.ReserveScanJob(ctx, store.ScanJob{
		Name: job.Name, Lookup: lookup, Namespace: job.Namespace, Key: req.Key, Attempt: req.Attempt, ScannerUID: req.ScannerUID, For: req.For,
		SizeClass: req.SizeClass, Spec: spec,
	})
	if err != nil {
		return store.ScanJob{}, false, fmt.Errorf("reserve a scan Job in namespace %s: %w", job.Namespace, err)
	}
	if kept.UID == "" {
		// A reconcile that reads pods before the Job is recorded must not take its pod for a workload.
		j.noteReserved([]store.ScanJob{kept}, nil)
	}
	return kept, reserved, nil
}

// resume goes on with a Job that was reserved before and may have been created. It returns false when the Job does not exist and is not
// reserved any more.
func (j *Jobs) resume(ctx context.Context, kept *store.ScanJob) (done bool, err error) {
	if kept.UID != "" {
		return true, nil
	}
	key := types.NamespacedName{Namespace: kept.Namespace, Name: kept.Name}
	job := &batchv1.Job{}
	switch err := callAPI(ctx, func(ctx context.Context) error { return j.live.Get(ctx, key, job) }); {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err): // One that the operator may not read is as good as lost.
		if err := j.records.ForgetScanJobs(ctx, []string{kept.Name}); err != nil {
			return false, fmt.Errorf("delete the record of scan Job %s: %w", key, err)
		}
		return false, nil
	case err != nil:
		return false, &NamespaceError{kept.Namespace, fmt.Errorf("get scan Job %s: %w", kept.Name, err)}
	}
	return true, j.record(ctx, kept, job)
}

// adopt records a Job that a process created and did not record before it ended, so that its pods are known as those of a scan before pods are
// observed. It returns false when there is no such Job: it has not been created yet, or is not as the operator built it.
func (j *Jobs) adopt(ctx context.Context, reserved *store.ScanJob) (bool, error) {
	if !reserved.Open {
		return false, nil
	}
	key := types.NamespacedName{Namespace: reserved.Namespace, Name: reserved.Name}
	job := &batchv1.Job{}
	if err := j.live.Get(ctx, key, job); apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return false, nil
	} else if err != nil {
		return false, fmt.Errorf("get scan Job %s: %w", key, err)
	}
	err := j.accept(ctx, reserved, job)
	if _, refused := errors.AsType[*RefusedError](err); refused || errors.Is(err, store.ErrNotFound) {
		j.noteReserved(nil, []types.NamespacedName{key})
		return false, nil
	}
	if err != nil {
		return false, err
	}
	j.created[job.UID] = createdJob{j.clock.Now(), scanjob.Hosts(job)}
	return true, nil
}

// record accepts a Job, and remembers that the cache may not show it yet. A Job whose image was deleted while it was created is deleted.
func (j *Jobs) record(ctx context.Context, kept *store.ScanJob, job *batchv1.Job) error {
	if err := j.accept(ctx, kept, job); errors.Is(err, store.ErrNotFound) {
		return j.discard(ctx, job)
	} else if err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.created[job.UID] = createdJob{j.clock.Now(), scanjob.Hosts(job)}
	return nil
}

// discard deletes a Job that is not recorded, and whose image or lookup does not exist any more, even if the operator has begun to stop. Nothing else would
// delete it, and its pods would count as a workload.
func (j *Jobs) discard(ctx context.Context, job *batchv1.Job) error {
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), slowStart)
	defer cancel()
	err := j.client.Delete(limited, job, client.PropagationPolicy(metav1.DeletePropagationForeground), client.Preconditions{UID: &job.UID})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return &NamespaceError{job.Namespace, fmt.Errorf("delete scan Job %s, whose image was deleted: %w", job.Name, err)}
	}
	logr.FromContextOrDiscard(ctx).Info("Deleted a scan Job whose image was deleted while it was created", "namespace", job.Namespace, "job", job.Name)
	return nil
}

// accept records a Job as the one that was reserved, if its pods are to be what the operator built, even if the operator has begun to stop: the
// next leader has to know the pods of the Job.
func (j *Jobs) accept(ctx context.Context, kept *store.ScanJob, job *batchv1.Job) error {
	field, err := scanjob.Difference(kept.Spec, &job.Spec.Template.Spec)
	if err != nil {
		return err
	}
	if field != "" {
		return &RefusedError{model.Outcome{Reason: model.ReasonUnschedulable, Message: fmt.Sprintf(
			"the scan Job %s/%s is not as the operator built it: an admission webhook or policy changed spec.template.spec.%s; exclude scan Jobs from it",
			job.Namespace, job.Name, field)}}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	if err := j.records.RecordScanJob(ctx, kept.Name, string(job.UID)); err != nil {
		return fmt.Errorf("record scan Job %s/%s: %w", job.Namespace, job.Name, err)
	}
	kept.UID = string(job.UID)
	j.note(kept)
	return nil
}
