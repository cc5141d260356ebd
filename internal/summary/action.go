package summary

import (
	"fmt"
	"path"
	"strconv"

	"github.com/scanner-operator/scanner-operator/internal/advice"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// Versions orders versions of packages of a type.
type Versions interface {
	// Compare is negative, zero or positive. An error says that the two cannot be compared.
	Compare(packageType, a, b string) (int, error)
}

// FixVersion is the lowest version of a package that closes all its fixable findings, "" if that cannot be said, as without versions.
func FixVersion(one *store.FixPackage, versions Versions) string {
	if versions == nil || len(one.Versions) == 0 {
		return ""
	}
	return advice.Update(one.Package.Version, one.Versions, func(a, b string) (int, error) { return versions.Compare(one.Package.Type, a, b) })
}

// Action says in a sentence what to do. version is the FixVersion of the package of an update; "" names none. Its names and versions are those of packages,
// which come from strangers.
func Action(fix *store.Fix, version string) string {
	switch {
	case fix.Kind == store.FixUpdate && len(fix.Packages) > 0:
		one := &fix.Packages[0]
		if version != "" {
			return fmt.Sprintf("Update %s from %s to %s", one.Package.Name, one.Package.Version, version)
		}
		return fmt.Sprintf("Update %s %s", one.Package.Name, one.Package.Version)
	case fix.Kind == store.FixNewerTag && fix.NewerTag != nil:
		return fmt.Sprintf("Move from the tag %s to %s", fix.NewerTag.From, fix.NewerTag.Tag)
	case fix.Kind == store.FixNewerBase && fix.NewerTag != nil:
		return fmt.Sprintf("Rebuild on the base image %s:%s instead of %s", path.Base(fix.NewerTag.Repository), fix.NewerTag.Tag, fix.NewerTag.From)
	case fix.Kind == store.FixRebuild:
		return "Rebuild the image: its distribution has " + packages(fix.PackageCount, "fixed ")
	default:
		return "Wait: there is no fix yet for " + packages(fix.PackageCount, "")
	}
}

func packages(count int, which string) string {
	return strconv.Itoa(count) + " " + which + plural(count, "package")
}
