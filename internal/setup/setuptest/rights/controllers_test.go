package rights

import (
	"testing"

	"github.com/onsi/gomega"

	"github.com/scanner-operator/scanner-operator/internal/controller/controllertest"
	"github.com/scanner-operator/scanner-operator/internal/setup"
	"github.com/scanner-operator/scanner-operator/internal/setup/setuptest"
)

// clusterWide are resources without a namespace.
var clusterWide = map[string]bool{"nodes": true, "namespaces": true}

// TestEveryControllerMayStart starts all of them with the rights of the chart's defaults: every cache fills. What they do then is shown where
// they are. It is the first test, which finds an empty cluster and leaves one behind.
func TestEveryControllerMayStart(t *testing.T) {
	admin, c := controllertest.Config(t), setuptest.Cluster(t)
	for name, values := range map[string]string{"the whole cluster": "{}", "listed namespaces": "watchNamespaces: [default]"} {
		t.Run(name, func(t *testing.T) {
			own := setuptest.Namespace(t, c)
			config, granted := setuptest.InstallRights(t, admin, c, own, values)
			asked := &setuptest.Usage{}
			config.Wrap(asked.Wrap)
			in := ""
			var listed []string
			if granted["default"] != nil {
				in, listed = "default", []string{"default"}
			}
			_, stop := setuptest.StartOperatorOn(t, config, own, t.TempDir(), func(o *setup.Options) { o.WatchNamespaces, o.OwnerKeys = listed, []string{"team"} })
			g, want := gomega.NewWithT(t), watched(granted[in])
			g.Expect(want).To(gomega.HaveKey("podsets"))
			g.Eventually(func() map[string]bool { return watched(asked.In(in)) }, patience, tick).Should(gomega.Equal(want))
			stop()
			asked.CheckRefused(t)
		})
	}
}

// watched returns the resources in namespaces that some rights are to watch.
func watched(rights map[setuptest.Right]bool) map[string]bool {
	resources := map[string]bool{}
	for right := range rights {
		if right.Verb == "watch" && !clusterWide[right.Resource] {
			resources[right.Resource] = true
		}
	}
	return resources
}
