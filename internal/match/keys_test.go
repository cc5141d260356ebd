package match_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/vulndb"
	"github.com/scanner-operator/scanner-operator/internal/vulndb/dbtest"
)

// answerTo matches the one package of a type in an image.
func answerTo(t *testing.T, installed vulndb.Installed, i *image, kind string) model.PackageAnswer {
	t.Helper()
	database := open(t, installed)
	for _, held := range i.decode(t).Catalog().Packages {
		if held.Package.Type != kind || held.Excluded {
			continue
		}
		answers, err := database.MatchPackages(t.Context(), []model.Package{held.Package})
		if err != nil {
			t.Fatal(err)
		}
		return answers[held.Package.Fingerprint]
	}
	t.Fatalf("no %s takes part in matching", kind)
	return model.PackageAnswer{}
}

func TestSearchKeys(t *testing.T) {
	installed := dbtest.Sample(t)
	owned := (&image{release: alpine}).add(apk("nginx", "1.20.1-r3", "web"), "/lib/apk/db/installed").
		add(binary("nginx", "1.20.0", "f5", "Engine"), "/usr/sbin/nginx").owns(0, 1)
	tests := []struct {
		name  string
		image *image
		kind  string
		want  []model.SearchKey
	}{
		{"npm", (&image{release: debian11}).add(npm("Lodash", "4.17.20"), "/a"), "npm", []model.SearchKey{vulndb.PackageKey("lodash")}},
		{"none known", (&image{}).add(npm("nobody-knows", "1"), "/a"), "npm", []model.SearchKey{vulndb.PackageKey("nobody-knows")}},
		{
			"deb with a source", (&image{release: debian11}).add(deb("libgnutls30", "3.7.1-5", "gnutls28"), "/s"), "deb",
			[]model.SearchKey{vulndb.PackageKey("libgnutls30"), vulndb.PackageKey("gnutls28"), vulndb.OSKey("debian")},
		},
		{
			"java", (&image{}).add(javaArchive("org.x", "y", "1"), "/a"), "java-archive",
			[]model.SearchKey{vulndb.PackageKey("org.x:y")},
		},
		{
			"binary with an owner", owned, "binary",
			[]model.SearchKey{
				vulndb.PackageKey("nginx"), vulndb.PackageKey("web"), vulndb.ProductKey("engine"), vulndb.OSKey("alpine"),
			},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			answer := answerTo(t, installed, test.image, test.kind)
			slices.Sort(test.want)
			if diff := cmp.Diff(test.want, answer.SearchKeys); diff != "" {
				t.Errorf("keys (-want +got):\n%s", diff)
			}
			if answer.Failure != "" {
				t.Error(answer.Failure)
			}
		})
	}
}

// What changes behind a key changes the answer, and what changes elsewhere does not; the difference of the databases tells
// them apart by the keys.
func TestAnswersFollowTheirKeys(t *testing.T) {
	owned := (&image{release: alpine}).add(apk("nginx", "1.20.1-r3", "nginx"), "/lib/apk/db/installed").
		add(binary("nginx", "1.20.0", "f5", "nginx"), "/usr/sbin/nginx").owns(0, 1)
	node := (&image{}).add(npm("lodash", "4.17.20"), "/a")
	by := func(table, where string) string {
		return "DELETE FROM " + table + " WHERE id IN (SELECT h.id FROM " + table + " h " + where + ")"
	}
	const ofPackage = "JOIN packages p ON p.id = h.package_id WHERE p.name = "
	tests := []struct {
		name    string
		image   *image
		kind    string
		change  string
		changes bool
	}{
		{"its records", node, "npm", by("affected_package_handles", ofPackage+"'lodash'"), true},
		{"other records", node, "npm", by("affected_package_handles", ofPackage+"'nginx'"), false},
		{"its owner's records", owned, "binary", by("affected_package_handles", ofPackage+"'nginx'"), true},
		{
			"its product", owned, "binary",
			by("affected_cpe_handles", "JOIN cpes c ON c.id = h.cpe_id WHERE c.product = 'nginx'"), true,
		},
		{
			"other products", owned, "binary",
			by("affected_cpe_handles", "JOIN cpes c ON c.id = h.cpe_id WHERE c.product <> 'nginx'"), false,
		},
		{
			"its operating system", (&image{release: debian11}).add(deb("libc6", "2.31-13+deb11u6", "glibc"), "/s"), "deb",
			"UPDATE operating_systems SET major_version = '99' WHERE name = 'debian' AND major_version = '11'", true,
		},
		{"an operating system, for none", node, "npm", "UPDATE operating_systems SET major_version = major_version || '9'", false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			from, to := dbtest.Sample(t), dbtest.Sample(t)
			change(t, to, test.change)
			before, after := answerTo(t, from, test.image, test.kind), answerTo(t, to, test.image, test.kind)
			if changed := !cmp.Equal(before.Findings, after.Findings); changed != test.changes {
				t.Errorf("the findings change: %t, want %t", changed, test.changes)
			}
			difference, err := vulndb.Compare(t.Context(), from, to)
			if err != nil {
				t.Fatal(err)
			}
			if touched := difference.Touches(before.SearchKeys); touched != test.changes {
				t.Errorf("the difference touches the keys: %t, want %t", touched, test.changes)
			}
			if !cmp.Equal(before.SearchKeys, after.SearchKeys) {
				t.Errorf("the keys depend on the answers: %v and %v", before.SearchKeys, after.SearchKeys)
			}
		})
	}
}
