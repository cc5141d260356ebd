package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"sigs.k8s.io/yaml"
)

// TestKrew expects that the manifest names the archives of the release with their checksums, and the binary in them as the plugin.
func TestKrew(t *testing.T) {
	dir, src := t.TempDir(), &source{Version: "v1.2.3"}
	platforms := []v1.Platform{{OS: "linux", Architecture: "amd64"}, {OS: "darwin", Architecture: "arm64"}}
	for _, platform := range platforms {
		must(t, os.WriteFile(filepath.Join(dir, archiveName(src, platform)), []byte(platform.OS), 0o600))
	}
	must(t, writeKrew(src, platforms, "https://example.com/download", dir))
	content, err := os.ReadFile(filepath.Join(dir, "scanner-operator_v1.2.3_krew.yaml"))
	must(t, err)
	var got krewPlugin
	must(t, yaml.UnmarshalStrict(content, &got))
	files := []krewFile{{"scanner-operator", "kubectl-scanner"}, {"LICENSE", "."}}
	want := []krewPlatform{
		{
			krewSelector{map[string]string{"os": "linux", "arch": "amd64"}}, "https://example.com/download/v1.2.3/scanner-operator_v1.2.3_linux_amd64.tar.gz",
			"caf90169eefa5f807d577486b9f795ab86ae2983c5c20806cff959117e90af18", files, "kubectl-scanner",
		},
		{
			krewSelector{map[string]string{"os": "darwin", "arch": "arm64"}}, "https://example.com/download/v1.2.3/scanner-operator_v1.2.3_darwin_arm64.tar.gz",
			"26ce1a1580f693873b6268fef54c5f0d0607f2896cad02ce2894c0c899a11575", files, "kubectl-scanner",
		},
	}
	if got.Kind != "Plugin" || got.Metadata.Name != "scanner" || got.Spec.Version != "v1.2.3" || len(got.Spec.ShortDescription) > 50 {
		t.Errorf("got %+v", got)
	}
	if diff := cmp.Diff(want, got.Spec.Platforms); diff != "" {
		t.Error(diff)
	}
}
