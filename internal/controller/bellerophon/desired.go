package bellerophon

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	policyv1ac "k8s.io/client-go/applyconfigurations/policy/v1"

	stablev444beta989 "github.com/scanner-operator/scanner-operator/api/stable/v444beta989"
	"github.com/scanner-operator/scanner-operator/internal/kube"
)

const (
	// annotationApplied is a hash of the fields that were applied last. A different hash means that the desired fields have changed, even if the live
	// object has all of them: a label may be not desired any more.
	annotationApplied = "stable.simple-bellerophon.io/applied"

	containerName = "app"
	volumeName    = "data"
	horseVariable = "WINGED_HORSE_NAME"

	// volumeGroup is the group of the volumes, so that an image may write to them whatever its user is.
	volumeGroup = 65532
	// gracePeriod is the termination grace period in seconds, twice the default of Kubernetes.
	gracePeriod = 60
)

// desired returns the objects of a shero, in the order of creation, with the fields that the controller applies.
func desired(shero *stablev444beta989.BellerophonSimple) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	for _, config := range []any{service(shero), statefulSet(shero), disruptionBudget(shero)} {
		text, err := json.Marshal(config)
		if err != nil {
			return nil, fmt.Errorf("encode the desired object: %w", err)
		}
		object := &unstructured.Unstructured{}
		// Unlike encoding/json, it decodes integers as integers.
		if err := utiljson.Unmarshal(text, &object.Object); err != nil {
			return nil, fmt.Errorf("decode the desired object: %w", err)
		}
		hash := sha256.Sum256(text)
		object.SetAnnotations(map[string]string{annotationApplied: hex.EncodeToString(hash[:8])})
		objects = append(objects, object)
	}
	return objects, nil
}

// service returns the headless Service, which gives the instances DNS names.
func service(shero *stablev444beta989.BellerophonSimple) *corev1ac.ServiceApplyConfiguration {
	return corev1ac.Service(shero.Name, shero.Namespace).
		WithLabels(labelsOf(shero)).
		WithOwnerReferences(owner(shero)).
		WithSpec(corev1ac.ServiceSpec().
			WithClusterIP(corev1.ClusterIPNone).
			// Instances have to find each other to become ready.
			WithPublishNotReadyAddresses(true).
			WithSelector(selector(shero)))
}

// disruptionBudget allows the eviction of one instance at a time. Instances that are not ready may always be evicted, so that a broken instance does
// not block the drain of a node; nor does a single instance.
func disruptionBudget(shero *stablev444beta989.BellerophonSimple) *policyv1ac.PodDisruptionBudgetApplyConfiguration {
	return policyv1ac.PodDisruptionBudget(shero.Name, shero.Namespace).
		WithLabels(labelsOf(shero)).
		WithOwnerReferences(owner(shero)).
		WithSpec(policyv1ac.PodDisruptionBudgetSpec().
			WithMaxUnavailable(intstr.FromInt32(1)).
			WithUnhealthyPodEvictionPolicy(policyv1.AlwaysAllow).
			WithSelector(metav1ac.LabelSelector().WithMatchLabels(selector(shero))))
}

func statefulSet(shero *stablev444beta989.BellerophonSimple) *appsv1ac.StatefulSetApplyConfiguration {
	spec := appsv1ac.StatefulSetSpec().
		WithReplicas(replicas(shero)).
		WithServiceName(shero.Name).
		WithSelector(metav1ac.LabelSelector().WithMatchLabels(selector(shero))).
		// With OrderedReady an instance that cannot become ready would never be replaced by one with a better image.
		WithPodManagementPolicy(appsv1.ParallelPodManagement).
		WithUpdateStrategy(appsv1ac.StatefulSetUpdateStrategy().WithType(appsv1.RollingUpdateStatefulSetStrategyType)).
		WithTemplate(corev1ac.PodTemplateSpec().WithLabels(labelsOf(shero)).WithSpec(pod(shero)))
	if storage := shero.Spec.Storage; storage != nil {
		spec.WithVolumeClaimTemplates(volumeClaim(shero)).
			WithPersistentVolumeClaimRetentionPolicy(appsv1ac.StatefulSetPersistentVolumeClaimRetentionPolicy().
				WithWhenDeleted(retention(storage.OnDelete)).WithWhenScaled(retention(storage.OnScaleDown)))
	}
	return appsv1ac.StatefulSet(shero.Name, shero.Namespace).
		WithLabels(labelsOf(shero)).
		WithOwnerReferences(owner(shero)).
		WithSpec(spec)
}

// pod returns a pod that meets the restricted Pod Security Standard. The user is that of the image.
func pod(shero *stablev444beta989.BellerophonSimple) *corev1ac.PodSpecApplyConfiguration {
	security := corev1ac.PodSecurityContext().
		WithRunAsNonRoot(true).
		WithSeccompProfile(corev1ac.SeccompProfile().WithType(corev1.SeccompProfileTypeRuntimeDefault))
	container := corev1ac.Container().
		WithName(containerName).
		WithImage(shero.Spec.Image).
		WithSecurityContext(corev1ac.SecurityContext().
			WithAllowPrivilegeEscalation(false).
			WithCapabilities(corev1ac.Capabilities().WithDrop("ALL")))
	if name := shero.Spec.WingedHorseName; name != "" {
		// The kubelet reads $(NAME) as a reference, unless the $ is doubled.
		container.WithEnv(corev1ac.EnvVar().WithName(horseVariable).WithValue(strings.ReplaceAll(name, "$", "$$")))
	}
	if storage := shero.Spec.Storage; storage != nil {
		security.WithFSGroup(volumeGroup).WithFSGroupChangePolicy(corev1.FSGroupChangeOnRootMismatch)
		container.WithVolumeMounts(corev1ac.VolumeMount().WithName(volumeName).WithMountPath(storage.MountPath))
	}
	return corev1ac.PodSpec().
		WithAutomountServiceAccountToken(false).
		WithTerminationGracePeriodSeconds(gracePeriod).
		WithSecurityContext(security).
		WithContainers(container)
}

func volumeClaim(shero *stablev444beta989.BellerophonSimple) *corev1ac.PersistentVolumeClaimApplyConfiguration {
	storage := shero.Spec.Storage
	spec := corev1ac.PersistentVolumeClaimSpec().
		WithAccessModes(corev1.ReadWriteOnce).
		WithResources(corev1ac.VolumeResourceRequirements().WithRequests(corev1.ResourceList{corev1.ResourceStorage: storage.Size}))
	spec.StorageClassName = storage.StorageClassName
	return (&corev1ac.PersistentVolumeClaimApplyConfiguration{}).WithName(volumeName).WithLabels(selector(shero)).WithSpec(spec)
}

func retention(policy stablev444beta989.ClaimPolicy) appsv1.PersistentVolumeClaimRetentionPolicyType {
	if policy == stablev444beta989.ClaimDelete {
		return appsv1.DeletePersistentVolumeClaimRetentionPolicyType
	}
	return appsv1.RetainPersistentVolumeClaimRetentionPolicyType
}

// replicas returns the number of desired instances.
func replicas(shero *stablev444beta989.BellerophonSimple) int32 {
	if shero.Spec.Replicas == nil {
		return 1
	}
	return *shero.Spec.Replicas
}

// selector returns the labels that select the pods. They never change.
func selector(shero *stablev444beta989.BellerophonSimple) map[string]string {
	return map[string]string{stablev444beta989.LabelShero: shero.Name}
}

func labelsOf(shero *stablev444beta989.BellerophonSimple) map[string]string {
	all := selector(shero)
	all[kube.LabelManagedBy] = kube.ManagedBy
	all["app.kubernetes.io/name"] = "bellerophonsimple"
	all["app.kubernetes.io/instance"] = shero.Name
	if name := shero.Spec.WingedHorseName; name != "" && len(validation.IsValidLabelValue(name)) == 0 {
		all[stablev444beta989.LabelWingedHorseName] = name
	}
	return all
}

func owner(shero *stablev444beta989.BellerophonSimple) *metav1ac.OwnerReferenceApplyConfiguration {
	ref := metav1.NewControllerRef(shero, stablev444beta989.GroupVersion.WithKind("BellerophonSimple"))
	return metav1ac.OwnerReference().WithAPIVersion(ref.APIVersion).WithKind(ref.Kind).WithName(ref.Name).WithUID(ref.UID).
		WithController(true).WithBlockOwnerDeletion(true)
}
