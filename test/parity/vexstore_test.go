package parity_test

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/clock"

	"github.com/scanner-operator/scanner-operator/internal/match"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqlstore"
	"github.com/scanner-operator/scanner-operator/internal/store/storetest"
	"github.com/scanner-operator/scanner-operator/internal/vex"
	"github.com/scanner-operator/scanner-operator/internal/vexdecisions"
)

// TestVEXInCluster compares what the store makes of a document with what "scan --vex" makes of it for an image that is known by its digest alone, and for
// packages without what fingerprints do not cover: the architecture of Debian packages.
func TestVEXInCluster(t *testing.T) {
	document := vexSBOM(t)
	decoded, err := match.Decode(bytes.NewReader(document), match.DecodeLimits{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	all := ourFindings(t, openDatabase(t, databases(t)["sample"]), document)
	lodash, debian := idOf(t, all, vexLodash, "GHSA-"), idOf(t, all, vexDebian, "CVE-")
	answers := map[string][]model.PackageFinding{}
	for i := range all {
		f := &all[i]
		answers[f.Package.Name] = append(answers[f.Package.Name], f.PackageFinding)
		f.Package.PURL = strings.NewReplacer("?arch=amd64&", "?", "?arch=amd64", "").Replace(f.Package.PURL)
	}
	s, err := sqlstore.Open(t.Context(), sqlstore.Config{
		DSN: filepath.Join(t.TempDir(), "test.db"), Rules: &vex.Evaluator{Versions: match.Versions{}, Arch: match.Arch},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	key := model.ImageKey{ImageID: "registry.example.com/team/shop@" + vexImage, Platform: model.Platform{OS: "linux", Architecture: "amd64"}}
	_, err = s.StartResultSet(t.Context(), model.DatabaseBuild{ID: "1"}, "", true)
	if err == nil {
		_, err = s.WantImages(t.Context(), []model.ImageKey{key})
	}
	if err == nil {
		err = s.SaveSBOM(t.Context(), key, store.SBOM{SHA256: "d", Size: 1}, decoded.Catalog())
	}
	if err == nil {
		err = storetest.Match(t.Context(), s, key, "d", answers)
	}
	if err != nil {
		t.Fatal(err)
	}
	applier := vexdecisions.NewApplier(s, clock.RealClock{}, nil)
	suppressed := 0
	for _, c := range vexCases(lodash, debian) {
		content := store.VEXContent{Name: "document", Content: []byte(c.document)}
		// In the store, a digest is all that names an image.
		byDigest := strings.NewReplacer("?repository_url=registry.example.com/team", "", "?repository_url=registry.example.com/other", "", "registry.example.com/team/shop@", "pkg:oci/shop@")
		read, err := vexdecisions.Read(store.VEXKindSource, "vendor", store.VEXContent{Name: "document", Content: []byte(byDigest.Replace(c.document))})
		if err != nil {
			t.Fatal(err)
		}
		set, err := vex.NewSet([]*vex.Document{read})
		if err != nil {
			t.Fatal(err)
		}
		result, err := set.Apply(t.Context(), model.ImageNames{Digests: []string{vexImage}}, all, match.Versions{}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		want, got := map[string]string{}, map[string]string{}
		for _, f := range result.Suppressed {
			want[f.Vulnerability.ID+" "+f.Package.Name] = map[string]string{"not_affected": "NotAffected", "fixed": "Fixed"}[f.Suppression.Status]
		}
		suppressed += len(result.Suppressed)
		if err := s.SaveVEX(t.Context(), store.VEXSource{Kind: store.VEXKindSource, Name: "vendor"}, []store.VEXContent{content}); err != nil {
			t.Fatal(err)
		}
		applied, err := applier.Apply(t.Context())
		if err != nil || len(applied) != 1 || applied[0].Problem != nil {
			t.Fatalf("%s: %+v, %v", c.name, applied, err)
		}
		list, err := s.Findings(t.Context(), store.AllNamespaces(), store.FindingQuery{Image: key, Suppressed: true, Page: store.Page{Size: store.MaxPageSize}})
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range list.Findings {
			if f.Suppressed {
				got[f.Vulnerability.ID+" "+f.Package.Name] = string(f.Decisions[0].Status)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-scan +store): %s", c.name, diff)
		}
	}
	if suppressed == 0 {
		t.Error("nothing was suppressed at all; the comparison says nothing")
	}
}
