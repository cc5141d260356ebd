package scans

import (
	"testing"

	"github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1alpha1 "github.com/scanner-operator/scanner-operator/api/app/v1alpha1"
	"github.com/scanner-operator/scanner-operator/internal/setup"
	"github.com/scanner-operator/scanner-operator/internal/setup/setuptest"
	"github.com/scanner-operator/scanner-operator/internal/store/storetest/dbserver"
)

// TestDatabaseOutage starts the operator while its database server is stopped, and stops the server again later. PodSets need no database, and
// Scanners continue when it is back.
func TestDatabaseOutage(t *testing.T) {
	t.Parallel()
	c, g := setuptest.Cluster(t), gomega.NewWithT(t)
	setuptest.Node(t, c)
	ns, server := setuptest.Namespace(t, c), dbserver.OwnPostgreSQL(t)
	podSet := func(name string) {
		t.Helper()
		setuptest.Create(t, c, &appv1alpha1.PodSet{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Spec: appv1alpha1.PodSetSpec{Replicas: 2}})
		g.Eventually(func() ([]corev1.Pod, error) {
			var pods corev1.PodList
			err := c.List(t.Context(), &pods, client.InNamespace(ns), client.MatchingLabels{appv1alpha1.LabelApp: name})
			return pods.Items, err
		}, patience, tick).Should(gomega.HaveLen(2))
	}
	scanned := func(name, digest string) {
		t.Helper()
		setuptest.RunningPod(t, c, ns, name, setuptest.ImageID(name, digest))
		g.Eventually(func() map[string]*batchv1.Job { return setuptest.Jobs(t.Context(), c, ns) }, patience, tick).Should(gomega.HaveKey(setuptest.ImageID(name, digest)))
	}

	server.Stop(t)
	setuptest.Operator(t, ns, func(o *setup.Options) { o.DatabaseType, o.DSN = "postgres", server.DSN })
	setuptest.Create(t, c, setuptest.SampleScanner(t, ns))
	podSet("before")
	server.Start(t)
	scanned("first", "a")
	server.Stop(t)
	podSet("during")
	server.Start(t)
	scanned("second", "b")
}
