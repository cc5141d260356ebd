package server_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

func TestWhatRolloutsWaitFor(t *testing.T) {
	f := newFixture(t, nil)
	ctx := t.Context()
	keys := map[string]model.ImageKey{}
	for _, name := range []string{"pending", "failed", "cataloged", "gone"} {
		keys[name] = model.ImageKey{ImageID: "r.example/" + name + "@sha256:" + strings.Repeat("a", 64), Platform: linux}
	}
	_, err := f.store.WantImages(ctx, []model.ImageKey{keys["pending"], keys["failed"], keys["cataloged"], keys["gone"]})
	f.must(err)
	_, err = f.store.RecordFailure(ctx, keys["failed"], 0, model.Outcome{Reason: model.ReasonImageNotFound, Message: "no such digest"}, time.Now())
	f.must(err)
	f.must(f.store.SaveSBOM(ctx, keys["cataloged"], store.SBOM{MediaType: "m", SHA256: "1", Content: []byte("x")}, model.Catalog{}))
	for _, name := range []string{"gone", "cataloged", "failed", "pending"} {
		f.must(f.store.RecordUses(ctx, "s", []store.Use{{Image: keys[name], Workload: web, Container: "app"}}))
	}
	f.must(f.store.DeleteImage(ctx, store.AllNamespaces(), store.AllNamespaces(), keys["gone"].ImageID))
	wait := func(name, reason, rest string) string {
		return `{"imageId":"` + keys[name].ImageID + `",` + rest + `"platform":"linux/amd64","reason":"` + reason + `"}`
	}
	pending, failed := wait("pending", "NotCataloged", ""), wait("failed", "ImageNotFound", `"message":"no such digest",`)
	cataloged, gone := wait("cataloged", "NotMatched", ""), wait("gone", "NotKnown", "")
	for id, want := range map[string]string{"1": gone + "," + cataloged, "2": cataloged + "," + failed, "3": failed + "," + pending} {
		a := f.do(http.MethodGet, "/api/v1/rollouts/"+id, "")
		if want := `"evaluation":{"state":"waiting","waitingFor":[` + want + `]}`; a.status != http.StatusOK || !strings.Contains(a.body, want) {
			t.Errorf("%d %s\nwant %s", a.status, a.body, want)
		}
		validate(t, success(http.MethodGet, "/api/v1/rollouts/{rolloutId}"), a.body)
	}
	evaluated, err := f.store.EvaluateRollouts(ctx, time.Now().Add(time.Hour), store.MaxEvaluated)
	if err != nil || evaluated != 3 {
		t.Fatalf("%d rollouts timed out, %v", evaluated, err)
	}
	a := f.do(http.MethodGet, "/api/v1/rollouts/1", "")
	if !strings.Contains(a.body, `"state":"timedOut"`) || strings.Contains(a.body, "waitingFor") || !strings.Contains(a.body, `"opened":[]`) {
		t.Errorf("given up: %s", a.body)
	}
	f.do(http.MethodGet, "/api/v1/rollouts/4", "").problem(t, http.StatusNotFound, "rollout not found")
	f.do(http.MethodGet, "/api/v1/rollouts/0", "").problem(t, http.StatusBadRequest, "rolloutId")
	f.do(http.MethodGet, "/api/v1/rollouts/x", "").problem(t, http.StatusBadRequest, "rolloutId")
}
