package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// shownDecision is what the test of visibility reads of a decision.
type shownDecision struct {
	ID       int64
	Object   struct{ Namespace, Name string }
	Author   string
	Previous *struct {
		ID     int64
		Author string
	}
}

// TestMatrixOfDecisions lists decisions of the cluster and of namespaces as each user, and opens each by its ID.
func TestMatrixOfDecisions(t *testing.T) {
	t.Parallel()
	f := newMatrixFixture(t, nil, nil)
	var decisions []store.Decision
	for _, namespace := range []string{"", "shop", "bank", "dark"} {
		decisions = append(decisions, store.Decision{
			Object: store.DecisionObject{Kind: "Kind", Namespace: namespace, Name: "of-" + namespace}, Vulnerabilities: []string{"CVE-2000-0001"},
			Status: model.DecisionFixed, Author: "admin-of-" + namespace,
		})
	}
	// That of the cluster matches findings in each namespace, and another one matches none.
	decisions[0].Vulnerabilities = []string{"CVE-2024-0000"}
	unmatched := decisions[1]
	unmatched.Object.Namespace, unmatched.Object.Name, unmatched.Author = "", "unmatched", "admin-of-"
	decisions = append(decisions, unmatched)
	for _, comment := range []string{"first", "then"} {
		for i := range decisions {
			decisions[i].Comment = comment
		}
		_, err := f.store.SyncDecisions(t.Context(), "test", decisions)
		f.must(err)
	}
	seen := map[string][]shownDecision{}
	for user, want := range map[string][]string{
		"one": {"", "shop"}, signedIn: {"", "shop"}, anonymous: {"", "shop"}, "two": {"", "bank", "shop"}, "all": {"", "", "bank", "dark", "shop"},
	} {
		var page struct {
			Items []shownDecision
			Total int
		}
		a := f.do(http.MethodGet, "/api/v1/decisions?source=test&sort=name", "", f.as(user))
		f.must(json.Unmarshal([]byte(a.body), &page))
		var namespaces []string
		for _, d := range page.Items {
			namespaces = append(namespaces, d.Object.Namespace)
			// The author of a decision of the whole cluster is not for who sees some namespaces, nor is what it was before.
			full := user == "all" || d.Object.Namespace != ""
			if (d.Previous != nil) != full || (d.Author != "") != full || full && d.Previous.Author != d.Author {
				t.Errorf("%s sees %+v", user, d)
			}
		}
		if diff := cmp.Diff(want, namespaces); diff != "" || page.Total != len(want) {
			t.Errorf("%s: %d decisions, %s", user, page.Total, diff)
		}
		rows := 2 * len(want)
		if user != "all" {
			rows-- // The one of the cluster that has ended.
		}
		if csv := f.do(http.MethodGet, "/api/v1/decisions?source=test&state=all&format=csv", "", f.as(user)); strings.Contains(csv.body, ",admin-of-,") != (user == "all") || !strings.Contains(csv.body, ",admin-of-shop,") ||
			strings.Count(csv.body, "\n") != 1+rows {
			t.Errorf("%s: %s", user, csv.body)
		}
		seen[user] = page.Items
	}
	for user, items := range seen {
		for _, d := range seen["all"] {
			i := slices.IndexFunc(items, func(s shownDecision) bool { return s.Object == d.Object })
			if i < 0 {
				if got := f.do(http.MethodGet, fmt.Sprint("/api/v1/decisions/", d.ID), "", f.as(user)); got.status != http.StatusNotFound {
					t.Errorf("%s opens the decision of %q: %d", user, d.Object.Namespace, got.status)
				}
				continue
			}
			ids := []int64{items[i].ID}
			if items[i].Previous != nil {
				ids = append(ids, items[i].Previous.ID)
			}
			for _, id := range ids {
				got := f.do(http.MethodGet, fmt.Sprint("/api/v1/decisions/", id), "", f.as(user))
				if got.status != http.StatusOK || !strings.Contains(got.body, fmt.Sprintf(`"name":"%s"`, d.Object.Name)) || !strings.Contains(got.body, fmt.Sprintf(`"id":%d,`, id)) {
					t.Errorf("%s opens decision %d of %q: %d %s", user, id, d.Object.Namespace, got.status, got.body)
				}
			}
			if user != "all" && items[i].ID == d.ID {
				t.Errorf("%s sees the number of the row", user)
			}
		}
	}
	f.do(http.MethodGet, "/api/v1/decisions?author=admin-of-shop", "", f.as("one")).problem(t, http.StatusForbidden, "author requires the permission")
	if got := f.do(http.MethodGet, "/api/v1/decisions?author=admin-of-dark", "", f.as("all")); !strings.Contains(got.body, `"total":1`) {
		t.Errorf("by author: %s", got.body)
	}
}
