package match

import (
	"fmt"
	"hash/fnv"
	"runtime/debug"
)

const (
	grypeModule = "github.com/anchore/grype"
	syftModule  = "github.com/anchore/syft"
	// grypeVersion and syftVersion are what go.mod asks for, for binaries that do not know what they were built from.
	grypeVersion = "v0.116.0"
	syftVersion  = "v1.49.0"
)

// Engine names what matches, such as "grype v0.116.0, projection 2": another engine may answer differently from the same
// database.
func Engine() string {
	return fmt.Sprintf("grype %s, projection %d", builtWith(grypeModule, grypeVersion), Projection)
}

// catalogVersion is the version of what Decode reads of an image apart from its packages. It changes whenever that does: SBOMs are read again then, and
// matches stay.
const catalogVersion = 2

// Stamp identifies what reads SBOMs in this program ([model.Catalog].Stamp): the version of Projection, which chooses what is kept of a
// package, that of what is read of an image, Syft, which decodes the document, and Grype, which makes packages of it.
func Stamp() int { return stamp(Engine(), builtWith(syftModule, syftVersion)) }

func stamp(engine, syft string) int {
	hash := fnv.New32a()
	_, _ = fmt.Fprintf(hash, "%s, catalog %d, syft %s", engine, catalogVersion, syft) // never fails
	return int(hash.Sum32() >> 1)
}

// builtWith is the version of a module in this program.
func builtWith(module, fallback string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return moduleVersion(info, module, fallback)
	}
	return fallback
}

func moduleVersion(info *debug.BuildInfo, path, fallback string) string {
	for _, module := range info.Deps {
		if module.Path != path {
			continue
		}
		if module.Replace != nil {
			module = module.Replace
		}
		if module.Version != "" {
			return module.Version
		}
	}
	return fallback
}
