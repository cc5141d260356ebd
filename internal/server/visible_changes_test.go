package server_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// TestHiddenImagesCauseNoReviews: changes of an image that the caller does not see are answered as those of one that does not exist, without asking the API server about the
// namespaces that it runs in.
func TestHiddenImagesCauseNoReviews(t *testing.T) {
	rights := newCluster()
	rights.grants["nobody"] = map[string][]string{"shop": {"get", "list", "update", "delete"}}
	f := newGuardedFixture(t, rights, nil)
	key := func(digit string) model.ImageKey {
		return model.ImageKey{ImageID: "registry/app@sha256:" + strings.Repeat(digit, 64), Platform: linux}
	}
	hidden, both, unknown := key("1"), key("2"), key("3")
	_, err := f.store.WantImages(t.Context(), []model.ImageKey{hidden, both})
	f.must(err)
	for namespace, keys := range map[string][]model.ImageKey{"shop": {both}, "other": {both, hidden}} {
		var uses []store.Use
		for _, one := range keys {
			uses = append(uses, store.Use{Image: one, Workload: matrixWorkload(namespace), Container: "app"})
		}
		f.must(f.store.RecordUses(t.Context(), namespace+"/scanner", uses))
	}
	headers := []string{bearer("nobody"), "Content-Type: application/json"}
	// The namespaces that the caller sees are known then, and nothing else: the page of an image asks about all that it runs in.
	if a := f.do(http.MethodGet, "/api/v1/images", "", headers...); a.status != http.StatusOK {
		t.Fatalf("%d %s", a.status, a.body)
	}
	rights.set(func(c *cluster) { c.failsIn = "other" })
	for _, one := range []struct {
		method string
		path   func(id string) string
		body   func(id string) string
		want   int
	}{
		{http.MethodDelete, func(id string) string { return "/scan-results/" + escape(id) }, func(string) string { return "" }, http.StatusNotFound},
		{http.MethodPost, func(id string) string { return "/api/v1/images/" + escape(id) + "/scan" }, func(string) string { return "" }, http.StatusNotFound},
		{http.MethodPut, func(string) string { return "/scan-results" }, uploadOf, http.StatusForbidden},
	} {
		for _, id := range []string{hidden.ImageID, unknown.ImageID} {
			a := f.do(one.method, one.path(id), one.body(id), headers...)
			if a.status != one.want {
				t.Errorf("%s of %s: %d %s", one.method, id, a.status, a.body)
			}
		}
		// In the namespaces of an image that the caller sees, reviews are needed.
		if a := f.do(one.method, one.path(both.ImageID), one.body(both.ImageID), headers...); a.status != http.StatusServiceUnavailable {
			t.Errorf("%s of an image that runs in both: %d %s", one.method, a.status, a.body)
		}
	}
}
