package sqlstore

import (
	"encoding/json"
	"fmt"
	"slices"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/vuln"
)

// own is what one image says of a package that matching does not read, so that packages which differ in nothing else have one
// row. Fields are nil where the image says what the package's row says.
type own struct {
	PURL     *string   `json:"purl,omitempty"`
	Licenses *[]string `json:"licenses,omitempty"`
}

// ownDetails returns the own details of packages by their IDs, as JSON; those without any are left out.
func ownDetails(tx *gorm.DB, packages []vuln.HeldPackage, ids map[string]int64) (map[int64]string, error) {
	out := map[int64]string{}
	for part := range slices.Chunk(packages, maxIn) {
		numbers := make([]int64, len(part))
		byID := make(map[int64]*vuln.Package, len(part))
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
			var details own
			p := byID[row.ID]
			licenses, err := toJSON(p.Licenses)
			if err != nil {
				return nil, err
			}
			if purl := clean(p.PURL); purl != row.Purl {
				details.PURL = &purl
			}
			if licenses != row.Licenses {
				// Never nil, which would be left out.
				list := append([]string{}, p.Licenses...)
				details.Licenses = &list
			}
			if details == (own{}) {
				continue
			}
			content, err := json.Marshal(details)
			if err != nil {
				return nil, fmt.Errorf("encode what an image says of package %s: %w", p.Fingerprint, err)
			}
			out[row.ID] = string(content)
		}
	}
	return out, nil
}

// readOwn replaces what the package's row says by what the image says.
func readOwn(content string, p *vuln.Package) error {
	if content == "" {
		return nil
	}
	var details own
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
