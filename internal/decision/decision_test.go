package decision

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

// matches says whether a pattern means a package.
func matches(t *testing.T, pattern string, p model.Package) bool {
	t.Helper()
	parsed, err := ParsePattern(pattern)
	if err != nil {
		t.Fatal(err)
	}
	id := IdentityOf(&p)
	return parsed.Matches(&id)
}

func TestPatterns(t *testing.T) {
	openssl := model.Package{Type: "deb", Name: "openssl", Version: "3.0.1+really2~1", Distro: "debian:12", PURL: "pkg:deb/ubuntu/planted@9"}
	kernel := model.Package{Type: "rpm", Name: "kernel", Version: "1:5.14-1.el9", Distro: "rhel:9.4"}
	module := model.Package{Type: "go-module", Name: "github.com/docker/docker/v2", Version: "v2.0.0"}
	library := model.Package{Type: "go-module", Name: "stdlib", Version: "go1.22.1"}
	scoped := model.Package{Type: "npm", Name: "@angular/core", Version: "1.2.3"}
	python := model.Package{Type: "python", Name: "Flask_Login", Version: "1"}
	java := model.Package{Type: "java-archive", Name: "log4j-core", Version: "2.14", PURL: "pkg:maven/org.apache.logging.log4j/log4j-core@2.14.1?type=jar#x"}
	odd := model.Package{Type: "java-archive", Name: "app", Version: "1", PURL: "pkg:deb/debian/openssl@3"}
	binary := model.Package{Type: "binary", Name: "node", Version: "20"}
	unknown := model.Package{Type: "Odd Type", Name: "x"}
	for pattern, c := range map[string]struct{ yes, no []model.Package }{
		"pkg:deb/debian/openssl":                               {[]model.Package{openssl}, []model.Package{kernel, odd, java}},
		"pkg:deb/debian/openssl@3.0.1%2Breally2~1":             {[]model.Package{openssl}, nil},
		"pkg:deb/debian/openssl@3.0.1+really2~1":               {[]model.Package{openssl}, nil},
		"pkg:deb/debian/openssl@3.0*":                          {[]model.Package{openssl}, nil},
		"pkg:deb/debian/openssl@3.1*":                          {nil, []model.Package{openssl}},
		"pkg:deb/debian/open*":                                 {[]model.Package{openssl}, []model.Package{kernel}},
		"pkg:deb/debian/*":                                     {[]model.Package{openssl}, []model.Package{kernel}},
		"pkg:deb/*":                                            {[]model.Package{openssl}, []model.Package{kernel}},
		"pkg:deb/*/openssl":                                    {[]model.Package{openssl}, nil},
		"pkg:deb/debian/*@3.0.1%2Breally2~1":                   {[]model.Package{openssl}, nil},
		"pkg:deb/openssl":                                      {nil, []model.Package{openssl}},
		"pkg:deb/debian/openssl/*":                             {nil, []model.Package{openssl}},
		"pkg:deb/ubuntu/planted":                               {nil, []model.Package{openssl}},
		"pkg:rpm/redhat/kernel@5.14-1.el9":                     {[]model.Package{kernel}, nil},
		"pkg:golang/github.com/docker/docker/v2@v2.0.0":        {[]model.Package{module}, nil},
		"pkg:golang/github.com/docker/*":                       {[]model.Package{module}, nil},
		"pkg:golang/github.com/docker/docker":                  {nil, []model.Package{module}},
		"pkg:npm/@angular/core":                                {[]model.Package{scoped}, nil},
		"pkg:npm/%40angular/core@1.2.3":                        {[]model.Package{scoped}, nil},
		"pkg:pypi/flask-login":                                 {[]model.Package{python}, nil},
		"pkg:pypi/Flask_Login@1":                               {[]model.Package{python}, nil},
		"pkg:maven/org.apache.logging.log4j/log4j-core@2.14.1": {[]model.Package{java}, []model.Package{odd}},
		"pkg:generic/app@1":                                    {[]model.Package{odd}, []model.Package{java}},
		"pkg:generic/node":                                     {[]model.Package{binary}, nil},
		"pkg:generic/x":                                        {[]model.Package{unknown}, nil},
		"pkg:golang/github.com/Docker/docker/V2":               {[]model.Package{module}, nil},
		"pkg:rpm/RedHat/kernel@1:5.14-*":                       {[]model.Package{kernel}, nil},
		"pkg:rpm/redhat/Kernel":                                {nil, []model.Package{kernel}},
		"pkg:golang/stdlib@go1.22.1":                           {[]model.Package{library}, nil},
		"pkg:golang/stdlib@1.22.*":                             {[]model.Package{library}, nil},
		"pkg:deb/Debian/OpenSSL":                               {[]model.Package{openssl}, nil},
		"pkg:npm/@Angular/core":                                {nil, []model.Package{scoped}},
	} {
		for _, p := range c.yes {
			if !matches(t, pattern, p) {
				t.Errorf("%s does not match %+v", pattern, p)
			}
		}
		for _, p := range c.no {
			if matches(t, pattern, p) {
				t.Errorf("%s matches %+v", pattern, p)
			}
		}
	}
}

// TestIdentitiesArePackageURLs compares identities with the package URLs that Syft writes, for the types of packages that Grype has vulnerabilities of. The
// UI and vendors name packages by these.
func TestIdentitiesArePackageURLs(t *testing.T) {
	for purl, p := range map[string]model.Package{
		"pkg:alpm/arch/curl@8.1-1?arch=x86_64&distro=arch-rolling":                 {Type: "alpm", Name: "curl", Version: "8.1-1", Distro: "arch:rolling"},
		"pkg:apk/alpine/musl@1.2.5-r0?arch=x86_64":                                 {Type: "apk", Name: "musl", Version: "1.2.5-r0", Distro: "alpine:3.20"},
		"pkg:apk/wolfi/glibc@2.39-r0":                                              {Type: "apk", Name: "glibc", Version: "2.39-r0", Distro: "wolfi:20230201"},
		"pkg:bitnami/postgresql@16.1.0-2?arch=amd64":                               {Type: "bitnami", Name: "postgresql", Version: "16.1.0-2"},
		"pkg:brew/wget@1.21":                                                       {Type: "homebrew", Name: "wget", Version: "1.21"},
		"pkg:cargo/openssl-src@300.0.1%2B3.0.1":                                    {Type: "rust-crate", Name: "openssl-src", Version: "300.0.1+3.0.1"},
		"pkg:cocoapods/AFNetworking%2FSerialization@3.0":                           {Type: "pod", Name: "AFNetworking/Serialization", Version: "3.0"},
		"pkg:composer/Symfony/http-kernel@v6.0":                                    {Type: "php-composer", Name: "symfony/http-kernel", Version: "v6.0"},
		"pkg:conan/zlib@1.3":                                                       {Type: "conan", Name: "zlib", Version: "1.3"},
		"pkg:cran/ggplot2@3.4":                                                     {Type: "R-package", Name: "ggplot2", Version: "3.4"},
		"pkg:deb/ubuntu/libssl3@3.0.2-0ubuntu1?distro=ubuntu-22.04&upstream=ssl":   {Type: "deb", Name: "libssl3", Version: "3.0.2-0ubuntu1", Distro: "ubuntu:22.04"},
		"pkg:ebuild/app-containers%2Fskopeo@1.5.1":                                 {Type: "portage", Name: "app-containers/skopeo", Version: "1.5.1", Distro: "gentoo:2.9"},
		"pkg:gem/rails@7.0":                                                        {Type: "gem", Name: "rails", Version: "7.0"},
		"pkg:github/actions/checkout@v4":                                           {Type: "github-action", Name: "actions/checkout", Version: "v4"},
		"pkg:golang/github.com/Masterminds/goutils@v1.1.0":                         {Type: "go-module", Name: "github.com/Masterminds/goutils", Version: "v1.1.0"},
		"pkg:golang/github.com/masterminds/goutils@v1.1.0":                         {Type: "go-module", Name: "github.com/Masterminds/goutils", Version: "v1.1.0"},
		"pkg:golang/stdlib@1.22.1":                                                 {Type: "go-module", Name: "stdlib", Version: "go1.22.1"},
		"pkg:hackage/aeson@2.1":                                                    {Type: "hackage", Name: "aeson", Version: "2.1"},
		"pkg:hex/phoenix@1.7":                                                      {Type: "hex", Name: "phoenix", Version: "1.7"},
		"pkg:luarocks/lpeg@1.0-1":                                                  {Type: "lua-rocks", Name: "lpeg", Version: "1.0-1"},
		"pkg:maven/org.apache.commons/commons-text@1.9":                            {Type: "java-archive", Name: "commons-text", Version: "1.9", PURL: "pkg:maven/org.apache.commons/commons-text@1.9"},
		"pkg:npm/%40babel/core@7.0":                                                {Type: "npm", Name: "@babel/core", Version: "7.0"},
		"pkg:nuget/Newtonsoft.Json@12.0":                                           {Type: "dotnet", Name: "Newtonsoft.Json", Version: "12.0"},
		"pkg:opam/dune@3.0":                                                        {Type: "opam", Name: "dune", Version: "3.0"},
		"pkg:otp/ssl@11.0":                                                         {Type: "erlang-otp", Name: "ssl", Version: "11.0"},
		"pkg:pub/http@1.0":                                                         {Type: "dart-pub", Name: "http", Version: "1.0"},
		"pkg:pypi/flask-login@0.6":                                                 {Type: "python", Name: "Flask_Login", Version: "0.6"},
		"pkg:rpm/redhat/openssl-libs@3.0.7-27.el9?arch=x86_64&epoch=1&distro=rhel": {Type: "rpm", Name: "openssl-libs", Version: "1:3.0.7-27.el9", Distro: "rhel:9.4"},
		"pkg:rpm/opensuse/zlib@1.2.13-1?distro=opensuse-leap-15.5":                 {Type: "rpm", Name: "zlib", Version: "1.2.13-1", Distro: "opensuse-leap:15.5"},
		"pkg:vcpkg/curl@8.0":                                                       {Type: "vcpkg", Name: "curl", Version: "8.0"},
	} {
		want, err := parseURL(purl)
		if err != nil {
			t.Fatal(err)
		}
		if got := IdentityOf(&p); !reflect.DeepEqual(got, want) {
			t.Errorf("the identity of %+v is %+v, its package URL is %+v", p, got, want)
		}
	}
}

func TestPatternsThatAreNone(t *testing.T) {
	for _, text := range []string{
		"", "openssl", "pkg:", "pkg:deb", "pkg:deb/", "pkg:/x", "pkg:Deb/x", "pkg:deb/a//b", "pkg:deb/a@", "pkg:deb/a*b", "pkg:deb/*a", "pkg:deb/a?arch=x",
		"pkg:deb/a#b", "pkg:deb/%zz", "pkg:deb/%EF%BF%BF", "pkg:deb/\uffff", "pkg:deb/%00", "pkg:deb/%ff", "pkg:deb/a@1**", "pkg:deb/" + strings.Repeat("a", maxURL),
		"pkg:deb" + strings.Repeat("/a", maxSegments+1),
	} {
		if p, err := ParsePattern(text); err == nil {
			t.Errorf("%q is %+v", text, p)
		}
	}
}

// TestEncodedAsterisk: an asterisk that is encoded is one, and stands for nothing else.
func TestEncodedAsterisk(t *testing.T) {
	for pattern, want := range map[string]string{
		"pkg:npm/%2A": "*", "pkg:npm/%2a": "*", "pkg:npm/a%2A": "a*", "pkg:npm/a%2Ab": "a*b", "pkg:npm/a%2A*": "a* a*b", "pkg:npm/a@%2A": "a@*",
		"pkg:npm/a@1%2A": "a@1*", "pkg:npm/a%2Fb%2A": "a/b*", "pkg:npm/a/*": "a/b a/b* a/bc", "pkg:npm/a/b*": "a/b a/b* a/bc", "pkg:npm/%252A": "%2A",
	} {
		p, err := ParsePattern(pattern)
		if err != nil {
			t.Errorf("%s: %v", pattern, err)
			continue
		}
		var got []string
		for _, name := range []string{"%2A", "*", "a", "a*", "a*b", "a@*", "a@1", "a@1*", "a@12", "a/b", "a/b*", "a/bc", "ab", "b"} {
			path, version, _ := strings.Cut(name, "@")
			id := Identity{Type: "npm", Path: strings.Split(path, "/"), Version: version}
			if p.Matches(&id) && (version != "" || !strings.Contains(pattern, "@")) && (version == "" || strings.Contains(pattern, "@")) {
				got = append(got, name)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s matches %q, want %s", pattern, got, want)
		}
	}
}

func TestMatcher(t *testing.T) {
	id := IdentityOf(&model.Package{Type: "deb", Name: "a", Distro: "debian:12"})
	for name, c := range map[string]struct {
		patterns         []string
		unfixed, fixable bool
		want             bool
	}{
		"no patterns":    {want: true, fixable: true},
		"one of two":     {patterns: []string{"pkg:deb/debian/b", "pkg:deb/debian/a"}, want: true},
		"none of two":    {patterns: []string{"pkg:deb/debian/b", "pkg:deb/debian/c"}},
		"with a fix":     {unfixed: true, fixable: true},
		"without a fix":  {unfixed: true, want: true},
		"fix and unlike": {patterns: []string{"pkg:deb/debian/b"}, unfixed: true},
	} {
		m, err := NewMatcher(c.patterns, c.unfixed)
		if err != nil {
			t.Fatal(err)
		}
		if got := m.Matches(&id, c.fixable); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	if _, err := NewMatcher([]string{"pkg:deb/a", "x"}, false); err == nil {
		t.Error("a pattern that is none is accepted")
	}
	id = IdentityOf(&model.Package{Type: "deb", Name: "a", Version: "1"})
	if NewStoredMatcher([]string{"pkg:deb/%EF%BF%BF"}, false).Matches(&id, false) {
		t.Error("a pattern that is none matches a package")
	}
	if m := NewStoredMatcher([]string{"x", "pkg:deb/*"}, true); !m.Matches(&id, false) || m.Matches(&id, true) {
		t.Error("beside a pattern that is none, another one does not match what it should")
	}
}

func TestCompare(t *testing.T) {
	soon, late := time.Unix(1, 0), time.Unix(2, 0)
	want := []model.Decision{
		{Name: "a", Status: model.DecisionNotAffected, Suppresses: true},
		{Name: "b", Status: model.DecisionNotAffected, Suppresses: true, ExpiresAt: late},
		{Name: "a", Status: model.DecisionNotAffected, Suppresses: true, ExpiresAt: soon},
		{Name: "a", Status: model.DecisionFixed, Suppresses: true},
		{Name: "a", Status: model.DecisionFalsePositive, Suppresses: true},
		{Name: "a", Status: model.DecisionAcceptedRisk, Suppresses: true},
		{Name: "b", Status: model.DecisionAcceptedRisk, Suppresses: true},
		{Kind: "x", Name: "b", Status: model.DecisionAcceptedRisk, Suppresses: true},
		{Name: "a", Status: model.DecisionNotAffected, Suppresses: true, Unfixed: true},
		{Name: "a", Status: model.DecisionNotAffected, Suppresses: true, Placed: true},
		{Namespace: "n", Name: "a", Status: model.DecisionNotAffected, Suppresses: true, Placed: true},
		{Name: "a", Status: model.DecisionNotAffected},
		{Name: "a", Status: model.DecisionUnderInvestigation},
		{Name: "a", Status: "Other"},
	}
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortFunc(got, Compare)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// FuzzPattern expects that no pattern and no package makes the matching fail, and that a pattern made of an identity matches it.
func FuzzPattern(f *testing.F) {
	f.Add("pkg:deb/debian/openssl@3*", "deb", "openssl", "3", "debian:12", "")
	f.Add("pkg:maven/a/b@1", "java-archive", "b", "1", "", "pkg:maven/a/b@1")
	f.Fuzz(func(t *testing.T, pattern, kind, name, version, distro, purl string) {
		id := IdentityOf(&model.Package{Type: kind, Name: name, Version: version, Distro: distro, PURL: purl})
		if len(id.Path) == 0 || !isType(id.Type) {
			t.Fatalf("identity %+v", id)
		}
		p, err := ParsePattern(pattern)
		if err != nil {
			return
		}
		if p.Matches(&id) && p.kind != id.Type {
			t.Errorf("%q matches %+v", pattern, id)
		}
		if all, err := ParsePattern("pkg:" + id.Type + "/*"); err != nil || !all.Matches(&id) {
			t.Errorf("not all packages of type %s match: %v", id.Type, err)
		}
	})
}
