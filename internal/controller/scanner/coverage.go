package scanner

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	scannerv1 "github.com/scanner-operator/scanner-operator/api/scanner/v1"
	"github.com/scanner-operator/scanner-operator/internal/coverage"
	"github.com/scanner-operator/scanner-operator/internal/inventory"
	"github.com/scanner-operator/scanner-operator/internal/metrics"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// recordCoverage records the coverage of each container in the scope of a Scanner, so that every replica can show it.
func (r *Reconciler) recordCoverage(ctx context.Context, scanner types.NamespacedName, v *observed, p plan) error {
	if err := r.Store.RecordCoverage(ctx, scopeOf(scanner), v.boundedCoverage(coverageOf(v, p))); err != nil {
		return fmt.Errorf("record the coverage of containers: %w", err)
	}
	return nil
}

// forget deletes the records of a deleted Scanner.
func (r *Reconciler) forget(ctx context.Context, scanner types.NamespacedName) error {
	r.queues.set(scanner, nil)
	r.pace.forget(scanner)
	r.Metrics.Forget(scanner.Namespace, scanner.Name)
	if err := r.Store.ForgetScope(ctx, scopeOf(scanner)); err != nil {
		return fmt.Errorf("delete the records of a deleted Scanner: %w", err)
	}
	return nil
}

// sameCoverage is what the containers have in common that count together.
type sameCoverage struct {
	workload             store.Workload
	container, reference string
	image                model.ImageKey
	result               coverage.Result
}

// coverageOf counts the containers of each workload that run the same image and are equally far.
func coverageOf(v *observed, p plan) []store.ContainerCoverage {
	underway := map[model.ImageKey]Attempt{}
	for _, attempt := range v.active {
		if attempt.Lookup == "" {
			underway[attempt.Key] = attempt
		}
	}
	for _, start := range p.start {
		underway[start.Key] = Attempt{}
	}
	var containers []store.ContainerCoverage
	index, results := map[sameCoverage]int{}, v.coverage()
	for i := range v.containers {
		c := &v.containers[i]
		same := sameCoverage{v.workloadOf(c), c.Name, c.Image, c.Key, results[i]}
		if at, found := index[same]; found {
			containers[at].Pods++
			continue
		}
		index[same] = len(containers)
		one := store.ContainerCoverage{
			Workload: same.workload, Container: c.Name, Image: c.Key, Reference: c.Image, Pods: 1,
			State: string(same.result.State), Reason: same.result.Reason,
		}
		one.Message, one.NextAttempt = explain(c, same.result, v, p, underway)
		containers = append(containers, one)
	}
	return containers
}

// explain returns the reason of the state of a container, and when the next attempt is due.
func explain(c *inventory.Container, result coverage.Result, v *observed, p plan, underway map[model.ImageKey]Attempt) (message string, next time.Time) {
	image, known := v.images[c.Key]
	attempt, runs := underway[c.Key]
	w, waits := p.waits[c.Key]
	switch {
	case image.PulledFrom != "" && (result.State == coverage.Scanned || result.State == coverage.Stale):
		return pulledFrom(c, image.PulledFrom), time.Time{}
	case result.State == coverage.Partial:
		return partial(&image), time.Time{}
	case result.State == coverage.Scanned || result.State == coverage.Skipped || result.State == coverage.Stale:
		return coverage.Advice(result.Reason), time.Time{}
	case c.NodeUnknown && result.State == coverage.Pending:
		return "waiting until the node of the pod is known: its platform selects the image of an index", time.Time{}
	case c.Key.ImageID == "" && c.WaitingMessage != "":
		return c.WaitingMessage, time.Time{}
	case result.State == coverage.Failed && known:
		next = image.NextAttempt
		if _, paused := v.places(c.Key); paused.After(next) {
			next = paused
		}
		return image.Message, next
	case result.Reason != coverage.ReasonNotCataloged:
		return coverage.Advice(result.Reason), time.Time{}
	case runs && !attempt.Outcome.Succeeded():
		return attempt.Outcome.Message, time.Time{}
	case runs:
		return "scan is running", time.Time{}
	case waits:
		return w.why, w.until
	}
	return coverage.Advice(result.Reason), time.Time{}
}

// pulledFrom says which reference of an image its scan used. That of a container is shown at this container alone: others may not see its pod, nor that there is one.
func pulledFrom(c *inventory.Container, repository string) string {
	if model.RepositoryOf(c.Image) != repository {
		return "the image could not be pulled from the repository in its image ID"
	}
	return "the image could not be pulled from the repository in its image ID, and was pulled from " + repository + ", which the pod names"
}

// partial returns how much of an image could not be read, and what to do.
func partial(image *store.Image) string {
	return fmt.Sprintf("%s: %s", plural(int(image.Unreadable), "file or directory is unreadable", "files or directories are unreadable"),
		coverage.Advice(coverage.ReasonFilesUnreadable))
}

// workloadOf returns the workload of a container: the controller of its pod, or the pod.
func workloadOf(c *inventory.Container) store.Workload {
	if c.Owner.Name == "" {
		return store.Workload{Namespace: c.Namespace, Kind: "Pod", Name: c.Pod}
	}
	return store.Workload{Namespace: c.Namespace, Kind: c.Owner.Kind, Name: c.Owner.Name}
}

// workloadOf returns the workload of a container with its owner.
func (v *observed) workloadOf(c *inventory.Container) store.Workload {
	workload := workloadOf(c)
	workload.Owner = v.owners[workload]
	return workload
}

// showMetrics shows the state of a Scanner in the metrics.
func (r *Reconciler) showMetrics(scanner *scannerv1.Scanner, v *observed, p plan) {
	shown := metrics.Scanner{Containers: map[metrics.ContainerState]int{}, Running: p.running, Queued: p.queued}
	for _, result := range v.coverage() {
		shown.Containers[metrics.ContainerState{State: string(result.State), Reason: result.Reason}]++
	}
	summary, findings := sum(v)
	shown.Ratio = summary.Ratio()
	shown.Findings = map[string]int32{
		model.SeverityCritical.String(): findings.Critical, model.SeverityHigh.String(): findings.High, model.SeverityMedium.String(): findings.Medium,
		model.SeverityLow.String(): findings.Low, model.SeverityNegligible.String(): findings.Negligible, model.SeverityUnknown.String(): findings.Unknown,
	}
	shown.Exploited, shown.Fixable = findings.KEV, findings.Fixable
	r.Metrics.Show(scanner.Namespace, scanner.Name, shown)
	r.Metrics.Slots(len(v.active)+len(p.start), r.Limits.Scans, len(v.pauses))
	succeeded := map[string]bool{}
	for name, attempt := range v.attempts {
		if attempt.Done && attempt.Lookup == "" && attempt.Outcome.Succeeded() {
			succeeded[name] = true
		}
	}
	r.Metrics.Succeeded(succeeded)
}
