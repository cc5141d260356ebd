package vex

import (
	"reflect"
	"testing"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

// TestCoveredPURLs expects that statements name packages as Syft does: Grype compares the package URLs of statements with these.
func TestCoveredPURLs(t *testing.T) {
	for want, p := range map[string]model.Package{
		"pkg:alpm/arch/curl@8.1-1?distro=arch-rolling":                     {Type: "alpm", Name: "curl", Version: "8.1-1", Distro: "arch:rolling"},
		"pkg:cocoapods/AFNetworking%2FSerialization@3.0":                   {Type: "pod", Name: "AFNetworking/Serialization", Version: "3.0"},
		"pkg:deb/debian/openssl@3.0.1?distro=debian-12":                    {Type: "deb", Name: "openssl", Version: "3.0.1", Distro: "debian:12"},
		"pkg:ebuild/app-containers%2Fskopeo@1.5.1":                         {Type: "portage", Name: "app-containers/skopeo", Version: "1.5.1"},
		"pkg:golang/github.com/Masterminds/goutils@v1.1.0":                 {Type: "go-module", Name: "github.com/Masterminds/goutils", Version: "v1.1.0"},
		"pkg:golang/stdlib@1.22.1":                                         {Type: "go-module", Name: "stdlib", Version: "go1.22.1"},
		"pkg:npm/%40babel/core@7.0":                                        {Type: "npm", Name: "@babel/core", Version: "7.0"},
		"pkg:rpm/redhat/openssl-libs@3.0.7-27.el9?distro=rhel-9.4&epoch=1": {Type: "rpm", Name: "openssl-libs", Version: "1:3.0.7-27.el9", Distro: "rhel:9.4"},
		"pkg:rpm/fedora/bash@5.2-1?distro=fedora-40":                       {Type: "rpm", Name: "bash", Version: "5.2-1", Distro: "fedora:40"},
		"pkg:generic/node@20":                                              {Type: "binary", Name: "node", Version: "20"},
		"pkg:generic/consul@1.15":                                          {Type: "binary", Name: "consul", Version: "1.15"},
		"pkg:golang/github.com/hashicorp/consul@1.15":                      {Type: "binary", Name: "consul", Version: "1.15", CPEs: []string{"cpe:2.3:a:hashicorp:consul:1.15:*:*:*:*:*:*:*"}},
		"pkg:golang/github.com/hashicorp/consul@v1.15":                     {Type: "go-module", Name: "github.com/hashicorp/consul", Version: "v1.15"},
		"pkg:generic/istio@1.26":                                           {Type: "binary", Name: "pilot-agent", Version: "1.26", CPEs: []string{"x", "cpe:2.3:a:istio:istio:1.26:*:*:*:*:*:*:*"}},
		"pkg:generic/sun/jre@1.6.0":                                        {Type: "binary", Name: "jre", Version: "1.6.0", CPEs: []string{"cpe:2.3:a:sun:jre:1.6.0:*:*:*:*:*:*:*"}},
		"pkg:npm/consul@1.15":                                              {Type: "npm", Name: "consul", Version: "1.15", CPEs: []string{"cpe:2.3:a:hashicorp:consul:1.15:*:*:*:*:*:*:*"}},
		"pkg:maven/org.apache.commons/commons-text@1.9":                    {Type: "java-archive", Name: "commons-text", Version: "1.9", PURL: "pkg:maven/org.apache.commons/commons-text@1.9"},
		"pkg:composer/symfony/http-kernel@v6.0":                            {Type: "php-composer", Name: "symfony/http-kernel", Version: "v6.0"},
	} {
		wanted, err := ParsePURL(want)
		if err != nil {
			t.Fatal(err)
		}
		text := coveredPURL(&p, "")
		got, err := ParsePURL(text)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, wanted) {
			t.Errorf("%+v is %s, not %s", p, text, want)
		}
		if text != want && p.Type != "go-module" { // The library writes modules in lower case.
			t.Errorf("%+v is written %s, not %s", p, text, want)
		}
	}
}

func TestSlashesInPURLs(t *testing.T) {
	for _, text := range []string{"pkg:ebuild/app-containers%2Fskopeo@1.5.1", "pkg:ebuild/app-containers/skopeo@1.5.1"} {
		if p, err := ParsePURL(text); err != nil || p.Namespace != "app-containers" || p.Name != "skopeo" {
			t.Errorf("%s is %+v, %v", text, p, err)
		}
	}
}
