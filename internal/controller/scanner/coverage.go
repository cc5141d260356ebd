package scanner

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/scanner-operator/scanner-operator/internal/coverage"
	"github.com/scanner-operator/scanner-operator/internal/inventory"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/vuln"
)

// recordCoverage tells the store how far the scan of each container in the scope of a Scanner is, so that every replica can show it.
func (r *Reconciler) recordCoverage(ctx context.Context, scanner types.NamespacedName, v *view) error {
	if err := r.Store.RecordCoverage(ctx, scanner.String(), coverageOf(v)); err != nil {
		return fmt.Errorf("record the coverage of containers: %w", err)
	}
	return nil
}

// forget removes what was recorded of a Scanner that is gone.
func (r *Reconciler) forget(ctx context.Context, scanner types.NamespacedName) error {
	return errors.Join(r.recordUses(ctx, scanner, nil), r.recordCoverage(ctx, scanner, &view{}), r.tell(ctx, scanner, gone))
}

// sameCoverage is what the containers have in common that count together.
type sameCoverage struct {
	workload             store.Workload
	container, reference string
	image                vuln.ImageKey
	result               coverage.Result
}

// coverageOf counts the containers of each workload that run the same image and are equally far.
func coverageOf(v *view) []store.ContainerCoverage {
	var containers []store.ContainerCoverage
	index := map[sameCoverage]int{}
	for i := range v.containers {
		c := &v.containers[i]
		same := sameCoverage{workloadOf(c), c.Name, c.Image, c.Key, cover(c, v)}
		if at, found := index[same]; found {
			containers[at].Pods++
			continue
		}
		index[same] = len(containers)
		one := store.ContainerCoverage{
			Workload: same.workload, Container: c.Name, Image: c.Key, Reference: c.Image, Pods: 1,
			State: string(same.result.State), Reason: same.result.Reason,
		}
		if same.result.State == coverage.Failed {
			one.Message, one.NextAttempt = c.WaitingMessage, v.images[c.Key].NextAttempt
			if c.Key.ImageID != "" {
				one.Message = v.images[c.Key].Message
			}
		}
		containers = append(containers, one)
	}
	return containers
}

// workloadOf is what runs a container: the controller of its pod, or the pod.
func workloadOf(c *inventory.Container) store.Workload {
	if c.Owner.Name == "" {
		return store.Workload{Namespace: c.Namespace, Kind: "Pod", Name: c.Pod}
	}
	return store.Workload{Namespace: c.Namespace, Kind: c.Owner.Kind, Name: c.Owner.Name}
}
