package admission_test

import (
	"strings"
	"testing"

	"github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/scanjob"
)

// scanJobByVolume returns a Job of the operator that reads the image from an image volume.
func (i *installation) scanJobByVolume(volume scanjob.ImageVolume, mutate func(*batchv1.Job, *corev1.PodSpec, *corev1.Container)) *batchv1.Job {
	opts := scanjob.DefaultOptions()
	opts.Image, opts.UploadURL = image, i.uploadURL
	key := model.ImageKey{
		ImageID:  "registry.local:5000/app@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
		Platform: model.Platform{OS: "linux", Architecture: "arm", Variant: "v7"},
	}
	job := scanjob.Build(scanjob.Request{
		Name: scanjob.Name(key, "nonce", 1), Key: key, Namespace: i.shop, ScannerUID: "uid", PullSecrets: []string{"pull.secret"}, Volume: &volume,
	}, opts)
	if mutate != nil {
		mutate(job, &job.Spec.Template.Spec, &job.Spec.Template.Spec.Containers[0])
	}
	return job
}

// TestScanJobsMountTheImageThatTheyCatalog: a stolen token cannot have the kubelet mount another image, or anything beside it.
func TestScanJobsMountTheImageThatTheyCatalog(t *testing.T) {
	i := install(t, `plainHTTPRegistries: ["registry.local:5000"]`)
	g := gomega.NewWithT(t)
	root := scanjob.ImageVolume{Nodes: []string{"a"}, UserNamespace: true}
	if !imageVolumes(t) {
		g.Expect(i.try(t, i.scanJobByVolume(root, nil))).To(denied("since Kubernetes 1.35"))
		return
	}
	for _, volume := range []scanjob.ImageVolume{{}, {Nodes: []string{"a", "b"}}, {Nodes: []string{"a"}, Required: true}, root} {
		g.Expect(i.try(t, i.scanJobByVolume(volume, nil))).To(gomega.Succeed(), "%+v", volume)
	}
	const config = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	onNode := func(policy corev1.PullPolicy) func(*batchv1.Job, *corev1.PodSpec, *corev1.Container) {
		return func(_ *batchv1.Job, p *corev1.PodSpec, c *corev1.Container) {
			c.Args[1], c.Args[2] = config, "--image-id="+config
			p.Volumes[2].Image.Reference, p.Volumes[2].Image.PullPolicy = config, policy
		}
	}
	g.Expect(i.try(t, i.scanJobByVolume(root, onNode(corev1.PullNever)))).To(gomega.Succeed(), "an image without a repository")

	pod := func(mutate func(*corev1.PodSpec)) func(*batchv1.Job, *corev1.PodSpec, *corev1.Container) {
		return func(_ *batchv1.Job, p *corev1.PodSpec, _ *corev1.Container) { mutate(p) }
	}
	more := func(arg string) func(*batchv1.Job, *corev1.PodSpec, *corev1.Container) {
		return func(_ *batchv1.Job, _ *corev1.PodSpec, c *corev1.Container) { c.Args = append(c.Args, arg) }
	}
	secret := scanjob.Build(scanjob.Request{PullSecrets: []string{"s"}}, scanjob.DefaultOptions()).Spec.Template.Spec
	attacks := map[string]func(*batchv1.Job, *corev1.PodSpec, *corev1.Container){
		"another digest": pod(func(p *corev1.PodSpec) {
			p.Volumes[2].Image.Reference = strings.Replace(p.Volumes[2].Image.Reference, "0123", "3210", 1)
		}),
		"another repository": pod(func(p *corev1.PodSpec) {
			p.Volumes[2].Image.Reference = strings.Replace(p.Volumes[2].Image.Reference, "app", "db", 1)
		}),
		"a tag": func(_ *batchv1.Job, p *corev1.PodSpec, c *corev1.Container) {
			c.Args[1], c.Args[2], p.Volumes[2].Image.Reference = "app:1", "--image-id=app:1", "app:1"
		},
		"a pull each time":            pod(func(p *corev1.PodSpec) { p.Volumes[2].Image.PullPolicy = corev1.PullAlways }),
		"a pull without a repository": onNode(corev1.PullIfNotPresent),
		"a second image": func(_ *batchv1.Job, p *corev1.PodSpec, _ *corev1.Container) {
			second := p.Volumes[2].DeepCopy()
			second.Name = "image2"
			p.Volumes = append(p.Volumes, *second)
		},
		"no image": func(_ *batchv1.Job, p *corev1.PodSpec, c *corev1.Container) {
			p.Volumes, c.VolumeMounts = p.Volumes[:2], c.VolumeMounts[:2]
		},
		"an image beside the registry": func(_ *batchv1.Job, _ *corev1.PodSpec, c *corev1.Container) { c.Args = c.Args[:len(c.Args)-1] },
		"an empty volume as the image": pod(func(p *corev1.PodSpec) {
			p.Volumes[2].VolumeSource = corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
		}),
		"a folder of the node": pod(func(p *corev1.PodSpec) {
			p.Volumes[2].VolumeSource = corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}
		}),
		"a writable mount":       func(_ *batchv1.Job, _ *corev1.PodSpec, c *corev1.Container) { c.VolumeMounts[2].ReadOnly = false },
		"another path":           func(_ *batchv1.Job, _ *corev1.PodSpec, c *corev1.Container) { c.VolumeMounts[2].MountPath = "/etc" },
		"a part of the image":    func(_ *batchv1.Job, _ *corev1.PodSpec, c *corev1.Container) { c.VolumeMounts[2].SubPath = "etc" },
		"another folder":         func(_ *batchv1.Job, _ *corev1.PodSpec, c *corev1.Container) { c.Args[len(c.Args)-1] = "--rootfs=/" },
		"a second folder":        more("--rootfs=/var/run"),
		"a docker config":        more("--docker-config=/var/run/scanner-operator/credentials/s/config.json"),
		"a registry without TLS": more("--plain-http-registries=registry.local:5000"),
		"pull credentials":       pod(func(p *corev1.PodSpec) { p.Volumes = append(p.Volumes, secret.Volumes[2]) }),
		"a Secret":               pod(harmful["a Secret"]),
		"the user of the node":   pod(func(p *corev1.PodSpec) { p.HostUsers = nil }),
		"users of the node":      pod(func(p *corev1.PodSpec) { p.HostUsers = new(true) }),
		"privileges": func(_ *batchv1.Job, _ *corev1.PodSpec, c *corev1.Container) {
			c.SecurityContext.Privileged, c.SecurityContext.AllowPrivilegeEscalation = new(true), nil
		},
		"capabilities": func(_ *batchv1.Job, _ *corev1.PodSpec, c *corev1.Container) {
			c.SecurityContext.Capabilities.Drop = nil
		},
		"an account of a workload": pod(func(p *corev1.PodSpec) { p.ServiceAccountName = "builder" }),
		"a token for the API":      pod(func(p *corev1.PodSpec) { p.AutomountServiceAccountToken = new(true) }),
	}
	for _, name := range sorted(attacks) {
		g.Expect(i.try(t, i.scanJobByVolume(root, attacks[name]))).To(denied("scan-jobs"), name)
	}
	fromRegistry := func(p *corev1.PodSpec) {
		p.HostUsers, p.SecurityContext.RunAsNonRoot, p.SecurityContext.RunAsUser = new(false), nil, new(int64(0))
	}
	g.Expect(i.try(t, i.scanJob(i.shop, pod(fromRegistry)))).To(denied("scan-jobs"), "root, for a scan that pulls")
}
