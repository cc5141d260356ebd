package kube

import (
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1alpha1 "github.com/scanner-operator/scanner-operator/api/app/v1alpha1"
	pocv1 "github.com/scanner-operator/scanner-operator/api/poc/v1"
	scannerv1 "github.com/scanner-operator/scanner-operator/api/scanner/v1"
	scannerv1alpha1 "github.com/scanner-operator/scanner-operator/api/scanner/v1alpha1"
	stablev444beta989 "github.com/scanner-operator/scanner-operator/api/stable/v444beta989"
	"github.com/scanner-operator/scanner-operator/internal/scanjob"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// Kind registers a kind of object that the operator reconciles or watches. The scheme, the cache, the event log, the Events about rollouts and
// the metrics read what they need to know of a kind from here.
type Kind struct {
	schema.GroupVersionKind
	// Object is an empty object of the kind.
	Object client.Object
	// AddToScheme adds the types of the group to a scheme; nil for the kinds of Kubernetes.
	AddToScheme func(*runtime.Scheme) error
	// Event is the kind of the events in the event log about changes of the status, "" when there are none.
	Event store.EventKind
	// Workload says that rollouts of such an object are reported in Kubernetes Events about it.
	Workload bool
	// Selector is the label selector of the objects that the cache holds, nil for all.
	Selector func() (labels.Selector, error)
	// Transform removes the fields of an object that the cache does not hold, nil for none but the managed fields.
	Transform toolscache.TransformFunc
	// Gauges are the metrics about each object, which the leader shows.
	Gauges []Gauge
}

// Gauge is a metric about each object of a kind.
type Gauge struct {
	// Name of the metric, without the name of the operator and of the kind.
	Name, Help string
	// Value returns the value of an object of the kind.
	Value func(client.Object) float64
}

// The kinds that the operator reconciles.
var (
	KindScanner = Kind{
		GroupVersionKind: scannerv1.GroupVersion.WithKind("Scanner"), Object: &scannerv1.Scanner{}, AddToScheme: scannerv1.AddToScheme,
		Event: store.EventScannerChanged,
	}
	KindClusterVulnerabilityException = Kind{
		GroupVersionKind: scannerv1alpha1.GroupVersion.WithKind("ClusterVulnerabilityException"),
		Object:           &scannerv1alpha1.ClusterVulnerabilityException{}, AddToScheme: scannerv1alpha1.AddToScheme,
	}
	KindVulnerabilityException = Kind{
		GroupVersionKind: scannerv1alpha1.GroupVersion.WithKind("VulnerabilityException"),
		Object:           &scannerv1alpha1.VulnerabilityException{}, AddToScheme: scannerv1alpha1.AddToScheme,
	}
	KindVEXSource = Kind{
		GroupVersionKind: scannerv1alpha1.GroupVersion.WithKind("VEXSource"), Object: &scannerv1alpha1.VEXSource{}, AddToScheme: scannerv1alpha1.AddToScheme,
	}
	KindVulnerabilityPolicy = Kind{
		GroupVersionKind: scannerv1alpha1.GroupVersion.WithKind("VulnerabilityPolicy"), Object: &scannerv1alpha1.VulnerabilityPolicy{},
		AddToScheme: scannerv1alpha1.AddToScheme,
	}
	KindNotificationRule = Kind{
		GroupVersionKind: scannerv1alpha1.GroupVersion.WithKind("NotificationRule"), Object: &scannerv1alpha1.NotificationRule{},
		AddToScheme: scannerv1alpha1.AddToScheme,
	}
	KindClusterNotificationRule = Kind{
		GroupVersionKind: scannerv1alpha1.GroupVersion.WithKind("ClusterNotificationRule"), Object: &scannerv1alpha1.ClusterNotificationRule{},
		AddToScheme: scannerv1alpha1.AddToScheme,
	}
	KindReportSink = Kind{
		GroupVersionKind: scannerv1alpha1.GroupVersion.WithKind("ReportSink"), Object: &scannerv1alpha1.ReportSink{}, AddToScheme: scannerv1alpha1.AddToScheme,
	}
	KindPodSet = Kind{
		GroupVersionKind: appv1alpha1.GroupVersion.WithKind("PodSet"), Object: &appv1alpha1.PodSet{}, AddToScheme: appv1alpha1.AddToScheme,
		Event: store.EventPodSetChanged, Workload: true,
		Gauges: []Gauge{
			gauge("replicas_desired", "Number of desired pods of a PodSet.", func(o *appv1alpha1.PodSet) int32 { return o.Spec.Replicas }),
			gauge("replicas_available", "Number of pending and running pods of a PodSet.", func(o *appv1alpha1.PodSet) int32 { return o.Status.AvailableReplicas }),
			gauge("replicas_ready", "Number of ready pods of a PodSet.", func(o *appv1alpha1.PodSet) int32 { return o.Status.ReadyReplicas }),
		},
	}
	KindMyCustomResource = Kind{
		GroupVersionKind: pocv1.GroupVersion.WithKind("MyCustomResource"), Object: &pocv1.MyCustomResource{}, AddToScheme: pocv1.AddToScheme,
		Gauges: []Gauge{
			gauge("healthy", "Whether the pod that a MyCustomResource names exists: 1 if it does, 0 if not.", func(o *pocv1.MyCustomResource) int32 {
				if o.Status.Healthy {
					return 1
				}
				return 0
			}),
		},
	}
	KindBellerophonSimple = Kind{
		GroupVersionKind: stablev444beta989.GroupVersion.WithKind("BellerophonSimple"), Object: &stablev444beta989.BellerophonSimple{},
		AddToScheme: stablev444beta989.AddToScheme, Event: store.EventSheroChanged,
		Gauges: []Gauge{
			gauge("replicas_desired", "Number of desired replicas of a BellerophonSimple.", func(o *stablev444beta989.BellerophonSimple) int32 {
				if o.Spec.Replicas == nil {
					return 1
				}
				return *o.Spec.Replicas
			}),
			gauge("replicas_available", "Number of available replicas of a BellerophonSimple.", func(o *stablev444beta989.BellerophonSimple) int32 {
				return o.Status.AvailableReplicas
			}),
			gauge("replicas_ready", "Number of ready replicas of a BellerophonSimple.", func(o *stablev444beta989.BellerophonSimple) int32 {
				return o.Status.ReadyReplicas
			}),
		},
	}
)

// Kinds lists all kinds.
func Kinds() []Kind {
	return []Kind{
		KindScanner, KindClusterVulnerabilityException, KindVulnerabilityException, KindVEXSource, KindVulnerabilityPolicy, KindNotificationRule,
		KindClusterNotificationRule, KindReportSink, KindPodSet, KindMyCustomResource, KindBellerophonSimple,
		{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("Pod"), Object: &corev1.Pod{}, Transform: trimPod},
		{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("Node"), Object: &corev1.Node{}, Transform: trimNode},
		{GroupVersionKind: batchv1.SchemeGroupVersion.WithKind("Job"), Object: &batchv1.Job{}, Selector: scanJobs},
		{GroupVersionKind: appsv1.SchemeGroupVersion.WithKind("Deployment"), Object: &appsv1.Deployment{}, Transform: trimDeployment, Workload: true},
		{GroupVersionKind: appsv1.SchemeGroupVersion.WithKind("StatefulSet"), Object: &appsv1.StatefulSet{}, Selector: managed, Workload: true},
		{GroupVersionKind: appsv1.SchemeGroupVersion.WithKind("DaemonSet"), Object: &appsv1.DaemonSet{}, Workload: true},
		{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("Service"), Object: &corev1.Service{}, Selector: managed},
		{GroupVersionKind: policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"), Object: &policyv1.PodDisruptionBudget{}, Selector: managed},
	}
}

// AddToScheme adds the types of all kinds that are not part of Kubernetes to a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	for _, kind := range Kinds() {
		if kind.AddToScheme == nil {
			continue
		}
		if err := kind.AddToScheme(scheme); err != nil {
			return err
		}
	}
	return nil
}

// WorkloadKind returns the kind of workload with a name such as "Deployment", false when rollouts of it are not reported.
func WorkloadKind(name string) (Kind, bool) {
	for _, kind := range Kinds() {
		if kind.Workload && kind.Kind == name {
			return kind, true
		}
	}
	return Kind{}, false
}

func gauge[T client.Object](name, help string, value func(T) int32) Gauge {
	return Gauge{Name: name, Help: help, Value: func(object client.Object) float64 {
		typed, ok := object.(T)
		if !ok {
			return 0
		}
		return float64(value(typed))
	}}
}

// scanJobs selects the Jobs that scan images.
func scanJobs() (labels.Selector, error) { return labels.Parse(scanjob.LabelScan) }

// managed selects the objects that a controller of the operator created.
func managed() (labels.Selector, error) {
	return labels.SelectorFromSet(labels.Set{LabelManagedBy: ManagedBy}), nil
}
