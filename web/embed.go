// Package web holds the built user interface.
package web

import (
	"embed"
	"io/fs"
)

// dist is filled by `npm run build`; only .keep is tracked, so that Go builds and tests without Node.
//
//go:embed all:dist
var dist embed.FS

// Assets returns the files of the user interface, rooted at index.html. It reports false when the binary was
// built without them.
func Assets() (fs.FS, bool) {
	assets, err := fs.Sub(dist, "dist")
	if err != nil {
		return nil, false
	}
	if _, err := fs.Stat(assets, "index.html"); err != nil {
		return nil, false
	}
	return assets, true
}
