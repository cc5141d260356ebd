package matching

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqlstore"
	"github.com/scanner-operator/scanner-operator/internal/vulndb/dbtest"
)

// releasedAs is the document of an image of a release of Debian, which states when it was created.
func releasedAs(version, created string) string {
	config := fmt.Sprintf(`{"created":%q}`, created)
	return strings.NewReplacer(`"distro":{}`, fmt.Sprintf(`"distro":{"id":"debian","versionID":%q}`, version),
		`"userInput":"s"`, fmt.Sprintf(`"userInput":"s","config":%q`, base64.StdEncoding.EncodeToString([]byte(config)))).Replace(document)
}

func endsOfLife(t *testing.T, s *sqlstore.Store) map[string]string {
	t.Helper()
	page, err := s.ListImages(t.Context(), store.AllNamespaces(), store.ImageQuery{})
	if err != nil {
		t.Fatal(err)
	}
	ends := map[string]string{}
	for _, image := range page.Images {
		ends[image.Distro] = ""
		if end := image.Lifecycle.EndOfLife; !end.IsZero() {
			ends[image.Distro] = end.Format(time.DateOnly)
		}
	}
	return ends
}

// TestLifecyclesFollowDatabases expects the dates of the database in use, also of images that come later, and that a settled matcher
// writes nothing.
func TestLifecyclesFollowDatabases(t *testing.T) {
	before := dbtest.Sample(t)
	after := dbtest.Mutate(t, before, 1, dbtest.Change{Kind: dbtest.MoveEndOfLife})
	s, library := newStore(t), newShelf(before)
	a, _ := newMatcher(t, s, library)
	expect := func(want map[string]string) {
		t.Helper()
		settle(t, a)
		if got := endsOfLife(t, s); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("got %v, want %v", got, want)
		}
	}
	ingest(t, a, s, key("1"), releasedAs("11", "2024-05-01T12:00:00Z"))
	expect(map[string]string{"debian:11": "2024-08-14"})
	ingest(t, a, s, key("2"), releasedAs("12", "1970-01-01T00:00:00Z"))
	ingest(t, a, s, key("3"), releasedAs("99", ""))
	expect(map[string]string{"debian:11": "2024-08-14", "debian:12": "2026-06-10", "debian:99": ""})
	library.put(after)
	expect(map[string]string{"debian:11": "2025-08-14", "debian:12": "2027-06-10", "debian:99": ""})

	created := map[string]time.Time{}
	for _, digit := range []string{"1", "2", "3"} {
		image, err := s.Image(t.Context(), store.AllNamespaces(), key(digit))
		if err != nil {
			t.Fatal(err)
		}
		created[digit] = image.Created
	}
	if !created["1"].Equal(time.Date(2024, 5, 1, 12, 0, 0, 0, time.UTC)) || !created["2"].IsZero() || !created["3"].IsZero() {
		t.Errorf("created %v", created)
	}
}
