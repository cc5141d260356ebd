package match_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/scanner-operator/scanner-operator/internal/match"
)

func TestEngine(t *testing.T) {
	modules, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(modules), "\tgithub.com/anchore/grype "+match.GrypeVersion+"\n") {
		t.Errorf("go.mod does not ask for %s", match.GrypeVersion)
	}
	if want := fmt.Sprintf("grype %s, projection %d", match.GrypeVersion, match.Projection); match.Engine() != want {
		t.Errorf("the engine is %q, want %q", match.Engine(), want)
	}
}
