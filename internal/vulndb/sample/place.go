package sample

import (
	"fmt"
	"strings"

	v6 "github.com/anchore/grype/grype/db/v6"
)

const (
	providerNVD = "nvd"
	nvdPage     = "https://nvd.nist.gov/vuln/detail/"
)

// place says in Grype's terms where a package lives, and who publishes advisories about it.
type place struct {
	provider  string
	ecosystem string
	// format is how versions compare; empty lets Grype find out.
	format string
	page   string

	distro, major, minor, codename string
}

var codenames = map[string]string{"11": "bullseye", "12": "bookworm"}

func parsePlace(in string) (place, error) {
	kind, release, _ := strings.Cut(in, " ")
	major, minor, _ := strings.Cut(release, ".")
	switch kind {
	case "debian":
		return place{
			provider: "debian", ecosystem: "deb", format: "dpkg", page: "https://security-tracker.debian.org/tracker/",
			distro: "debian", major: major, codename: codenames[major],
		}, nil
	case "alpine":
		return place{
			provider: "alpine", ecosystem: "apk", format: "apk", page: "https://security.alpinelinux.org/vuln/",
			distro: "alpine", major: major, minor: minor,
		}, nil
	case "redhat":
		return place{
			provider: "rhel", ecosystem: "rpm", format: "rpm", page: "https://access.redhat.com/security/cve/",
			distro: "redhat", major: major,
		}, nil
	case "go":
		return place{provider: "govulndb", ecosystem: "go-module", format: "semver", page: "https://pkg.go.dev/vuln/"}, nil
	case "npm":
		return github("npm", "semver"), nil
	case "python":
		return github("python", "python"), nil
	case "java":
		return github("java-archive", "maven"), nil
	case "cpe":
		return place{provider: providerNVD, page: nvdPage}, nil
	}
	return place{}, fmt.Errorf("%q is no place that is known", in)
}

func github(ecosystem, format string) place {
	return place{provider: "github", ecosystem: ecosystem, format: format, page: "https://github.com/advisories/"}
}

func (p place) reference(id string) string { return p.page + id }

func (p place) os() *v6.OperatingSystem {
	if p.distro == "" {
		return nil
	}
	return &v6.OperatingSystem{
		Name: p.distro, ReleaseID: p.distro, MajorVersion: p.major, MinorVersion: p.minor, Codename: p.codename,
	}
}

func (p place) versionRange(a Affected) v6.Range {
	fix := &v6.Fix{State: v6.FixStatus(a.State)}
	if a.Fixed != "" {
		fix = &v6.Fix{State: v6.FixedStatus, Version: a.Fixed}
	}
	return v6.Range{Version: v6.Version{Type: p.format, Constraint: a.Versions}, Fix: fix}
}
