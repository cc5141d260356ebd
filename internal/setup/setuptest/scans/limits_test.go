package scans

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"io"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/scanner-operator/scanner-operator/internal/controller/controllertest"
	"github.com/scanner-operator/scanner-operator/internal/scanjob"
	"github.com/scanner-operator/scanner-operator/internal/setup"
	"github.com/scanner-operator/scanner-operator/internal/setup/setuptest"
)

// underWay lists the scan Jobs of a namespace that have not ended.
func underWay(t *testing.T, c client.Client, namespace string) []*batchv1.Job {
	t.Helper()
	return slices.DeleteFunc(slices.Collect(maps.Values(setuptest.Jobs(t.Context(), c, namespace))), scanjob.Finished)
}

// TestLimitsHoldWhenManyStart starts many pods of many images at once, for two Scanners.
func TestLimitsHoldWhenManyStart(t *testing.T) {
	const images, scans, perRegistry = 40, 5, 3
	c, g := setuptest.Cluster(t), gomega.NewWithT(t)
	setuptest.Node(t, c)
	ns := setuptest.Namespace(t, c)
	setuptest.Operator(t, ns, func(o *setup.Options) { o.Scans.Concurrency, o.Scans.RegistryConcurrency = scans, perRegistry })
	for i := range images {
		id := fmt.Sprintf("r%d.example/app@sha256:%064x", i%2, i)
		setuptest.RunningPod(t, c, ns, fmt.Sprint("app-", i), id)
		setuptest.RunningPod(t, c, ns, fmt.Sprint("again-", i), id)
	}
	for _, name := range []string{"one", "two"} {
		scanner := setuptest.SampleScanner(t, ns)
		scanner.Name, scanner.Spec.Concurrency = name, new(int32(50))
		setuptest.Create(t, c, scanner)
	}
	most, ended := 0, map[types.UID]string{}
	g.Eventually(func() int {
		running := underWay(t, c, ns)
		hosts := map[string]int{}
		for _, job := range running {
			host, _, _ := strings.Cut(job.Annotations[scanjob.AnnotationImageID], "/")
			hosts[host]++
			if hosts[host] > perRegistry {
				t.Errorf("%d scans pull from %s, more than %d", hosts[host], host, perRegistry)
			}
		}
		if most = max(most, len(running)); most > scans {
			t.Errorf("%d scans run, more than %d", most, scans)
		}
		// Once as many run as may, one ends each time, with an SBOM that does not arrive: the next attempt is far away.
		if len(running) > 0 && most == scans {
			ended[running[0].UID] = running[0].Annotations[scanjob.AnnotationImageID]
			setuptest.Finish(t, c, running[0], batchv1.JobComplete)
		}
		return len(ended)
	}, 2*patience, tick).Should(gomega.Equal(images))
	if distinct := slices.Compact(slices.Sorted(maps.Values(ended))); len(distinct) != images {
		t.Errorf("%d scans of %d images, want each once", len(ended), len(distinct))
	}
}

// TestARegistryIsPaused goes on after a restart.
func TestARegistryIsPaused(t *testing.T) {
	c, g := setuptest.Cluster(t), gomega.NewWithT(t)
	setuptest.Node(t, c)
	ns, data := setuptest.Namespace(t, c), t.TempDir()
	_, stop := setuptest.StartOperator(t, ns, data, nil)
	scanner := setuptest.SampleScanner(t, ns)
	scanner.Spec.Concurrency = new(int32(1))
	setuptest.Create(t, c, scanner)
	first := setuptest.ImageID("first", "1")
	setuptest.RunningPod(t, c, ns, "first", first)
	g.Eventually(func() []*batchv1.Job { return underWay(t, c, ns) }, patience, tick).Should(gomega.HaveLen(1))
	job := underWay(t, c, ns)[0]
	setuptest.ScanPod(t, c, job, setuptest.ScanEnded(1, "Error", `{"reason":"RegistryRateLimited","message":"429","retryAfter":600}`))
	setuptest.FailJob(t, c, job, "BackoffLimitExceeded", 1)
	g.Eventually(func() string { return setuptest.Ready(t.Context(), c, scanner) }, patience, tick).Should(gomega.Equal("False/Failed"))
	stop()

	api, _ := setuptest.StartOperator(t, ns, data, func(o *setup.Options) { o.Auth = setup.AuthNone })
	setuptest.RunningPod(t, c, ns, "second", setuptest.ImageID("second", "2"))
	elsewhere := "other.example/app@sha256:" + strings.Repeat("3", 64)
	setuptest.RunningPod(t, c, ns, "third", elsewhere)
	g.Eventually(func() map[string]*batchv1.Job { return setuptest.Jobs(t.Context(), c, ns) }, patience, tick).Should(gomega.HaveKey(elsewhere))
	if found := setuptest.Jobs(t.Context(), c, ns); len(found) != 2 {
		t.Errorf("%d Jobs, want those of the first image and of the other registry", len(found))
	}
	g.Eventually(func(g gomega.Gomega) {
		row := coverage(t, api)["second"]
		g.Expect(row.Message).To(gomega.ContainSubstring("pause that the registry r.example requested"))
		g.Expect(row.NextAttempt).To(gomega.BeTemporally("~", time.Now().Add(10*time.Minute), 2*time.Minute))
	}, patience, tick).Should(gomega.Succeed())
	if row := coverage(t, api)["first"]; row.Reason != "RegistryRateLimited" || row.NextAttempt.Before(time.Now().Add(8*time.Minute)) {
		t.Errorf("the first image: %+v, want it tried again when the registry wants it", row)
	}
}

// TestASettledClusterCausesNoWrites counts what reaches the API server and the database over many reconciliations and audits.
func TestASettledClusterCausesNoWrites(t *testing.T) {
	c, g := setuptest.Cluster(t), gomega.NewWithT(t)
	setuptest.Node(t, c)
	ns, data := setuptest.Namespace(t, c), t.TempDir()
	writes := &controllertest.Writes{}
	config := controllertest.Config(t)
	config.Wrap(writes.Wrap)
	audits := &auditLog{}
	config.Wrap(audits.wrap)
	api, _ := setuptest.StartOperatorOn(t, config, ns, data, func(o *setup.Options) { o.Scans.AuditInterval = time.Second })
	scanner := setuptest.SampleScanner(t, ns)
	setuptest.Create(t, c, scanner)
	app := setuptest.ImageID("app", "8")
	setuptest.RunningPod(t, c, ns, "app", app)
	g.Eventually(func() map[string]*batchv1.Job { return setuptest.Jobs(t.Context(), c, ns) }, patience, tick).Should(gomega.HaveKey(app))
	job := setuptest.Jobs(t.Context(), c, ns)[app]
	if status := setuptest.Deliver(t, api, app, setuptest.PodOfJob(t, c, job, scanjob.Audience), []byte(setuptest.SBOM)); status != http.StatusNoContent {
		t.Fatalf("the SBOM was answered with %d", status)
	}
	setuptest.Finish(t, c, job, batchv1.JobComplete)
	g.Eventually(func() string { return setuptest.Ready(t.Context(), c, scanner) }, patience, tick).Should(gomega.Equal("True/Reconciled"))

	changed := databaseVersion(t, filepath.Join(data, "scanner-operator.db"))
	// What comes right after the last step of the work may still be on its way.
	settled := func() string { return fmt.Sprint(len(writes.Seen()), changed()) }
	before := ""
	g.Eventually(func() bool { last := before; before = settled(); return last == before }, patience, 2*time.Second).Should(gomega.BeTrue())
	requests, version, done := len(writes.Seen()), changed(), audits.count()
	for i := range 10 {
		// The same pod again, with something that the inventory does not read but that makes a reconciliation.
		patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{"round":"%d"}}}`, i))
		if err := c.Patch(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "app"}}, patch); err != nil {
			t.Fatal(err)
		}
	}
	g.Eventually(audits.count, patience, tick).Should(gomega.BeNumerically(">=", done+5))
	if got := writes.Seen()[requests:]; len(got) > 0 {
		t.Errorf("a settled operator wrote to the API server: %v", got)
	}
	if now := changed(); now != version {
		t.Errorf("a settled operator wrote to its database: version %d, then %d", version, now)
	}
}

// auditLog counts the lists of pods' metadata that audits read.
type auditLog struct {
	mu    sync.Mutex
	lists int
}

func (a *auditLog) wrap(next http.RoundTripper) http.RoundTripper {
	return controllertest.RoundTripper(func(request *http.Request) (*http.Response, error) {
		if strings.HasSuffix(request.URL.Path, "/pods") && request.URL.Query().Get("limit") == "500" {
			a.mu.Lock()
			a.lists++
			a.mu.Unlock()
		}
		return next.RoundTrip(request)
	})
}

func (a *auditLog) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.lists
}

// lossy loses the events of watches of pods that name an object.
type lossy struct {
	name string
	mu   sync.Mutex
	lost int
}

func (l *lossy) wrap(next http.RoundTripper) http.RoundTripper {
	return controllertest.RoundTripper(func(request *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(request)
		query := request.URL.Query()
		if err == nil && strings.HasSuffix(request.URL.Path, "/pods") && query.Get("watch") != "" && response.StatusCode == http.StatusOK {
			response.Body = &lossyBody{ReadCloser: response.Body, lossy: l}
		}
		return response, err
	})
}

// lossyBody is a stream of JSON documents, one on each line.
type lossyBody struct {
	io.ReadCloser
	lossy   *lossy
	pending []byte
	passed  []byte
}

func (b *lossyBody) Read(p []byte) (int, error) {
	for {
		if len(b.passed) > 0 {
			n := copy(p, b.passed)
			b.passed = b.passed[n:]
			return n, nil
		}
		if line, rest, whole := bytes.Cut(b.pending, []byte("\n")); whole {
			b.pending = rest
			if b.lossy.loses(line) {
				continue
			}
			b.passed = append(slices.Clone(line), '\n')
			continue
		}
		chunk := make([]byte, 64<<10)
		n, err := b.ReadCloser.Read(chunk)
		b.pending = append(b.pending, chunk[:n]...)
		if n == 0 && err != nil {
			return 0, err
		}
	}
}

// loses reports whether an event gets lost. The list that a watch may begin with does not.
func (l *lossy) loses(event []byte) bool {
	if !bytes.Contains(event, fmt.Appendf(nil, `"name":%q`, l.name)) {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost >= 2 { // The creation and the status.
		return false
	}
	l.lost++
	return true
}

// TestALostEventIsRepaired loses all that the API server says of a new pod.
func TestALostEventIsRepaired(t *testing.T) {
	c, g := setuptest.Cluster(t), gomega.NewWithT(t)
	setuptest.Node(t, c)
	ns := setuptest.Namespace(t, c)
	wire := &lossy{name: "unseen"}
	config := controllertest.Config(t)
	config.ContentType = "application/json"
	config.Wrap(wire.wrap)
	setuptest.StartOperatorOn(t, config, ns, t.TempDir(), func(o *setup.Options) { o.Scans.AuditInterval = 2 * time.Second })
	scanner := setuptest.SampleScanner(t, ns)
	setuptest.Create(t, c, scanner)
	g.Eventually(func() string { return setuptest.Ready(t.Context(), c, scanner) }, patience, tick).Should(gomega.Equal("True/Reconciled"))
	setuptest.RunningPod(t, c, ns, "unseen", setuptest.ImageID("unseen", "9"))
	g.Eventually(func() map[string]*batchv1.Job { return setuptest.Jobs(t.Context(), c, ns) }, patience, tick).Should(gomega.HaveKey(setuptest.ImageID("unseen", "9")))
	wire.mu.Lock()
	defer wire.mu.Unlock()
	if wire.lost != 2 {
		t.Errorf("%d events were lost, want those of the creation and of the status: nothing was healed", wire.lost)
	}
}

// TestPullSecretsOfTheServiceAccount has an API server that gives pods the pull secrets of their ServiceAccount, as clusters do.
func TestPullSecretsOfTheServiceAccount(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	config := controllertest.Another(t, func(server *envtest.APIServer) {
		server.Configure().Set("disable-admission-plugins", "DefaultTolerationSeconds")
	})
	c, err := client.New(config, client.Options{Scheme: setup.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	setuptest.Node(t, c)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
	setuptest.Create(t, c, ns)
	setuptest.Create(t, c, &corev1.ServiceAccount{
		ObjectMeta:       metav1.ObjectMeta{Namespace: ns.Name, Name: "default"},
		ImagePullSecrets: []corev1.LocalObjectReference{{Name: "of-the-account"}, {Name: "does-not-exist"}},
	})
	_, stop := setuptest.StartOperatorOn(t, config, ns.Name, t.TempDir(), nil)
	defer stop()
	app := setuptest.ImageID("app", "5")
	setuptest.RunningPod(t, c, ns.Name, "app", app)
	setuptest.RunningPod(t, c, ns.Name, "own", app, func(p *corev1.Pod) { p.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "of-the-pod"}} })
	setuptest.Create(t, c, setuptest.SampleScanner(t, ns.Name))
	g.Eventually(func() map[string]*batchv1.Job { return setuptest.Jobs(t.Context(), c, ns.Name) }, patience, tick).Should(gomega.HaveKey(app))
	var names []string
	for _, volume := range setuptest.Jobs(t.Context(), c, ns.Name)[app].Spec.Template.Spec.Volumes {
		if volume.Name != "credentials" {
			continue
		}
		for _, source := range volume.Projected.Sources {
			names = append(names, source.Secret.Name)
		}
	}
	slices.Sort(names)
	if want := []string{"does-not-exist", "of-the-account", "of-the-pod"}; !slices.Equal(names, want) {
		t.Errorf("the Job mounts %v, want %v", names, want)
	}
}

// databaseVersion returns a function that tells a number that grows with each commit of others.
func databaseVersion(t *testing.T, path string) func() int64 {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?mode=ro&_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	conn, err := db.Conn(context.WithoutCancel(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return func() int64 {
		var version int64
		if err := conn.QueryRowContext(t.Context(), "PRAGMA data_version").Scan(&version); err != nil {
			t.Fatal(err)
		}
		return version
	}
}
