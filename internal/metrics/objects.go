package metrics

import (
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/scanner-operator/scanner-operator/internal/kube"
)

// maxObjects is the maximum number of objects of a kind that have metrics of their own.
const maxObjects = 2000

// Objects shows the gauges of the objects that the controllers reconcile, on the replica that leads. It implements kube.ObjectMetrics.
type Objects struct {
	descs map[string][]*prometheus.Desc
	total *prometheus.Desc

	mu sync.Mutex
	// objects holds the values of each object of a kind, nil for those beyond maxObjects.
	objects map[string]map[types.NamespacedName][]float64
	// shown is the number of objects of a kind with values.
	shown map[string]int
}

// NewObjects registers the gauges of kinds.
func NewObjects(registerer prometheus.Registerer, kinds []kube.Kind) (*Objects, error) {
	o := &Objects{
		descs:   map[string][]*prometheus.Desc{},
		objects: map[string]map[types.NamespacedName][]float64{}, shown: map[string]int{},
		total: prometheus.NewDesc(namespace+"_objects", "Number of PodSets, MyCustomResources and BellerophonSimples, by kind.", []string{"kind"}, nil),
	}
	for _, kind := range kinds {
		if len(kind.Gauges) == 0 {
			continue
		}
		name := strings.ToLower(kind.Kind)
		for _, gauge := range kind.Gauges {
			o.descs[kind.Kind] = append(o.descs[kind.Kind],
				prometheus.NewDesc(prometheus.BuildFQName(namespace, name, gauge.Name), gauge.Help, []string{name + "_namespace", name}, nil))
		}
		o.objects[kind.Kind] = map[types.NamespacedName][]float64{}
	}
	return o, register(registerer, o)
}

// Show replaces the values of an object. The first 2,000 objects of a kind have values; the others are only counted.
func (o *Objects) Show(kind kube.Kind, object client.Object) {
	o.mu.Lock()
	defer o.mu.Unlock()
	objects, found := o.objects[kind.Kind]
	if !found {
		return
	}
	key := client.ObjectKeyFromObject(object)
	if objects[key] == nil {
		if o.shown[kind.Kind] == maxObjects {
			objects[key] = nil
			return
		}
		o.shown[kind.Kind]++
	}
	values := make([]float64, len(kind.Gauges))
	for i, gauge := range kind.Gauges {
		values[i] = gauge.Value(object)
	}
	objects[key] = values
}

// Delete removes the values of an object.
func (o *Objects) Delete(kind kube.Kind, object types.NamespacedName) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.objects[kind.Kind][object] != nil {
		o.shown[kind.Kind]--
	}
	delete(o.objects[kind.Kind], object)
}

// Describe implements prometheus.Collector.
func (o *Objects) Describe(ch chan<- *prometheus.Desc) {
	ch <- o.total
	for _, descs := range o.descs {
		for _, desc := range descs {
			ch <- desc
		}
	}
}

// Collect implements prometheus.Collector.
func (o *Objects) Collect(ch chan<- prometheus.Metric) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for kind, objects := range o.objects {
		ch <- prometheus.MustNewConstMetric(o.total, prometheus.GaugeValue, float64(len(objects)), kind)
		for key, values := range objects {
			for i, value := range values {
				ch <- prometheus.MustNewConstMetric(o.descs[kind][i], prometheus.GaugeValue, value, key.Namespace, key.Name)
			}
		}
	}
}
