package scanjob

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestDifference(t *testing.T) {
	job := build(func(r *Request) { r.PullSecrets = []string{"registry"} })
	recorded, err := Recorded(job)
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		change func(*corev1.PodSpec)
		want   string
	}{
		"as built": {func(*corev1.PodSpec) {}, ""},
		"as the API server, the scheduler and admission complete it": {func(p *corev1.PodSpec) {
			p.NodeName, p.SchedulerName, p.DNSPolicy = "node", "default-scheduler", corev1.DNSClusterFirst
			p.ServiceAccountName, p.DeprecatedServiceAccount = "default", "default"
			p.TerminationGracePeriodSeconds, p.Priority, p.PreemptionPolicy = new(int64(30)), new(int32(0)), new(corev1.PreemptLowerPriority)
			p.PriorityClassName, p.RuntimeClassName, p.NodeSelector = "low", new("gvisor"), map[string]string{"pool": "scans"}
			p.Tolerations = []corev1.Toleration{{Key: "node.kubernetes.io/not-ready"}}
			p.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "of-the-service-account"}}
			p.Affinity, p.SchedulingGates = &corev1.Affinity{}, []corev1.PodSchedulingGate{{Name: "quota"}}
			p.SecurityContext.SELinuxOptions = &corev1.SELinuxOptions{Level: "s0:c1,c2"}
			p.SecurityContext.FSGroup, p.SecurityContext.SupplementalGroups = new(int64(1000680000)), []int64{1000680000}
			c := &p.Containers[0]
			c.TerminationMessagePath, c.ImagePullPolicy = "/dev/termination-log", corev1.PullAlways
			c.Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
			c.SecurityContext.ProcMount, c.SecurityContext.RunAsUser = new(corev1.DefaultProcMount), new(int64(1000680000))
			p.Volumes[1].Projected.DefaultMode = new(int32(0o644))
		}, ""},
		"image":         {func(p *corev1.PodSpec) { p.Containers[0].Image = "evil" }, "containers[0].image"},
		"command":       {func(p *corev1.PodSpec) { p.Containers[0].Command = []string{"sh"} }, "containers[0].command"},
		"argument":      {func(p *corev1.PodSpec) { p.Containers[0].Args[3] = "--upload-url=http://evil" }, "containers[0].args[3]"},
		"argument more": {func(p *corev1.PodSpec) { p.Containers[0].Args = append(p.Containers[0].Args, "x") }, "containers[0].args[10]"},
		"environment":   {func(p *corev1.PodSpec) { p.Containers[0].Env[0].Value = "/x" }, "containers[0].env[0].value"},
		"proxy": {func(p *corev1.PodSpec) {
			p.Containers[0].Env = append(p.Containers[0].Env, corev1.EnvVar{Name: "HTTP_PROXY"})
		}, "containers[0].env[3]"},
		"environment from": {func(p *corev1.PodSpec) { p.Containers[0].EnvFrom = []corev1.EnvFromSource{{}} }, "containers[0].envFrom"},
		"mount":            {func(p *corev1.PodSpec) { p.Containers[0].VolumeMounts[1].MountPath = "/x" }, "containers[0].volumeMounts[1].mountPath"},
		"volume": {func(p *corev1.PodSpec) {
			p.Volumes[0].VolumeSource = corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{}}
		}, "volumes[0].emptyDir"},
		"audience":         {func(p *corev1.PodSpec) { p.Volumes[1].Projected.Sources[0].ServiceAccountToken.Audience = "x" }, "volumes[1].projected.sources[0].serviceAccountToken.audience"},
		"lifecycle":        {func(p *corev1.PodSpec) { p.Containers[0].Lifecycle = &corev1.Lifecycle{} }, "containers[0].lifecycle"},
		"sidecar":          {func(p *corev1.PodSpec) { p.Containers = append(p.Containers, corev1.Container{Name: "x"}) }, "containers[1]"},
		"init container":   {func(p *corev1.PodSpec) { p.InitContainers = []corev1.Container{{Name: "x"}} }, "initContainers"},
		"ephemeral":        {func(p *corev1.PodSpec) { p.EphemeralContainers = make([]corev1.EphemeralContainer, 1) }, "ephemeralContainers"},
		"account":          {func(p *corev1.PodSpec) { p.ServiceAccountName = "other" }, "serviceAccountName"},
		"token":            {func(p *corev1.PodSpec) { p.AutomountServiceAccountToken = nil }, "automountServiceAccountToken"},
		"host network":     {func(p *corev1.PodSpec) { p.HostNetwork = true }, "hostNetwork"},
		"shared processes": {func(p *corev1.PodSpec) { p.ShareProcessNamespace = new(true) }, "shareProcessNamespace"},
		"host aliases":     {func(p *corev1.PodSpec) { p.HostAliases = []corev1.HostAlias{{IP: "10.0.0.1"}} }, "hostAliases"},
		"name server":      {func(p *corev1.PodSpec) { p.DNSConfig = &corev1.PodDNSConfig{} }, "dnsConfig"},
		"DNS policy":       {func(p *corev1.PodSpec) { p.DNSPolicy = corev1.DNSNone }, "dnsPolicy"},
		"privileges":       {func(p *corev1.PodSpec) { p.Containers[0].SecurityContext.Privileged = new(true) }, "containers[0].securityContext.privileged"},
		"root":             {func(p *corev1.PodSpec) { p.SecurityContext.RunAsNonRoot = nil }, "securityContext.runAsNonRoot"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := job.Spec.Template.Spec.DeepCopy()
			tt.change(pod)
			if got, err := Difference(recorded, pod); got != tt.want || err != nil {
				t.Errorf("got %q, %v, want %q", got, err, tt.want)
			}
		})
	}
	if _, err := Difference([]byte("{"), &job.Spec.Template.Spec); err == nil {
		t.Error("a record that cannot be read is no error")
	}
}

func TestDifferenceOfServiceAccounts(t *testing.T) {
	job := build(func(r *Request) { r.ServiceAccount = "scans" })
	recorded, err := Recorded(job)
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct{ account, deprecated, want string }{
		"as built": {"scans", "", ""}, "as the API server completes it": {"scans", "scans", ""}, "the default": {"default", "default", "serviceAccountName"},
		"another": {"other", "other", "serviceAccountName"}, "another under the other name": {"scans", "other", "serviceAccount"},
	} {
		pod := job.Spec.Template.Spec.DeepCopy()
		pod.ServiceAccountName, pod.DeprecatedServiceAccount = tt.account, tt.deprecated
		if got, err := Difference(recorded, pod); got != tt.want || err != nil {
			t.Errorf("%s: got %q, %v, want %q", name, got, err, tt.want)
		}
	}
}
