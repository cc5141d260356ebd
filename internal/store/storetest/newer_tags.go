package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

const tagRepository = "registry.example/app"

// wantedTags is the lookup of newer tags of an image that containers in some namespaces name with a tag.
func wantedTags(key model.ImageKey, tag string, namespaces ...string) store.WantedTags {
	return store.WantedTags{Key: key, Repository: tagRepository, Tag: tag, Namespaces: namespaces}
}

func (f *fixture) wantLookups(t *testing.T, scope string, wanted ...store.WantedTags) []store.TagLookup {
	t.Helper()
	lookups, err := f.WantTagLookups(t.Context(), scope, wanted)
	must(t, err)
	if len(lookups) != len(wanted) {
		t.Fatalf("%d lookups, want %d", len(lookups), len(wanted))
	}
	return lookups
}

// lookupJob records the Job of the current attempt of a lookup.
func (f *fixture) lookupJob(t *testing.T, lookup *store.TagLookup, uid string) {
	t.Helper()
	job := scanJob("scan-"+uid, model.ImageKey{ImageID: tagRepository + "@" + lookup.Key.Digest(), Platform: lookup.Key.Platform}, lookup.Attempts)
	job.Lookup = lookup.ID
	f.recordJob(t, job, uid)
}

func (f *fixture) newerTags(t *testing.T, in store.Namespaces, key model.ImageKey) []store.TagLookup {
	t.Helper()
	lookups, err := f.NewerTags(t.Context(), in, key)
	must(t, err)
	return lookups
}

// tagResult is a result with newer tags, each with an SBOM whose digest is that of the tag.
func tagResult(digest string, tags ...string) store.TagResult {
	result := store.TagResult{SHA256: digest, Listed: 7}
	for _, tag := range tags {
		sbom := sbomOf("sbom-" + tag)
		result.Tags = append(result.Tags, store.TagOfResult{Tag: tag, Kind: "patch", Digest: "sha256:" + tag, SBOM: &sbom, Cataloger: "syft-1"})
	}
	return result
}

func known(t *testing.T, f *fixture, scope, cataloger string) []string {
	t.Helper()
	digests, err := f.KnownTagDigests(t.Context(), scope, "team", tagRepository, amd64, cataloger, 10)
	must(t, err)
	return digests
}

var newerTagTests = map[string]func(*testing.T, *fixture){
	"Newer tags are looked up, saved and matched": func(t *testing.T, f *fixture) {
		now := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
		f.clock.set(now)
		key := image("app", amd64)
		lookup := f.wantLookups(t, "scope", wantedTags(key, "1.1", "a", "b"))[0]
		if lookup.Nonce == "" || lookup.Attempts != 0 || !lookup.LookedUpAt.IsZero() {
			t.Errorf("a new lookup: %+v", lookup)
		}
		if diff := cmp.Diff(lookup, f.wantLookups(t, "scope", wantedTags(key, "1.1", "a", "b"))[0]); diff != "" {
			t.Errorf("wanted again (-want +got):\n%s", diff)
		}
		f.lookupJob(t, &lookup, "uid-1")
		if job := f.scanJob(t, "uid-1"); job.Lookup != lookup.ID || !job.Open {
			t.Errorf("the Job of a lookup: %+v", job)
		}
		result := tagResult("result-1", "1.2", "2.0")
		result.Source, result.Incomplete = "mirror.example/app", "cut"
		result.Tags = append(result.Tags, store.TagOfResult{Tag: "1.3", Kind: "minor", Digest: "sha256:1.3", Problem: "too large"})
		must(t, f.SaveTagLookup(t.Context(), "uid-1", result))
		must(t, f.SaveTagLookup(t.Context(), "uid-1", result)) // The sender may have missed the answer.
		want := lookup
		want.Attempts, want.LookedUpAt, want.Source, want.Listed, want.Incomplete, want.Namespaces = 1, now, "mirror.example/app", 7, "cut", nil
		want.For = "shop"
		want.Tags = []store.NewerTag{
			{Tag: "1.2", Kind: "patch", Digest: "sha256:1.2"}, {Tag: "2.0", Kind: "patch", Digest: "sha256:2.0"},
			{Tag: "1.3", Kind: "minor", Digest: "sha256:1.3", Problem: "too large"},
		}
		if diff := cmp.Diff([]store.TagLookup{want}, f.newerTags(t, store.AllNamespaces(), key)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"sha256:1.2", "sha256:2.0"}, known(t, f, "scope", "syft-1")); diff != "" {
			t.Errorf("known digests (-want +got):\n%s", diff)
		}
		if len(known(t, f, "scope", "syft-2"))+len(known(t, f, "other", "syft-1")) > 0 {
			t.Error("digests of another cataloger or scope are known")
		}

		ids, err := f.UnmatchedTagImages(t.Context(), 3, 10)
		if err != nil || len(ids) != 2 {
			t.Fatalf("images that are not matched: %v, %v", ids, err)
		}
		found := store.TagFindings{Build: "build", Findings: []store.TagFinding{{VulnerabilityID: "CVE-1", Package: "openssl", Severity: model.SeverityHigh, Risk: 1.5, KEV: true}}}
		for _, id := range ids {
			sbom, err := f.TagImageSBOM(t.Context(), id)
			if err != nil || !strings.HasPrefix(sbom.SHA256, "sbom-") || string(sbom.Content) != "\x00zstd\xff"+sbom.SHA256 || sbom.Size != 99 {
				t.Errorf("%+v, %v", sbom, err)
			}
			if err := f.SaveTagFindings(t.Context(), id, "another", 3, found); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("findings of another SBOM: %v", err)
			}
			must(t, f.SaveTagFindings(t.Context(), id, sbom.SHA256, 3, found))
		}
		for i := range want.Tags[:2] {
			want.Tags[i].Matched, want.Tags[i].Findings = true, found
		}
		if diff := cmp.Diff([]store.TagLookup{want}, f.newerTags(t, store.OnlyNamespaces("b"), key)); diff != "" {
			t.Errorf("matched (-want +got):\n%s", diff)
		}
		if left, err := f.UnmatchedTagImages(t.Context(), 3, 10); err != nil || len(left) != 0 {
			t.Errorf("not matched: %v, %v", left, err)
		}
		if again, err := f.UnmatchedTagImages(t.Context(), 4, 1); err != nil || len(again) != 1 {
			t.Errorf("for the next result set, at most one: %v, %v", again, err)
		}

		// The next result keeps the image that it names without an SBOM, and drops the others.
		lookup = f.wantLookups(t, "scope", wantedTags(key, "1.1", "a"))[0]
		f.lookupJob(t, &lookup, "uid-2")
		result = tagResult("result-2")
		result.Tags = []store.TagOfResult{{Tag: "1.2", Kind: "patch", Digest: "sha256:1.2"}}
		must(t, f.SaveTagLookup(t.Context(), "uid-2", result))
		want.Attempts, want.Source, want.Incomplete, want.Tags = 2, "", "", want.Tags[:1]
		if diff := cmp.Diff([]store.TagLookup{want}, f.newerTags(t, store.OnlyNamespaces("a"), key)); diff != "" {
			t.Errorf("looked up again (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"sha256:1.2"}, known(t, f, "scope", "syft-1")); diff != "" {
			t.Errorf("known digests (-want +got):\n%s", diff)
		}
		if len(f.newerTags(t, store.OnlyNamespaces("b"), key))+len(f.newerTags(t, store.OnlyNamespaces(), key)) > 0 {
			t.Error("a namespace sees the lookup that no container of it has")
		}
		if page, err := f.ListImages(t.Context(), store.AllNamespaces(), store.ImageQuery{}); err != nil || len(page.Images) > 0 {
			t.Errorf("images of newer tags are listed: %v, %v", page.Images, err)
		}
	},

	"Times of newer tags are not before the image was visible": func(t *testing.T, f *fixture) {
		begun := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
		f.clock.set(begun)
		key := image("app", amd64)
		f.want(t, key)
		var uses []store.Use
		run := func(namespace string) {
			t.Helper()
			uses = append(uses, store.Use{Image: key, Workload: store.Workload{Namespace: namespace, Kind: "Deployment", Name: "web"}, Container: "c"})
			must(t, f.RecordUses(t.Context(), "scope", uses))
		}
		run("a")
		lookup := f.wantLookups(t, "scope", wantedTags(key, "1.1", "a"))[0]
		f.lookupJob(t, &lookup, "uid-1")
		lookedUp, joined := begun.Add(time.Hour), begun.Add(2*time.Hour)
		f.clock.set(lookedUp)
		must(t, f.SaveTagLookup(t.Context(), "uid-1", tagResult("r", "1.2")))
		f.clock.set(joined)
		run("b")
		f.wantLookups(t, "scope", wantedTags(key, "1.1", "a", "b"), wantedTags(key, "1.0", "b"))
		for _, c := range []struct {
			in   store.Namespaces
			want []time.Time
		}{
			{store.AllNamespaces(), []time.Time{{}, lookedUp}}, {store.OnlyNamespaces("a"), []time.Time{lookedUp}}, {store.OnlyNamespaces("a", "b"), []time.Time{{}, lookedUp}},
			{store.OnlyNamespaces("b"), []time.Time{{}, joined}},
		} {
			var got []time.Time
			for _, lookup := range f.newerTags(t, c.in, key) {
				got = append(got, lookup.LookedUpAt)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("times of lookups that %v sees (-want +got):\n%s", c.in, diff)
			}
		}
	},

	"Lookups of newer tags fail and are dropped": func(t *testing.T, f *fixture) {
		now := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
		f.clock.set(now)
		key := image("app", amd64)
		lookup := f.wantLookups(t, "scope", wantedTags(key, "1.1", "a"))[0]
		next, failed := now.Add(time.Hour), false
		outcome := model.Outcome{Reason: model.ReasonImagePullDenied, Message: "denied"}
		for _, attempt := range []int{1, 0, 0} {
			if ended, err := f.FailTagLookup(t.Context(), lookup.ID, attempt, outcome, "a", next); ended != (attempt == 0 && !failed) || err != nil {
				t.Errorf("attempt %d: %t, %v", attempt, ended, err)
			}
			failed = failed || attempt == 0
		}
		want := lookup
		want.Attempts, want.Failures, want.NextAttempt, want.Failure, want.For = 1, 1, next, outcome, "a"
		if diff := cmp.Diff(want, f.wantLookups(t, "scope", wantedTags(key, "1.1", "a"))[0]); diff != "" {
			t.Errorf("failed (-want +got):\n%s", diff)
		}
		// An attempt that ends without an outcome is no failure, and leaves what is known.
		if ended, err := f.FailTagLookup(t.Context(), lookup.ID, 1, model.Outcome{}, "", now); !ended || err != nil {
			t.Errorf("ended: %t, %v", ended, err)
		}
		want.Attempts, want.NextAttempt = 2, now
		if diff := cmp.Diff(want, f.wantLookups(t, "scope", wantedTags(key, "1.1", "a"))[0]); diff != "" {
			t.Errorf("ended (-want +got):\n%s", diff)
		}

		// What is not wanted is not visible and gets no Job. The Job that is under way goes on, and its result is kept for a while.
		f.lookupJob(t, &want, "uid-1")
		f.wantLookups(t, "scope")
		if len(f.newerTags(t, store.AllNamespaces(), key)) > 0 {
			t.Error("a lookup that is not wanted is visible")
		}
		if _, reserved, err := f.ReserveScanJob(t.Context(), store.ScanJob{Name: "scan-late", Namespace: "team", Key: key, Lookup: want.ID, Attempt: 2, Spec: []byte("{}")}); reserved || !errors.Is(err, store.ErrNotFound) {
			t.Errorf("a Job of a lookup that is not wanted: %t, %v", reserved, err)
		}
		f.clock.set(now.Add(store.TagLookupGrace))
		if again := f.wantLookups(t, "scope", wantedTags(key, "1.1", "a"))[0]; again.Nonce != lookup.Nonce {
			t.Error("a lookup that was wanted not long ago is new")
		}
		must(t, f.SaveTagLookup(t.Context(), "uid-1", tagResult("r", "1.2")))
		f.wantLookups(t, "scope")
		f.wantLookups(t, "scope")
		if digests := known(t, f, "scope", "syft-1"); len(digests) != 1 {
			t.Errorf("known digests: %v", digests)
		}
		f.clock.set(now.Add(2*store.TagLookupGrace + time.Second))
		f.wantLookups(t, "scope")
		if digests := known(t, f, "scope", "syft-1"); len(digests) != 0 {
			t.Errorf("known digests of a lookup that is gone: %v", digests)
		}
		if fresh := f.wantLookups(t, "scope", wantedTags(key, "1.1", "a"))[0]; fresh.Nonce == lookup.Nonce || fresh.Attempts != 0 {
			t.Errorf("a lookup that was gone is not new: %+v", fresh)
		}
	},

	"Scopes have lookups of their own": func(t *testing.T, f *fixture) {
		key := image("app", amd64)
		one, two := f.wantLookups(t, "one", wantedTags(key, "1.1", "a"))[0], f.wantLookups(t, "two", wantedTags(key, "1.1", "a"), wantedTags(key, "1.2", "b"))
		if one.ID == two[0].ID || one.Nonce == two[0].Nonce {
			t.Error("two scopes share a lookup")
		}
		f.lookupJob(t, &one, "uid-1")
		must(t, f.SaveTagLookup(t.Context(), "uid-1", tagResult("r", "1.2")))
		if lookups := f.newerTags(t, store.AllNamespaces(), key); len(lookups) != 3 {
			t.Errorf("%d lookups", len(lookups))
		}
		// No namespace decides for another one: what its Jobs cataloged is not known to Jobs of others.
		if digests, err := f.KnownTagDigests(t.Context(), "one", "elsewhere", tagRepository, amd64, "syft-1", 10); err != nil || len(digests) > 0 {
			t.Errorf("digests that Jobs of another namespace cataloged: %v, %v", digests, err)
		}
		if scopes, err := f.Scopes(t.Context()); err != nil || !slices.Equal(scopes, []string{"one", "two"}) {
			t.Errorf("scopes: %v, %v", scopes, err)
		}
		must(t, f.ForgetScope(t.Context(), "one"))
		if lookups := f.newerTags(t, store.AllNamespaces(), key); len(lookups) != 2 || len(known(t, f, "one", "syft-1")) > 0 {
			t.Errorf("%d lookups after a scope is forgotten, known %v", len(lookups), known(t, f, "one", "syft-1"))
		}
	},

	"Jobs deliver what they are for": func(t *testing.T, f *fixture) {
		key := image("app", amd64)
		f.want(t, key)
		lookup := f.wantLookups(t, "scope", wantedTags(key, "1.1", "a"))[0]
		f.recordJob(t, scanJob("scan-image", key, 0), "uid-image")
		if err := f.SaveTagLookup(t.Context(), "uid-image", tagResult("r", "1.2")); !errors.Is(err, store.ErrAttemptClosed) {
			t.Errorf("newer tags of a Job that catalogs: %v", err)
		}
		job := scanJob("scan-tags", key, 0)
		job.Lookup = lookup.ID
		f.recordJob(t, job, "uid-tags")
		if err := f.deliver(t, key, "sbom", "uid-tags"); !errors.Is(err, store.ErrAttemptClosed) {
			t.Errorf("an SBOM of a Job that looks up tags: %v", err)
		}
		// Neither attempt has ended by that.
		must(t, f.SaveTagLookup(t.Context(), "uid-tags", tagResult("r", "1.2")))
		must(t, f.deliver(t, key, "sbom", "uid-image"))
		if err := f.SaveTagLookup(t.Context(), "uid-tags", tagResult("another", "1.2")); !errors.Is(err, store.ErrAttemptClosed) {
			t.Errorf("another result: %v", err)
		}
		if err := f.SaveTagLookup(t.Context(), "uid-unknown", tagResult("r", "1.2")); !errors.Is(err, store.ErrAttemptClosed) {
			t.Errorf("a Job that is not recorded: %v", err)
		}
		job.Name, job.Attempt = "scan-late", 0
		if _, reserved, err := f.ReserveScanJob(t.Context(), job); reserved || !errors.Is(err, store.ErrNotFound) {
			t.Errorf("a Job of an attempt that has ended: %t, %v", reserved, err)
		}
	},

	"Reading newer tags is bounded": func(t *testing.T, f *fixture) {
		key := image("app", amd64)
		var wanted []store.WantedTags
		for i := range store.MaxTagLookupsOfImage + 1 {
			wanted = append(wanted, wantedTags(key, fmt.Sprintf("1.%03d", i), "a"))
		}
		lookups := f.wantLookups(t, "scope", wanted...)
		var tags []string
		for i := range store.MaxNewerTags {
			tags = append(tags, fmt.Sprint("2.", i))
		}
		for i := range 2 {
			f.lookupJob(t, &lookups[i], fmt.Sprint("uid-", i))
			must(t, f.SaveTagLookup(t.Context(), fmt.Sprint("uid-", i), tagResult("r", tags...)))
		}
		ids, err := f.UnmatchedTagImages(t.Context(), 1, 100)
		must(t, err)
		for _, id := range ids {
			sbom, err := f.TagImageSBOM(t.Context(), id)
			must(t, err)
			must(t, f.SaveTagFindings(t.Context(), id, sbom.SHA256, 1, store.TagFindings{Findings: make([]store.TagFinding, store.MaxTagFindings)}))
		}
		got := f.newerTags(t, store.AllNamespaces(), key)
		if len(got) != store.MaxTagLookupsOfImage {
			t.Errorf("%d lookups", len(got))
		}
		read, refused := 0, 0
		for i := range got {
			for j := range got[i].Tags {
				read += len(got[i].Tags[j].Findings.Findings)
				if got[i].Tags[j].Findings.Problem != "" {
					refused++
				}
			}
		}
		if read != store.MaxTagFindingsRead || refused != store.MaxNewerTags {
			t.Errorf("%d findings were read, and those of %d tags not", read, refused)
		}
	},

	"Newer tags have bounds": func(t *testing.T, f *fixture) {
		key := image("app", amd64)
		good := wantedTags(key, "1.1", "a")
		lookup := f.wantLookups(t, "scope", good)[0]
		f.lookupJob(t, &lookup, "uid-1")
		for name, spoil := range map[string]func(*store.WantedTags){
			"no tag": func(w *store.WantedTags) { w.Tag = "" }, "a long tag": func(w *store.WantedTags) { w.Tag = strings.Repeat("1", store.MaxTag+1) },
			"no repository": func(w *store.WantedTags) { w.Repository = "" }, "a short repository": func(w *store.WantedTags) { w.Repository = "app" },
			"no image": func(w *store.WantedTags) { w.Key = model.ImageKey{} },
		} {
			bad := good
			spoil(&bad)
			if _, err := f.WantTagLookups(t.Context(), "scope", []store.WantedTags{bad}); err == nil {
				t.Errorf("%s is accepted", name)
			}
		}
		if _, err := f.WantTagLookups(t.Context(), "scope", []store.WantedTags{good, good}); err == nil {
			t.Error("a lookup is wanted twice")
		}
		if _, err := f.WantTagLookups(t.Context(), "scope", make([]store.WantedTags, store.MaxTagLookups+1)); err == nil {
			t.Error("too many lookups are wanted")
		}
		for name, bad := range map[string]store.TagResult{
			"no digest": {}, "too many tags": tagResult("r", strings.Split(strings.Repeat("1,", store.MaxNewerTags+1), ",")...), "an empty tag": tagResult("r", ""),
			"a long tag": tagResult("r", strings.Repeat("1", store.MaxTag+1)), "a long digest": {SHA256: strings.Repeat("1", 256)},
		} {
			if err := f.SaveTagLookup(t.Context(), "uid-1", bad); err == nil || errors.Is(err, store.ErrAttemptClosed) {
				t.Errorf("%s: %v", name, err)
			}
		}
		long := tagResult("r", "1.2")
		long.Message, long.Incomplete, long.Tags[0].Problem = strings.Repeat("m", 5000), strings.Repeat("i", 5000), strings.Repeat("p", 5000)
		must(t, f.SaveTagLookup(t.Context(), "uid-1", long))
		if got := f.newerTags(t, store.AllNamespaces(), key)[0]; max(len(got.Message), len(got.Incomplete), len(got.Tags[0].Problem)) > store.MaxTagText {
			t.Errorf("texts have %d, %d and %d bytes", len(got.Message), len(got.Incomplete), len(got.Tags[0].Problem))
		}
		if err := f.SaveTagFindings(t.Context(), "x", "y", 1, store.TagFindings{Findings: make([]store.TagFinding, store.MaxTagFindings+1)}); err == nil || errors.Is(err, store.ErrNotFound) {
			t.Errorf("too many findings: %v", err)
		}
		if _, err := f.TagImageSBOM(t.Context(), "x"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("the SBOM of an unknown image: %v", err)
		}
	},
}
