package chart_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/ext"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/scanjob"
)

// policy is the admission policy of the chart about scan Jobs, compiled. test/admission tests all policies on an API server.
type policy struct {
	conditions  []cel.Program
	variables   []variable
	validations map[string]cel.Program
}

type variable struct {
	name    string
	program cel.Program
}

func compile(t *testing.T, p *admissionv1.ValidatingAdmissionPolicy) policy {
	t.Helper()
	env, err := cel.NewEnv(cel.OptionalTypes(), ext.Strings(),
		cel.Variable("object", cel.DynType), cel.Variable("request", cel.DynType), cel.Variable("variables", cel.DynType))
	if err != nil {
		t.Fatal(err)
	}
	program := func(expression string) cel.Program {
		ast, issues := env.Compile(expression)
		if issues.Err() != nil {
			t.Fatalf("%v in %s", issues.Err(), expression)
		}
		program, err := env.Program(ast)
		if err != nil {
			t.Fatal(err)
		}
		return program
	}
	compiled := policy{validations: map[string]cel.Program{}}
	for _, c := range p.Spec.MatchConditions {
		compiled.conditions = append(compiled.conditions, program(c.Expression))
	}
	for _, v := range p.Spec.Variables {
		compiled.variables = append(compiled.variables, variable{v.Name, program(v.Expression)})
	}
	for _, v := range p.Spec.Validations {
		compiled.validations[v.Message] = program(v.Expression)
	}
	return compiled
}

// evaluate returns whether the policy applies to the request of a user, and why it denies the object.
func (p policy) evaluate(t *testing.T, user string, job *batchv1.Job) (matches bool, refusals []string) {
	t.Helper()
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(job)
	if err != nil {
		t.Fatal(err)
	}
	variables := map[string]any{}
	input := map[string]any{
		"object": object, "variables": variables,
		"request": map[string]any{"userInfo": map[string]any{"username": user}},
	}
	for _, condition := range p.conditions {
		out, _, err := condition.Eval(input)
		if err != nil {
			t.Fatal(err)
		}
		if out.Value() != true {
			return false, nil
		}
	}
	// An expression may use the variables before it.
	for _, v := range p.variables {
		out, _, err := v.program.Eval(input)
		if err != nil {
			t.Fatal(err)
		}
		variables[v.name] = out
	}
	for message, validation := range p.validations {
		// An error refuses too: the policy fails closed.
		if out, _, err := validation.Eval(input); err != nil || out.Value() != true {
			refusals = append(refusals, message)
		}
	}
	return true, refusals
}

// scanJobPolicy is the policy about scan Jobs.
func scanJobPolicy(t *testing.T, r release) *admissionv1.ValidatingAdmissionPolicy {
	t.Helper()
	for _, p := range find[*admissionv1.ValidatingAdmissionPolicy](r) {
		if strings.HasSuffix(p.Name, "-scan-jobs") {
			return p
		}
	}
	t.Fatal("there is no policy about scan Jobs")
	return nil
}

func scanJob(pullSecrets ...string) *batchv1.Job {
	opts := scanjob.DefaultOptions()
	opts.Image = image
	opts.UploadURL = "https://scanner-controller-manager-api-service.scanner-system.svc:8000"
	opts.UploadCA = "-----BEGIN CERTIFICATE-----"
	key := model.ImageKey{
		ImageID:  "registry.example/app@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
		Platform: model.Platform{OS: "linux", Architecture: "amd64"},
	}
	return scanjob.Build(scanjob.Request{
		Name: scanjob.Name(key, "nonce", 1), Key: key, Namespace: "default", ScannerUID: "uid", PullSecrets: pullSecrets,
		OperatorPullSecrets: []corev1.LocalObjectReference{{Name: "operator"}},
		NodeSelector:        map[string]string{"a": "b"},
		Tolerations:         []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		PriorityClassName:   "low",
	}, opts)
}

const operator = "system:serviceaccount:scanner-system:scanner-controller-manager"

func TestAdmissionPolicyAllowsScanJobs(t *testing.T) {
	p := compile(t, scanJobPolicy(t, render(t, "")))
	for label, job := range map[string]*batchv1.Job{"plain": scanJob(), "with pull secrets": scanJob("a", "b")} {
		matches, refusals := p.evaluate(t, operator, job)
		if !matches || len(refusals) > 0 {
			t.Errorf("%s: matches %t, refused: %q", label, matches, refusals)
		}
	}
	if matches, _ := p.evaluate(t, "system:serviceaccount:kube-system:cronjob-controller", scanJob()); matches {
		t.Error("the policy speaks of other people's Jobs")
	}
}

var unconfined = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeUnconfined}

func TestAdmissionPolicyRefusesEverythingElse(t *testing.T) {
	p := compile(t, scanJobPolicy(t, render(t, "")))
	tests := map[string]func(pod *corev1.PodSpec, c *corev1.Container){
		"another image":               func(_ *corev1.PodSpec, c *corev1.Container) { c.Image = "evil" },
		"a command":                   func(_ *corev1.PodSpec, c *corev1.Container) { c.Command = []string{"/bin/sh"} },
		"another subcommand":          func(_ *corev1.PodSpec, c *corev1.Container) { c.Args[0] = "manager" },
		"no arguments":                func(_ *corev1.PodSpec, c *corev1.Container) { c.Args = nil },
		"a second container":          func(p *corev1.PodSpec, c *corev1.Container) { p.Containers = append(p.Containers, *c) },
		"an init container":           func(p *corev1.PodSpec, c *corev1.Container) { p.InitContainers = []corev1.Container{*c} },
		"an API token":                func(p *corev1.PodSpec, _ *corev1.Container) { p.AutomountServiceAccountToken = nil },
		"another service account":     func(p *corev1.PodSpec, _ *corev1.Container) { p.ServiceAccountName = "admin" },
		"the node's network":          func(p *corev1.PodSpec, _ *corev1.Container) { p.HostNetwork = true },
		"the node's processes":        func(p *corev1.PodSpec, _ *corev1.Container) { p.HostPID = true },
		"a chosen node":               func(p *corev1.PodSpec, _ *corev1.Container) { p.NodeName = "control-plane" },
		"root":                        func(p *corev1.PodSpec, _ *corev1.Container) { p.SecurityContext.RunAsNonRoot = nil },
		"no seccomp profile":          func(p *corev1.PodSpec, _ *corev1.Container) { p.SecurityContext.SeccompProfile = nil },
		"no security context":         func(_ *corev1.PodSpec, c *corev1.Container) { c.SecurityContext = nil },
		"privileges":                  func(_ *corev1.PodSpec, c *corev1.Container) { c.SecurityContext.Privileged = new(true) },
		"escalation":                  func(_ *corev1.PodSpec, c *corev1.Container) { c.SecurityContext.AllowPrivilegeEscalation = new(true) },
		"root in the container":       func(_ *corev1.PodSpec, c *corev1.Container) { c.SecurityContext.RunAsNonRoot = new(false) },
		"another user":                func(_ *corev1.PodSpec, c *corev1.Container) { c.SecurityContext.RunAsUser = new(int64(0)) },
		"no seccomp in the container": func(_ *corev1.PodSpec, c *corev1.Container) { c.SecurityContext.SeccompProfile = unconfined },
		"no AppArmor": func(p *corev1.PodSpec, _ *corev1.Container) {
			p.SecurityContext.AppArmorProfile = &corev1.AppArmorProfile{Type: "Unconfined"}
		},
		"a hook": func(_ *corev1.PodSpec, c *corev1.Container) {
			c.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{}}
		},
		"a probe":            func(_ *corev1.PodSpec, c *corev1.Container) { c.StartupProbe = &corev1.Probe{} },
		"a port of the node": func(_ *corev1.PodSpec, c *corev1.Container) { c.Ports = []corev1.ContainerPort{{HostPort: 80}} },
		"credentials for another host": func(_ *corev1.PodSpec, c *corev1.Container) {
			c.Args = append(c.Args, "--token-host=evil.example")
		},
		"a capability": func(_ *corev1.PodSpec, c *corev1.Container) {
			c.SecurityContext.Capabilities.Add = []corev1.Capability{"NET_ADMIN"}
		},
		"a path of the node":        volume(corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}),
		"a Secret":                  volume(corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "a"}}),
		"a projected Secret":        volume(projected(corev1.VolumeProjection{Secret: &corev1.SecretProjection{}})),
		"another key of a Secret":   volume(projected(secretKeys(corev1.DockerConfigJsonKey, "password"))),
		"a token for the API":       volume(projected(token(""))),
		"a token for somebody else": volume(projected(token("vault"))),
		"a secret in a variable": func(_ *corev1.PodSpec, c *corev1.Container) {
			c.Env = append(c.Env, corev1.EnvVar{Name: "A", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{Key: "a"}}})
		},
		"secrets in variables": func(_ *corev1.PodSpec, c *corev1.Container) {
			c.EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{}}}
		},
	}
	for label, spoil := range tests {
		t.Run(label, func(t *testing.T) {
			job := scanJob("a")
			spoil(&job.Spec.Template.Spec, &job.Spec.Template.Spec.Containers[0])
			if matches, refusals := p.evaluate(t, operator, job); !matches || len(refusals) == 0 {
				t.Error("admitted")
			}
		})
	}
}

func volume(source corev1.VolumeSource) func(*corev1.PodSpec, *corev1.Container) {
	return func(pod *corev1.PodSpec, _ *corev1.Container) {
		pod.Volumes = append(pod.Volumes, corev1.Volume{Name: "more", VolumeSource: source})
	}
}

func projected(source corev1.VolumeProjection) corev1.VolumeSource {
	return corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{source}}}
}

func secretKeys(keys ...string) corev1.VolumeProjection {
	projection := &corev1.SecretProjection{}
	for _, key := range keys {
		projection.Items = append(projection.Items, corev1.KeyToPath{Key: key, Path: key})
	}
	return corev1.VolumeProjection{Secret: projection}
}

func token(audience string) corev1.VolumeProjection {
	return corev1.VolumeProjection{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{
		Audience: audience, ExpirationSeconds: new(int64(time.Hour / time.Second)), Path: "token",
	}}
}
