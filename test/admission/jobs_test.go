package admission_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/scanjob"
)

// scanJob returns a Job of the operator; the mutation comes from somebody who has stolen its token.
func (i *installation) scanJob(namespace string, mutate func(*batchv1.Job, *corev1.PodSpec, *corev1.Container)) *batchv1.Job {
	opts := scanjob.DefaultOptions()
	opts.Image, opts.PlainHTTP = image, []string{"registry.local:5000"}
	opts.UploadURL = i.uploadURL
	key := model.ImageKey{
		ImageID:  "registry.local:5000/app@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
		Platform: model.Platform{OS: "linux", Architecture: "arm", Variant: "v7"},
	}
	job := scanjob.Build(scanjob.Request{
		Name: scanjob.Name(key, "nonce", 1), Key: key, Namespace: namespace, ScannerUID: "uid", PullSecrets: []string{"pull.secret"},
		Fallbacks:           []string{"docker.io/library/app", "registry.local:5000/team/app_x", "[::1]:5000/app"},
		OperatorPullSecrets: []corev1.LocalObjectReference{{Name: "operator"}},
		NodeSelector:        map[string]string{"a": "b"},
		Tolerations:         []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		PriorityClassName:   "low",
	}, opts)
	if mutate != nil {
		mutate(job, &job.Spec.Template.Spec, &job.Spec.Template.Spec.Containers[0])
	}
	return job
}

func TestScanJobs(t *testing.T) {
	i := install(t, `plainHTTPRegistries: ["registry.local:5000"]`)
	g := gomega.NewWithT(t)
	for _, ns := range []string{i.shop, i.release, "kube-system"} {
		g.Expect(i.try(t, i.scanJob(ns, nil))).To(gomega.Succeed(), ns)
	}
	g.Expect(i.try(t, i.scanJob(i.shop, func(_ *batchv1.Job, _ *corev1.PodSpec, c *corev1.Container) {
		c.Env = append(c.Env, corev1.EnvVar{Name: "SCANNER_UPLOAD_CA", Value: "certificate"})
	}))).To(gomega.Succeed(), "the certificate of the operator")

	argument := func(prefix, value string) func(*batchv1.Job, *corev1.PodSpec, *corev1.Container) {
		return func(_ *batchv1.Job, _ *corev1.PodSpec, c *corev1.Container) {
			n := slices.IndexFunc(c.Args, func(a string) bool { return strings.HasPrefix(a, prefix) })
			c.Args[n] = prefix + value
		}
	}
	more := func(arg string) func(*batchv1.Job, *corev1.PodSpec, *corev1.Container) {
		return func(_ *batchv1.Job, _ *corev1.PodSpec, c *corev1.Container) { c.Args = append(c.Args, arg) }
	}
	variable := func(name, value string) func(*batchv1.Job, *corev1.PodSpec, *corev1.Container) {
		return func(_ *batchv1.Job, _ *corev1.PodSpec, c *corev1.Container) {
			c.Env = append(c.Env, corev1.EnvVar{Name: name, Value: value})
		}
	}
	pod := func(mutate func(*corev1.PodSpec)) func(*batchv1.Job, *corev1.PodSpec, *corev1.Container) {
		return func(_ *batchv1.Job, p *corev1.PodSpec, _ *corev1.Container) { mutate(p) }
	}
	attacks := map[string]func(*batchv1.Job, *corev1.PodSpec, *corev1.Container){
		"another upload URL":     argument("--upload-url=", "http://evil.example"),
		"another token file":     argument("--token-file=", "/var/run/scanner-operator/credentials/s/config.json"),
		"another image":          argument("--image-id=", "registry.example.com/other@sha256:0"),
		"a registry without TLS": more("--plain-http-registries=evil.example"),
		"a second upload URL":    more("--upload-url=http://evil.example"),
		"a host for credentials": more("--token-host=evil.example"),
		"too many fallbacks": func(_ *batchv1.Job, _ *corev1.PodSpec, c *corev1.Container) {
			c.Args = append(c.Args, "--fallback-repository=docker.io/a/b", "--fallback-repository=docker.io/a/c")
		},
		"a fallback with a digest":       more("--fallback-repository=evil.example/app@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"),
		"a fallback that is a folder":    more("--fallback-repository=/etc"),
		"a fallback that is an argument": more("--fallback-repository=a/b --upload-url=http://evil.example"),
		"a fallback without a path":      more("--fallback-repository=evil.example"),
		"a long fallback":                more("--fallback-repository=evil.example/" + strings.Repeat("a", 256)),
		"another docker config":          more("--docker-config=/scratch/../config.json"),
		"a folder as an image":           func(_ *batchv1.Job, _ *corev1.PodSpec, c *corev1.Container) { c.Args[1] = "--rootfs=/" },
		"an image without digest": func(_ *batchv1.Job, _ *corev1.PodSpec, c *corev1.Container) {
			c.Args[1], c.Args[2] = "evil:1", "--image-id=evil:1"
		},
		"a proxy":                              variable("HTTPS_PROXY", "http://evil.example"),
		"registries where none are configured": variable("SCANNER_REGISTRIES", `{"proxy":{"url":"http://evil.example"}}`),
		"no registries":                        variable("SCANNER_REGISTRIES", ""),
		"another temporary folder":             variable("TMPDIR", "/var/run"),
		"a memory limit in words":              variable("GOMEMLIMIT", "off"),
		"host aliases":                         pod(harmfulInstances["host aliases"]),
		"a DNS configuration": pod(func(p *corev1.PodSpec) {
			p.DNSPolicy, p.DNSConfig = corev1.DNSNone, &corev1.PodDNSConfig{Nameservers: []string{"1.2.3.4"}}
		}),
		"a search domain":          pod(func(p *corev1.PodSpec) { p.DNSConfig = &corev1.PodDNSConfig{Searches: []string{"evil.example"}} }),
		"the DNS of the node":      pod(func(p *corev1.PodSpec) { p.DNSPolicy = corev1.DNSDefault }),
		"sysctls":                  pod(harmfulInstances["sysctls"]),
		"a priority of the system": pod(harmful["a priority of the system"]),
		"another scheduler":        pod(func(p *corev1.PodSpec) { p.SchedulerName = "evil" }),
		"a host name":              pod(func(p *corev1.PodSpec) { p.Hostname, p.Subdomain = "db-0", "db" }),
		"a runtime class":          pod(func(p *corev1.PodSpec) { p.RuntimeClassName = new("evil") }),
		"restarts":                 pod(func(p *corev1.PodSpec) { p.RestartPolicy = corev1.RestartPolicyOnFailure }),
		"the operator's account":   pod(func(p *corev1.PodSpec) { p.ServiceAccountName = "scanner-controller-manager" }),
		"another group":            pod(func(p *corev1.PodSpec) { p.SecurityContext.SupplementalGroups = []int64{0} }),
		"root":                     pod(func(p *corev1.PodSpec) { p.SecurityContext.RunAsUser = new(int64(0)) }),
		"a Secret":                 pod(harmful["a Secret"]),
		"a volume in memory":       pod(func(p *corev1.PodSpec) { p.Volumes[0].EmptyDir.Medium = corev1.StorageMediumMemory }),
		"two tokens": pod(func(p *corev1.PodSpec) {
			p.Volumes[1].Projected.Sources = append(p.Volumes[1].Projected.Sources, corev1.VolumeProjection{
				ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "api"},
			})
		}),
		"another key": pod(func(p *corev1.PodSpec) {
			p.Volumes[2].Projected.Sources[0].Secret.Items = []corev1.KeyToPath{{Key: "password", Path: "p"}}
		}),
		"another mount": func(_ *batchv1.Job, _ *corev1.PodSpec, c *corev1.Container) { c.VolumeMounts[2].MountPath = "/etc" },
		"a command":     func(_ *batchv1.Job, _ *corev1.PodSpec, c *corev1.Container) { c.Command = []string{"sh"} },
		"a folder":      func(_ *batchv1.Job, _ *corev1.PodSpec, c *corev1.Container) { c.WorkingDir = "/" },
		"an injected container": func(j *batchv1.Job, _ *corev1.PodSpec, _ *corev1.Container) {
			j.Spec.Template.Annotations["vault.hashicorp.com/agent-inject"] = "true"
		},
		"a mesh": func(j *batchv1.Job, _ *corev1.PodSpec, _ *corev1.Container) {
			j.Spec.Template.Annotations["sidecar.istio.io/inject"] = "true"
		},
		"the labels of others": func(j *batchv1.Job, _ *corev1.PodSpec, _ *corev1.Container) { j.Spec.Template.Labels["app"] = "db" },
		"many pods": func(j *batchv1.Job, _ *corev1.PodSpec, _ *corev1.Container) {
			j.Spec.Parallelism, j.Spec.Completions = new(int32(1000)), new(int32(1000))
		},
		"retries":     func(j *batchv1.Job, _ *corev1.PodSpec, _ *corev1.Container) { j.Spec.BackoffLimit = new(int32(100)) },
		"no deadline": func(j *batchv1.Job, _ *corev1.PodSpec, _ *corev1.Container) { j.Spec.ActiveDeadlineSeconds = nil },
		"a controller of theirs": func(j *batchv1.Job, _ *corev1.PodSpec, _ *corev1.Container) {
			j.Spec.ManagedBy = new("example.com/evil")
		},
	}
	for _, name := range sorted(attacks) {
		g.Expect(i.try(t, i.scanJob(i.shop, attacks[name]))).To(denied("scan-jobs"), name)
	}
}

// TestScanJobsReachRegistriesAsConfigured: a mirror or a proxy gets what scans read, and mirrors the credentials for their host.
func TestScanJobsReachRegistriesAsConfigured(t *testing.T) {
	i := install(t, `{plainHTTPRegistries: ["registry.local:5000"], scans: {registries: [{host: docker.io, mirrors: [mirror.example/hub]}]}}`)
	g := gomega.NewWithT(t)
	with := func(text string) func(*batchv1.Job, *corev1.PodSpec, *corev1.Container) {
		return func(_ *batchv1.Job, _ *corev1.PodSpec, c *corev1.Container) {
			c.Env = append(c.Env, corev1.EnvVar{Name: "SCANNER_REGISTRIES", Value: text})
		}
	}
	g.Expect(i.try(t, i.scanJob(i.shop, nil))).To(gomega.Succeed(), "of a manager that does not know of them yet")
	g.Expect(i.try(t, i.scanJob(i.shop, with(`{"registries":[{"host":"docker.io","mirrors":["mirror.example/hub"]}]}`)))).To(gomega.Succeed())
	g.Expect(i.try(t, i.scanJob(i.shop, with(`{"registries":[{"host":"docker.io","mirrors":["evil.example"]}]}`)))).To(denied("scan-jobs"))
	if imageVolumes(t) { // Scans of image volumes ask the same registries and mirrors for layers.
		volume := scanjob.ImageVolume{Nodes: []string{"a"}, UserNamespace: true}
		g.Expect(i.try(t, i.scanJobByVolume(volume, with(`{"registries":[{"host":"docker.io","mirrors":["mirror.example/hub"]}]}`)))).To(gomega.Succeed())
		g.Expect(i.try(t, i.scanJobByVolume(volume, with(`{"registries":[{"host":"docker.io","mirrors":["evil.example"]}]}`)))).To(denied("scan-jobs"))
	}
}

// TestServiceAccountOfScans: pods in the operator's namespace alone may have the one that the chart names.
func TestServiceAccountOfScans(t *testing.T) {
	i := install(t, `{plainHTTPRegistries: ["registry.local:5000"], scans: {serviceAccountName: scans}}`)
	g := gomega.NewWithT(t)
	as := func(name string) func(*batchv1.Job, *corev1.PodSpec, *corev1.Container) {
		return func(_ *batchv1.Job, p *corev1.PodSpec, _ *corev1.Container) { p.ServiceAccountName = name }
	}
	for _, name := range []string{"", "default", "scans"} {
		g.Expect(i.try(t, i.scanJob(i.release, as(name)))).To(gomega.Succeed(), name)
	}
	g.Expect(i.try(t, i.scanJob(i.release, as("scanner-controller-manager")))).To(denied("scan-jobs"))
	g.Expect(i.try(t, i.scanJob(i.shop, as("scans")))).To(denied("scan-jobs"), "in another namespace")
	g.Expect(i.try(t, i.scanJob(i.release, func(_ *batchv1.Job, p *corev1.PodSpec, _ *corev1.Container) {
		p.ServiceAccountName, p.AutomountServiceAccountToken = "scans", nil
	}))).To(denied("scan-jobs"), "with a token")
}

// TestScanJobDeletions: with its right to delete Jobs, the operator cannot delete those of others.
func TestScanJobDeletions(t *testing.T) {
	i := install(t, `plainHTTPRegistries: ["registry.local:5000"]`)
	g := gomega.NewWithT(t)
	remove := func(change func(*batchv1.Job, *corev1.PodSpec, *corev1.Container)) error {
		t.Helper()
		job := i.scanJob(i.shop, change)
		g.Expect(i.admin.Create(t.Context(), job)).To(gomega.Succeed())
		defer func() {
			_ = i.admin.Delete(t.Context(), job, client.PropagationPolicy(metav1.DeletePropagationBackground))
		}()
		return i.own.Delete(t.Context(), job, client.DryRunAll, client.PropagationPolicy(metav1.DeletePropagationBackground))
	}
	backup := func(j *batchv1.Job, _ *corev1.PodSpec, _ *corev1.Container) {
		j.Labels, j.Spec.Template.Labels = map[string]string{"app": "backup"}, map[string]string{"app": "backup"}
	}
	// The API server takes a moment to know a new policy.
	g.Eventually(func() error { return remove(backup) }, patience, tick).Should(denied("scan-job-deletions"))
	g.Expect(remove(nil)).To(gomega.Succeed())
	g.Expect(remove(func(j *batchv1.Job, _ *corev1.PodSpec, _ *corev1.Container) { j.Labels = nil })).To(gomega.Succeed(), "after a user has removed the labels of the Job")
	for name, change := range map[string]func(*batchv1.Job, *corev1.PodSpec, *corev1.Container){
		"the label of another Job": func(j *batchv1.Job, _ *corev1.PodSpec, _ *corev1.Container) {
			j.Spec.Template.Labels[scanjob.LabelScan] = "another"
		},
		"another container": func(_ *batchv1.Job, _ *corev1.PodSpec, c *corev1.Container) { c.Name = "backup" },
	} {
		g.Expect(remove(change)).To(denied("scan-job-deletions"), name)
	}
}

// TestNoJobsInProcess: an operator that catalogs in a child process has no right to create Jobs, so that no policy has to limit it.
func TestNoJobsInProcess(t *testing.T) {
	i := install(t, "catalog: {mode: in-process}")
	gomega.NewWithT(t).Expect(i.try(t, i.scanJob(i.shop, nil))).To(gomega.MatchError(gomega.ContainSubstring(`cannot create resource "jobs"`)))
}
