package parity_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	v6 "github.com/anchore/grype/grype/db/v6"
	syftpkg "github.com/anchore/syft/syft/pkg"
)

// inventedNames are packages of every ecosystem and every operating system of the invented database, so that a
// distribution's package and that of a language speak of the same vulnerabilities.
var inventedNames = []string{"alpha", "Beta.Two", "gamma_ray", "py3-delta", "delta", "linux", "kernel", "python3-omega", "omega", "java-sdk", "stdlib"}

// inventedSystem is an operating system of the invented database with the format of its versions.
type inventedSystem struct {
	os             v6.OperatingSystem
	kind           syftpkg.Type
	format         string
	versions       [4]string
	provider       string
	advisoryPrefix string
}

var (
	dpkgVersions   = [4]string{"1.0-1", "1.2-3+deb12u1", "1:2.0~rc1-1", "3.4.5-6"}
	rpmVersions    = [4]string{"1.0-1.el8", "0:1.2-3.el8_4", "1:2.0-1.el9", "3.4.5-6.el9"}
	apkVersions    = [4]string{"1.0-r0", "1.2.3-r4", "2.0_rc1-r0", "3.4.5-r6"}
	pacmanVersions = [4]string{"1.0-1", "1.2.3-2", "1:2.0-1", "3.4.5-6"}
)

func inventedSystems() []inventedSystem {
	dpkg := func(name, major, minor, codename, channel string) inventedSystem {
		return inventedSystem{
			os:   v6.OperatingSystem{Name: name, ReleaseID: name, MajorVersion: major, MinorVersion: minor, Codename: codename, Channel: channel},
			kind: syftpkg.DebPkg, format: "dpkg", versions: dpkgVersions, provider: name,
		}
	}
	rpm := func(name, id, major, minor, channel, provider, prefix string) inventedSystem {
		return inventedSystem{
			os:   v6.OperatingSystem{Name: name, ReleaseID: id, MajorVersion: major, MinorVersion: minor, Channel: channel},
			kind: syftpkg.RpmPkg, format: "rpm", versions: rpmVersions, provider: provider, advisoryPrefix: prefix,
		}
	}
	apk := func(name, major, minor, label string) inventedSystem {
		return inventedSystem{
			os:   v6.OperatingSystem{Name: name, ReleaseID: name, MajorVersion: major, MinorVersion: minor, LabelVersion: label},
			kind: syftpkg.ApkPkg, format: "apk", versions: apkVersions, provider: name,
		}
	}
	unstable := dpkg("debian", "", "", "", "")
	unstable.os.LabelVersion = "unstable"
	arch := inventedSystem{
		os:   v6.OperatingSystem{Name: "archlinux", ReleaseID: "arch", LabelVersion: "rolling"},
		kind: syftpkg.AlpmPkg, format: "pacman", versions: pacmanVersions, provider: "arch", advisoryPrefix: "ASA",
	}
	gentoo := inventedSystem{
		os:   v6.OperatingSystem{Name: "gentoo", ReleaseID: "gentoo", LabelVersion: "rolling"},
		kind: syftpkg.PortagePkg, format: "portage", versions: [4]string{"1.0", "1.2-r1", "2.0_rc1", "3.4.5"}, provider: "gentoo", advisoryPrefix: "GLSA",
	}
	return []inventedSystem{
		dpkg("debian", "11", "", "bullseye", ""), dpkg("debian", "12", "", "bookworm", ""), unstable,
		dpkg("ubuntu", "22", "04", "jammy", ""), dpkg("ubuntu", "18", "04", "bionic", "esm"), dpkg("ubuntu", "18", "04", "bionic", ""),
		dpkg("echo", "1", "", "", ""),
		rpm("redhat", "rhel", "7", "", "", "rhel", ""), rpm("redhat", "rhel", "8", "", "", "rhel", ""), rpm("redhat", "rhel", "9", "", "", "rhel", ""),
		rpm("redhat", "rhel", "9", "4", "eus", "rhel", ""), rpm("redhat", "rhel", "8", "6", "eus", "rhel", ""),
		rpm("fedora", "fedora", "40", "", "", "fedora", "FEDORA"), rpm("amazonlinux", "amzn", "2", "", "", "amazon", "ALAS"),
		rpm("amazonlinux", "amzn", "2023", "", "", "amazon", "ALAS"), rpm("oraclelinux", "ol", "8", "", "", "oracle", "ELSA"),
		rpm("oraclelinux", "ol", "9", "", "", "oracle", "ELSA"), rpm("sles", "sles", "15", "5", "", "sles", ""),
		rpm("opensuseleap", "opensuse-leap", "15", "6", "", "sles", ""), rpm("photon", "photon", "5", "0", "", "photon", ""),
		rpm("mariner", "mariner", "2", "0", "", "mariner", ""), rpm("azurelinux", "azurelinux", "3", "0", "", "mariner", ""),
		rpm("almalinux", "almalinux", "9", "", "", "alma", "ALSA"), rpm("rockylinux", "rocky", "9", "", "", "rocky", "RLSA"),
		rpm("hummingbird", "hummingbird", "1", "", "", "hummingbird", ""),
		apk("alpine", "3", "18", ""), apk("alpine", "3", "19", ""), apk("alpine", "", "", "edge"), apk("wolfi", "", "", "rolling"),
		apk("chainguard", "", "", "rolling"), apk("minimos", "", "", "rolling"), apk("secureos", "", "", "rolling"), arch, gentoo,
	}
}

// inventedEcosystems are the ecosystems that belong to no operating system, with the format of their versions and four of these.
var inventedEcosystems = []struct {
	kind     syftpkg.Type
	format   string
	versions [4]string
}{
	{syftpkg.NpmPkg, "semver", [4]string{"1.0.0", "1.2.3", "2.0.0-rc.1", "3.4.5"}},
	{syftpkg.PythonPkg, "python", [4]string{"1.0", "1.2.3", "2.0rc1", "3.4.5.post1"}},
	{syftpkg.GemPkg, "gem", [4]string{"1.0.0", "1.2.3", "2.0.0.rc1", "3.4.5"}},
	{syftpkg.GoModulePkg, "go", [4]string{"v1.0.0", "v1.2.3", "v2.0.0-rc.1", "v3.4.5"}},
	{syftpkg.JavaPkg, "maven", [4]string{"1.0", "1.2.3", "2.0.0-RC1", "3.4.5.Final"}},
	{syftpkg.DotnetPkg, "semver", [4]string{"1.0.0", "1.2.3", "2.0.0-rc.1", "3.4.5"}},
	{syftpkg.RustPkg, "semver", [4]string{"1.0.0", "1.2.3", "2.0.0-rc.1", "3.4.5"}},
	{syftpkg.PhpComposerPkg, "semver", [4]string{"1.0.0", "1.2.3", "2.0.0-RC1", "3.4.5"}},
	{syftpkg.HexPkg, "semver", [4]string{"1.0.0", "1.2.3", "2.0.0-rc.1", "3.4.5"}},
	{syftpkg.DartPubPkg, "semver", [4]string{"1.0.0", "1.2.3", "2.0.0-rc.1", "3.4.5"}},
	{syftpkg.SwiftPkg, "semver", [4]string{"1.0.0", "1.2.3", "2.0.0-rc.1", "3.4.5"}},
	{syftpkg.BitnamiPkg, "bitnami", [4]string{"1.0.0", "1.2.3", "2.0.0-1", "3.4.5"}},
	{syftpkg.GithubActionPkg, "semver", [4]string{"1.0.0", "1.2.3", "2.0.0", "3.4.5"}},
	{syftpkg.CocoapodsPkg, "", [4]string{"1.0.0", "1.2.3", "2.0.0-rc.1", "3.4.5"}},
	{syftpkg.ConanPkg, "", [4]string{"1.0.0", "1.2.3", "2.0.0-rc.1", "3.4.5"}},
	{syftpkg.CondaPkg, "", [4]string{"1.0", "1.2.3", "2.0rc1", "3.4.5"}},
	{syftpkg.ErlangOTPPkg, "", [4]string{"1.0.0", "1.2.3", "2.0.0-rc.1", "3.4.5"}},
	{syftpkg.HackagePkg, "", [4]string{"1.0", "1.2.3", "2.0", "3.4.5"}},
	{syftpkg.LuaRocksPkg, "", [4]string{"1.0-1", "1.2.3-1", "2.0-1", "3.4.5-1"}},
	{syftpkg.OpamPkg, "", [4]string{"1.0", "1.2.3", "2.0~rc1", "3.4.5"}},
	{syftpkg.PhpPearPkg, "", [4]string{"1.0.0", "1.2.3", "2.0.0RC1", "3.4.5"}},
	{syftpkg.PhpPeclPkg, "", [4]string{"1.0.0", "1.2.3", "2.0.0RC1", "3.4.5"}},
	{syftpkg.Rpkg, "", [4]string{"1.0", "1.2.3", "2.0-1", "3.4.5"}},
	{syftpkg.SwiplPackPkg, "", [4]string{"1.0", "1.2.3", "2.0", "3.4.5"}},
	{syftpkg.TerraformPkg, "semver", [4]string{"1.0.0", "1.2.3", "2.0.0-rc.1", "3.4.5"}},
	{syftpkg.VcpkgPkg, "", [4]string{"1.0", "1.2.3", "2.0", "3.4.5"}},
	{syftpkg.NixPkg, "", [4]string{"1.0", "1.2.3", "2.0", "3.4.5"}},
	{syftpkg.HomebrewPkg, "", [4]string{"1.0", "1.2.3", "2.0", "3.4.5"}},
	{syftpkg.WordpressPluginPkg, "semver", [4]string{"1.0.0", "1.2.3", "2.0.0", "3.4.5"}},
	{syftpkg.LinuxKernelPkg, "", [4]string{"1.0.0", "1.2.3", "2.0.0", "3.4.5"}},
	{syftpkg.KbPkg, "kb", [4]string{"1000", "1200", "2000", "3400"}},
	{syftpkg.GraalVMNativeImagePkg, "", [4]string{"1.0.0", "1.2.3", "2.0.0", "3.4.5"}},
	{syftpkg.GithubActionWorkflowPkg, "semver", [4]string{"1.0.0", "1.2.3", "2.0.0", "3.4.5"}},
	{syftpkg.LinuxKernelModulePkg, "", [4]string{"1.0.0", "1.2.3", "2.0.0", "3.4.5"}},
	{syftpkg.AppleAppBundlePkg, "", [4]string{"1.0.0", "1.2.3", "2.0.0", "3.4.5"}},
	{syftpkg.ModelPkg, "", [4]string{"1.0.0", "1.2.3", "2.0.0", "3.4.5"}},
}

// writeInvented writes the invented database and returns its folder. It holds, for every ecosystem and operating system that Grype knows, records of every form that
// it understands. No other database at hand has unaffected entries, channels, modules, architectures or most of the ecosystems.
func writeInvented(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	store, err := v6.NewWriter(v6.Config{DBDirPath: dir})
	if err != nil {
		t.Fatal(err)
	}
	w := inventor{T: t, store: store}
	for _, s := range inventedSystems() {
		w.system(s)
	}
	for i, e := range inventedEcosystems {
		for n, name := range inventedNames {
			switch {
			case e.kind == syftpkg.JavaPkg:
				// Two packages of one name, of which only the first is known not to be affected by some.
				w.library(e.kind, e.format, e.versions, i, n, "org.example:"+name, true)
				w.library(e.kind, e.format, e.versions, i+500, n, "org.other:"+name, false)
			case e.kind == syftpkg.GoModulePkg && name != "stdlib":
				w.library(e.kind, e.format, e.versions, i, n, "example.com/"+name, true)
			default:
				w.library(e.kind, e.format, e.versions, i, n, name, true)
			}
		}
	}
	for n, name := range inventedNames {
		w.product(n, name)
		w.decorate(n)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

type inventor struct {
	*testing.T
	store v6.ReadWriter
}

func (w inventor) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// cve is the same for a name wherever it is a package.
func cve(name, number int) string { return fmt.Sprintf("CVE-2024-%d", 1000+10*name+number) }

func (w inventor) vulnerability(provider, id string, status v6.VulnerabilityStatus, aliases ...string) v6.ID {
	w.Helper()
	day := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	severities := []string{"critical", "high", "medium", "low", "negligible", ""}
	blob := &v6.VulnerabilityBlob{
		ID: id, Description: "Invented " + id + " of " + provider + ".", Aliases: aliases,
		References: []v6.Reference{{URL: "https://example.test/" + id}, {URL: "https://example.test/more/" + id, Tags: []string{"advisory"}}},
	}
	if s := severities[(len(id)+int(id[len(id)-1]))%len(severities)]; s != "" {
		blob.Severities = append(blob.Severities, v6.Severity{Scheme: v6.SeveritySchemeCHMLN, Value: s, Rank: 1})
	}
	blob.Severities = append(blob.Severities, v6.Severity{
		Scheme: v6.SeveritySchemeCVSS, Source: "nvd@nist.gov", Rank: 2,
		Value: v6.CVSSSeverity{Vector: "CVSS:3.1/AV:N/AC:L/PR:N/UI:N/S:U/C:H/I:H/A:H", Version: "3.1"},
	})
	handle := &v6.VulnerabilityHandle{
		Name: id, Status: status, ProviderID: provider, PublishedDate: &day, ModifiedDate: &day, BlobValue: blob,
		Provider: &v6.Provider{ID: provider, Version: "1", Processor: "invented", DateCaptured: &day},
	}
	w.must(w.store.AddVulnerabilities(handle))
	return handle.ID
}

// ranges are of the forms that databases have: to a fix, between two, everything, one version, and ended by "< 0" what Alpine
// says of a vulnerability that a package does not have.
func ranges(format string, v [4]string, number int) []v6.Range {
	r := func(constraint, fixed string, state v6.FixStatus) v6.Range {
		return v6.Range{Version: v6.Version{Type: format, Constraint: constraint}, Fix: &v6.Fix{Version: fixed, State: state}}
	}
	switch number {
	case 0:
		return []v6.Range{r("< "+v[1], v[1], v6.FixedStatus)}
	case 1:
		return []v6.Range{r(">= "+v[0]+", < "+v[2], v[2], v6.FixedStatus), r(">= "+v[2]+", < "+v[3], v[3], v6.FixedStatus)}
	case 2:
		return []v6.Range{r("", "", v6.NotFixedStatus)}
	case 3:
		return []v6.Range{r("<= "+v[2], "", v6.WontFixStatus)}
	case 4:
		return []v6.Range{r("= "+v[1]+" || > "+v[2], "", v6.UnknownFixStatus)}
	case 5:
		return []v6.Range{r("< "+v[3], v[3], v6.FixedStatus)}
	default:
		return []v6.Range{r("< 0", "0", v6.FixedStatus)}
	}
}

const inventedRecords = 7

func (w inventor) system(s inventedSystem) {
	w.Helper()
	for n, name := range inventedNames {
		for number := range inventedRecords {
			if (n+number+len(s.os.Name))%3 == 0 && number != 5 {
				continue // no system has everything
			}
			id, aliases := cve(n, number), []string(nil)
			if s.advisoryPrefix != "" {
				aliases = []string{id}
				id = fmt.Sprintf("%s-2024:%s-%d-%d", s.advisoryPrefix, s.os.MajorVersion, n, number)
			}
			blob := &v6.PackageBlob{CVEs: []string{cve(n, number)}, Ranges: ranges(s.format, s.versions, number)}
			if s.kind == syftpkg.RpmPkg {
				blob.Qualifiers = rpmQualifiers(n, number)
			}
			os := s.os
			handle := v6.AffectedPackageHandle{
				VulnerabilityID: w.vulnerability(s.provider, id, v6.VulnerabilityActive, aliases...), OperatingSystem: &os,
				Package: &v6.Package{Ecosystem: string(s.kind), Name: name}, BlobValue: blob,
			}
			w.must(w.store.AddAffectedPackages(&handle))
			if number == 5 && n%2 == 0 {
				other := s.os
				w.must(w.store.AddUnaffectedPackages(&v6.UnaffectedPackageHandle{
					VulnerabilityID: handle.VulnerabilityID, OperatingSystem: &other,
					Package:   &v6.Package{Ecosystem: string(s.kind), Name: name},
					BlobValue: &v6.PackageBlob{CVEs: blob.CVEs, Ranges: []v6.Range{{Version: v6.Version{Type: s.format, Constraint: ">= " + s.versions[1]}}}},
				}))
			}
		}
	}
}

func rpmQualifiers(name, number int) *v6.PackageQualifiers {
	switch {
	case number == 1 && name%2 == 0:
		return &v6.PackageQualifiers{RpmModularity: new("nodejs:18")}
	case number == 1:
		return &v6.PackageQualifiers{RpmModularity: new("")}
	case number == 3 && name%3 == 0:
		return &v6.PackageQualifiers{Architecture: new("x86_64")}
	case number == 3 && name%3 == 1:
		return &v6.PackageQualifiers{Architecture: new("src")}
	case number == 4:
		return &v6.PackageQualifiers{Architecture: new("binary-no-arch-specified")}
	}
	return nil
}

func (w inventor) library(kind syftpkg.Type, format string, versions [4]string, ecosystem, n int, name string, unaffected bool) {
	w.Helper()
	for number := range inventedRecords - 1 {
		if (ecosystem+n+number)%4 == 0 {
			continue
		}
		status, withdrawn := v6.VulnerabilityActive, number == 4 && n%3 == 0
		if withdrawn {
			status = v6.VulnerabilityRejected
		}
		id := fmt.Sprintf("GHSA-%04d-%04d-%04d", ecosystem, n, number)
		handle := w.vulnerability("github", id, status, cve(n, number))
		blob := &v6.PackageBlob{CVEs: []string{cve(n, number)}, Ranges: ranges(format, versions, number)}
		if kind == syftpkg.GoModulePkg && number%2 == 1 {
			blob.Qualifiers = &v6.PackageQualifiers{GoImports: []v6.GoImport{{Path: name + "/parse", Symbols: []string{"Parse", "Decoder.Decode"}}, {Path: name + "/all"}}}
		}
		if number == 2 && n%4 == 1 {
			blob.Qualifiers = &v6.PackageQualifiers{PlatformCPEs: []string{"cpe:2.3:o:debian:debian_linux:11:*:*:*:*:*:*:*"}}
		}
		w.must(w.store.AddAffectedPackages(&v6.AffectedPackageHandle{
			VulnerabilityID: handle, Package: &v6.Package{Ecosystem: string(kind), Name: name}, BlobValue: blob,
		}))
		if unaffected && number == 5 && slices.Contains([]int{0, 1, 3}, n%4) {
			w.must(w.store.AddUnaffectedPackages(&v6.UnaffectedPackageHandle{
				VulnerabilityID: handle, Package: &v6.Package{Ecosystem: string(kind), Name: name},
				BlobValue: &v6.PackageBlob{
					CVEs: blob.CVEs, Ranges: []v6.Range{{Version: v6.Version{Type: format, Constraint: ">= " + versions[1] + ", < " + versions[2]}}},
				},
			}))
		}
	}
}

// product is a CPE of NVD, for several kinds of software.
func (w inventor) product(n int, name string) {
	w.Helper()
	versions := [4]string{"1.0", "1.2.3", "2.0", "3.4.5"}
	targets := []string{"", "node.js", "python", "linux", "windows", "ruby"}
	for number := range inventedRecords - 1 {
		blob := &v6.PackageBlob{CVEs: []string{cve(n, number)}, Ranges: ranges("", versions, number)}
		if number == 3 {
			blob.Qualifiers = &v6.PackageQualifiers{PlatformCPEs: []string{"cpe:2.3:o:linux:linux_kernel:-:*:*:*:*:*:*:*"}}
		}
		handle := w.vulnerability("nvd", cve(n, number), v6.VulnerabilityActive)
		w.must(w.store.AddAffectedCPEs(&v6.AffectedCPEHandle{
			VulnerabilityID: handle, CPE: &v6.Cpe{Part: "a", Vendor: name, Product: name, TargetSoftware: targets[(n+number)%len(targets)]}, BlobValue: blob,
		}))
		if number == 0 && n%2 == 1 {
			w.must(w.store.AddUnaffectedCPEs(&v6.UnaffectedCPEHandle{
				VulnerabilityID: handle, CPE: &v6.Cpe{Part: "a", Vendor: name, Product: name},
				BlobValue: &v6.PackageBlob{CVEs: blob.CVEs, Ranges: []v6.Range{{Version: v6.Version{Constraint: "= 1.0"}}}},
			}))
		}
	}
}

func (w inventor) decorate(n int) {
	w.Helper()
	day := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	for number := range inventedRecords {
		id := cve(n, number)
		w.must(w.store.AddEpss(&v6.EpssHandle{Cve: id, Epss: float64(n+1) / 20, Percentile: float64(number+1) / 10, Date: day}))
		for _, cwe := range []string{"CWE-79", "CWE-125"}[:number%3%2+1] {
			w.must(w.store.AddCWE(&v6.CWEHandle{CVE: id, CWE: cwe, Source: "nvd@nist.gov", Type: "Primary"}))
		}
		if number == 1 {
			w.must(w.store.AddKnownExploitedVulnerabilities(&v6.KnownExploitedVulnerabilityHandle{
				Cve: id, BlobValue: &v6.KnownExploitedVulnerabilityBlob{
					Cve: id, VendorProject: "Example", Product: inventedNames[n], DateAdded: &day, DueDate: &day,
					RequiredAction: "Update.", KnownRansomwareCampaignUse: "Known",
				},
			}))
		}
	}
}
