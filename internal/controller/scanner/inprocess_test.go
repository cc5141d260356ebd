package scanner

import (
	"slices"
	"testing"
)

func TestChildDoesNotLearnThePasswordOfTheStore(t *testing.T) {
	got := childEnvironment([]string{"PATH=/bin", "DSN=postgres://user:secret@db/scans", "DSNX=kept"}, "/scratch")
	want := []string{"PATH=/bin", "DSNX=kept", "TMPDIR=/scratch", "GOMEMLIMIT=" + childMemoryLimit}
	if !slices.Equal(got, want) {
		t.Errorf("environment %q, want %q", got, want)
	}
}
