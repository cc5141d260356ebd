package setup

import (
	"strings"
	"testing"
)

// TestInvalidRegistries: the error names the variable and the field.
func TestInvalidRegistries(t *testing.T) {
	options := Options{
		Catalog: CatalogInProcess, Auth: AuthNone, APIAddress: "127.0.0.1:0", MetricsAddress: "0", HealthAddress: "0", Namespace: "default", DataDir: t.TempDir(),
		Registries: `{"registries": [{"host": "https://quay.io"}]}`,
	}
	if err := options.validate(); err == nil || !strings.HasPrefix(err.Error(), "the environment variable SCANNER_REGISTRIES: registries[0].host: ") {
		t.Errorf("got %v", err)
	}
	options.Registries = `{"registries": [{"host": "quay.io"}]}`
	if err := options.validate(); err != nil {
		t.Error(err)
	}
}
