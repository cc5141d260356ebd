// Package archive has the options with which Stereoscope exports an image from containerd. They do nothing.
package archive

import "github.com/containerd/containerd/v2/core/images"

// ExportOpt is an option of an export.
type ExportOpt struct{}

// WithImage does nothing.
func WithImage(images.Store, string) ExportOpt { return ExportOpt{} }

// WithPlatform does nothing.
func WithPlatform(any) ExportOpt { return ExportOpt{} }
