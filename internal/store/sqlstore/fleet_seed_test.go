//go:build uiscale

package sqlstore

import (
	"os"
	"strconv"
	"testing"

	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
	"github.com/scanner-operator/scanner-operator/internal/store/storetest/fleet"
)

// TestSeedFleet fills an empty PostgreSQL database, which test/uiscale then opens.
func TestSeedFleet(t *testing.T) {
	dsn := os.Getenv("FLEET_DSN")
	if dsn == "" {
		t.Skip("FLEET_DSN names no database: test/uiscale runs this test")
	}
	images, err := strconv.Atoi(os.Getenv("FLEET_IMAGES"))
	if err != nil {
		t.Fatalf("FLEET_IMAGES: %v", err)
	}
	if err := fillFleet(t.Context(), openWith(t, Config{Type: sqldb.TypePostgres, DSN: dsn}), fleet.Fleet{Images: images}); err != nil {
		t.Fatal(err)
	}
}
