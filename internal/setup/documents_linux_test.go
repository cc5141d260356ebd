package setup

import (
	"fmt"
	"strings"
)

// syftOf is a Syft document of about that many bytes, of artifacts that end with what more returns.
func syftOf(size int, more func(i int) string) []byte {
	var b strings.Builder
	b.WriteString(`{"artifacts":[`)
	for i := 0; b.Len() < size; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"id":"%d","name":"package-%d","version":"1.%d.0","type":"npm","foundBy":"test","language":"javascript","purl":"pkg:npm/package-%d@1.%d.0",%s}`,
			i, i, i, i, i, more(i))
	}
	b.WriteString(`],"artifactRelationships":[],"source":{"id":"s","name":"s","version":"","type":"image","metadata":{"userInput":"s","layers":[]}},` +
		`"distro":{},"descriptor":{"name":"syft","version":"1.49.0"},"schema":{"version":"16.1.10",` +
		`"url":"https://raw.githubusercontent.com/anchore/syft/main/schema/json/schema-16.1.10.json"}}`)
	return []byte(b.String())
}

// list joins elements.
func list(n int, element func(int) string) string {
	elements := make([]string, n)
	for i := range elements {
		elements[i] = element(i)
	}
	return strings.Join(elements, ",")
}

// likeReal is what Syft writes of a package of npm.
func likeReal(i int) string {
	return fmt.Sprintf(`"locations":[{"path":"/app/node_modules/package-%d/package.json","layerID":"sha256:1e42bbe2508154c9126d48c2b8a75420c3544343bf86fd041fb7527e017a4b4a",`+
		`"accessPath":"/app/node_modules/package-%d/package.json","annotations":{"evidence":"primary"}}],`+
		`"licenses":[{"value":"MIT","spdxExpression":"MIT","type":"declared","urls":[],"locations":[]}],"cpes":[%s]`, i, i, list(6, func(k int) string {
		return fmt.Sprintf(`{"cpe":"cpe:2.3:a:vendor-%d-%d:package-%d:1.%d.0:*:*:*:*:*:*:*","source":"syft-generated"}`, i, k, i, i)
	}))
}
