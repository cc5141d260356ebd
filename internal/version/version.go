// Package version says which build of the program runs.
package version

import "runtime/debug"

// Version is set by the linker for builds from the Makefile.
var Version = ""

// String returns the version that the linker set, else the module's version, else "devel".
func String() string {
	if Version != "" {
		return Version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "devel"
}
