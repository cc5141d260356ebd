package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/scanner-operator/scanner-operator/internal/catalog"
	"github.com/scanner-operator/scanner-operator/internal/match"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/report"
)

// writeSBOMs catalogs the image of each platform as the operator catalogs any image, and writes a CycloneDX SBOM of it.
func writeSBOMs(ctx context.Context, src *source, image *indexedImage, dir string) error {
	for i, platform := range image.Platforms {
		result, err := catalog.Run(ctx, catalog.Request{
			Image: image.Archive, Platform: model.Platform{OS: platform.OS, Architecture: platform.Architecture, Variant: platform.Variant},
		})
		if err != nil {
			return fmt.Errorf("catalog the image for %s: %w", platform, err)
		}
		if result.ManifestDigest != image.Manifests[i].String() {
			return fmt.Errorf("cataloged the image %s for %s, not %s", result.ManifestDigest, platform, image.Manifests[i])
		}
		sbom, err := match.Decode(bytes.NewReader(result.SBOM), match.DecodeLimits{}, nil)
		if err != nil {
			return fmt.Errorf("read the SBOM of the image for %s: %w", platform, err)
		}
		held := sbom.Catalog()
		if len(held.Packages) == 0 {
			return fmt.Errorf("the SBOM of the image for %s has no packages", platform)
		}
		name := fmt.Sprintf("scanner-operator_%s_%s_%s.cdx.json", src.Version, platform.OS, platform.Architecture)
		err = writeSBOM(filepath.Join(dir, name), report.Input{
			ImageID: image.Repository + "@" + result.ManifestDigest, Platform: result.Platform, Distro: held.Distro,
			MatchedAt: src.Time, ToolVersion: src.Version,
			Packages: func(yield func(model.HeldPackage) error) error {
				for _, p := range held.Packages {
					if err := yield(p); err != nil {
						return err
					}
				}
				return nil
			},
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func writeSBOM(path string, in report.Input) (err error) {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return report.CycloneDX(file, in)
}
