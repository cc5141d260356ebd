package storetest

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// scanJob is a Job that is about to be created.
func scanJob(name string, key model.ImageKey, attempt int) store.ScanJob {
	return store.ScanJob{
		Name: name, Namespace: "team", Key: key, Attempt: attempt, ScannerUID: "scanner", For: "shop", SizeClass: model.SizeMedium, Spec: json.RawMessage(`{"a":"<&>"}`),
	}
}

// recordJob reserves and records a Job.
func (f *fixture) recordJob(t *testing.T, job store.ScanJob, uid string) {
	t.Helper()
	if _, reserved, err := f.ReserveScanJob(t.Context(), job); !reserved || err != nil {
		t.Fatalf("ReserveScanJob: %t, %v", reserved, err)
	}
	must(t, f.RecordScanJob(t.Context(), job.Name, uid))
}

func (f *fixture) scanJob(t *testing.T, uid string) store.ScanJob {
	t.Helper()
	job, err := f.ScanJob(t.Context(), uid)
	if err != nil {
		t.Fatalf("ScanJob: %v", err)
	}
	return job
}

// deliver saves an SBOM that a Job delivers.
func (f *fixture) deliver(t *testing.T, key model.ImageKey, digest, uid string) error {
	t.Helper()
	sbom := sbomOf(digest)
	sbom.Job = uid
	return f.SaveSBOM(t.Context(), key, sbom, catalogOf("p"+digest))
}

var scanJobTests = map[string]func(*testing.T, *fixture){
	"A scan Job is reserved, recorded and forgotten": func(t *testing.T, f *fixture) {
		key, job := image("a", amd64), scanJob("scan-1", image("a", amd64), 0)
		if _, _, err := f.ReserveScanJob(t.Context(), job); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("a Job for an image that is not known: %v", err)
		}
		f.want(t, key)
		want := job
		want.Open = true
		kept, reserved, err := f.ReserveScanJob(t.Context(), job)
		if diff := cmp.Diff(want, kept); diff != "" || !reserved || err != nil {
			t.Errorf("reserved %t, %v (-want +got):\n%s", reserved, err, diff)
		}
		again := job
		again.Namespace, again.Spec = "elsewhere", json.RawMessage(`{}`)
		kept, reserved, err = f.ReserveScanJob(t.Context(), again)
		if diff := cmp.Diff(want, kept); diff != "" || reserved || err != nil {
			t.Errorf("reserved again %t, %v (-want +got):\n%s", reserved, err, diff)
		}
		if _, err := f.ScanJob(t.Context(), ""); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("a Job without a UID: %v", err)
		}
		awaited := func(namespace, name string) bool {
			t.Helper()
			reserved, err := f.ReservedScanJob(t.Context(), namespace, name)
			must(t, err)
			return reserved
		}
		if !awaited("team", "scan-1") || awaited("elsewhere", "scan-1") || awaited("team", "scan-2") {
			t.Error("the Job that is reserved is another one")
		}
		must(t, f.RecordScanJob(t.Context(), "scan-1", "uid-1"))
		must(t, f.RecordScanJob(t.Context(), "scan-1", "uid-1"))
		if awaited("team", "scan-1") {
			t.Error("a recorded Job is only reserved")
		}
		if f.RecordScanJob(t.Context(), "scan-1", "uid-2") == nil {
			t.Error("a Job is recorded with two UIDs")
		}
		if err := f.RecordScanJob(t.Context(), "scan-2", "uid-2"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("a Job that was not reserved: %v", err)
		}
		want.UID = "uid-1"
		if diff := cmp.Diff(want, f.scanJob(t, "uid-1")); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		spec, err := f.ScanJobSpec(t.Context(), "scan-1")
		if diff := cmp.Diff(want.Spec, spec); diff != "" || err != nil {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
		if _, err := f.ScanJobSpec(t.Context(), "scan-2"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("the spec of a Job that was not reserved: %v", err)
		}
		want.Spec = nil
		list, err := f.ListScanJobs(t.Context())
		if diff := cmp.Diff([]store.ScanJob{want}, list); diff != "" || err != nil {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
		must(t, f.ForgetScanJobs(t.Context(), nil))
		must(t, f.ForgetScanJobs(t.Context(), []string{"scan-1", "scan-2"}))
		if _, err := f.ScanJob(t.Context(), "uid-1"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("a forgotten Job: %v", err)
		}
		for name, spoil := range map[string]func(*store.ScanJob){
			"no name":            func(j *store.ScanJob) { j.Name = "" },
			"a long namespace":   func(j *store.ScanJob) { j.Namespace = strings.Repeat("x", 254) },
			"a long UID":         func(j *store.ScanJob) { j.ScannerUID = strings.Repeat("x", 254) },
			"a spec not JSON":    func(j *store.ScanJob) { j.Spec = json.RawMessage(`{`) },
			"a long spec":        func(j *store.ScanJob) { j.Spec = json.RawMessage(`"` + strings.Repeat("x", store.MaxJobSpec) + `"`) },
			"an impossible key":  func(j *store.ScanJob) { j.Key.ImageID = "a b" },
			"another attempt":    func(j *store.ScanJob) { j.Attempt = 1 },
			"an unknown image":   func(j *store.ScanJob) { j.Key = image("bb", amd64) },
			"a foreign platform": func(j *store.ScanJob) { j.Key.Platform = arm64 },
		} {
			bad := job
			spoil(&bad)
			if _, reserved, err := f.ReserveScanJob(t.Context(), bad); reserved || err == nil {
				t.Errorf("%s is accepted", name)
			}
		}
	},
	"A scan Job delivers one SBOM": func(t *testing.T, f *fixture) {
		key := image("a", amd64)
		before := f.want(t, key)[key].Nonce
		f.recordJob(t, scanJob("scan-1", key, 0), "uid-1")
		if err := f.deliver(t, key, "1", "another"); !errors.Is(err, store.ErrAttemptClosed) {
			t.Errorf("a Job that is not recorded: %v", err)
		}
		if err := f.deliver(t, image("a", arm64), "1", "uid-1"); !errors.Is(err, store.ErrAttemptClosed) {
			t.Errorf("a Job of another image: %v", err)
		}
		must(t, f.deliver(t, key, "1", "uid-1"))
		if got := f.scanJob(t, "uid-1"); got.Open || got.SBOMSHA256 != "1" {
			t.Errorf("after its SBOM: %+v", got)
		}
		if i := f.image(t, key); i.Nonce == before || i.ScannedIn != "team" {
			t.Errorf("the next attempts get the names of the earlier ones, or the namespace is missing: %+v", i)
		}
		last := f.last(t)
		// Its sender may have missed the answer.
		must(t, f.deliver(t, key, "1", "uid-1"))
		if err := f.deliver(t, key, "2", "uid-1"); !errors.Is(err, store.ErrAttemptClosed) {
			t.Errorf("another SBOM: %v", err)
		}
		expectKinds(t, f.kinds(t, last))
		if sbom, err := f.SBOM(t.Context(), store.AllNamespaces(), key); err != nil || sbom.SHA256 != "1" {
			t.Errorf("got %+v, %v", sbom, err)
		}
	},
	"A scan Job whose attempt has ended delivers nothing": func(t *testing.T, f *fixture) {
		failed, deleted := image("a", amd64), image("bb", amd64)
		f.want(t, failed, deleted)
		f.recordJob(t, scanJob("scan-1", failed, 0), "uid-1")
		f.recordJob(t, scanJob("scan-2", deleted, 0), "uid-2")
		if recorded, err := f.RecordFailure(t.Context(), failed, 0, model.Outcome{Reason: model.ReasonOutOfDisk}, day); !recorded || err != nil {
			t.Fatal(recorded, err)
		}
		must(t, f.DeleteImage(t.Context(), store.AllNamespaces(), store.AllNamespaces(), deleted.ImageID))
		closed := func(key model.ImageKey, uid string) {
			t.Helper()
			if err := f.deliver(t, key, "1", uid); !errors.Is(err, store.ErrAttemptClosed) || f.scanJob(t, uid).Open {
				t.Errorf("%s: %v", uid, err)
			}
		}
		closed(failed, "uid-1")
		closed(deleted, "uid-2")
		// It is wanted again, under another nonce.
		f.want(t, deleted)
		closed(deleted, "uid-2")
		f.recordJob(t, scanJob("scan-3", failed, 1), "uid-3")
		must(t, f.deliver(t, failed, "1", "uid-3"))
		closed(failed, "uid-1")
	},
	"An SBOM comes from a namespace, or not": func(t *testing.T, f *fixture) {
		key := image("a", amd64)
		f.want(t, key)
		for _, namespace := range []string{"operator", "", "team"} {
			sbom := sbomOf("in-" + namespace)
			sbom.ScannedIn = namespace
			must(t, f.SaveSBOM(t.Context(), key, sbom, catalogOf("p")))
			if got := f.image(t, key).ScannedIn; got != namespace {
				t.Errorf("scanned in %q, want %q", got, namespace)
			}
			if listed := f.list(t, store.ImageQuery{}).Images; len(listed) != 1 || listed[0].ScannedIn != namespace {
				t.Errorf("listed as %+v, want %q", listed, namespace)
			}
		}
		sbom := sbomOf("long")
		sbom.ScannedIn = strings.Repeat("x", 254)
		if f.SaveSBOM(t.Context(), key, sbom, catalogOf("p")) == nil {
			t.Error("a long namespace is accepted")
		}
		must(t, f.DeleteImage(t.Context(), store.AllNamespaces(), store.AllNamespaces(), key.ImageID))
		f.want(t, key)
		if got := f.image(t, key).ScannedIn; got != "" {
			t.Errorf("a new image was scanned in %q", got)
		}
	},
}
