package match

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"

	"github.com/anchore/grype/grype/distro"
	"github.com/anchore/grype/grype/pkg"
	"github.com/anchore/syft/syft/cpe"
	syftpkg "github.com/anchore/syft/syft/pkg"
)

// Projection is the version of the rules that make fingerprints and matching inputs. It changes whenever the projection below
// or its meaning changes, so that old fingerprints never meet new ones.
const Projection = 3

// projection is all that Grype's matchers read of a package. Order and names are the canonical form whose SHA-256 is the
// fingerprint; identifiers, locations, licences, relations and build settings are left out because no matcher reads them.
type projection struct {
	Projection int               `json:"projection"`
	Type       string            `json:"type"`
	Language   string            `json:"language,omitempty"`
	Name       string            `json:"name"`
	Version    string            `json:"version"`
	Distro     *distroProjection `json:"distro,omitempty"`
	Upstreams  []upstream        `json:"upstreams,omitempty"`
	CPEs       [][]string        `json:"cpes,omitempty"`
	PURL       string            `json:"purl,omitempty"`
	RPM        *rpmProjection    `json:"rpm,omitempty"`
	APK        *apkProjection    `json:"apk,omitempty"`
	Java       *javaProjection   `json:"java,omitempty"`
	Go         *goProjection     `json:"go,omitempty"`
	JVM        *jvmProjection    `json:"jvm,omitempty"`
}

type distroProjection struct {
	Type     string   `json:"type"`
	Version  string   `json:"version,omitempty"`
	Codename string   `json:"codename,omitempty"`
	Channels []string `json:"channels,omitempty"`
	IDLike   []string `json:"idLike,omitempty"`
}

type upstream struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
}

type rpmProjection struct {
	Epoch *int `json:"epoch"`
	// ModularityLabel nil and "" mean different things: unknown, and known to be in no module.
	ModularityLabel *string `json:"modularityLabel"`
	Arch            string  `json:"arch,omitempty"`
}

type apkProjection struct {
	Arch string `json:"arch,omitempty"`
}

type javaProjection struct {
	// Derived says that the metadata come from the package URL and not from an archive; matchers treat these apart.
	Derived      bool   `json:"derived,omitempty"`
	GroupID      string `json:"groupId,omitempty"`
	ArtifactID   string `json:"artifactId,omitempty"`
	ManifestName string `json:"manifestName,omitempty"`
}

type goProjection struct {
	// Main says that the package is the main module of its binary.
	Main bool `json:"main,omitempty"`
	// Symbols is the part of the symbol table that advisories about the module name, in place of thousands of symbols that differ from
	// binary to binary.
	Symbols map[string][]string `json:"symbols,omitempty"`
}

type jvmProjection struct {
	JavaRuntimeVersion string `json:"javaRuntimeVersion,omitempty"`
	JavaVersion        string `json:"javaVersion,omitempty"`
	FullVersion        string `json:"fullVersion,omitempty"`
	SemanticVersion    string `json:"semanticVersion,omitempty"`
}

// project returns what matchers read of a package with databases that name these imports.
func project(p *pkg.Package, imports *Imports) projection {
	in := projection{
		Projection: Projection,
		Type:       string(p.Type),
		Language:   string(p.Language),
		Name:       p.Name,
		Version:    p.Version,
	}
	if d := p.Distro; d != nil {
		in.Distro = &distroProjection{
			Type: string(d.Type), Version: d.Version, Codename: d.Codename, Channels: d.Channels, IDLike: d.IDLike,
		}
	}
	for _, u := range p.Upstreams {
		in.Upstreams = append(in.Upstreams, upstream{Name: u.Name, Version: u.Version})
	}
	for _, c := range p.CPEs {
		in.CPEs = append(in.CPEs, projectCPE(c.Attributes))
	}
	if p.Type == syftpkg.JavaPkg || p.Type == syftpkg.JenkinsPluginPkg {
		in.PURL = p.PURL
	}
	in.projectMetadata(p, imports)
	return in
}

// fingerprint is the lower-case hexadecimal SHA-256 of a canonical form.
func fingerprint(canonical []byte) string {
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:])
}

func (in *projection) projectMetadata(p *pkg.Package, imports *Imports) {
	switch m := p.Metadata.(type) {
	case pkg.RpmMetadata:
		in.RPM = &rpmProjection{Epoch: m.Epoch, ModularityLabel: m.ModularityLabel, Arch: m.Arch}
	case pkg.ApkMetadata:
		in.APK = &apkProjection{Arch: m.Arch}
	case pkg.JavaMetadata:
		in.Java = &javaProjection{GroupID: m.PomGroupID, ArtifactID: m.PomArtifactID, ManifestName: m.ManifestName}
	case *pkg.JavaMetadata:
		if m != nil {
			in.Java = &javaProjection{
				Derived: true, GroupID: m.PomGroupID, ArtifactID: m.PomArtifactID, ManifestName: m.ManifestName,
			}
		}
	case pkg.GolangBinMetadata:
		in.Go = &goProjection{Main: m.MainModule == p.Name, Symbols: imports.reduce(p.Name, m.Symbols)}
	case pkg.JavaVMInstallationMetadata:
		in.JVM = &jvmProjection{
			JavaRuntimeVersion: m.Release.JavaRuntimeVersion,
			JavaVersion:        m.Release.JavaVersion,
			FullVersion:        m.Release.FullVersion,
			SemanticVersion:    m.Release.SemanticVersion,
		}
	}
}

// projectCPE keeps the attributes as they are: the string form of a CPE loses white space and escapes.
func projectCPE(a cpe.Attributes) []string {
	fields := []string{
		a.Part, a.Vendor, a.Product, a.Version, a.Update, a.Edition, a.Language, a.SWEdition, a.TargetSW, a.TargetHW, a.Other,
	}
	for len(fields) > 0 && fields[len(fields)-1] == "" {
		fields = fields[:len(fields)-1]
	}
	return fields
}

func restoreCPE(fields []string) (cpe.CPE, error) {
	if len(fields) > 11 {
		return cpe.CPE{}, fmt.Errorf("a CPE has %d attributes, more than 11", len(fields))
	}
	full := make([]string, 11)
	copy(full, fields)
	return cpe.CPE{Attributes: cpe.Attributes{
		Part: full[0], Vendor: full[1], Product: full[2], Version: full[3], Update: full[4], Edition: full[5],
		Language: full[6], SWEdition: full[7], TargetSW: full[8], TargetHW: full[9], Other: full[10],
	}}, nil
}

// restore rebuilds what the matchers read of a package, under an ID of the caller's choice.
func (in *projection) restore(id string) (pkg.Package, error) {
	if in.Projection != Projection {
		return pkg.Package{}, fmt.Errorf("the stored matching input has version %d instead of %d; decode the SBOM of the image again", in.Projection, Projection)
	}
	out := pkg.Package{
		ID:       pkg.ID(id),
		Name:     in.Name,
		Version:  in.Version,
		Type:     syftpkg.Type(in.Type),
		Language: syftpkg.Language(in.Language),
		PURL:     in.PURL,
		Distro:   in.Distro.restore(),
		Metadata: in.restoreMetadata(),
	}
	for _, u := range in.Upstreams {
		out.Upstreams = append(out.Upstreams, pkg.UpstreamPackage{Name: u.Name, Version: u.Version})
	}
	for _, fields := range in.CPEs {
		c, err := restoreCPE(fields)
		if err != nil {
			return pkg.Package{}, err
		}
		out.CPEs = append(out.CPEs, c)
	}
	return out, nil
}

func (d *distroProjection) restore() *distro.Distro {
	if d == nil {
		return nil
	}
	// New parses the version; what else it derives is set to what was projected.
	out := distro.New(distro.Type(d.Type), d.Version, d.Codename)
	out.Version, out.Channels, out.IDLike = d.Version, d.Channels, d.IDLike
	return out
}

func (in *projection) restoreMetadata() any {
	switch {
	case in.RPM != nil:
		return pkg.RpmMetadata{Epoch: in.RPM.Epoch, ModularityLabel: in.RPM.ModularityLabel, Arch: in.RPM.Arch}
	case in.APK != nil:
		return pkg.ApkMetadata{Arch: in.APK.Arch}
	case in.Java != nil:
		m := pkg.JavaMetadata{
			PomGroupID: in.Java.GroupID, PomArtifactID: in.Java.ArtifactID, ManifestName: in.Java.ManifestName,
		}
		if in.Java.Derived {
			return &m
		}
		return m
	case in.Go != nil:
		m := pkg.GolangBinMetadata{Symbols: maps.Clone(in.Go.Symbols)}
		if in.Go.Main {
			m.MainModule = in.Name
		}
		return m
	case in.JVM != nil:
		return pkg.JavaVMInstallationMetadata{Release: pkg.JavaVMReleaseMetadata{
			JavaRuntimeVersion: in.JVM.JavaRuntimeVersion,
			JavaVersion:        in.JVM.JavaVersion,
			FullVersion:        in.JVM.FullVersion,
			SemanticVersion:    in.JVM.SemanticVersion,
		}}
	default:
		return nil
	}
}
