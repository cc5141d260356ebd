// Package scanjob builds the Job that scans an image, and evaluates the outcome of such Jobs.
// It does no I/O.
package scanjob

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

const prefix = "scanner.zoltankerezsi.xyz/"

// Labels and annotations of scan Jobs and their pods.
const (
	// LabelScan marks scan Jobs and their pods; its value is the name of the Job.
	LabelScan = prefix + "scan"
	// LabelScanner holds the UID of the Scanner that asked for the scan.
	LabelScanner = prefix + "scanner-uid"
	// AnnotationImageID and AnnotationPlatform name what is cataloged.
	AnnotationImageID  = prefix + "image-id"
	AnnotationPlatform = prefix + "platform"
	// AnnotationSizeClass is the model.SizeClass that the memory follows from.
	AnnotationSizeClass = prefix + "size-class"
	// AnnotationFor names the namespace of the workload that the scan was started for, to people who look at a Job in the namespace of the
	// operator.
	AnnotationFor = prefix + "for-namespace"
	// AnnotationJobSpec is a hash of what the Scanner specified for the Job, for people. Recorded keeps it.
	AnnotationJobSpec = prefix + "job-spec"
)

// Audience is the audience of the tokens that scan pods present to the operator.
const Audience = "scanner-operator"

// DefaultDeadline bounds the run time of a Job where a user chooses no other bound.
const DefaultDeadline = 15 * time.Minute

// UploadCAVariable is the environment variable with the CAs that a scan trusts for the upload, in PEM.
const UploadCAVariable = "SCANNER_UPLOAD_CA"

// RegistriesVariable is the environment variable of the manager and of scans with the text of a registries.Config.
const RegistriesVariable = "SCANNER_REGISTRIES"

// ContainerName is the name of the only container of a scan pod.
const ContainerName = "catalog"

const (
	scratchPath     = "/scratch"
	credentialsPath = "/var/run/scanner-operator/credentials" //nolint:gosec // a path, not a credential
	tokenPath       = "/var/run/scanner-operator/token"       //nolint:gosec // a path, not a credential
	tokenFile       = "token"
	dockerConfig    = "config.json"
	oldDockerConfig = ".dockercfg"
	// The kubelet requests tokens that are valid for at least ten minutes. A token outlives the Job's deadline by some minutes.
	minTokenLifetime = 10 * time.Minute
)

// Name is the name of the Job for one attempt to catalog an image. It is the same on every call, so that two
// creations of one attempt collide, and cannot be guessed without the nonce, so that nobody else can have made the Job.
func Name(key model.ImageKey, nonce string, attempt int) string {
	hash := sha256.New()
	for _, part := range []string{nonce, key.ImageID, key.Platform.String(), strconv.Itoa(attempt)} {
		fmt.Fprintf(hash, "%d:%s", len(part), part)
	}
	return "scan-" + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(hash.Sum(nil)[:20]))
}

// Options are the same for every Job of an operator.
type Options struct {
	// Image is the operator's own image.
	Image           string
	ImagePullPolicy corev1.PullPolicy
	// UploadURL is the operator's API as scan pods reach it.
	UploadURL string
	// UploadCA holds in PEM the CAs that scan pods trust for UploadURL, besides those of their system; it may be empty.
	UploadCA string
	// PlainHTTP lists registries, as host[:port], that are reached without TLS.
	PlainHTTP []string
	// Registries is the text of a registries.Config; it may be empty.
	Registries string
	// Deadline bounds the run time of a Job, in whole seconds, TTL the time that a finished Job stays to be looked at.
	Deadline time.Duration
	TTL      time.Duration
	// ScratchSize bounds the disk that a scan uses.
	ScratchSize resource.Quantity
	// Architecture is that of the nodes that can run Image, such as amd64; empty for all.
	Architecture string
	// Resources are used where a Request leaves them out.
	Resources corev1.ResourceRequirements
	// MaxMemory bounds what a size class makes of the memory; what is asked for without one is not cut.
	MaxMemory resource.Quantity
	// PriorityClassName is used where a Request names none.
	PriorityClassName string
}

// DefaultOptions returns Options with every bound set; Image and UploadURL are left to the caller.
func DefaultOptions() Options {
	return Options{
		ImagePullPolicy: corev1.PullIfNotPresent,
		Architecture:    runtime.GOARCH,
		Deadline:        DefaultDeadline,
		TTL:             5 * time.Minute,
		ScratchSize:     resource.MustParse("10Gi"),
		MaxMemory:       resource.MustParse("8Gi"),
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{
				corev1.ResourceCPU:    resource.MustParse("100m"),
				corev1.ResourceMemory: resource.MustParse("256Mi"),
			},
			Limits: corev1.ResourceList{
				corev1.ResourceMemory: resource.MustParse("1Gi"),
			},
		},
	}
}

// Request asks for one attempt to catalog an image, or to look up newer tags of one.
type Request struct {
	// Name is that of the Job, from Name.
	Name string
	Key  model.ImageKey
	// Lookup has the scan catalog newer tags instead of Key, under which it uploads them; nil to catalog Key. It requires the platform of Key, and no Volume.
	Lookup *Lookup
	// Attempt is the number of the attempt, from 0; Build does not read it.
	Attempt int
	// Namespace is that of the operator, or one in which a pod runs the image, so that the pod's pull secrets can be mounted.
	Namespace string
	// For is the namespace of the workload that the scan is started for.
	For string
	// ScannerUID is the UID of the Scanner that asks.
	ScannerUID string
	// JobSpec is a hash of what the Scanner specifies for the Job.
	JobSpec string
	// Fallbacks are repositories, as of model.RepositoryOf, from which the image is pulled by its digest if it cannot be pulled from its own.
	// Build uses the first model.MaxFallbacks.
	Fallbacks []string
	// PullSecrets name the Secrets with credentials for the image's registry.
	PullSecrets []string
	// Volume has the scan read the image from an image volume instead of its registry; nil for the registry. It requires the platform of Key.
	Volume *ImageVolume
	// ServiceAccount is that of the pod, "" for the default one. No token of it is mounted but the one for Audience.
	ServiceAccount string
	// OperatorPullSecrets name the Secrets with which the kubelet pulls the operator's own image.
	OperatorPullSecrets []corev1.LocalObjectReference
	Resources           corev1.ResourceRequirements
	SizeClass           model.SizeClass
	NodeSelector        map[string]string
	Tolerations         []corev1.Toleration
	PriorityClassName   string
}

// Lookup says which newer tags are cataloged.
type Lookup struct {
	// ID is store.TagLookup.ID; Build does not read it.
	ID string
	// Reference is REPOSITORY:TAG, and Limit the maximum number of newer tags.
	Reference string
	Limit     int
	// Known are digests of images that need not be cataloged. Build uses the first MaxKnown.
	Known []string
}

// MaxKnown bounds Lookup.Known.
const MaxKnown = 50

// Build makes the Job. Its pod meets Pod Security "restricted" and carries no API token but one for Audience.
func Build(req Request, opts Options) *batchv1.Job {
	labels := map[string]string{
		"app.kubernetes.io/name":       "scanner-operator",
		"app.kubernetes.io/component":  "scan",
		"app.kubernetes.io/managed-by": "scanner-operator",
		LabelScan:                      req.Name,
		LabelScanner:                   req.ScannerUID,
	}
	annotations := map[string]string{
		AnnotationImageID: req.Key.ImageID, AnnotationPlatform: req.Key.Platform.String(), AnnotationSizeClass: string(req.SizeClass.OrSmall()),
		AnnotationFor: req.For, AnnotationJobSpec: req.JobSpec,
	}
	// A sidecar would change what runs, and go on after the scan.
	podLabels, podAnnotations := maps.Clone(labels), map[string]string{"sidecar.istio.io/inject": "false", "linkerd.io/inject": "disabled"}
	podLabels["sidecar.istio.io/inject"] = "false"
	if req.Volume != nil {
		podLabels[LabelSource] = SourceImageVolume
	}
	maps.Copy(podAnnotations, annotations)
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: req.Name, Namespace: req.Namespace, Labels: labels, Annotations: annotations},
		Spec: batchv1.JobSpec{
			BackoffLimit:            new(int32(0)),
			Completions:             new(int32(1)),
			Parallelism:             new(int32(1)),
			ActiveDeadlineSeconds:   new(int64(opts.Deadline / time.Second)),
			TTLSecondsAfterFinished: new(int32(opts.TTL / time.Second)),
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: podLabels, Annotations: podAnnotations},
				Spec:       podSpec(req, opts),
			},
		},
	}
}

// SizeClass reads from a Job the class that it was given.
func SizeClass(job *batchv1.Job) model.SizeClass {
	return model.SizeClass(job.Annotations[AnnotationSizeClass]).OrSmall()
}

// Key reads from a Job what it catalogs. It is the zero value when the Job does not say it as Build does.
func Key(job *batchv1.Job) model.ImageKey {
	key := model.ImageKey{ImageID: job.Annotations[AnnotationImageID]}
	if key.Validate() != nil {
		return model.ImageKey{}
	}
	if platform := job.Annotations[AnnotationPlatform]; platform != "" {
		var err error
		if key.Platform, err = model.ParsePlatform(platform); err != nil {
			return model.ImageKey{}
		}
	}
	return key
}

func podSpec(req Request, opts Options) corev1.PodSpec {
	volumes := []corev1.Volume{
		{Name: "scratch", VolumeSource: corev1.VolumeSource{
			EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: new(opts.ScratchSize.DeepCopy())},
		}},
		{Name: "token", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
			Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{
				Audience:          Audience,
				ExpirationSeconds: new(int64(max(opts.Deadline+5*time.Minute, minTokenLifetime) / time.Second)),
				Path:              tokenFile,
			}}},
		}}},
	}
	mounts := []corev1.VolumeMount{
		{Name: "scratch", MountPath: scratchPath},
		{Name: "token", MountPath: tokenPath, ReadOnly: true},
	}
	more, moreMounts := req.volumes()
	volumes, mounts = append(volumes, more...), append(mounts, moreMounts...)
	security, hostUsers := req.securityContext()
	priority := req.PriorityClassName
	if priority == "" {
		priority = opts.PriorityClassName
	}
	granted := opts.Memory(req.Resources, req.SizeClass)
	return corev1.PodSpec{
		RestartPolicy:                corev1.RestartPolicyNever,
		ServiceAccountName:           req.ServiceAccount,
		AutomountServiceAccountToken: new(false),
		EnableServiceLinks:           new(false),
		ImagePullSecrets:             req.pullSecrets(),
		Affinity:                     req.affinity(),
		NodeSelector:                 nodeSelector(req, opts),
		Tolerations:                  req.Tolerations,
		PriorityClassName:            priority,
		HostUsers:                    hostUsers,
		SecurityContext:              security,
		Containers: []corev1.Container{{
			Name:                     ContainerName,
			Image:                    opts.Image,
			ImagePullPolicy:          opts.ImagePullPolicy,
			Args:                     arguments(req, opts),
			Env:                      environment(granted, opts),
			Resources:                granted,
			VolumeMounts:             mounts,
			TerminationMessagePolicy: corev1.TerminationMessageReadFile,
			SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: new(false),
				ReadOnlyRootFilesystem:   new(true),
				Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			},
		}},
		Volumes: volumes,
	}
}

// nodeSelector selects nodes that can run the operator's image, and on which an image volume has the wanted platform.
func nodeSelector(req Request, opts Options) map[string]string {
	selector := map[string]string{corev1.LabelOSStable: "linux"}
	if opts.Architecture != "" {
		selector[corev1.LabelArchStable] = opts.Architecture
	}
	if req.Volume != nil {
		selector[corev1.LabelArchStable] = req.Key.Platform.Architecture
	}
	maps.Copy(selector, req.NodeSelector)
	return selector
}

func arguments(req Request, opts Options) []string {
	command := []string{"catalog", req.Key.ImageID}
	if req.Lookup != nil {
		command = []string{"catalog-newer-tags", req.Lookup.Reference, "--limit=" + strconv.Itoa(req.Lookup.Limit)}
		for _, digest := range req.Lookup.Known[:min(len(req.Lookup.Known), MaxKnown)] {
			command = append(command, "--known-digest="+digest)
		}
	}
	args := slices.Concat(command, []string{
		"--image-id=" + req.Key.ImageID,
		"--upload-url=" + opts.UploadURL,
		"--token-file=" + tokenPath + "/" + tokenFile,
		"--scratch-dir=" + scratchPath,
		// Shorter than the deadline of the Job, so that the container can still report its outcome.
		"--timeout=" + (opts.Deadline - opts.Deadline/10).String(),
	})
	if p := req.Key.Platform.String(); p != "" {
		args = append(args, "--platform="+p)
	}
	if req.Volume != nil {
		return append(args, rootFSArg)
	}
	for _, name := range req.PullSecrets {
		args = append(args, "--docker-config="+credentialsPath+"/"+name+"/"+dockerConfig)
	}
	for _, repository := range req.Fallbacks[:min(len(req.Fallbacks), model.MaxFallbacks)] {
		args = append(args, "--fallback-repository="+repository)
	}
	for _, host := range opts.PlainHTTP {
		args = append(args, "--plain-http-registries="+host)
	}
	return args
}

// environment names the CAs for the upload and how to reach registries, and has the Go runtime collect harder before the memory is used up.
func environment(granted corev1.ResourceRequirements, opts Options) []corev1.EnvVar {
	env := []corev1.EnvVar{{Name: "TMPDIR", Value: scratchPath}, {Name: "HOME", Value: scratchPath}}
	if opts.UploadCA != "" {
		env = append(env, corev1.EnvVar{Name: UploadCAVariable, Value: opts.UploadCA})
	}
	if opts.Registries != "" {
		env = append(env, corev1.EnvVar{Name: RegistriesVariable, Value: opts.Registries})
	}
	if limit := granted.Limits.Memory(); !limit.IsZero() {
		env = append(env, corev1.EnvVar{Name: "GOMEMLIMIT", Value: strconv.FormatInt(limit.Value()/10*9, 10)})
	}
	return env
}

// credentials projects the pull secrets into one volume, each in a folder of its name, so that a failure can say which were tried. All
// are optional: a pod may name Secrets that do not exist, and each has the one key or the other. A scan reads the old form where the other
// is not there.
func credentials(secrets []string) corev1.VolumeSource {
	sources := make([]corev1.VolumeProjection, 0, len(secrets))
	for _, name := range secrets {
		sources = append(sources, corev1.VolumeProjection{Secret: &corev1.SecretProjection{
			LocalObjectReference: corev1.LocalObjectReference{Name: name},
			Items: []corev1.KeyToPath{
				{Key: corev1.DockerConfigJsonKey, Path: name + "/" + dockerConfig}, {Key: corev1.DockerConfigKey, Path: name + "/" + oldDockerConfig},
			},
			Optional: new(true),
		}})
	}
	return corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: sources, DefaultMode: new(int32(0o444))}}
}
