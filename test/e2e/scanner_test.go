//go:build e2e

package e2e

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	scannerv1 "github.com/scanner-operator/scanner-operator/api/scanner/v1"
	"github.com/scanner-operator/scanner-operator/internal/scanjob"
)

// restrictedNamespace admits only pods that meet Pod Security "restricted": scan Jobs must.
func restrictedNamespace(t *testing.T) string {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		GenerateName: "e2e-", Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}}
	create(t, ns)
	g := gomega.NewWithT(t)
	g.Eventually(func() error {
		return e2e.client.Get(t.Context(), client.ObjectKey{Namespace: ns.Name, Name: "default"}, &corev1.ServiceAccount{})
	}, patience, tick).Should(gomega.Succeed(), "the namespace has no default service account")
	t.Cleanup(func() {
		// The test's own context has ended by now.
		if err := e2e.client.Delete(context.Background(), ns); err != nil {
			t.Logf("delete namespace: %v", err)
		}
	})
	return ns.Name
}

// applyScanner applies the sample manifest.
func applyScanner(t *testing.T, namespace string, mutate ...func(*scannerv1.Scanner)) *scannerv1.Scanner {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(e2e.Root, "config", "samples", "scanner_v1_scanner.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var s scannerv1.Scanner
	if err := yaml.UnmarshalStrict(content, &s); err != nil {
		t.Fatal(err)
	}
	s.Namespace = namespace
	for _, m := range mutate {
		m(&s)
	}
	create(t, &s)
	return &s
}

// restrictedPod is a pod with one container that meets Pod Security "restricted".
func restrictedPod(image string) corev1.PodSpec {
	return corev1.PodSpec{
		TerminationGracePeriodSeconds: new(int64(1)),
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot: new(true), RunAsUser: new(int64(65532)),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		Containers: []corev1.Container{{Name: "app", Image: image, SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: new(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		}}},
	}
}

// fromRegistry has scans pull their images: the test is about the registry, or holds up the pull.
func fromRegistry(s *scannerv1.Scanner) { s.Spec.Job.Source = scannerv1.SourceRegistry }

func runPod(t *testing.T, namespace, name, image string, mutate ...func(*corev1.Pod)) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       restrictedPod(image),
	}
	for _, m := range mutate {
		m(pod)
	}
	create(t, pod)
	return pod
}

// privately names a pull secret, so that the pod's image is scanned in the pod's namespace and not in the operator's. Neither the kubelet nor a
// scan minds that it does not exist.
func privately(p *corev1.Pod) {
	p.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "missing"}}
}

func ready(t *testing.T, s *scannerv1.Scanner) string {
	var now scannerv1.Scanner
	if err := e2e.client.Get(t.Context(), client.ObjectKeyFromObject(s), &now); err != nil {
		return err.Error()
	}
	if r := meta.FindStatusCondition(now.Status.Conditions, scannerv1.ConditionReady); r != nil {
		return string(r.Status) + "/" + r.Reason
	}
	return ""
}

func scanned(t *testing.T, a api, imageIDs ...string) {
	t.Helper()
	gomega.NewWithT(t).Eventually(func(g gomega.Gomega) {
		results, err := a.results(t.Context())
		g.Expect(err).NotTo(gomega.HaveOccurred())
		for _, id := range imageIDs {
			g.Expect(results).To(gomega.HaveKey(id))
		}
	}, patience, tick).Should(gomega.Succeed())
}

func TestSamplesAreScanned(t *testing.T) {
	t.Parallel()
	g, ns, a := gomega.NewWithT(t), restrictedNamespace(t), newAPI(t)
	announced := a.subscribe(t)
	scanner := applyScanner(t, ns, func(s *scannerv1.Scanner) { s.Spec.Concurrency = new(int32(2)) })
	g.Eventually(func() string { return ready(t, scanner) }, patience, tick).Should(gomega.Equal("True/Reconciled"))

	var ids []string
	for _, sample := range []string{"debian", "go-app", "node-app", "python-app", "alpine", "java-app"} {
		reference, id := e2e.registry.push(t, sample, "samples/"+sample)
		runPod(t, ns, sample, reference)
		ids = append(ids, id)
	}
	scanned(t, a, ids...)

	results, err := a.results(t.Context())
	g.Expect(err).NotTo(gomega.HaveOccurred())
	for _, id := range ids {
		r := results[id].Report
		if r.BOMFormat != "CycloneDX" || r.SpecVersion != "1.6" || len(r.Components) == 0 || len(r.Vulnerabilities) == 0 {
			t.Errorf("%s: %s %s with %d components and %d vulnerabilities", id, r.BOMFormat, r.SpecVersion, len(r.Components), len(r.Vulnerabilities))
		}
	}
	missing := map[string]bool{}
	for _, id := range ids {
		missing[id] = true
	}
	for deadline := time.After(patience); len(missing) > 0; {
		select {
		case id := <-announced:
			delete(missing, id)
		case <-deadline:
			t.Fatalf("/subscribe did not name %v", missing)
		}
	}

	g.Eventually(func() string { return ready(t, scanner) }, patience, tick).Should(gomega.Equal("True/Reconciled"))
	var now scannerv1.Scanner
	g.Expect(e2e.client.Get(t.Context(), client.ObjectKeyFromObject(scanner), &now)).To(gomega.Succeed())
	g.Expect(now.Status.Coverage).To(gomega.Equal("100%"))
	g.Expect(now.Status.Findings.Critical).To(gomega.BeNumerically(">", 0))
	atMostTwoAtATime(t, a, scanner)
}

// atMostTwoAtATime reads from the creation of the Jobs, and from when their SBOMs arrived, that spec.concurrency held. The images need
// no credentials, so all Jobs are in the operator's namespace.
func atMostTwoAtATime(t *testing.T, a api, scanner *scannerv1.Scanner) {
	t.Helper()
	var jobs batchv1.JobList
	err := e2e.client.List(t.Context(), &jobs, client.InNamespace(operatorNamespace), client.MatchingLabels{scanjob.LabelScanner: string(scanner.UID)})
	if err != nil {
		t.Fatal(err)
	}
	if len(jobs.Items) != 6 {
		t.Errorf("%d Jobs for 6 images", len(jobs.Items))
	}
	cataloged := map[string]time.Time{}
	for i := range jobs.Items {
		id := scanjob.Key(&jobs.Items[i]).ImageID
		image, err := a.image(t.Context(), id)
		if err != nil || image.CatalogedAt.IsZero() {
			t.Fatalf("%s: cataloged at %s, %v", id, image.CatalogedAt, err)
		}
		// Times of Jobs have whole seconds: a scan that ended in the second in which another began does not overlap.
		cataloged[jobs.Items[i].Name] = image.CatalogedAt.Truncate(time.Second)
	}
	for _, job := range jobs.Items {
		overlap := 0
		for _, other := range jobs.Items {
			if !other.CreationTimestamp.After(job.CreationTimestamp.Time) && cataloged[other.Name].After(job.CreationTimestamp.Time) {
				overlap++
			}
		}
		if overlap > 2 {
			t.Errorf("%d Jobs ran when %s was created", overlap, job.Name)
		}
	}
}

func TestRemovedResults(t *testing.T) {
	t.Parallel()
	g, ns, a := gomega.NewWithT(t), restrictedNamespace(t), newAPI(t)
	applyScanner(t, ns)
	ignoredRef, ignored := e2e.registry.push(t, "alpine", "removed/ignored")
	keptRef, kept := e2e.registry.push(t, "go-app", "removed/kept")
	pod := runPod(t, ns, "ignored", ignoredRef)
	runPod(t, ns, "kept", keptRef)
	scanned(t, a, ignored, kept)

	patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"ignore":"true"}}}`))
	if err := e2e.client.Patch(t.Context(), pod, patch); err != nil {
		t.Fatal(err)
	}
	a.remove(t, ignored)
	a.remove(t, kept)
	// The one comes back; by then the other has had its chance.
	scanned(t, a, kept)
	g.Consistently(func() (map[string]result, error) { return a.results(t.Context()) }, 5*time.Second, tick).ShouldNot(gomega.HaveKey(ignored))
}

func TestPrivateRegistry(t *testing.T) {
	t.Parallel()
	ns, a := restrictedNamespace(t), newAPI(t)
	applyScanner(t, ns)
	reference, id := e2e.private.push(t, "python-app", "private/python")
	auth := base64.StdEncoding.EncodeToString([]byte("user:secret"))
	create(t, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "registry"}, Type: corev1.SecretTypeDockerConfigJson,
		StringData: map[string]string{corev1.DockerConfigJsonKey: fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, e2e.private.host, auth)},
	})
	runPod(t, ns, "private", reference, func(p *corev1.Pod) {
		// The first does not exist: it must not keep the scan from starting.
		p.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "missing"}, {Name: "registry"}}
	})
	scanned(t, a, id)
}

func TestFailuresHaveReasons(t *testing.T) {
	t.Parallel()
	g, ns, a := gomega.NewWithT(t), restrictedNamespace(t), newAPI(t)
	scanner := applyScanner(t, ns, fromRegistry)
	coverage := func() string {
		var now scannerv1.Scanner
		if err := e2e.client.Get(t.Context(), client.ObjectKeyFromObject(scanner), &now); err != nil {
			return err.Error()
		}
		if c := meta.FindStatusCondition(now.Status.Conditions, scannerv1.ConditionCoverageComplete); c != nil {
			return c.Message
		}
		return ""
	}

	// The kubelet cannot pull this one.
	broken := runPod(t, ns, "broken", e2e.registry.host+"/does/not-exist:1")
	g.Eventually(coverage, patience, tick).Should(gomega.ContainSubstring("1 ImageNotFound"))
	g.Expect(ready(t, scanner)).To(gomega.Equal("False/Failed"))
	if err := e2e.client.Delete(t.Context(), broken); err != nil {
		t.Fatal(err)
	}

	// The kubelet could pull this one; then it went away.
	reference, id := e2e.registry.push(t, "node-app", "failures/gone")
	suspend(t, scanner, true)
	runPod(t, ns, "gone", reference)
	g.Eventually(func() (string, error) {
		var pod corev1.Pod
		err := e2e.client.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "gone"}, &pod)
		return string(pod.Status.Phase), err
	}, patience, tick).Should(gomega.Equal("Running"))
	e2e.registry.remove("failures/gone")
	suspend(t, scanner, false)
	g.Eventually(func() (string, error) {
		i, err := a.image(t.Context(), id)
		return i.State + "/" + i.Reason, err
	}, patience, tick).Should(gomega.Equal("Failed/ImageNotFound"))
	g.Eventually(coverage, patience, tick).Should(gomega.ContainSubstring("1 ImageNotFound"))
	g.Eventually(func() string { return ready(t, scanner) }, patience, tick).Should(gomega.Equal("False/Failed"))
	g.Eventually(func() (string, error) { return events(t, scanner) }, patience, tick).Should(gomega.ContainSubstring("ImageNotFound"))
}

func suspend(t *testing.T, s *scannerv1.Scanner, yes bool) {
	t.Helper()
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"suspend":%t}}`, yes))
	if err := e2e.client.Patch(t.Context(), s, patch); err != nil {
		t.Fatal(err)
	}
}

// events returns the notes of the events about a Scanner.
func events(t *testing.T, s *scannerv1.Scanner) (string, error) {
	var list corev1.EventList
	if err := e2e.client.List(t.Context(), &list, client.InNamespace(s.Namespace)); err != nil {
		return "", err
	}
	var notes []string
	for _, e := range list.Items {
		if e.InvolvedObject.UID == s.UID {
			notes = append(notes, e.Message)
		}
	}
	return strings.Join(notes, "\n"), nil
}

func TestOperatorHasNoRightToReadSecrets(t *testing.T) {
	account := fmt.Sprintf("system:serviceaccount:%s:%s", operatorNamespace, operatorServiceAccount(t))
	for _, verb := range []string{"get", "list", "watch"} {
		if allowed(t, account, verb, "", "secrets") {
			t.Errorf("the operator may %s Secrets", verb)
		}
	}
	if !allowed(t, account, "create", "batch", "jobs") {
		t.Error("the operator may not create Jobs: the question itself is wrong")
	}
}
