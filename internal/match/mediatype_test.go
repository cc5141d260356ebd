package match_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/match"
	"github.com/scanner-operator/scanner-operator/internal/model"
)

const (
	bomJSON = `{"bomFormat":"CycloneDX","specVersion":"1.5","components":[
		{"type":"operating-system","name":"debian","version":"12"},
		{"type":"library","name":"openssl","version":"3.0.1-1","purl":"pkg:deb/debian/openssl@3.0.1-1?distro=debian-12",
			"components":[{"type":"library","name":"lodash","version":"4.17.20","purl":"pkg:npm/lodash@4.17.20"}]}]}`
	bomXML = `<?xml version="1.0" encoding="UTF-8"?><bom xmlns="http://cyclonedx.org/schema/bom/1.5" version="1"><components>
		<component type="operating-system"><name>debian</name><version>12</version></component>
		<component type="library"><name>openssl</name><version>3.0.1-1</version><purl>pkg:deb/debian/openssl@3.0.1-1?distro=debian-12</purl>
			<components><component type="library"><name>lodash</name><version>4.17.20</version><purl>pkg:npm/lodash@4.17.20</purl></component></components>
		</component></components></bom>`
)

func TestDecodeCycloneDX(t *testing.T) {
	catalogs := map[string]model.Catalog{}
	for mediaType, document := range map[string]string{match.MediaTypeCycloneDXJSON: bomJSON, match.MediaTypeCycloneDXXML: bomXML} {
		decoded, err := match.DecodeAs(mediaType, strings.NewReader(document), match.DecodeLimits{}, nil)
		if err != nil {
			t.Fatalf("%s: %v", mediaType, err)
		}
		catalogs[mediaType] = decoded.Catalog()
	}
	catalog := catalogs[match.MediaTypeCycloneDXJSON]
	if diff := cmp.Diff(catalog, catalogs[match.MediaTypeCycloneDXXML]); diff != "" {
		t.Errorf("XML says something else: %s", diff)
	}
	var got []string
	for _, held := range catalog.Packages {
		got = append(got, held.Package.Type+" "+held.Package.Name+" "+held.Package.Version+" "+held.Package.Distro)
	}
	slices.Sort(got)
	if diff := cmp.Diff([]string{"deb openssl 3.0.1-1 debian:12", "npm lodash 4.17.20 debian:12"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestHostileCycloneDX(t *testing.T) {
	small := match.DecodeLimits{Bytes: 1 << 20, Packages: 10, Values: 2000, StringBytes: 1000, Depth: 16}
	components := func(n int, around string) string {
		return strings.Replace(around, "@", strings.Repeat("{},", n-1)+"{}", 1)
	}
	for _, test := range []struct {
		name, mediaType, input string
		is                     error
		says                   string
	}{
		{"unknown type", "text/html", bomJSON, match.ErrFormat, "text/html"},
		{"XML as JSON", match.MediaTypeCycloneDXJSON, bomXML, match.ErrFormat, ""},
		{"JSON as XML", match.MediaTypeCycloneDXXML, bomJSON, match.ErrFormat, ""},
		{"syft-json as CycloneDX", match.MediaTypeCycloneDXJSON, `{` + schema + `}`, match.ErrFormat, "known version"},
		{"invalid UTF-8", match.MediaTypeCycloneDXJSON, strings.Replace(bomJSON, "lodash", "lod\xffsh", 1), match.ErrFormat, "UTF-8"},
		{"unheard-of version", match.MediaTypeCycloneDXJSON, strings.Replace(bomJSON, `"1.5"`, `"9.9"`, 1), match.ErrFormat, "known version"},
		{"many components", match.MediaTypeCycloneDXJSON, components(11, `{"components":[@]}`), match.ErrLimit, "more than 10 components"},
		{"in other case", match.MediaTypeCycloneDXJSON, components(11, `{"Components":[@]}`), match.ErrLimit, "more than 10 components"},
		{"name escaped", match.MediaTypeCycloneDXJSON, components(11, `{"\u0063omponents":[@]}`), match.ErrLimit, "more than 10 components"},
		{"nested", match.MediaTypeCycloneDXJSON, components(10, `{"components":[{"a":[{}],"components":[@]}]}`), match.ErrLimit, "more than 10 components"},
		{"two lists", match.MediaTypeCycloneDXJSON, `{"components":[{},{},{},{},{},{}],"components":[{},{},{},{},{},{}]}`, match.ErrLimit, "more than 10 components"},
		{"deep", match.MediaTypeCycloneDXJSON, strings.Repeat(`{"components":[`, 100), match.ErrLimit, "deeper than 16"},
		{"deep XML", match.MediaTypeCycloneDXXML, strings.Repeat("<component>", 20), match.ErrLimit, ""},
		{"deep elements", match.MediaTypeCycloneDXXML, strings.Repeat("<a>", 20), match.ErrLimit, "deeper than 16"},
		{"many elements", match.MediaTypeCycloneDXXML, strings.Repeat("<a/>", 2001), match.ErrLimit, "2000 tags"},
		{"many attributes", match.MediaTypeCycloneDXXML, "<a" + strings.Repeat(" a=''", 2001) + "/>", match.ErrLimit, "2000 tags"},
		{"many XML components", match.MediaTypeCycloneDXXML, "<bom>" + strings.Repeat("<x:component/>", 11) + "</bom>", match.ErrLimit, "more than 10 components"},
		{"entities", match.MediaTypeCycloneDXXML, `<!DOCTYPE bom [<!ENTITY a "aaa"><!ENTITY b "&a;&a;">]>` + bomXML, match.ErrFormat, "document type"},
		{"an entity", match.MediaTypeCycloneDXXML, strings.Replace(bomXML, "lodash", "&b;", 1), match.ErrFormat, "entity"},
		{"another charset", match.MediaTypeCycloneDXXML, strings.Replace(bomXML, "UTF-8", "UTF-16", 1), match.ErrFormat, "UTF-16"},
		{"cut off", match.MediaTypeCycloneDXXML, bomXML[:len(bomXML)-10], match.ErrFormat, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := match.DecodeAs(test.mediaType, strings.NewReader(test.input), small, nil)
			if !errors.Is(err, test.is) || !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %v, want an error that wraps %v and says %q", err, test.is, test.says)
			}
		})
	}
}

// FuzzDecodeCycloneDX: nothing that comes in makes the decoder panic or fail without a word about the reason.
func FuzzDecodeCycloneDX(f *testing.F) {
	for _, document := range []string{
		bomJSON, `{"bomFormat":"CycloneDX","specVersion":"1.6","components":[{"purl":"pkg:deb/x@1?distro=v"}],"components":null}`,
		strings.Repeat(`{"components":[`, 60), `{"bomFormat":"CycloneDX","specVersion":"1.4","metadata":{"component":{"type":"operating-system","version":"v"}}}`,
		"{\"bomFormat\":\"CycloneDX\",\"specVersion\":\"1.4\",\"components\":[{\"name\":\"\xff\"}]}",
	} {
		f.Add(false, []byte(document))
	}
	for _, document := range []string{
		bomXML, `<!DOCTYPE a [<!ENTITY b "c">]><bom>&b;</bom>`, strings.Repeat("<bom>", 65), `<bom xmlns="http://cyclonedx.org/schema/bom/1.6"/>`,
		`<bom xmlns="http://cyclonedx.org/schema/bom/"><components><component/></components></bom>`,
	} {
		f.Add(true, []byte(document))
	}
	f.Fuzz(func(t *testing.T, isXML bool, data []byte) {
		mediaType := match.MediaTypeCycloneDXJSON
		if isXML {
			mediaType = match.MediaTypeCycloneDXXML
		}
		decoded, err := match.DecodeAs(mediaType, strings.NewReader(string(data)), match.DecodeLimits{}, nil)
		switch {
		case err != nil && !errors.Is(err, match.ErrFormat) && !errors.Is(err, match.ErrLimit):
			t.Fatalf("an error of another kind: %v", err)
		case err != nil:
			return
		}
		for _, held := range decoded.Catalog().Packages {
			if len(held.Package.Fingerprint) != 64 {
				t.Fatalf("package %+v has no fingerprint", held.Package)
			}
		}
	})
}
