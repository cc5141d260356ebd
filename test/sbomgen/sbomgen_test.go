package sbomgen_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	v6 "github.com/anchore/grype/grype/db/v6"

	"github.com/scanner-operator/scanner-operator/internal/vulndb/sample"
	"github.com/scanner-operator/scanner-operator/test/sbomgen"
)

func pool(t *testing.T) *sbomgen.Pool {
	t.Helper()
	dir := t.TempDir()
	if err := sample.Build(dir); err != nil {
		t.Fatal(err)
	}
	p, err := sbomgen.ReadPool(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// document is the part of Syft's JSON that these tests look at.
type document struct {
	Artifacts []struct {
		ID, Name, Version, Type string
		Metadata                json.RawMessage
	}
	ArtifactRelationships []struct{ Parent, Child, Type string }
	Distro                struct{ ID, VersionID string }
}

func decode(t *testing.T, sbom []byte) document {
	t.Helper()
	var d document
	if err := json.Unmarshal(sbom, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

func TestPoolKnowsWhatTheDatabaseSays(t *testing.T) {
	p := pool(t)
	var debian *sbomgen.System
	for i := range p.Systems {
		if s := &p.Systems[i]; s.OS.Name == "debian" && s.OS.MajorVersion == "11" {
			debian = s
		}
	}
	if debian == nil {
		t.Fatalf("no Debian 11 among %d systems", len(p.Systems))
	}
	for _, a := range debian.Packages {
		if a.Name == "openssl" {
			if len(a.Versions) < 2 || a.Versions[0] != "1.1.1k-1+deb11u1" {
				t.Errorf("openssl has the versions %q", a.Versions)
			}
			return
		}
	}
	t.Error("no openssl in Debian 11")
}

func TestDocumentsFollowFromSeedAndIndex(t *testing.T) {
	p := pool(t)
	seen := map[string]bool{}
	for index := range 20 {
		first, err := sbomgen.New(p, 7).SBOM(index)
		if err != nil {
			t.Fatal(err)
		}
		again, err := sbomgen.New(p, 7).SBOM(index)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(first, again) {
			t.Errorf("SBOM %d is not the same when it is made again", index)
		}
		seen[string(first)] = true
		other, err := sbomgen.New(p, 8).SBOM(index)
		if err != nil {
			t.Fatal(err)
		}
		seen[string(other)] = true
	}
	if len(seen) != 40 {
		t.Errorf("%d different SBOMs of 40", len(seen))
	}
}

// The random images must hold what they are made for.
func TestDocumentsAreOdd(t *testing.T) {
	g := sbomgen.New(pool(t), 1)
	var owned, bare, noDistro, twice, namesakes int
	for index := range 100 {
		sbom, err := g.SBOM(index)
		if err != nil {
			t.Fatal(err)
		}
		d := decode(t, sbom)
		for _, r := range d.ArtifactRelationships {
			if r.Type == "ownership-by-file-overlap" {
				owned++
			}
		}
		if d.Distro.ID == "" {
			noDistro++
		}
		metadata := map[string]string{}
		for _, a := range d.Artifacts {
			if a.Version == "" {
				bare++
			}
			key := a.Type + " " + a.Name + " " + a.Version
			switch before, ok := metadata[key]; {
			case ok && before == string(a.Metadata):
				twice++
			case ok:
				namesakes++
			}
			metadata[key] = string(a.Metadata)
		}
	}
	if owned == 0 || bare == 0 || noDistro == 0 || twice == 0 || namesakes == 0 {
		t.Errorf("%d owned, %d without version, %d images without distribution, %d packages twice, %d namesakes; all must occur",
			owned, bare, noDistro, twice, namesakes)
	}
}

func TestWithout(t *testing.T) {
	g := sbomgen.New(pool(t), 3)
	var d sbomgen.Document
	for index := 0; len(d.Owners) == 0; index++ {
		d = g.Document(index)
	}
	owner, owned := d.Packages[d.Owners[0][0]], d.Packages[d.Owners[0][1]]
	for i := range slices.Backward(d.Packages) {
		if id := d.Packages[i].ID(); id != owner.ID() && id != owned.ID() {
			d = d.Without(i)
		}
	}
	found := false
	for _, pair := range d.Owners {
		found = found || d.Packages[pair[0]].ID() == owner.ID() && d.Packages[pair[1]].ID() == owned.ID()
	}
	if !found {
		t.Errorf("of %d packages and the pairs %v, %s does not own %s any more", len(d.Packages), d.Owners, owner, owned)
	}
}

func TestFleetShares(t *testing.T) {
	distinct := func(images int) (packages, perImage float64) {
		fleet := sbomgen.New(pool(t), 5).Fleet(images)
		seen := map[string]bool{}
		for i := range fleet.Len() {
			sbom, err := fleet.SBOM(i)
			if err != nil {
				t.Fatal(err)
			}
			d := decode(t, sbom)
			packages += float64(len(d.Artifacts))
			for _, a := range d.Artifacts {
				seen[fmt.Sprint(d.Distro, a.Type, a.Name, a.Version, string(a.Metadata))] = true
			}
		}
		return packages / float64(images), float64(len(seen)) / float64(images)
	}
	few, fewDistinct := distinct(20)
	many, manyDistinct := distinct(200)
	if few < 100 || many < 100 {
		t.Errorf("%.0f and %.0f packages per image; an image has more", few, many)
	}
	if manyDistinct >= fewDistinct {
		t.Errorf("%.1f distinct packages per image of 20, %.1f of 200: they do not share", fewDistinct, manyDistinct)
	}
	if _, err := sbomgen.New(pool(t), 5).Fleet(3).SBOM(3); err == nil {
		t.Error("the fleet of 3 images has a fourth one")
	}
}

func TestPoolNeedsADatabase(t *testing.T) {
	if _, err := sbomgen.ReadPool(t.Context(), t.TempDir()); err == nil {
		t.Errorf("a folder without %s is read", v6.VulnerabilityDBFileName)
	}
}
