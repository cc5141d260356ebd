package catalog

import (
	"reflect"
	"slices"
	"testing"

	"github.com/google/licensecheck"
)

const mit = `Copyright 2026 Somebody

Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated documentation files (the "Software"), to deal
in the Software without restriction, including without limitation the rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell
copies of the Software, and to permit persons to whom the Software is furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS
FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY,
WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
`

// TestLicenseTexts: what Syft reads in a license text is in the SBOM.
func TestLicenseTexts(t *testing.T) {
	image := layered(t, append(sound(), regular("usr/share/doc/openssl/copyright", mit)))
	result, err := runIn(t, t.Context(), Request{Image: newRegistry(t).push(t, image)})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range decode(t, result.SBOM).Artifacts.Packages.Sorted() {
		if got := licenses(p); p.Name == "openssl" && !slices.Equal(got, []string{"MIT"}) {
			t.Errorf("the licenses of openssl are %v, want MIT", got)
		}
	}
}

// TestLicenseScannerOfSyft: the types that stand for internal ones of Syft are still like them.
func TestLicenseScannerOfSyft(t *testing.T) {
	scanner, err := newLicenseScanner(&licenseScannerConfig{CoverageThreshold: 75, Scanner: licensecheck.Scan})
	if err != nil {
		t.Fatal(err)
	}
	value := reflect.ValueOf(scanner)
	if got := value.Type().String(); got != "*licenses.scanner" {
		t.Fatalf("the license scanner is a %s", got)
	}
	var fields []string
	for field := range value.Elem().Type().Fields() {
		fields = append(fields, field.Name+" "+field.Type.String())
	}
	if want := []string{"coverageThreshold float64", "scanner func([]uint8) licensecheck.Coverage"}; !slices.Equal(fields, want) {
		t.Errorf("the fields of the license scanner are %q, want %q", fields, want)
	}
	if threshold, function := value.Elem().Field(0).Float(), value.Elem().Field(1).Pointer(); threshold != 75 || function != reflect.ValueOf(licensecheck.Scan).Pointer() {
		t.Errorf("the license scanner does not have the threshold and the function that it was given")
	}
}
