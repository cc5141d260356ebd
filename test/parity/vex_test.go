package parity_test

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anchore/syft/syft/format/syftjson"
	syftpkg "github.com/anchore/syft/syft/pkg"
	"github.com/anchore/syft/syft/sbom"
	"github.com/anchore/syft/syft/source"

	"github.com/scanner-operator/scanner-operator/internal/match"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/vex"
)

const (
	vexImage  = "sha256:cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"
	vexLodash = "pkg:npm/lodash@4.17.20"
	vexBeans  = "pkg:maven/org.springframework/spring-beans@5.3.17"
	vexDebian = "pkg:deb/debian/openssl@1.1.1k-1?arch=amd64"
)

// vexSBOM describes an image that has a repository and a digest, with packages of which the sample database knows vulnerabilities.
func vexSBOM(t *testing.T) []byte {
	t.Helper()
	f := (&fixture{release: debian("11", "bullseye")}).add(deb("openssl", "1.1.1k-1", ""), "/var/lib/dpkg/status").add(npm("lodash", "4.17.20"), "/app/lodash").add(java("org.springframework", "spring-beans", "5.3.17"), "/app/beans.jar").
		add(java("org.apache.logging.log4j", "log4j-core", "2.14.1"), "/app/log4j.jar").add(npm("minimist", "1.2.5"), "/app/minimist")
	var buffer bytes.Buffer
	if err := syftjson.NewFormatEncoder().Encode(&buffer, sbom.SBOM{
		Artifacts: sbom.Artifacts{Packages: syftpkg.NewCollection(f.packages...), LinuxDistribution: f.release},
		Source: source.Description{ID: "vex", Name: "registry.example.com/team/shop", Metadata: source.ImageMetadata{
			UserInput: "registry.example.com/team/shop:1", ManifestDigest: vexImage, Architecture: "amd64",
			RepoDigests: []string{"registry.example.com/team/shop@" + vexImage}, Tags: []string{"registry.example.com/team/shop:1"},
		}},
		Descriptor: sbom.Descriptor{Name: "syft", Version: "test"},
	}); err != nil {
		t.Fatal(err)
	}
	return buffer.Bytes()
}

// vexCase is a statement about a finding. Where Grype decides otherwise on purpose of ours, differs says so.
type vexCase struct {
	name, document string
	differs        string
}

func openVEXDocument(id, timestamp, statements string) string {
	return fmt.Sprintf(`{"@context": "https://openvex.dev/ns/v0.2.0", "@id": %q, "author": "a", "timestamp": %q, "version": 1, "statements": [%s]}`, id, timestamp, statements)
}

func openVEXStatement(vulnerability, status, product, more string) string {
	return fmt.Sprintf(`{"vulnerability": {"name": %q}, "products": [%s], "status": %q, %s "impact_statement": "x", "action_statement": "x"}`, vulnerability, product, status, more)
}

func csafDocument(purl, vulnerability, status string) string {
	return fmt.Sprintf(`{"document": {"category": "csaf_vex", "csaf_version": "2.0", "title": "t", "publisher": {"category": "vendor", "name": "n", "namespace": "https://example.com"},
		"tracking": {"id": "1", "version": "1", "status": "final", "initial_release_date": "2026-01-01T00:00:00Z", "current_release_date": "2026-01-01T00:00:00Z",
		"revision_history": [{"date": "2026-01-01T00:00:00Z", "number": "1", "summary": "s"}]}},
		"product_tree": {"full_product_names": [{"name": "n", "product_id": "P", "product_identification_helper": {"purl": %q}}]},
		"vulnerabilities": [{"cve": %q, "notes": [{"category": "description", "text": "x"}], "product_status": {%q: ["P"]},
		"flags": [{"label": "component_not_present", "product_ids": ["P"]}], "remediations": [{"category": "vendor_fix", "details": "x", "product_ids": ["P"]}]}]}`, purl, vulnerability, status)
}

// vexCases are statements about a vulnerability of lodash, and in CSAF, which needs a CVE, of openssl.
func vexCases(id, cve string) []vexCase {
	var cases []vexCase
	openVEX := func(name, status, product string) {
		cases = append(cases, vexCase{name: name + ", " + status, document: openVEXDocument("x", "2026-01-01T00:00:00Z", openVEXStatement(id, status, product, ""))})
	}
	within := func(image string, packages ...string) string {
		list := make([]string, 0, len(packages))
		for _, p := range packages {
			list = append(list, fmt.Sprintf(`{"@id": %q}`, p))
		}
		return fmt.Sprintf(`{"@id": %q, "subcomponents": [%s]}`, image, strings.Join(list, ","))
	}
	for _, status := range []string{"not_affected", "fixed", "affected", "under_investigation"} {
		openVEX("package", status, within(vexLodash))
	}
	for name, product := range map[string]string{
		"package without version":        within("pkg:npm/lodash"),
		"other version":                  within("pkg:npm/lodash@4.17.21"),
		"other package":                  within("pkg:npm/minimist"),
		"qualifier":                      within(vexLodash + "?arch=amd64"),
		"image":                          within("pkg:oci/shop@" + vexImage),
		"image in repository":            within("pkg:oci/shop@" + vexImage + "?repository_url=registry.example.com/team"),
		"image in other repository":      within("pkg:oci/shop@" + vexImage + "?repository_url=registry.example.com/other"),
		"image without digest":           within("pkg:oci/shop"),
		"other image":                    within("pkg:oci/shop@" + layerA),
		"reference":                      within("registry.example.com/team/shop@" + vexImage),
		"tag":                            within("registry.example.com/team/shop:1"),
		"hash":                           `{"hashes": {"sha-256": "` + vexImage[7:] + `"}}`,
		"package in image":               within("pkg:oci/shop@"+vexImage, vexLodash),
		"package in image, all versions": within("pkg:oci/shop@"+vexImage, "pkg:npm/lodash"),
		"other package in image":         within("pkg:oci/shop@"+vexImage, vexBeans),
		"one of the packages in image":   within("pkg:oci/shop@"+vexImage, vexBeans, vexLodash),
		"package in other image":         within("pkg:oci/other@"+vexImage, vexLodash),
		"package in package":             within(vexBeans, vexLodash),
		"package with subcomponents":     within(vexLodash, vexBeans),
		"identifier":                     `{"@id": "https://example.com/x", "identifiers": {"purl": "` + vexLodash + `"}}`,
		"product that nobody knows":      within("https://example.com/x"),
	} {
		openVEX(name, "not_affected", product)
	}
	for _, status := range []string{"known_not_affected", "fixed", "known_affected", "under_investigation"} {
		cases = append(cases, vexCase{name: "CSAF, " + status, document: csafDocument(vexDebian, cve, status)})
	}
	return append(cases,
		vexCase{name: "CSAF, other version", document: csafDocument("pkg:deb/debian/openssl@1.1.1l-1?arch=amd64", cve, "known_not_affected")},
		vexCase{name: "CSAF, without version", document: csafDocument("pkg:deb/debian/openssl", cve, "known_not_affected"), differs: "Grype compares PURLs in CSAF documents as texts"},
		vexCase{
			name: "a newer statement", differs: "Grype uses the oldest statement",
			document: openVEXDocument("x", "2026-01-01T00:00:00Z", openVEXStatement(id, "affected", within(vexLodash), `"timestamp": "2026-01-01T00:00:00Z",`)+","+
				openVEXStatement(id, "not_affected", within(vexLodash), `"timestamp": "2026-02-01T00:00:00Z",`)),
		},
	)
}

// TestVEXParity compares which findings remain when the grype command and we apply the same VEX document to the same SBOM.
func TestVEXParity(t *testing.T) {
	installed := databases(t)["sample"]
	document := vexSBOM(t)
	decoded, err := match.Decode(bytes.NewReader(document), match.DecodeLimits{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	all := ourFindings(t, openDatabase(t, installed), document)
	file := sbomFile(t, document)
	suppressed := 0
	for _, c := range vexCases(idOf(t, all, vexLodash, "GHSA-"), idOf(t, all, vexDebian, "CVE-")) {
		t.Run(c.name, func(t *testing.T) {
			read, err := vex.Read("vex.json", strings.NewReader(c.document), vex.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			set, err := vex.NewSet([]*vex.Document{read})
			if err != nil {
				t.Fatal(err)
			}
			result, err := set.Apply(t.Context(), decoded.ImageNames(), all, match.Versions{}, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			ours := map[string]bool{}
			for _, f := range result.Open {
				ours[f.Vulnerability.ID+" "+f.Package.PURL] = true
			}
			vexFile := filepath.Join(t.TempDir(), "vex.json")
			if err := os.WriteFile(vexFile, []byte(c.document), 0o600); err != nil {
				t.Fatal(err)
			}
			theirs := map[string]bool{}
			for _, m := range readReport(t, runGrypeOn(t, installed, "sbom:"+file, "--vex", vexFile)).Matches {
				theirs[m.Vulnerability.ID+" "+m.Artifact.PURL] = true
			}
			suppressed += len(result.Suppressed)
			same := maps.Equal(ours, theirs)
			switch {
			case c.differs != "" && same:
				t.Errorf("grype decides as we do; change the documentation, which says: %s", c.differs)
			case c.differs == "" && !same:
				t.Errorf("open findings differ: grype has %v, we have %v", slices.Sorted(maps.Keys(theirs)), slices.Sorted(maps.Keys(ours)))
			}
		})
	}
	if suppressed == 0 {
		t.Error("nothing was suppressed at all; the comparison says nothing")
	}
}

// idOf returns the ID of a finding of a package. Grype compares only this one, without aliases.
func idOf(t *testing.T, findings []model.Finding, purl, prefix string) string {
	t.Helper()
	for _, f := range findings {
		if f.Package.PURL == purl && strings.HasPrefix(f.Vulnerability.ID, prefix) {
			return f.Vulnerability.ID
		}
	}
	t.Fatalf("the sample database has no vulnerability %s… of %s", prefix, purl)
	return ""
}
