package match_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"

	"github.com/anchore/syft/syft/linux"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/scanner-operator/scanner-operator/internal/match"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/vulndb"
	"github.com/scanner-operator/scanner-operator/internal/vulndb/dbtest"
)

func TestMatch(t *testing.T) {
	database := openSample(t)
	tests := []struct {
		name  string
		image *image
		want  []string
	}{
		{name: "nothing", image: &image{}},
		{
			name:  "npm",
			image: (&image{}).add(npm("lodash", "4.17.20"), "/a").add(npm("lodash", "4.17.21"), "/b"),
			want:  []string{"lodash 4.17.20 GHSA-29mw-wpgm-hmr9", "lodash 4.17.20 GHSA-35jh-r3h4-6jhm"},
		},
		{
			name:  "by source package",
			image: (&image{release: debian11}).add(deb("libgnutls30", "3.7.1-5+deb11u1", "gnutls28"), "/s"),
			want:  []string{"libgnutls30 3.7.1-5+deb11u1 CVE-2022-2509"},
		},
		{
			name:  "binary that nobody owns",
			image: (&image{release: alpine}).add(binary("nginx", "1.20.0", "f5", "nginx"), "/usr/sbin/nginx"),
			want:  []string{"nginx 1.20.0 CVE-2021-23017", "nginx 1.20.0 CVE-2023-44487"},
		},
		{
			// The distribution's package is fixed: what it owns is not reported for that vulnerability.
			name: "binary of a fixed package",
			image: (&image{release: alpine}).add(apk("nginx", "1.20.1-r3", "nginx"), "/lib/apk/db/installed").
				add(binary("nginx", "1.20.0", "f5", "nginx"), "/usr/sbin/nginx").owns(0, 1),
			want: []string{"nginx 1.20.0 CVE-2023-44487"},
		},
		{
			// The same binary again, in a place of its own, keeps the finding.
			name: "binary of a fixed package and a copy",
			image: (&image{release: alpine}).add(apk("nginx", "1.20.1-r3", "nginx"), "/lib/apk/db/installed").
				add(binary("nginx", "1.20.0", "f5", "nginx"), "/usr/sbin/nginx").
				add(binary("nginx", "1.20.0", "f5", "nginx"), "/opt/nginx").owns(0, 1),
			want: []string{"nginx 1.20.0 CVE-2023-44487", "nginx 1.20.0 CVE-2021-23017", "nginx 1.20.0 CVE-2023-44487"},
		},
		{
			name: "binary left out, since its package is there",
			image: (&image{release: alpine}).add(apk("nginx", "1.20.0-r1", "nginx"), "/lib/apk/db/installed").
				add(binary("nginx", "1.20.0", "f5", "nginx"), "/usr/sbin/nginx").owns(0, 1),
			want: []string{"nginx 1.20.0-r1 CVE-2021-23017"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			catalog, result := matchImage(t, database, test.image)
			got := pairs(match.Findings(catalog, result))
			if diff := cmp.Diff(test.want, got, cmpopts.SortSlices(func(a, b string) bool { return a < b })); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
			for _, held := range catalog.Packages {
				if _, ok := result.Packages[held.Package.Fingerprint]; ok == held.Excluded {
					t.Errorf("%s: excluded %t, has an answer %t", held.Package.Name, held.Excluded, ok)
				}
			}
		})
	}
}

// A package has the same findings whether an image or nobody is asked about it.
func TestMatchPackages(t *testing.T) {
	database := openSample(t)
	catalog, result := matchImage(t, database, (&image{release: alpine}).
		add(apk("nginx", "1.20.1-r3", "nginx"), "/lib/apk/db/installed").
		add(binary("nginx", "1.20.0", "f5", "nginx"), "/usr/sbin/nginx").owns(0, 1).
		add(apk("libcrypto1.1", "1.1.1k-r0", "openssl"), "/lib/apk/db/installed"))
	var packages []model.Package
	for _, held := range catalog.Packages {
		packages = append(packages, held.Package, held.Package)
	}
	answers, err := database.MatchPackages(t.Context(), packages)
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string][]model.PackageFinding, len(answers))
	for fingerprint, answer := range answers {
		got[fingerprint] = answer.Findings
	}
	if diff := cmp.Diff(result.Packages, got); diff != "" {
		t.Errorf("with an image and without (-with +without):\n%s", diff)
	}
}

// A package that cannot be decoded fails alone; the others are matched.
func TestForeignInputIsAFailure(t *testing.T) {
	database := openSample(t)
	catalog := (&image{}).add(npm("lodash", "4.17.20"), "/a").decode(t).Catalog()
	packages := []model.Package{catalog.Packages[0].Package}
	for i, input := range []string{
		``, `[]`, `{"projection":99}`, `{"projection":2,"cpes":[["a","b","c","d","e","f","g","h","i","j","k","l"]]}`,
		`{"projection":2,"owners":[{"projection":99}]}`, `{"projection":2,"namesakes":[1]}`,
	} {
		packages = append(packages, model.Package{Name: "x", Version: "1", Fingerprint: fmt.Sprint(i), MatchInput: []byte(input)})
	}
	answers, err := database.MatchPackages(t.Context(), packages)
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range packages {
		answer := answers[p.Fingerprint]
		if failed := answer.Failure != ""; failed != (i > 0) || failed == (len(answer.Findings) > 0) {
			t.Errorf("%s: %d findings, failure %q", p.MatchInput, len(answer.Findings), answer.Failure)
		}
	}
}

func TestMatchFillsAllFields(t *testing.T) {
	database := openSample(t)
	i := (&image{release: debian11}).add(deb("libc6", "2.31-13+deb11u6", "glibc"), "/var/lib/dpkg/status")
	catalog, result := matchImage(t, database, i)
	var got *model.Finding
	for _, f := range match.Findings(catalog, result) {
		if f.Vulnerability.ID == "CVE-2023-4911" {
			got = &f
		}
	}
	if got == nil {
		t.Fatal("CVE-2023-4911 is not found")
	}
	want := model.Vulnerability{
		ID: "CVE-2023-4911", Namespace: "debian:distro:debian:11", Aliases: []string{"CVE-2023-4911"},
		Severity:    model.SeverityHigh,
		Description: got.Vulnerability.Description,
		DataSource:  "https://security-tracker.debian.org/tracker/CVE-2023-4911",
		URLs:        []string{"https://nvd.nist.gov/vuln/detail/CVE-2023-4911"},
		CVEs:        []string{"CVE-2023-4911"},
		CWEs:        []string{"CWE-122"},
		CVSS:        []model.CVSS{{Version: "3.1", Vector: "CVSS:3.1/AV:L/AC:L/PR:L/UI:N/S:U/C:H/I:H/A:H", Type: got.Vulnerability.CVSS[0].Type, Score: 7.8}},
		EPSS:        &model.EPSS{CVE: "CVE-2023-4911", Score: 0.64104, Percentile: 0.98356, Date: "2026-09-30"},
		KEV: []model.KnownExploited{{
			CVE: "CVE-2023-4911", VendorProject: "GNU", Product: "GNU C Library", DateAdded: "2023-11-21", DueDate: "2023-12-12",
			RequiredAction: got.Vulnerability.KEV[0].RequiredAction, KnownRansomwareUse: "Unknown",
		}},
		Risk: got.Vulnerability.Risk,
	}
	if diff := cmp.Diff(want, got.Vulnerability); diff != "" {
		t.Errorf("vulnerability (-want +got):\n%s", diff)
	}
	if got.Vulnerability.Risk < 50 || got.Vulnerability.Description == "" {
		t.Errorf("risk %g, description %q", got.Vulnerability.Risk, got.Vulnerability.Description)
	}
	if diff := cmp.Diff(model.Fix{State: model.FixStateFixed, Versions: []string{"2.31-13+deb11u7"}}, got.Fix); diff != "" {
		t.Errorf("fix (-want +got):\n%s", diff)
	}
	if len(got.Details) != 1 || got.Details[0].Matcher != "dpkg-matcher" || got.Details[0].Type != "exact-indirect-match" {
		t.Errorf("details are %+v", got.Details)
	}
}

func TestMatchEndsWithContext(t *testing.T) {
	database := openSample(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := database.Match(ctx, (&image{}).add(npm("lodash", "4.17.20"), "/a").decode(t)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestClosedDatabase(t *testing.T) {
	database, err := match.Open(dbtest.Sample(t))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := database.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := database.Match(t.Context(), (&image{}).decode(t)); !errors.Is(err, match.ErrClosed) {
		t.Errorf("Match: %v", err)
	}
	if _, err := database.MatchPackages(t.Context(), nil); !errors.Is(err, match.ErrClosed) {
		t.Errorf("MatchPackages: %v", err)
	}
}

func TestOpenRefusesMissingDatabase(t *testing.T) {
	if _, err := match.Open(vulndb.Installed{Dir: t.TempDir()}); err == nil {
		t.Error("an empty folder opens")
	}
}

// A database that cannot be read must not look like an image without vulnerabilities.
func TestUnreadableDatabaseIsAnError(t *testing.T) {
	installed := dbtest.Sample(t)
	change(t, installed, "DROP TABLE package_specifier_overrides")
	database, err := match.Open(installed)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = database.Close() })
	if result, err := database.Match(t.Context(), (&image{}).add(npm("lodash", "4.17.20"), "/a").decode(t)); err == nil {
		t.Errorf("the match succeeds with %v", result)
	}
}

// Several goroutines match while new builds of the database are opened and old ones closed.
func TestHotSwap(t *testing.T) {
	library, err := vulndb.New(vulndb.Config{Dir: t.TempDir(), UpdateURL: vulndb.UpdateURLNone, Sample: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := library.Update(t.Context()); err != nil {
		t.Fatal(err)
	}
	first, _ := library.Current()
	current, err := match.Open(first)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.RWMutex
	s := (&image{release: debian11}).add(deb("openssl", "1.1.1k-1", ""), "/s").add(npm("lodash", "4.17.20"), "/a").decode(t)
	want, err := current.Match(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	var group sync.WaitGroup
	results := make(chan error, 4)
	for range 4 {
		group.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				mu.RLock()
				database := current
				mu.RUnlock()
				got, err := database.Match(t.Context(), s)
				if errors.Is(err, match.ErrClosed) {
					continue // swapped in between: ask again
				}
				if err == nil && !cmp.Equal(want, got) {
					err = fmt.Errorf("the result differs: %s", cmp.Diff(want, got))
				}
				if err != nil {
					results <- err
					return
				}
			}
		})
	}
	for range 3 {
		installed, err := library.Import(t.Context(), first.Dir)
		if err != nil {
			t.Fatal(err)
		}
		next, err := match.Open(installed)
		if err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		old := current
		current = next
		mu.Unlock()
		if err := old.Close(); err != nil {
			t.Fatal(err)
		}
		first = installed
	}
	close(done)
	group.Wait()
	close(results)
	for err := range results {
		t.Error(err)
	}
	if err := current.Close(); err != nil {
		t.Fatal(err)
	}
}

// Releases of the distribution that the database does not have are matched with more than one of those that it has.
func TestNoFindingTwice(t *testing.T) {
	catalog, result := matchImage(t, openSample(t), (&image{release: &linux.Release{ID: "alpine", VersionID: "3.11.0"}}).
		add(apk("zlib", "1.2.11-r3", "zlib"), "/lib/apk/db/installed").
		add(apk("busybox", "1.31.1-r8", "busybox"), "/lib/apk/db/installed"))
	findings := match.Findings(catalog, result)
	if len(findings) == 0 {
		t.Fatal("no findings")
	}
	for i, f := range findings {
		for _, other := range findings[:i] {
			if reflect.DeepEqual(f, other) {
				t.Errorf("twice: %s %s %s", f.Package.Name, f.Vulnerability.ID, f.Vulnerability.Namespace)
			}
		}
	}
}
