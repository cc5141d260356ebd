package match

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/anchore/grype/grype/pkg"
	"github.com/anchore/packageurl-go"
	syftpkg "github.com/anchore/syft/syft/pkg"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

// MaxVersion is the length of the longest version in bytes that InVersion accepts.
const MaxVersion = 255

// InVersion returns a package as it would be in another version, for MatchPackages. The version is that of what it was built from, too, if that is the same
// now; whatever else matching reads stays: the distribution, the packages that own its files, the symbols that a Go binary uses. The package has a fingerprint
// of its own. An error says that the version cannot be compared, or that it cannot be known what matching would read.
func InVersion(p *model.Package, version string) (model.Package, error) {
	if version == "" || len(version) > MaxVersion {
		return model.Package{}, fmt.Errorf("a version has 1 to %d bytes, not %d", MaxVersion, len(version))
	}
	var in unit
	if err := json.Unmarshal(p.MatchInput, &in); err != nil {
		return model.Package{}, fmt.Errorf("decode the matching input: %w", err)
	}
	if in.Projection != Projection {
		return model.Package{}, errors.New("the package was read by another version of the operator; it is read again in the background")
	}
	if in.JVM != nil {
		return model.Package{}, errors.New("a Java runtime states its version in several forms")
	}
	if err := checkVersion(in.Type, version); err != nil {
		return model.Package{}, err
	}
	if err := in.setVersion(version); err != nil {
		return model.Package{}, err
	}
	in.Namesakes = nil // They have the version that is replaced.
	out := *p
	out.Version, out.PURL, out.CPEs = version, purlIn(p.PURL, version), nil
	for _, fields := range in.CPEs {
		c, err := restoreCPE(fields)
		if err != nil {
			return model.Package{}, err
		}
		out.CPEs = append(out.CPEs, c.Attributes.BindToFmtString())
	}
	var err error
	out.MatchInput, out.Fingerprint, err = in.canonical()
	return out, err
}

// Positions in a projected CPE.
const (
	cpeVersion = 3
	cpeUpdate  = 4
)

// checkVersion says what is wrong with a version: no vulnerability is found for one that cannot be compared with others.
func checkVersion(packageType, text string) error {
	format := pkg.VersionFormat(pkg.Package{Type: syftpkg.Type(packageType)})
	if _, err := compareVersions(text, text, format); err != nil {
		return fmt.Errorf("%q is not a version that can be compared: %w", text, err)
	}
	if digits := strings.TrimPrefix(strings.TrimPrefix(text, "go"), "v"); digits == "" || digits[0] < '0' || digits[0] > '9' {
		return fmt.Errorf("%q is not a version that can be compared: it does not begin with a number", text)
	}
	return nil
}

// setVersion replaces the version, also of the package that this one was built from, if that is the same.
func (in *projection) setVersion(version string) error {
	for i := range in.Upstreams {
		source := &in.Upstreams[i]
		switch {
		case source.Version == "": // That of the package.
		case withoutEpoch(source.Version) != withoutEpoch(in.Version):
			return fmt.Errorf("it was built from %s %s: that is another version, and which one belongs to %s is not known", source.Name, source.Version, version)
		case source.Version == withoutEpoch(source.Version):
			source.Version = withoutEpoch(version)
		default:
			source.Version = version
		}
	}
	in.Version, in.PURL = version, purlIn(in.PURL, version)
	for _, fields := range in.CPEs {
		if len(fields) > cpeVersion && fields[cpeVersion] != "" && fields[cpeVersion] != "-" {
			fields[cpeVersion] = version
			if len(fields) > cpeUpdate {
				fields[cpeUpdate] = ""
			}
		}
	}
	if epoch, _, found := strings.Cut(version, ":"); found && in.RPM != nil {
		if number, err := strconv.Atoi(epoch); err == nil {
			in.RPM.Epoch = &number
		}
	}
	return nil
}

// withoutEpoch is a version of a distribution without what is before the first colon.
func withoutEpoch(version string) string {
	if _, rest, found := strings.Cut(version, ":"); found {
		return rest
	}
	return version
}

// purlIn is a package URL with another version, or as it is if it has none or is none.
func purlIn(text, version string) string {
	purl, err := packageurl.FromString(text)
	if err != nil || purl.Version == "" {
		return text
	}
	purl.Version = version
	return purl.ToString()
}
