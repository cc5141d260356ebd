package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/scanner-operator/scanner-operator/internal/match"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/server"
)

// binaries returns packages of one name, version and package URL, which differ in what matching reads.
func binaries(n int) []model.Package {
	packages := make([]model.Package, n)
	for i := range packages {
		packages[i] = packageOf("stdlib", "1.22.1")
		packages[i].Type, packages[i].Fingerprint = "go-module", strings.Repeat(fmt.Sprint(i), 64)
	}
	return packages
}

// Lists have a row for each of the packages of one name and version that matching tells apart, and IDs tell the rows apart, in each list the same.
func TestPackageIDs(t *testing.T) {
	f := newFixture(t, func(c *server.Config) { c.Versions = match.Versions{} })
	f.seed()
	packages := binaries(3)
	f.scan(model.ImageKey{ImageID: scannedID, Platform: linux}, packages...)
	var want []string
	for i := range packages {
		want = append(want, packages[i].Fingerprint)
	}
	image := escape(scannedID)
	for _, target := range []string{
		"/api/v1/fixes?action=update&imageId=" + image,
		"/api/v1/packages?name=stdlib&pageSize=2",
		"/api/v1/images/" + image + "/packages",
		"/api/v1/images/" + image + "/findings",
		"/api/v1/vulnerabilities/CVE-2024-0000/affected",
		previewPath + "?action=update&packageType=go-module&packageName=stdlib&packageVersion=1.22.1&imageId=" + image,
	} {
		got := f.packageIDs(target)
		slices.Sort(got)
		expected := want
		if strings.Contains(target, "/affected") {
			expected = want[:1]
		}
		if !slices.Equal(got, expected) {
			t.Errorf("%s: %q instead of %q", target, got, expected)
		}
	}
}

// A preview with the ID of a package is about it alone, as is its row; without, it is about all packages of the name and version.
func TestPreviewFixOfOnePackage(t *testing.T) {
	f := newFixture(t, func(c *server.Config) { c.Versions = match.Versions{} })
	f.seed()
	packages := binaries(2)
	f.scan(model.ImageKey{ImageID: scannedID, Platform: linux}, packages...)
	update := "action=update&packageType=go-module&packageName=stdlib&packageVersion=1.22.1&imageId=" + escape(scannedID)
	if all := f.previewFix(update); all.Count != 2 || all.Closed.High+all.Closed.Critical != 2 {
		t.Errorf("without an ID: %+v", all)
	}
	for i := range packages {
		id := packages[i].Fingerprint
		if one := f.previewFix(update + "&packageId=" + id); one.Count != 1 || len(one.Packages) != 1 || one.Packages[0].ID != id || one.Closed.High+one.Closed.Critical != 1 {
			t.Errorf("of %s: %+v", id, one)
		}
	}
	other := packageOf("openssl", "3.0.1").Fingerprint
	f.do(http.MethodGet, previewPath+"?"+update+"&packageId="+other, "").problem(t, http.StatusNotFound, "no such package")
}

// packageIDs reads the IDs of the packages of all pages of a list, or of an answer with packages.
func (f *fixture) packageIDs(target string) (ids []string) {
	f.t.Helper()
	type identified struct{ ID string }
	for next := target; next != ""; {
		var page struct {
			Items []struct {
				Package  identified
				Packages []identified
			}
			Packages      []identified
			NextPageToken string
		}
		a := f.do(http.MethodGet, next, "")
		if a.status != http.StatusOK {
			f.t.Fatalf("%s: %d %s", next, a.status, a.body)
		}
		f.must(json.Unmarshal([]byte(a.body), &page))
		named := page.Packages
		for _, item := range page.Items {
			if named = append(named, item.Packages...); item.Packages == nil {
				named = append(named, item.Package)
			}
		}
		for _, one := range named {
			ids = append(ids, one.ID)
		}
		if next = ""; page.NextPageToken != "" {
			next = target + "&pageToken=" + page.NextPageToken
		}
	}
	return ids
}
