package catalog

import (
	"context"
	_ "unsafe" // for go:linkname

	"github.com/google/licensecheck"
)

// withLicenseScanner returns a context with which Syft compiles its patterns of license texts when it finds the first text. That takes most of the
// CPU time and memory of a small scan, and many images have no such text: decision 65. Without it, Syft compiles them for every image.
func withLicenseScanner(ctx context.Context) (context.Context, error) {
	scanner, err := newLicenseScanner(&licenseScannerConfig{CoverageThreshold: syftConfig().Licenses.Coverage, Scanner: licensecheck.Scan})
	if err != nil {
		return nil, err
	}
	return setContextLicenseScanner(ctx, scanner), nil
}

// licenseScannerConfig has the fields of licenses.ScannerConfig of Syft, and licenseScanner stands for licenses.Scanner: both are internal. A value
// of the second is only passed on.
type licenseScannerConfig struct {
	CoverageThreshold float64
	Scanner           func([]byte) licensecheck.Coverage
}

type licenseScanner interface{ findEvidence() }

//go:linkname newLicenseScanner github.com/anchore/syft/internal/licenses.NewScanner
func newLicenseScanner(*licenseScannerConfig) (licenseScanner, error)

//go:linkname setContextLicenseScanner github.com/anchore/syft/internal/licenses.SetContextLicenseScanner
func setContextLicenseScanner(context.Context, licenseScanner) context.Context
