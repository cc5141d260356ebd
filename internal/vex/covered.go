package vex

import (
	"strings"

	"github.com/package-url/packageurl-go"

	"github.com/scanner-operator/scanner-operator/internal/decision"
	"github.com/scanner-operator/scanner-operator/internal/model"
)

// coveredPURL is the package URL of a package as Syft writes it, but made only of what the fingerprint covers: the package URL in the store is that
// of the image which was known first. It has the qualifiers distro, epoch and, if the architecture is given, arch.
func coveredPURL(p *model.Package, arch string) string {
	id := decision.NamesOf(p)
	if id.Type == packageurl.TypeMaven && (p.Type == "java-archive" || p.Type == "jenkins-plugin") {
		return p.PURL
	}
	namespace, name := id.Path[:len(id.Path)-1], id.Path[len(id.Path)-1]
	if p.Type == "portage" || p.Type == "pod" { // The slash is part of the name.
		namespace, name = nil, p.Name
	}
	if url, found := programURL(p); found {
		id.Type, namespace, name = url.Type, strings.Split(url.Namespace, "/"), url.Name
	}
	version := id.Version
	qualifiers := map[string]string{}
	if arch != "" {
		qualifiers["arch"] = arch
	}
	if p.Distro != "" {
		qualifiers["distro"] = strings.Replace(p.Distro, ":", "-", 1)
	}
	if covered := decision.IdentityOf(p).Version; covered != version { // The epoch of an RPM package.
		qualifiers["epoch"] = strings.TrimSuffix(version, ":"+covered)
		version = covered
	}
	purl := packageurl.NewPackageURL(id.Type, strings.Join(namespace, "/"), name, version, packageurl.QualifiersFromMap(qualifiers), "")
	return purl.ToString()
}

// distributionCPEs are the values of CPE_NAME in /etc/os-release by the ID of the distribution. MAJOR and VERSION stand for the version, MINOR for
// what follows its first dot.
var distributionCPEs = map[string]string{
	"almalinux":     "cpe:/o:almalinux:almalinux:MAJOR::baseos",
	"amzn":          "cpe:/o:amazon:amazon_linux:VERSION",
	"centos":        "cpe:/o:centos:centos:MAJOR",
	"fedora":        "cpe:/o:fedoraproject:fedora:VERSION",
	"ol":            "cpe:/o:oracle:linux:MAJOR:MINOR:server",
	"opensuse-leap": "cpe:/o:opensuse:leap:VERSION",
	"rhel":          "cpe:/o:redhat:enterprise_linux:MAJOR::baseos",
	"rocky":         "cpe:/o:rocky:rocky:MAJOR::baseos",
	"sles":          "cpe:/o:suse:sles:MAJOR:spMINOR",
}

// distributionCPE is the CPE name of a distribution that is given as "id:version", "" when it has none.
func distributionCPE(distro string) string {
	id, version, _ := strings.Cut(distro, ":")
	if version == "" {
		return ""
	}
	major, minor, _ := strings.Cut(version, ".")
	return strings.NewReplacer("MAJOR", major, "MINOR", minor, "VERSION", version).Replace(distributionCPEs[id])
}
