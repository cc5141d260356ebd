package match

import (
	"fmt"
	"runtime/debug"
)

const (
	grypeModule = "github.com/anchore/grype"
	// grypeVersion is what go.mod asks for, for binaries that do not know what they were built from.
	grypeVersion = "v0.116.0"
)

// Engine names what matches, such as "grype v0.116.0, projection 2": another engine may answer differently from the same
// database.
func Engine() string {
	version := grypeVersion
	if info, ok := debug.ReadBuildInfo(); ok {
		version = moduleVersion(info, grypeModule, version)
	}
	return fmt.Sprintf("grype %s, projection %d", version, Projection)
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
