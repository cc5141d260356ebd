package decisions

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scannerv1 "github.com/scanner-operator/scanner-operator/api/scanner/v1"
	"github.com/scanner-operator/scanner-operator/internal/scanjob"
	"github.com/scanner-operator/scanner-operator/internal/setup"
)

// TestWalkThrough lets a user who has a keyboard only find out in Chromium, from an empty cluster on, which action removes most risk for a team and what it
// would open, with an operator and a real API server. The spec computes the answers from the findings of each image.
func TestWalkThrough(t *testing.T) {
	// Not parallel: an operator that starts in the same process takes over the metrics.
	needBrowser(t)
	config, c := strictCluster(t)
	amd64Node(t, c)
	g := gomega.NewWithT(t)
	ns := namespace(t, c)
	api, _ := startOperatorOn(t, config, ns, t.TempDir(), func(o *setup.Options) { o.OwnerKeys = []string{"team"} })
	scanner := sampleScanner(t, ns)
	create(t, c, scanner)

	filling, filled := make(chan struct{}), make(chan struct{})
	begin := sync.OnceFunc(func() { close(filling) })
	control := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begin()
		select {
		case <-filled:
			w.WriteHeader(http.StatusNoContent)
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(control.Close)
	reader := userOf(t, c, ns, "reader", rbacv1.PolicyRule{APIGroups: []string{"scanner.zoltankerezsi.xyz"}, Resources: []string{"scanresults"}, Verbs: []string{"get", "list"}})
	updated := imageID("updated", "3")
	command := browser(t, "from an empty cluster", map[string]string{"url": api, "token": reader, "fill": control.URL, "team": "Payments", "image": updated})
	var out bytes.Buffer
	command.Stdout, command.Stderr = &out, &out
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	select {
	case <-filling:
	case err := <-ended:
		t.Fatalf("before the cluster was filled: %v\n%s", err, &out)
	}

	// The update of gin opens a vulnerability that its old version does not have. The image with the highest risk is one of another team.
	const gin, net = "github.com/gin-gonic/gin", "golang.org/x/net"
	fill(t, c, api, scanner, []walkImage{
		{imageID("payments", "1"), "Payments", map[string]string{gin: "v1.2.0", net: "v0.32.0"}},
		{imageID("search", "2"), "Search", map[string]string{net: "v0.1.0"}},
		{updated, "Search", map[string]string{gin: "v1.7.7"}},
	})
	g.Eventually(func() string { return ready(t.Context(), c, scanner) }, patience, tick).Should(gomega.Equal("True/Reconciled"))
	close(filled)
	if err := <-ended; err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
}

// walkImage is an image that a workload of a team runs, with Go modules.
type walkImage struct {
	id, team string
	modules  map[string]string
}

// fill runs images in a cluster and has them cataloged.
func fill(t *testing.T, c client.Client, api string, scanner *scannerv1.Scanner, images []walkImage) {
	t.Helper()
	g := gomega.NewWithT(t)
	for i, image := range images {
		runningPod(t, c, scanner.Namespace, fmt.Sprint("pod-", i), image.id, func(pod *corev1.Pod) { pod.Annotations = map[string]string{"team": image.team} })
	}
	for _, image := range images {
		g.Eventually(func() map[string]*batchv1.Job { return jobs(t.Context(), c, scanner.Namespace) }, patience, tick).Should(gomega.HaveKey(image.id))
		job := jobs(t.Context(), c, scanner.Namespace)[image.id]
		if status := deliver(t, api, image.id, podOfJob(t, c, job, scanjob.Audience), sbomOf(image.modules)); status != http.StatusNoContent {
			t.Fatalf("the SBOM was answered with %d", status)
		}
		finish(t, c, job, batchv1.JobComplete)
	}
}

// sbomOf is a Syft document with Go modules.
func sbomOf(modules map[string]string) []byte {
	const behind = `],"artifactRelationships"`
	start, rest, _ := strings.Cut(smallSBOM, "[")
	artifact, end, _ := strings.Cut(rest, behind)
	var artifacts []string
	for name, version := range modules {
		artifacts = append(artifacts, strings.NewReplacer(`"id":"1"`, fmt.Sprintf(`"id":%q`, name), "golang.org/x/net", name, "v0.1.0", version).Replace(artifact))
	}
	return []byte(start + "[" + strings.Join(artifacts, ",") + behind + end)
}
