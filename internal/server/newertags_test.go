package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/server"
	"github.com/scanner-operator/scanner-operator/internal/server/api"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// saveTags saves a result of a lookup that was made for the workload of a namespace.
func (f *fixture) saveTags(lookup *store.TagLookup, namespace string, result store.TagResult) {
	f.t.Helper()
	name := fmt.Sprintf("tags-%s-%d", lookup.ID, lookup.Attempts)
	_, _, err := f.store.ReserveScanJob(f.t.Context(), store.ScanJob{
		Name: name, Namespace: namespace, Key: lookup.Key, Lookup: lookup.ID, Attempt: lookup.Attempts, For: namespace, Spec: json.RawMessage("{}"),
	})
	f.must(err)
	f.must(f.store.RecordScanJob(f.t.Context(), name, "uid-"+name))
	result.SHA256 = "result"
	f.must(f.store.SaveTagLookup(f.t.Context(), "uid-"+name, result))
}

// tagOf is a newer tag with an SBOM.
func tagOf(tag, kind string) store.TagOfResult {
	return store.TagOfResult{Tag: tag, Kind: kind, Digest: "sha256:" + tag, SBOM: &store.SBOM{MediaType: "application/vnd.syft+json", SHA256: "sbom-" + tag, Content: []byte("zstd")}}
}

// matchTags saves findings of all images of newer tags that have none.
func (f *fixture) matchTags(buildID string, findings ...store.TagFinding) {
	f.t.Helper()
	current, _, err := f.store.CurrentResultSet(f.t.Context())
	f.must(err)
	ids, err := f.store.UnmatchedTagImages(f.t.Context(), current.Number, 100)
	f.must(err)
	for _, id := range ids {
		sbom, err := f.store.TagImageSBOM(f.t.Context(), id)
		f.must(err)
		f.must(f.store.SaveTagFindings(f.t.Context(), id, sbom.SHA256, current.Number, store.TagFindings{Build: buildID, Findings: findings}))
	}
}

func (f *fixture) wantTags(scope string, wanted ...store.WantedTags) []store.TagLookup {
	f.t.Helper()
	lookups, err := f.store.WantTagLookups(f.t.Context(), scope, wanted)
	f.must(err)
	return lookups
}

// seedTags has two lookups of an image: one with a newer tag, and one that failed.
func (f *fixture) seedTags(key model.ImageKey, namespace, buildID string) {
	f.t.Helper()
	repository := model.RepositoryOf(key.Repository())
	lookups := f.wantTags("shop/scanner", store.WantedTags{Key: key, Repository: repository, Tag: "3.20", Namespaces: []string{namespace}},
		store.WantedTags{Key: key, Repository: repository, Tag: "3.21", Namespaces: []string{namespace}})
	f.saveTags(&lookups[0], namespace, store.TagResult{Listed: 3, Source: "mirror.example/alpine", Incomplete: "cut", Tags: []store.TagOfResult{tagOf("3.22", "minor")}})
	f.matchTags(buildID, store.TagFinding{VulnerabilityID: "CVE-2030-1", Package: "curl", Severity: model.SeverityLow, Risk: 0.5})
	_, err := f.store.FailTagLookup(f.t.Context(), lookups[1].ID, 0, model.Outcome{Reason: model.ReasonImagePullDenied, Message: "denied"}, namespace, time.Unix(4e9, 0))
	f.must(err)
}

// lookUpTags lets the Scanner of the cluster look up the images of the namespaces that the store holds, and another tag in one of them.
func (f *fixture) lookUpTags(holds func(namespace string) bool) {
	f.t.Helper()
	var wanted []store.WantedTags
	for _, image := range []string{shopImage, bankImage, sharedImage, darkImage} {
		namespaces := slices.DeleteFunc(slices.Clone(runners[image]), func(namespace string) bool { return !holds(namespace) })
		key := model.ImageKey{ImageID: image, Platform: linux}
		if len(namespaces) > 0 {
			wanted = append(wanted, store.WantedTags{Key: key, Repository: model.RepositoryOf(image), Tag: "1.1", Namespaces: namespaces})
		}
		if image == sharedImage && holds("dark") {
			wanted = append(wanted, store.WantedTags{Key: key, Repository: "registry.example/dark-secret", Tag: "1.0", Namespaces: []string{"dark"}})
		}
	}
	lookups := f.wantTags("operator/scanner", wanted...)
	for i := range lookups {
		result := store.TagResult{Listed: 5, Tags: []store.TagOfResult{tagOf("1.2", "minor")}}
		if slices.Equal(lookups[i].Namespaces, []string{"dark"}) {
			result.Incomplete = "the Secret dark-secret is wrong"
		}
		f.saveTags(&lookups[i], lookups[i].Namespaces[0], result)
	}
	f.matchTags(laterBuild, store.TagFinding{VulnerabilityID: "CVE-2024-0001", Package: "zlib", Severity: model.SeverityCritical, Risk: 50})
}

func newerTagsOf(t *testing.T, f *fixture, image string) []api.TagLookup {
	t.Helper()
	a := f.do(http.MethodGet, "/api/v1/images/"+escape(image)+"/newer-tags", "")
	var answer api.NewerTags
	if a.status != http.StatusOK || json.Unmarshal([]byte(a.body), &answer) != nil {
		t.Fatalf("%d %s", a.status, a.body)
	}
	return answer.Items
}

// TestNewerTags compares newer tags with an image: what is suppressed is not closed, and the best tag is recommended.
func TestNewerTags(t *testing.T) {
	t.Parallel()
	f := newFullFixture(t)
	key := model.ImageKey{ImageID: scannedID, Platform: linux}
	repository := "docker.io/library/alpine"
	lookup := f.wantTags("x", store.WantedTags{Key: key, Repository: repository, Tag: "3.19", Namespaces: []string{"shop"}})[0]
	failed := tagOf("4.0", "major")
	failed.Problem, failed.SBOM = "too large", nil
	f.saveTags(&lookup, "shop", store.TagResult{Listed: 9, Tags: []store.TagOfResult{tagOf("3.19.1", "patch"), tagOf("3.21", "minor"), failed}})
	find := func() api.TagLookup {
		for _, item := range newerTagsOf(t, f, scannedID) {
			if item.Tag == "3.19" {
				return item
			}
		}
		t.Fatal("the lookup is missing")
		return api.TagLookup{}
	}
	pending := find()
	if pending.State != api.TagLookupStateLookedUp || pending.Tags[0].State != api.NewerTagStatePending || pending.Tags[0].Recommended || pending.Tags[2].State != api.NewerTagStateFailed || *pending.Tags[2].Message != "too large" {
		t.Errorf("before it is matched: %+v", pending)
	}
	// The findings of the image: the first tag has all of them, the second none.
	var present []store.TagFinding
	page, err := f.store.Findings(t.Context(), store.AllNamespaces(), store.FindingQuery{Image: key})
	f.must(err)
	for _, found := range page.Findings {
		v := found.Vulnerability
		present = append(present, store.TagFinding{VulnerabilityID: v.ID, Package: found.Package.Name, Severity: v.Severity, Risk: v.Risk, KEV: len(v.KEV) > 0})
	}
	if len(present) == 0 {
		t.Fatal("the image has no findings")
	}
	ids, err := f.store.UnmatchedTagImages(t.Context(), 1, 10)
	f.must(err)
	for _, id := range ids {
		sbom, err := f.store.TagImageSBOM(t.Context(), id)
		f.must(err)
		found := store.TagFindings{Build: build.ID}
		if sbom.SHA256 == "sbom-3.19.1" {
			found.Findings = present
		}
		f.must(f.store.SaveTagFindings(t.Context(), id, sbom.SHA256, 1, found))
	}
	got := find()
	same, better := got.Tags[0], got.Tags[1]
	if same.State != api.NewerTagStateCompared || same.Recommended || *same.RiskRemoved != 0 || len(*same.ClosedFindings)+len(*same.OpenedFindings) > 0 {
		t.Errorf("a tag with the same findings: %+v", same)
	}
	if better.State != api.NewerTagStateCompared || !better.Recommended || *better.RiskRemoved <= 0 || len(*better.ClosedFindings) == 0 || better.Closed.Critical == 0 {
		t.Errorf("a tag without findings: %+v", better)
	}
	// What is accepted is not closed by an update.
	var names []string
	for _, finding := range present {
		names = append(names, finding.VulnerabilityID)
	}
	f.must(func() error {
		_, err := f.store.SyncDecisions(t.Context(), store.DecisionSourceKubernetes, []store.Decision{{
			Object: store.DecisionObject{Kind: "ClusterVulnerabilityException", Name: "all"}, Vulnerabilities: names, Status: model.DecisionAcceptedRisk,
		}})
		return err
	}())
	for _, finding := range present {
		if strings.Contains(fmt.Sprint(*find().Tags[1].ClosedFindings), finding.VulnerabilityID) {
			t.Errorf("%s is suppressed, and closed by the newer tag", finding.VulnerabilityID)
		}
	}
	// Findings of another database are not compared.
	f.must(f.store.SaveTagFindings(t.Context(), ids[0], "sbom-3.19.1", 2, store.TagFindings{Build: "another"}))
	f.must(f.store.SaveTagFindings(t.Context(), ids[1], "sbom-3.21", 2, store.TagFindings{Build: build.ID, Problem: "a package cannot be matched"}))
	got = find()
	if got.Tags[0].State != api.NewerTagStatePending || got.Tags[1].State != api.NewerTagStateFailed || *got.Tags[1].Message != "a package cannot be matched" || got.Tags[1].Closed != nil {
		t.Errorf("%+v", got.Tags)
	}
	if a := f.do(http.MethodGet, "/api/v1/images/unknown/newer-tags", ""); a.status != http.StatusNotFound {
		t.Errorf("an unknown image: %d %s", a.status, a.body)
	}
}

// TestNewerTagsOfOthers: who does not see the namespace that a lookup was made for sees no text about it.
func TestNewerTagsOfOthers(t *testing.T) {
	t.Parallel()
	f := newMatrixFixture(t, nil, func(*server.Config) {})
	key := model.ImageKey{ImageID: sharedImage, Platform: linux}
	lookup := f.wantTags("another", store.WantedTags{Key: key, Repository: "registry.example/app", Tag: "7.0", Namespaces: []string{"shop", "dark"}})[0]
	denied := tagOf("7.1", "minor")
	denied.Problem, denied.SBOM = "the Secret dark-secret is wrong", nil
	f.saveTags(&lookup, "dark", store.TagResult{Incomplete: "the Secret dark-secret is wrong", Tags: []store.TagOfResult{denied}})
	_, err := f.store.FailTagLookup(t.Context(), lookup.ID, 1, model.Outcome{Reason: model.ReasonImagePullDenied, Message: "the Secret dark-secret is wrong"}, "dark", time.Unix(4e9, 0))
	f.must(err)
	for user, namespaces := range matrixUsers {
		if namespaces != nil && !slices.Contains(namespaces, "shop") && !slices.Contains(namespaces, "dark") {
			continue
		}
		a := f.do(http.MethodGet, "/api/v1/images/"+escape(sharedImage)+"/newer-tags", "", f.as(user))
		if a.status != http.StatusOK || !strings.Contains(a.body, `"tag":"7.1"`) {
			t.Errorf("%s: %d %s", user, a.status, a.body)
		}
		sees := namespaces == nil || slices.Contains(namespaces, "dark")
		if strings.Contains(a.body, "dark-secret is wrong") != sees || strings.Contains(a.body, "a namespace that you cannot see") == sees {
			t.Errorf("%s sees %v: %s", user, namespaces, a.body)
		}
	}
}

// TestFixesOfNewerTags lists the newer tag that is recommended among what can be done: with what it closes and opens of what counts.
func TestFixesOfNewerTags(t *testing.T) {
	t.Parallel()
	f := newFullFixture(t)
	list := func(query string) api.FixPage {
		t.Helper()
		a := f.do(http.MethodGet, "/api/v1/fixes?"+query, "")
		var page api.FixPage
		if a.status != http.StatusOK || json.Unmarshal([]byte(a.body), &page) != nil {
			t.Fatalf("%s: %d %s", query, a.status, a.body)
		}
		return page
	}
	page := list("action=newerTag")
	if page.Total != 1 || len(page.Items) != 1 || page.Items[0].NewerTag == nil {
		t.Fatalf("%+v", page)
	}
	item, tag := page.Items[0], page.Items[0].NewerTag
	repository := model.RepositoryOf(scannedID)
	if item.Summary != "Move from the tag 3.20 to 3.22" || tag.From != repository+":3.20" || tag.To != repository+":3.22" || tag.Kind != "minor" || tag.Digest == nil {
		t.Errorf("%s: %+v", item.Summary, tag)
	}
	if tag.Opened.Low != 1 || len(tag.OpenedFindings) != 1 || tag.OpenedFindings[0].VulnerabilityId != "CVE-2030-1" {
		t.Errorf("opened: %+v", tag)
	}
	var closed int
	for _, lookup := range newerTagsOf(t, f, scannedID) {
		for _, one := range lookup.Tags {
			if one.Recommended {
				closed = one.Closed.Critical
			}
		}
	}
	if closed == 0 || item.Counts.Critical != closed || item.Risk <= 0 || item.WorkloadCount != 1 || item.PackageCount == 0 {
		t.Errorf("%d critical findings are closed, by the tab %d: %+v", item.Counts.Critical, closed, item)
	}
	if all := list(""); !slices.ContainsFunc(all.Items, func(one api.FixItem) bool { return one.Action == api.FixActionNewerTag }) {
		t.Errorf("all: %+v", all)
	}
	rows := readCSV(t, f.do(http.MethodGet, "/api/v1/fixes?action=newerTag&format=csv", "").body)
	if last := rows[1][len(rows[1])-4:]; len(rows) != 2 || !slices.Equal(last, []string{tag.From, tag.To, "1", "1"}) || !slices.Equal(rows[0][len(rows[0])-4:], []string{"tag", "newer_tag", "opened", "workload_count"}) {
		t.Errorf("as CSV: %v", rows)
	}
	rows = readCSV(t, f.do(http.MethodGet, "/api/v1/fixes?action=rebuild&format=csv", "").body)
	if last := rows[1][len(rows[1])-4:]; !slices.Equal(last, []string{"", "", "", "1"}) {
		t.Errorf("a rebuild as CSV: %v", rows)
	}
}

// TestFixesOfNewerBases lists the newer tag of a base image for what was built on it.
func TestFixesOfNewerBases(t *testing.T) {
	t.Parallel()
	f := newFullFixture(t)
	older := model.ImageKey{ImageID: olderID, Platform: linux}
	lookup := f.wantTags("other", store.WantedTags{Key: older, Repository: "docker.io/library/alpine", Tag: "3.18", Namespaces: []string{"bank"}})[0]
	f.saveTags(&lookup, "bank", store.TagResult{Listed: 2, Tags: []store.TagOfResult{tagOf("3.19", "minor")}})
	f.matchTags(build.ID, store.TagFinding{VulnerabilityID: "CVE-2030-1", Package: "curl", Severity: model.SeverityLow, Risk: 0.5})
	a := f.do(http.MethodGet, "/api/v1/fixes?action=newerBase", "")
	var page api.FixPage
	if a.status != http.StatusOK || json.Unmarshal([]byte(a.body), &page) != nil || len(page.Items) != 1 || page.Items[0].Base == nil || page.Items[0].NewerTag == nil {
		t.Fatalf("%d %s", a.status, a.body)
	}
	validate(t, success(http.MethodGet, "/api/v1/fixes"), a.body)
	item, tag := page.Items[0], page.Items[0].NewerTag
	if item.Summary != "Rebuild on the base image alpine:3.19 instead of 3.18" || item.ImageId != scannedID || item.Base.ImageId != olderID || item.Base.Platform != linux.String() {
		t.Errorf("%+v", item)
	}
	// Of the packages of the image, the base has one.
	if item.PackageCount != 1 || item.Packages[0].Name != "openssl" || item.Risk <= 0 || item.WorkloadCount != 1 || tag.Opened.Low != 1 || tag.From != "docker.io/library/alpine:3.18" {
		t.Errorf("%+v, %+v", item, tag)
	}
	rows := readCSV(t, f.do(http.MethodGet, "/api/v1/fixes?action=newerBase&format=csv", "").body)
	if last := rows[1][len(rows[1])-4:]; len(rows) != 2 || !slices.Equal(last, []string{tag.From, tag.To, "1", "1"}) {
		t.Errorf("as CSV: %v", rows)
	}
}
