package scanjob

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

// Memory returns the resources of a scan container: what is wanted, filled up from the options, with the memory of a size class.
func (o Options) Memory(wanted corev1.ResourceRequirements, class model.SizeClass) corev1.ResourceRequirements {
	granted := resources(wanted, o.Resources)
	for _, list := range []corev1.ResourceList{granted.Limits, granted.Requests} {
		if memory, set := list[corev1.ResourceMemory]; set {
			list[corev1.ResourceMemory] = o.scale(memory, class)
		}
	}
	return granted
}

// scale multiplies, up to MaxMemory, which cuts nothing off.
func (o Options) scale(memory resource.Quantity, class model.SizeClass) resource.Quantity {
	bound := max(o.MaxMemory.Value(), memory.Value())
	factor := class.Factor()
	if factor == 1 {
		return memory
	}
	if memory.Value() > bound/factor {
		return *resource.NewQuantity(bound, resource.BinarySI)
	}
	return *resource.NewQuantity(memory.Value()*factor, resource.BinarySI)
}

// Grow returns the class above, false when a scan that wants these resources gets no more memory there.
func (o Options) Grow(wanted corev1.ResourceRequirements, class model.SizeClass) (model.SizeClass, bool) {
	next, more := class.OrSmall().Next()
	before, after := o.Memory(wanted, class), o.Memory(wanted, next)
	return next, more && before.Limits.Memory().Cmp(*after.Limits.Memory()) < 0
}

func resources(wanted, defaults corev1.ResourceRequirements) corev1.ResourceRequirements {
	merged := *wanted.DeepCopy()
	for name, quantity := range defaults.Limits {
		if _, set := merged.Limits[name]; !set {
			if merged.Limits == nil {
				merged.Limits = corev1.ResourceList{}
			}
			merged.Limits[name] = quantity
		}
	}
	for name, quantity := range defaults.Requests {
		if _, set := merged.Requests[name]; set {
			continue
		}
		// A request above the limit would be refused.
		if limit, limited := merged.Limits[name]; limited && limit.Cmp(quantity) < 0 {
			quantity = limit
		}
		if merged.Requests == nil {
			merged.Requests = corev1.ResourceList{}
		}
		merged.Requests[name] = quantity
	}
	return merged
}
