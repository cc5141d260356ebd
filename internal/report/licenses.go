package report

import (
	"regexp"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/github/go-spdx/v2/spdxexp/spdxlicenses"
)

// maxExpression bounds a licence expression in bytes; what is longer is kept as a name.
const maxExpression = 1000

var (
	expressionToken = regexp.MustCompile(`[()]|[^()\s]+`)
	expressionID    = regexp.MustCompile(`^[A-Za-z0-9.-]+$`)
)

// spdxID returns an ID of the SPDX licence list as the list writes it, whatever the case of s.
func spdxID(s string) (string, bool) {
	if active, id := spdxlicenses.IsActiveLicense(s); active {
		return id, true
	}
	if deprecated, id := spdxlicenses.IsDeprecatedLicense(s); deprecated {
		return id, true
	}
	return "", false
}

// licenses maps what a package declares: one SPDX expression alone is an expression, a known SPDX ID is an ID, and
// everything else is a name.
func licenses(declared []string) *cdx.Licenses {
	if len(declared) == 1 && isExpression(declared[0]) {
		return &cdx.Licenses{{Expression: declared[0]}}
	}
	list := make(cdx.Licenses, 0, len(declared))
	for _, name := range declared {
		name = strings.TrimSpace(name)
		if name == "" {
			continue
		}
		if id, known := spdxID(name); known {
			list = append(list, cdx.LicenseChoice{License: &cdx.License{ID: id}})
			continue
		}
		list = append(list, cdx.LicenseChoice{License: &cdx.License{Name: name}})
	}
	if len(list) == 0 {
		return nil
	}
	return &list
}

// isExpression reports whether s is an SPDX licence expression of more than one word: licences of the SPDX list or
// LicenseRefs, joined by AND, OR and WITH, in balanced parentheses.
func isExpression(s string) bool {
	if len(s) > maxExpression {
		return false
	}
	tokens := expressionToken.FindAllString(s, -1)
	if len(tokens) < 3 {
		return false
	}
	depth, wantOperand, wantException := 0, true, false
	for _, token := range tokens {
		switch {
		case wantException:
			if !expressionID.MatchString(token) {
				return false
			}
			wantException = false
		case wantOperand && token == "(":
			depth++
		case wantOperand:
			if !isLicense(token) {
				return false
			}
			wantOperand = false
		case token == ")":
			depth--
		case token == "AND" || token == "OR":
			wantOperand = true
		case token == "WITH":
			wantException = true
		default:
			return false
		}
		if depth < 0 {
			return false
		}
	}
	return depth == 0 && !wantOperand && !wantException
}

func isLicense(token string) bool {
	if strings.HasPrefix(token, "LicenseRef-") {
		return expressionID.MatchString(token)
	}
	_, known := spdxID(strings.TrimSuffix(token, "+"))
	return known
}
