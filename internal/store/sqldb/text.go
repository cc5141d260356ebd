package sqldb

import (
	"strings"
	"unicode/utf8"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/truncate"
)

// Clean makes text valid in every database: valid UTF-8 without NUL.
func Clean(text string) string {
	if !utf8.ValidString(text) {
		text = strings.ToValidUTF8(text, "\uFFFD")
	}
	if strings.ContainsRune(text, 0) {
		text = strings.ReplaceAll(text, "\x00", "\uFFFD")
	}
	return text
}

// Truncate is Clean, and cuts the text at a rune so that it has at most limit bytes.
func Truncate(text string, limit int) string { return truncate.Text(Clean(text), limit) }

// Contains adds the condition that one of the columns contains text, ignoring ASCII case.
func Contains(tx *gorm.DB, d Dialect, text string, columns ...string) *gorm.DB {
	pattern := "%" + strings.NewReplacer("!", "!!", "%", "!%", "_", "!_").Replace(ASCIILower(text)) + "%"
	conditions := make([]string, len(columns))
	arguments := make([]any, len(columns))
	for i, column := range columns {
		conditions[i] = d.Lower(column) + " LIKE ? ESCAPE '!'"
		arguments[i] = pattern
	}
	return tx.Where("("+strings.Join(conditions, " OR ")+")", arguments...)
}

// ASCIILower makes ASCII letters lower case and leaves all others.
func ASCIILower(text string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, text)
}
