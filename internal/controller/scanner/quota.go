package scanner

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/scanner-operator/scanner-operator/internal/scanjob"
)

// quotaCPU is the CPU limit of a scan where a quota requires one.
var quotaCPU = resource.MustParse("1")

// limitCPU sets a CPU limit for a scan in a namespace with a ResourceQuota for limits.cpu, which rejects pods without one: quotaCPU, or what
// the quota has left. A limit that is set already stays. Other namespaces need none, and a limit would only make scans slower.
func (j *Jobs) limitCPU(ctx context.Context, req *scanjob.Request) error {
	if _, set := req.Resources.Limits[corev1.ResourceCPU]; set {
		return nil
	}
	var quotas corev1.ResourceQuotaList
	list := func(ctx context.Context) error { return j.live.List(ctx, &quotas, client.InNamespace(req.Namespace)) }
	if err := callAPI(ctx, list); err != nil {
		return fmt.Errorf("list the quotas of namespace %s: %w", req.Namespace, err)
	}
	var limit *resource.Quantity
	for i := range quotas.Items {
		hard, limited := quotas.Items[i].Spec.Hard[corev1.ResourceLimitsCPU]
		if !limited {
			continue
		}
		hard.Sub(quotas.Items[i].Status.Used[corev1.ResourceLimitsCPU])
		if limit == nil {
			limit = new(quotaCPU.DeepCopy())
		}
		if hard.Cmp(*limit) < 0 {
			limit = &hard
		}
	}
	if limit == nil {
		return nil
	}
	request := j.options.Resources.Requests[corev1.ResourceCPU]
	if wanted, set := req.Resources.Requests[corev1.ResourceCPU]; set {
		request = wanted
	}
	// Less would be invalid. The quota rejects the pod then, and the Job shows it.
	if limit.Cmp(request) < 0 {
		limit = &request
	}
	req.Resources = *req.Resources.DeepCopy()
	if req.Resources.Limits == nil {
		req.Resources.Limits = corev1.ResourceList{}
	}
	req.Resources.Limits[corev1.ResourceCPU] = *limit
	return nil
}
