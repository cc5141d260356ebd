package server_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/vuln"
)

func TestWhatRolloutsWaitFor(t *testing.T) {
	f := newFixture(t, nil)
	ctx := t.Context()
	keys := map[string]vuln.ImageKey{}
	for _, name := range []string{"pending", "failed", "catalogued", "gone"} {
		keys[name] = vuln.ImageKey{ImageID: "r.example/" + name + "@sha256:" + strings.Repeat("a", 64), Platform: linux}
	}
	_, err := f.store.WantImages(ctx, []vuln.ImageKey{keys["pending"], keys["failed"], keys["catalogued"], keys["gone"]})
	f.must(err)
	_, err = f.store.RecordFailure(ctx, keys["failed"], 0, vuln.Outcome{Reason: vuln.ReasonImageNotFound, Message: "no such digest"}, time.Now())
	f.must(err)
	f.must(f.store.SaveSBOM(ctx, keys["catalogued"], store.SBOM{MediaType: "m", SHA256: "1", Content: []byte("x")}, vuln.Catalog{}))
	for _, name := range []string{"gone", "catalogued", "failed", "pending"} {
		f.must(f.store.RecordUses(ctx, "s", []store.Use{{Image: keys[name], Workload: web, Container: "app"}}))
	}
	f.must(f.store.DeleteImage(ctx, keys["gone"].ImageID))
	wait := func(name, reason, rest string) string {
		return `{"imageId":"` + keys[name].ImageID + `",` + rest + `"platform":"linux/amd64","reason":"` + reason + `"}`
	}
	pending, failed := wait("pending", "NotCatalogued", ""), wait("failed", "ImageNotFound", `"message":"no such digest",`)
	catalogued, gone := wait("catalogued", "NotMatched", ""), wait("gone", "NotKnown", "")
	for id, want := range map[string]string{"1": gone + "," + catalogued, "2": catalogued + "," + failed, "3": failed + "," + pending} {
		a := f.do(http.MethodGet, "/api/v1/rollouts/"+id, "")
		if want := `"verdict":{"state":"waiting","waitingFor":[` + want + `]}`; a.status != http.StatusOK || !strings.Contains(a.body, want) {
			t.Errorf("%d %s\nwant %s", a.status, a.body, want)
		}
		validate(t, success(http.MethodGet, "/api/v1/rollouts/{rolloutId}"), a.body)
	}
	judged, err := f.store.JudgeRollouts(ctx, time.Now().Add(time.Hour), store.MaxJudged)
	if err != nil || judged != 3 {
		t.Fatalf("%d rollouts were given up, %v", judged, err)
	}
	a := f.do(http.MethodGet, "/api/v1/rollouts/1", "")
	if !strings.Contains(a.body, `"state":"gaveUp"`) || strings.Contains(a.body, "waitingFor") || !strings.Contains(a.body, `"opened":[]`) {
		t.Errorf("given up: %s", a.body)
	}
	f.do(http.MethodGet, "/api/v1/rollouts/4", "").problem(t, http.StatusNotFound, "no such rollout")
	f.do(http.MethodGet, "/api/v1/rollouts/0", "").problem(t, http.StatusBadRequest, "rolloutId")
	f.do(http.MethodGet, "/api/v1/rollouts/x", "").problem(t, http.StatusBadRequest, "rolloutId")
}
