package scanner

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

func TestChildDoesNotLearnThePasswordOfTheStore(t *testing.T) {
	got := childEnvironment([]string{"PATH=/bin", "DSN=postgres://user:secret@db/scans", "DSNX=kept"}, "/scratch", model.SizeMedium)
	want := []string{"PATH=/bin", "DSNX=kept", "TMPDIR=/scratch", "GOMEMLIMIT=1610612736"}
	if !slices.Equal(got, want) {
		t.Errorf("environment %q, want %q", got, want)
	}
}

func TestChildGrowsWithinTheBound(t *testing.T) {
	p := &InProcess{MaxMemory: 2 << 30}
	if next, grows := p.Grow(corev1.ResourceRequirements{}, ""); next != model.SizeMedium || !grows {
		t.Errorf("from the smallest: %s, %t", next, grows)
	}
	if next, grows := p.Grow(corev1.ResourceRequirements{}, model.SizeMedium); grows {
		t.Errorf("to %s, beyond the bound", next)
	}
}
