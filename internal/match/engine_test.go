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
	if !strings.Contains(string(modules), "\tgithub.com/anchore/syft "+match.SyftVersion+"\n") {
		t.Errorf("go.mod does not ask for %s", match.SyftVersion)
	}
	if want := fmt.Sprintf("grype %s, projection %d", match.GrypeVersion, match.Projection); match.Engine() != want {
		t.Errorf("the engine is %q, want %q", match.Engine(), want)
	}
}

// TestStamp expects that SBOMs are read again after a change of anything that reads them.
func TestStamp(t *testing.T) {
	stamps := map[int]string{}
	for _, versions := range [][2]string{
		{match.Engine(), match.SyftVersion}, {match.Engine(), "v1.50.0"}, {"grype v0.117.0, projection 3", match.SyftVersion}, {"grype v0.116.0, projection 4", match.SyftVersion},
	} {
		stamp := match.StampOf(versions[0], versions[1])
		if other, taken := stamps[stamp]; taken || stamp <= 0 {
			t.Errorf("%v has the stamp %d of %s", versions, stamp, other)
		}
		stamps[stamp] = versions[0] + versions[1]
	}
	if got := (&image{}).decode(t).Catalog().Stamp; got != match.StampOf(match.Engine(), match.SyftVersion) {
		t.Errorf("an SBOM got the stamp %d", got)
	}
}
