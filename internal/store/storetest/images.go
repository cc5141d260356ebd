package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

var nonce = regexp.MustCompile(`^[a-z2-7]{16,}$`)

var imageTests = map[string]func(*testing.T, *fixture){
	"WantImages": func(t *testing.T, f *fixture) {
		a, b, c := image("a", amd64), image("a", arm64), image("b", amd64)
		first := f.want(t, a, b, a)
		if len(first) != 2 || first[a].State != store.StatePending || first[b].State != store.StatePending {
			t.Fatalf("got %+v, want two pending images", first)
		}
		if first[a].Key != a || first[b].Key != b || first[a].FirstSeen.IsZero() {
			t.Errorf("got %+v", first)
		}
		if !nonce.MatchString(first[a].Nonce) || first[a].Nonce == first[b].Nonce {
			t.Errorf("nonces: got %q and %q", first[a].Nonce, first[b].Nonce)
		}
		expectKinds(t, f.kinds(t, 0), store.EventImageDiscovered, store.EventImageDiscovered)
		last := f.last(t)
		again := f.want(t, a, c)
		if len(again) != 2 || !cmp.Equal(again[a], first[a]) {
			t.Errorf("got %+v, want %+v and a new one", again, first[a])
		}
		events := f.events(t, last)
		if len(events) != 1 || events[0].ImageID != c.ImageID || events[0].Platform != "linux/amd64" || !json.Valid(events[0].Data) {
			t.Errorf("got %+v, want one event about %s", events, c)
		}
		if got := f.want(t); len(got) != 0 {
			t.Errorf("no keys: got %v", got)
		}
	},
	"WantImages refuses": func(t *testing.T, f *fixture) {
		for name, keys := range map[string][]model.ImageKey{
			"too many":     make([]model.ImageKey, store.MaxKeys+1),
			"empty":        {image("a", amd64), {Platform: amd64}},
			"long":         {{ImageID: strings.Repeat("a", model.MaxImageIDLength+1), Platform: amd64}},
			"space":        {{ImageID: "a b", Platform: amd64}},
			"bad platform": {{ImageID: "a", Platform: model.Platform{OS: "LINUX", Architecture: "amd64"}}},
		} {
			if _, err := f.WantImages(t.Context(), keys); err == nil {
				t.Errorf("%s: no error", name)
			}
		}
		if last := f.last(t); last != 0 {
			t.Errorf("%d events were written", last)
		}
	},
	"WantImages takes many": func(t *testing.T, f *fixture) {
		keys := make([]model.ImageKey, 3000)
		for i := range keys {
			keys[i] = model.ImageKey{ImageID: fmt.Sprintf("registry.example/many@sha256:%064x", i), Platform: amd64}
		}
		if got := f.want(t, keys...); len(got) != len(keys) {
			t.Errorf("got %d images, want %d", len(got), len(keys))
		}
		if last := f.last(t); last != int64(len(keys)) {
			t.Errorf("got %d events, want %d", last, len(keys))
		}
	},
	"EndAttempt": func(t *testing.T, f *fixture) {
		key := image("a", amd64)
		f.want(t, key)
		last := f.last(t)
		next := time.Date(2030, 1, 2, 3, 4, 5, 6000, time.UTC)
		end := func(attempt int, want bool) {
			t.Helper()
			if got, err := f.EndAttempt(t.Context(), key, attempt, next); err != nil || got != want {
				t.Fatalf("EndAttempt of attempt %d: got %t, %v, want %t", attempt, got, err, want)
			}
		}
		end(1, false)
		end(0, true)
		end(0, false)
		if got := f.image(t, key); got.State != store.StatePending || got.Attempts != 1 || got.Reason != "" || !got.NextAttempt.Equal(next) {
			t.Errorf("got %+v", got.ImageState)
		}
		if got := f.last(t); got != last {
			t.Errorf("%d events were written", got-last)
		}
		if _, err := f.RecordFailure(t.Context(), key, 1, model.Outcome{Reason: model.ReasonImageNotFound}, next); err != nil {
			t.Fatal(err)
		}
		end(2, true)
		if got := f.image(t, key); got.State != store.StateFailed || got.Attempts != 3 || got.Reason != model.ReasonImageNotFound {
			t.Errorf("after a failure: %+v", got.ImageState)
		}
	},
	"RecordFailure": func(t *testing.T, f *fixture) {
		key := image("a", amd64)
		f.want(t, key)
		last := f.last(t)
		next := time.Date(2030, 1, 2, 3, 4, 5, 6000, time.UTC)
		record := func(attempt int, message string, want bool) {
			t.Helper()
			got, err := f.RecordFailure(t.Context(), key, attempt, model.Outcome{Reason: model.ReasonImageNotFound, Message: message}, next)
			if err != nil || got != want {
				t.Fatalf("RecordFailure of attempt %d: got %t, %v, want %t", attempt, got, err, want)
			}
		}
		record(1, "early", false)
		record(0, "first", true)
		record(0, "again", false)
		got := f.image(t, key)
		if got.State != store.StateFailed || got.Attempts != 1 || got.Reason != model.ReasonImageNotFound || got.Message != "first" ||
			!got.NextAttempt.Equal(next) {
			t.Errorf("got %+v", got.ImageState)
		}
		record(1, strings.Repeat("é", 600)+"\xff\x00", true)
		got = f.image(t, key)
		if len(got.Message) > 1024 || len(got.Message) < 1020 || !utf8.ValidString(got.Message) || got.Attempts != 2 {
			t.Errorf("the message has %d bytes after %d attempts", len(got.Message), got.Attempts)
		}
		record(2, "bad \xff\xfe\x00 text", true)
		if got = f.image(t, key); !utf8.ValidString(got.Message) || strings.ContainsRune(got.Message, 0) || !strings.HasSuffix(got.Message, " text") {
			t.Errorf("message: %q", got.Message)
		}
		events := f.events(t, last)
		if len(events) != 3 || events[0].Kind != store.EventImageFailed {
			t.Fatalf("got %+v", events)
		}
		var data struct {
			Reason, Message string
			Attempt         *int
			NextAttempt     time.Time
		}
		if err := json.Unmarshal(events[0].Data, &data); err != nil || data.Reason != "ImageNotFound" || data.Message != "first" ||
			data.Attempt == nil || *data.Attempt != 0 || !data.NextAttempt.Equal(next) {
			t.Errorf("data: got %s (%v)", events[0].Data, err)
		}
		// What was cataloged, removed or never known cannot fail.
		f.catalog(t, key, "1", catalogOf("p"))
		record(3, "late", false)
		record(0, "late", false)
		if got = f.image(t, key); got.State != store.StateCataloged || got.Reason != "" || got.Message != "" || !got.NextAttempt.IsZero() {
			t.Errorf("got %+v", got.ImageState)
		}
		if err := f.DeleteImage(t.Context(), store.AllNamespaces(), store.AllNamespaces(), key.ImageID); err != nil {
			t.Fatal(err)
		}
		record(0, "gone", false)
	},
	"DeleteImage": func(t *testing.T, f *fixture) {
		a, b, other := image("a", amd64), image("a", arm64), image("other", amd64)
		for _, key := range []model.ImageKey{a, b, other} {
			f.catalog(t, key, "1", catalogOf("p", "q"))
			f.match(t, key, "1", answers{"p": {finding("CVE-1", model.SeverityHigh)}})
		}
		if err := f.SaveReport(t.Context(), store.AllNamespaces(), a.ImageID, store.Report{Content: []byte("{}")}); err != nil {
			t.Fatal(err)
		}
		last := f.last(t)
		if err := f.DeleteImage(t.Context(), store.AllNamespaces(), store.AllNamespaces(), a.ImageID); err != nil {
			t.Fatal(err)
		}
		expectKinds(t, f.kinds(t, last), store.EventImageRemoved, store.EventImageRemoved)
		if _, err := f.Image(t.Context(), store.AllNamespaces(), a); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("Image: %v", err)
		}
		if _, err := f.SBOM(t.Context(), store.AllNamespaces(), b); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("SBOM: %v", err)
		}
		if _, err := f.Report(t.Context(), store.AllNamespaces(), a.ImageID); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("Report: %v", err)
		}
		if err := f.DeleteImage(t.Context(), store.AllNamespaces(), store.AllNamespaces(), a.ImageID); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("DeleteImage again: %v", err)
		}
		if got := f.found(t, other); len(got) != 1 {
			t.Errorf("the other image: %v", got)
		}
		before := f.image(t, other).Nonce
		if again := f.want(t, a, other); again[a].State != store.StatePending || again[other].Nonce != before {
			t.Errorf("got %+v", again)
		}
	},
	"Image prefers": func(t *testing.T, f *fixture) {
		shown := model.ImageKey{ImageID: image("a", amd64).ImageID}
		if _, err := f.Image(t.Context(), store.AllNamespaces(), shown); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("unknown: %v", err)
		}
		f.want(t, image("a", s390x), image("a", arm64))
		if got := f.image(t, shown).Key.Platform; got != arm64 {
			t.Errorf("first by name: got %s", got)
		}
		f.want(t, image("a", amd64))
		if got := f.image(t, shown).Key.Platform; got != amd64 {
			t.Errorf("linux/amd64: got %s", got)
		}
		f.catalog(t, image("a", s390x), "1", catalogOf("p"))
		if got := f.image(t, shown).Key.Platform; got != amd64 {
			t.Errorf("cataloged is not scanned: got %s", got)
		}
		if _, err := f.SBOM(t.Context(), store.AllNamespaces(), shown); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("SBOM of the platform that is shown: %v", err)
		}
		f.match(t, image("a", s390x), "1", answers{"p": {finding("CVE-1", model.SeverityLow)}})
		if got := f.image(t, shown).Key.Platform; got != s390x {
			t.Errorf("scanned: got %s", got)
		}
		if sbom, err := f.SBOM(t.Context(), store.AllNamespaces(), shown); err != nil || sbom.SHA256 != "1" {
			t.Errorf("SBOM: %+v, %v", sbom, err)
		}
		if got := f.found(t, shown); len(got) != 1 {
			t.Errorf("Findings: %v", got)
		}
	},
	"Context": func(t *testing.T, f *fixture) {
		key := image("a", amd64)
		f.catalog(t, key, "1", catalogOf("p"))
		last := f.last(t)
		for name, call := range map[string]func(context.Context) error{
			"WantImages": func(ctx context.Context) error {
				_, err := f.WantImages(ctx, []model.ImageKey{image("b", amd64)})
				return err
			},
			"SaveSBOM":    func(ctx context.Context) error { return f.SaveSBOM(ctx, key, sbomOf("2"), catalogOf("q")) },
			"SaveAnswers": func(ctx context.Context) error { return f.SaveAnswers(ctx, 1, nil) },
			"FinishImage": func(ctx context.Context) error { return f.FinishImage(ctx, key, "1") },
			"Switch":      func(ctx context.Context) error { _, err := f.Switch(ctx, 1); return err },
			"StartResultSet": func(ctx context.Context) error {
				_, err := f.StartResultSet(ctx, oldBuild, "engine", false)
				return err
			},
			"SaveReport": func(ctx context.Context) error { return f.SaveReport(ctx, store.AllNamespaces(), "x", store.Report{}) },
			"DeleteImage": func(ctx context.Context) error {
				return f.Store.DeleteImage(ctx, store.AllNamespaces(), store.AllNamespaces(), key.ImageID)
			},
			"Prune":          func(ctx context.Context) error { return f.Store.Prune(ctx, time.Now()) },
			"PruneDecisions": func(ctx context.Context) error { return f.PruneDecisions(ctx, time.Now()) },
			"RecordUses":     func(ctx context.Context) error { return f.RecordUses(ctx, "s", []store.Use{{Image: key}}) },
			"Changes": func(ctx context.Context) error {
				_, err := f.Changes(ctx, store.AllNamespaces(), store.ChangeQuery{})
				return err
			},
			"RecordFailure": func(ctx context.Context) error {
				_, err := f.RecordFailure(ctx, key, 0, model.Outcome{}, time.Time{})
				return err
			},
			"Image": func(ctx context.Context) error { _, err := f.Image(ctx, store.AllNamespaces(), key); return err },
			"ListImages": func(ctx context.Context) error {
				_, err := f.ListImages(ctx, store.AllNamespaces(), store.ImageQuery{})
				return err
			},
			"Findings": func(ctx context.Context) error {
				_, err := f.Findings(ctx, store.AllNamespaces(), store.FindingQuery{Image: key})
				return err
			},
			"EventsSince": func(ctx context.Context) error { _, err := f.EventsSince(ctx, store.AllNamespaces(), 0, 1); return err },
			"Ready":       f.Ready,
		} {
			if err := call(cancelled(t)); !errors.Is(err, context.Canceled) || errors.Is(err, store.ErrUnavailable) {
				t.Errorf("%s: got %v, want context.Canceled", name, err)
			}
		}
		if got := f.last(t); got != last {
			t.Errorf("cancelled calls wrote %d events", got-last)
		}
	},
	"Close": func(t *testing.T, f *fixture) {
		if err := f.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		if err := f.Ready(t.Context()); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("Ready: got %v, want ErrUnavailable", err)
		}
		if _, err := f.WantImages(t.Context(), []model.ImageKey{image("a", amd64)}); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("WantImages: got %v, want ErrUnavailable", err)
		}
		if err := f.Close(); err != nil {
			t.Errorf("Close again: %v", err)
		}
	},
}
