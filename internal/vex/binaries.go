package vex

import "github.com/scanner-operator/scanner-operator/internal/model"

// program is a program that Syft recognizes by its content: the name of its package, and vendor and product in one of its CPEs. Both are part of the fingerprint.
type program struct{ name, vendor, product string }

// programURLs are the package URLs of programs, without the version, whose package URL is not that of the type generic with the name of the package. Those of Java
// have the vendor as namespace.
var programURLs = map[program]PURL{
	{"consul", "hashicorp", "consul"}:                    {Type: "golang", Namespace: "github.com/hashicorp", Name: "consul"},
	{"fluent-bit", "treasuredata", "fluent_bit"}:         {Type: "github", Namespace: "fluent", Name: "fluent-bit"},
	{"github.com/hashicorp/vault", "hashicorp", "vault"}: {Type: "golang", Namespace: "github.com/hashicorp", Name: "vault"},
	{"graalvm", "oracle", "graalvm"}:                     {Type: "generic", Namespace: "oracle", Name: "graalvm"},
	{"graalvm", "oracle", "graalvm_for_jdk"}:             {Type: "generic", Namespace: "oracle", Name: "graalvm"},
	{"helm", "helm", "helm"}:                             {Type: "golang", Namespace: "helm.sh", Name: "helm"},
	{"java", "ibm", "java"}:                              {Type: "generic", Namespace: "ibm", Name: "java"},
	{"java_sdk", "ibm", "java_sdk"}:                      {Type: "generic", Namespace: "ibm", Name: "java_sdk"},
	{"jdk", "oracle", "jdk"}:                             {Type: "generic", Namespace: "oracle", Name: "jdk"},
	{"jdk", "sun", "jdk"}:                                {Type: "generic", Namespace: "sun", Name: "jdk"},
	{"jre", "oracle", "jre"}:                             {Type: "generic", Namespace: "oracle", Name: "jre"},
	{"jre", "sun", "jre"}:                                {Type: "generic", Namespace: "sun", Name: "jre"},
	{"openjdk", "oracle", "openjdk"}:                     {Type: "generic", Namespace: "oracle", Name: "openjdk"},
	{"pilot-agent", "istio", "istio"}:                    {Type: "generic", Name: "istio"},
	{"pilot-discovery", "istio", "istio"}:                {Type: "generic", Name: "istio"},
	{"zulu", "azul", "zulu"}:                             {Type: "generic", Namespace: "azul", Name: "zulu"},
}

// programURL returns the package URL of a package without the version, if it is a program of which that does not follow from the name alone.
func programURL(p *model.Package) (PURL, bool) {
	if p.Type != "binary" {
		return PURL{}, false
	}
	for _, text := range p.CPEs {
		cpe, err := ParseCPE(text)
		if err != nil {
			continue
		}
		if url, found := programURLs[program{p.Name, cpe.Vendor, cpe.Product}]; found {
			return url, true
		}
	}
	return PURL{}, false
}
