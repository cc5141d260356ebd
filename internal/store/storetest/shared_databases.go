package storetest

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/scanner-operator/scanner-operator/internal/store"
)

var sharedDatabaseTests = map[string]func(*testing.T, *fixture){
	"SharedDatabases": func(t *testing.T, f *fixture) {
		expect := func(want *store.SharedDatabase, content []byte) (id string) {
			t.Helper()
			got, found, err := f.SharedDatabase(t.Context())
			must(t, err)
			if want == nil {
				if found {
					t.Errorf("%+v is shared", got)
				}
				return ""
			}
			want.Size = int64(len(content))
			if diff := cmp.Diff(*want, got, cmpopts.IgnoreFields(got, "ID")); diff != "" || !found {
				t.Errorf("shared: %t\n%s", found, diff)
			}
			var archive bytes.Buffer
			must(t, f.LoadSharedDatabase(t.Context(), got.ID, &archive))
			if !bytes.Equal(archive.Bytes(), content) {
				t.Errorf("the archive has %d bytes and differs from the %d that were saved", archive.Len(), len(content))
			}
			return got.ID
		}
		large := make([]byte, 9<<20) // more than one part
		_, _ = rand.NewChaCha8([32]byte{}).Read(large)
		first := store.SharedDatabase{Build: newBuild, InstalledAt: time.Date(2026, 1, 3, 0, 0, 0, 1000, time.UTC), AllowOlder: true}
		expect(nil, nil)
		must(t, f.SaveSharedDatabase(t.Context(), first, bytes.NewReader(large)))
		old := expect(&first, large)

		broken := errors.New("broken")
		second := store.SharedDatabase{Build: newBuild, InstalledAt: time.Date(2026, 1, 4, 0, 0, 0, 0, time.UTC)}
		second.Build.ID = "xxh64:3"
		if err := f.SaveSharedDatabase(t.Context(), second, iotest.ErrReader(broken)); !errors.Is(err, broken) {
			t.Errorf("a broken reader: %v", err)
		}
		expect(&first, large)
		must(t, f.SaveSharedDatabase(t.Context(), second, bytes.NewReader(large[:10])))
		current := expect(&second, large[:10])
		if err := f.LoadSharedDatabase(t.Context(), old, &bytes.Buffer{}); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("the replaced database: %v", err)
		}
		must(t, f.DeleteSharedDatabase(t.Context(), old))
		expect(&second, large[:10])
		must(t, f.DeleteSharedDatabase(t.Context(), current))
		expect(nil, nil)
	},
}
