package scanner

import (
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

func TestChildHasAnEnvironmentOfItsOwn(t *testing.T) {
	t.Setenv("DSN", "postgres://user:secret@db/scans")
	t.Setenv("POD_NAME", "manager")
	for _, name := range slices.Concat(certificateVariables, proxyVariables) {
		t.Setenv(name, "")
	}
	t.Setenv("HTTPS_PROXY", "http://proxy:3128")
	t.Setenv("SSL_CERT_DIR", "/one:/two")
	t.Setenv("SCANNER_REGISTRIES", "{}")
	var got []string
	for _, variable := range childEnvironment("/scratch", (&InProcess{}).limit(model.SizeMedium)) {
		if !strings.HasSuffix(variable, "=") {
			got = append(got, variable)
		}
	}
	want := []string{
		"HOME=/scratch", "TMPDIR=/scratch", "GOMEMLIMIT=1610612736", "GOMAXPROCS=" + strconv.Itoa(runtime.GOMAXPROCS(0)),
		"SSL_CERT_DIR=/one:/two", "HTTPS_PROXY=http://proxy:3128", "SCANNER_REGISTRIES={}",
	}
	if !slices.Equal(got, want) {
		t.Errorf("environment %q, want %q", got, want)
	}
	if files := childFiles("/program", "/scratch"); !slices.Contains(files.read, "/one") || !slices.Contains(files.read, "/two") {
		t.Errorf("the directories of SSL_CERT_DIR are not among %q", files.read)
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

// TestLastLine: what a child wrote last is kept from a whole character on.
func TestLastLine(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "first\nlast\n": "last",
		"x" + strings.Repeat("😀", maxChildLog): strings.Repeat("😀", maxChildLog/4-1), "x" + strings.Repeat("😀", maxChildLog) + "y": strings.Repeat("😀", maxChildLog/4-2) + "y",
	} {
		var o output
		if _, err := o.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if got := o.last(); got != want {
			t.Errorf("%.20q: got %d bytes that begin with %.20q, want %d that begin with %.20q", text, len(got), got, len(want), want)
		}
	}
}
