package sqlstore

import (
	"encoding/json"
	"fmt"
	"slices"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// packageOverride is what one image says of a package that matching does not read, where it differs from the row of the package. So
// packages that differ in nothing else share one row. It is in the column own of image_packages.
type packageOverride struct {
	PURL     *string   `json:"purl,omitempty"`
	Licenses *[]string `json:"licenses,omitempty"`
}

// packageOverrides returns the overrides of packages by their IDs, as JSON; packages without any are left out.
func packageOverrides(tx *gorm.DB, packages []model.HeldPackage, ids map[string]int64) (map[int64]string, error) {
	out := map[int64]string{}
	for part := range slices.Chunk(packages, sqldb.MaxIn) {
		numbers := make([]int64, len(part))
		byID := make(map[int64]*model.Package, len(part))
		for i := range part {
			numbers[i] = ids[part[i].Package.Fingerprint]
			byID[numbers[i]] = &part[i].Package
		}
		var rows []struct {
			ID             int64
			Purl, Licenses string
		}
		if err := tx.Raw("SELECT id, purl, licenses FROM packages WHERE id IN ?", numbers).Scan(&rows).Error; err != nil {
			return nil, err
		}
		for _, row := range rows {
			var details packageOverride
			p := byID[row.ID]
			licenses, err := toJSON(p.Licenses)
			if err != nil {
				return nil, err
			}
			if purl := sqldb.Clean(p.PURL); purl != row.Purl {
				details.PURL = &purl
			}
			if licenses != row.Licenses {
				// Never nil, which would be left out.
				list := append([]string{}, p.Licenses...)
				details.Licenses = &list
			}
			if details == (packageOverride{}) {
				continue
			}
			content, err := json.Marshal(details)
			if err != nil {
				return nil, fmt.Errorf("encode the overrides of package %s: %w", p.Fingerprint, err)
			}
			out[row.ID] = string(content)
		}
	}
	return out, nil
}

// applyOverrides replaces what the row of the package says by what the image says.
func applyOverrides(content string, p *model.Package) error {
	if content == "" {
		return nil
	}
	var details packageOverride
	if err := json.Unmarshal([]byte(content), &details); err != nil {
		return err
	}
	if details.PURL != nil {
		p.PURL = *details.PURL
	}
	if details.Licenses != nil {
		p.Licenses = *details.Licenses
		if len(p.Licenses) == 0 {
			p.Licenses = nil
		}
	}
	return nil
}
