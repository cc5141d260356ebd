package match_test

import (
	"errors"
	"strings"
	"testing"

	grype "github.com/anchore/grype/grype/match"
	"github.com/anchore/grype/grype/pkg"
	"github.com/anchore/grype/grype/vulnerability"
	"github.com/anchore/syft/syft/artifact"

	"github.com/scanner-operator/scanner-operator/internal/match"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/vulndb/dbtest"
)

// odd is a matcher that goes wrong for one package.
type odd struct {
	grype.Matcher
	name  string
	wrong func(pkg.Package) ([]grype.Match, []grype.IgnoreFilter, error)
}

func (o odd) Match(provider vulnerability.Provider, p pkg.Package) ([]grype.Match, []grype.IgnoreFilter, error) {
	if p.Name == o.name {
		return o.wrong(p)
	}
	return o.Matcher.Match(provider, p)
}

type anyFilter struct{}

func (anyFilter) IgnoreMatch(grype.Match) []grype.IgnoreRule { return nil }

func TestFailures(t *testing.T) {
	says := func(filter func(pkg.Package) grype.IgnoreFilter) func(pkg.Package) ([]grype.Match, []grype.IgnoreFilter, error) {
		return func(p pkg.Package) ([]grype.Match, []grype.IgnoreFilter, error) {
			return nil, []grype.IgnoreFilter{filter(p)}, nil
		}
	}
	rule := func(change func(*grype.IgnoreRule)) func(pkg.Package) grype.IgnoreFilter {
		return func(p pkg.Package) grype.IgnoreFilter {
			r := grype.IgnoreRule{Vulnerability: "CVE-1", IncludeAliases: true, Package: grype.IgnoreRulePackage{
				Name: p.Name, Version: p.Version, Type: string(p.Type),
			}}
			change(&r)
			return r
		}
	}
	tests := []struct {
		name  string
		wrong func(pkg.Package) ([]grype.Match, []grype.IgnoreFilter, error)
		want  string
	}{
		{"panic", func(pkg.Package) ([]grype.Match, []grype.IgnoreFilter, error) { panic("out of luck") }, "out of luck"},
		{"long panic", func(pkg.Package) ([]grype.Match, []grype.IgnoreFilter, error) { panic(strings.Repeat("ä", 5000)) }, "ää"},
		{"fatal error", func(pkg.Package) ([]grype.Match, []grype.IgnoreFilter, error) {
			return nil, nil, grype.NewFatalError(grype.StockMatcher, errors.New("worse luck"))
		}, "worse luck"},
		{"unknown filter", says(func(pkg.Package) grype.IgnoreFilter { return anyFilter{} }), "unknown kind"},
		{"rule for a place", says(rule(func(r *grype.IgnoreRule) { r.Package.Location = "/x" })), "unknown kind"},
		{"rule for another version", says(rule(func(r *grype.IgnoreRule) { r.Package.Version = "" })), "unknown kind"},
		{"rule for another name", says(rule(func(r *grype.IgnoreRule) { r.Package.Name = "b" })), "unknown kind"},
		{"another relation", says(func(p pkg.Package) grype.IgnoreFilter {
			return grype.IgnoreRelatedPackage{VulnerabilityID: "CVE-1", RelationshipType: artifact.DependencyOfRelationship, RelatedPackageID: p.ID}
		}), "unknown kind"},
		{"known rule", says(rule(func(*grype.IgnoreRule) {})), ""},
	}
	i := (&image{release: alpine}).add(npm("lodash", "4.17.20"), "/a").add(apk("owner", "7-r0", ""), "/lib/apk/db/installed").
		add(npm("owned", "1.0"), "/b").owns(1, 2)
	catalog := i.decode(t).Catalog()
	var packages []model.Package
	for _, held := range catalog.Packages {
		packages = append(packages, held.Package)
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			database := openSample(t)
			match.UseMatchers(database, func(matchers []grype.Matcher) []grype.Matcher {
				for i := range matchers {
					matchers[i] = odd{matchers[i], "owner", test.wrong}
				}
				return matchers
			})
			answers, err := database.MatchPackages(t.Context(), packages)
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range packages {
				answer := answers[p.Fingerprint]
				if len(answer.Failure) > 1<<10 {
					t.Errorf("the failure has %d bytes", len(answer.Failure))
				}
				// What the owner says is part of the owned package's answer.
				if want := p.Name != "lodash" && test.want != ""; want {
					if !strings.Contains(answer.Failure, test.want) || answer.Findings != nil || answer.SearchKeys != nil {
						t.Errorf("%s: %+v, want a failure that says %q", p.Name, answer, test.want)
					}
				} else if answer.Failure != "" || answer.Findings == nil {
					t.Errorf("%s: %+v", p.Name, answer)
				}
			}
			if _, err := database.Match(t.Context(), i.decode(t)); (err != nil) != (test.want != "") {
				t.Errorf("Match returns %v", err)
			}
		})
	}
}

// A module's namesakes come without their symbols, so a database that needs them is not answered for.
func TestUnaffectedSymbolsAreAFailure(t *testing.T) {
	installed := dbtest.Sample(t)
	change(t, installed,
		`INSERT INTO blobs (value) VALUES ('{"qualifiers":{"go_imports":[{"path":"golang.org/x/net","symbols":["one"]}]},"ranges":[]}')`,
		`INSERT INTO unaffected_package_handles (vulnerability_id, package_id, blob_id)
			SELECT h.vulnerability_id, h.package_id, (SELECT max(id) FROM blobs) FROM affected_package_handles h
			JOIN packages p ON p.id = h.package_id WHERE p.name = 'golang.org/x/net' LIMIT 1`)
	answer := answerTo(t, installed, (&image{}).add(goModule("golang.org/x/net", "v0.1.0", "one"), "/a"), "go-module")
	if !strings.Contains(answer.Failure, "symbols") {
		t.Errorf("got %+v", answer)
	}
}
