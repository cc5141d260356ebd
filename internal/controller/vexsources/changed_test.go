package vexsources

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	scannerv1alpha1 "github.com/scanner-operator/scanner-operator/api/scanner/v1alpha1"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// update changes the object as a user does, and reconciles.
func (w *world) update(name string, change func(*scannerv1alpha1.VEXSource)) {
	w.t.Helper()
	source := w.get(name)
	source.Generation++
	change(source)
	if err := w.Client.Update(w.t.Context(), source); err != nil {
		w.t.Fatal(err)
	}
	w.reconcile(name)
}

// TestChangedSources: when the spec says something else about where documents come from and which are trusted, those of the earlier spec end unless the new
// spec has valid ones. A spec that says the same, and a fetch that fails, change nothing.
func TestChangedSources(t *testing.T) {
	away := errors.New("away")
	for name, one := range map[string]struct {
		change  func(*scannerv1alpha1.VEXSource)
		err     error
		content string
		reasons string
		want    int
	}{
		"the signature is missing": {
			func(s *scannerv1alpha1.VEXSource) {
				s.Spec.Signature = &scannerv1alpha1.VEXSourceSignature{PublicKey: "key"}
			},
			fmt.Errorf("%w: x", ErrSignature), "", "SignatureInvalid SignatureInvalid NotFetched", 0,
		},
		"signed, and away": {
			func(s *scannerv1alpha1.VEXSource) {
				s.Spec.Signature = &scannerv1alpha1.VEXSourceSignature{PublicKey: "key"}
			},
			away, "", "FetchFailed NotFetched NotFetched", 0,
		},
		"signed": {
			func(s *scannerv1alpha1.VEXSource) {
				s.Spec.Signature = &scannerv1alpha1.VEXSourceSignature{PublicKey: "key"}
			},
			nil, "", good, 1,
		},
		"other formats": {
			func(s *scannerv1alpha1.VEXSource) {
				s.Spec.Formats = []scannerv1alpha1.VEXFormat{scannerv1alpha1.VEXFormatCSAF}
			},
			nil, "", "Fetched DocumentsInvalid NotFetched", 0,
		},
		"another URL":             {func(s *scannerv1alpha1.VEXSource) { s.Spec.HTTP.URL += "/other" }, away, "", "FetchFailed NotFetched NotFetched", 0},
		"another URL, and no VEX": {func(s *scannerv1alpha1.VEXSource) { s.Spec.HTTP.URL += "/other" }, nil, "{}", "Fetched DocumentsInvalid NotFetched", 0},
		"another CA":              {func(s *scannerv1alpha1.VEXSource) { s.Spec.HTTP.CABundle = "CA" }, away, "", "FetchFailed NotFetched NotFetched", 0},
		"a ConfigMap that does not exist": {
			func(s *scannerv1alpha1.VEXSource) {
				s.Spec.HTTP, s.Spec.ConfigMap = nil, &scannerv1alpha1.VEXSourceConfigMap{Name: "absent", Key: "x"}
			},
			nil, "", "FetchFailed NotFetched NotFetched", 0,
		},
		"another interval": {func(s *scannerv1alpha1.VEXSource) { s.Spec.Interval.Duration *= 2 }, away, "", "FetchFailed NotFetched Applied", 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, vendorSource("vendor"))
			w.server.content, w.server.version = document("fixed", "pkg:npm/a"), "1"
			w.reconcile("vendor")
			w.expect("before", "vendor", good, 1)
			if one.err != nil {
				w.server.err = one.err
			}
			if one.content != "" {
				w.server.content = one.content
			}
			w.update("vendor", one.change)
			w.expect("after", "vendor", one.reasons, one.want)
			w.restart()
			w.reconcile("vendor")
			w.expect("after a restart", "vendor", one.reasons, one.want)
			if applied := meta.FindStatusCondition(w.get("vendor").Status.Conditions, scannerv1alpha1.ConditionApplied); one.want == 0 && !strings.Contains(applied.Message, "earlier spec") {
				t.Errorf("the message is %q", applied.Message)
			}
			w.server.err, w.server.content = nil, document("fixed", "pkg:npm/a")
			w.update("vendor", func(s *scannerv1alpha1.VEXSource) { s.Spec = vendorSource("vendor").Spec })
			w.expect("with the first spec again", "vendor", good, 1)
		})
	}
}

// TestOrderOfFormats: the formats are a set.
func TestOrderOfFormats(t *testing.T) {
	one := vendorSource("vendor")
	one.Spec.Formats = []scannerv1alpha1.VEXFormat{scannerv1alpha1.VEXFormatCSAF, scannerv1alpha1.VEXFormatOpenVEX}
	w := newWorld(t, one)
	w.server.content = document("fixed", "pkg:npm/a")
	w.reconcile("vendor")
	w.server.err = errors.New("away")
	w.update("vendor", func(s *scannerv1alpha1.VEXSource) {
		s.Spec.Formats = []scannerv1alpha1.VEXFormat{scannerv1alpha1.VEXFormatOpenVEX, scannerv1alpha1.VEXFormatCSAF}
	})
	w.expect("in another order", "vendor", "FetchFailed NotFetched Applied", 1)
}

// TestRecreatedSources: an object that takes the name of one that was deleted meanwhile does not take its documents.
func TestRecreatedSources(t *testing.T) {
	w := newWorld(t, vendorSource("vendor"))
	w.server.content, w.server.version = document("fixed", "pkg:npm/a"), "1"
	w.reconcile("vendor")
	recreate := func(uid types.UID) {
		t.Helper()
		old := w.get("vendor")
		next := vendorSource("vendor")
		// A restored backup may have the status.
		next.UID, next.Status = uid, old.Status
		if err := errors.Join(w.Client.Delete(t.Context(), old), w.Client.Create(t.Context(), next)); err != nil {
			t.Fatal(err)
		}
		if err := w.Client.Status().Update(t.Context(), next); err != nil {
			t.Fatal(err)
		}
		w.restart()
		w.reconcile("")
		w.reconcile("vendor")
	}
	recreate("second")
	w.expect("created again", "vendor", good, 1)
	if last := w.server.asked[len(w.server.asked)-1]; last != "https://example.com " {
		t.Errorf("asked %q, want all documents", last)
	}
	w.server.err = errors.New("away")
	recreate("third")
	w.expect("created again while the server is away", "vendor", "FetchFailed DocumentsValid NotFetched", 0)
}

// TestDocumentsOfEarlierVersions: documents whose spec is not known, because a previous version has fetched them, apply until the spec says something else. They are not those
// of a spec of which nothing was fetched.
func TestDocumentsOfEarlierVersions(t *testing.T) {
	for name, change := range map[string]func(*scannerv1alpha1.VEXSource){
		"": func(*scannerv1alpha1.VEXSource) {}, "changed": func(s *scannerv1alpha1.VEXSource) { s.Generation++ },
		"never fetched": func(s *scannerv1alpha1.VEXSource) {
			s.Status.Conditions = nil
			setNotFetched(s, errors.New("away"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			one := vendorSource("vendor")
			one.Status.ObservedGeneration = 1
			one.Generation = 1
			setFetched(one, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
			setValid(one)
			change(one)
			w := newWorld(t, one)
			content := []store.VEXContent{{Name: "document", Content: []byte(document("fixed", "pkg:npm/a"))}}
			if err := w.store.SaveVEX(t.Context(), store.VEXSource{Kind: store.VEXKindSource, Name: "vendor", Version: `"etag"`}, content); err != nil {
				t.Fatal(err)
			}
			w.server.err = errors.New("away")
			w.reconcile("vendor")
			if name != "" {
				w.expect(name, "vendor", "FetchFailed NotFetched NotFetched", 0)
				return
			}
			w.expect("unchanged", "vendor", good, 1)
			w.update("vendor", func(s *scannerv1alpha1.VEXSource) { s.Spec.Interval.Duration *= 2 })
			w.expect("with another interval", "vendor", "FetchFailed NotFetched Applied", 1)
			w.clock.Step(retryAfter)
			w.server.err, w.server.version, w.server.content = nil, `"etag"`, document("fixed", "pkg:npm/a")
			w.reconcile("vendor")
			w.expect("fetched", "vendor", good, 1)
			w.server.err = errors.New("away")
			w.update("vendor", func(s *scannerv1alpha1.VEXSource) { s.Spec.HTTP.URL += "/other" })
			w.expect("changed then", "vendor", "FetchFailed NotFetched NotFetched", 0)
		})
	}
}
