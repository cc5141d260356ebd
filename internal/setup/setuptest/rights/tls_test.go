package rights

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/scanner-operator/scanner-operator/internal/catalog"
	"github.com/scanner-operator/scanner-operator/internal/controller/controllertest"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/scanjob"
	"github.com/scanner-operator/scanner-operator/internal/setup"
	"github.com/scanner-operator/scanner-operator/internal/setup/setuptest"
)

// TestUploadOverTLS runs the operator with the rights that the chart gives it for its own CA, and uploads as a scan pod does, with what its Job
// says.
func TestUploadOverTLS(t *testing.T) {
	t.Parallel()
	c, g := setuptest.Cluster(t), gomega.NewWithT(t)
	setuptest.Node(t, c)
	ns := setuptest.Namespace(t, c)
	config, granted := setuptest.InstallRights(t, controllertest.Config(t), c, ns, "")
	asked := &setuptest.Usage{}
	config.Wrap(asked.Wrap)
	api, stop := setuptest.StartOperatorOn(t, config, ns, t.TempDir(), func(o *setup.Options) {
		o.TLS = setup.TLS{Mode: setup.TLSOperator, Secret: "scanner-controller-manager-api-tls"}
		o.APIURL, o.Controllers = "https://operator.invalid:8000", []string{setup.ControllerScanner}
	})
	image := setuptest.ImageID("tls", "7")
	setuptest.RunningPod(t, c, ns, "app", image)
	setuptest.Create(t, c, setuptest.SampleScanner(t, ns))
	g.Eventually(func() map[string]*batchv1.Job { return setuptest.Jobs(t.Context(), c, ns) }, patience, tick).Should(gomega.HaveKey(image))
	job := setuptest.Jobs(t.Context(), c, ns)[image]
	variables := job.Spec.Template.Spec.Containers[0].Env
	at := slices.IndexFunc(variables, func(v corev1.EnvVar) bool { return v.Name == scanjob.UploadCAVariable })
	if at < 0 || strings.Contains(variables[at].Value, "PRIVATE") {
		t.Fatalf("the Job has the variables %v", variables)
	}

	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte(setuptest.PodOfJob(t, c, job, scanjob.Audience)), 0o600); err != nil {
		t.Fatal(err)
	}
	upload := catalog.UploadRequest{
		URL: api, TokenFile: token, ImageID: image, Platform: model.Platform{OS: "linux", Architecture: "amd64"}, SBOM: []byte(setuptest.SBOM),
	}
	if err := catalog.Upload(t.Context(), upload); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("without the CA: %v, want that the certificate is not trusted", err)
	}
	upload.CAs = variables[at].Value
	if err := catalog.Upload(t.Context(), upload); err != nil {
		t.Error(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, strings.Replace(api, "https://", "http://", 1), http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusBadRequest {
		t.Errorf("plain HTTP was answered with %d", response.StatusCode)
	}

	stop()
	for right := range granted[ns] {
		if right.Resource == "secrets" && !asked.In(ns)[right] {
			t.Errorf("the operator does not need the right to %s", right)
		}
	}
	if !granted[ns][rightToSecrets("get")] || !granted[ns][rightToSecrets("update")] {
		t.Errorf("the rights in %s are %v", ns, granted[ns])
	}
	asked.CheckRefused(t)
}

func rightToSecrets(verb string) setuptest.Right {
	return setuptest.Right{Resource: "secrets", Verb: verb}
}
