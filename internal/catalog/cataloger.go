package catalog

import (
	"strings"

	"github.com/anchore/syft/syft"
)

// Cataloger names what catalogs images in this program, as its SBOMs do: "syft v1.49.0".
func Cataloger() string {
	config := syft.DefaultCreateSBOMConfig()
	return strings.TrimSpace(config.ToolName + " " + config.ToolVersion)
}
