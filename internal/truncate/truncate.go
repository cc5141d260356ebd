// Package truncate shortens texts to a number of bytes or characters. Its results are valid UTF-8 and never end within a character.
package truncate

import (
	"strings"
	"unicode/utf8"
)

const ellipsis = "…"

// Text returns the beginning of a text with at most limit bytes. Bytes that are not UTF-8 become "?".
func Text(text string, limit int) string {
	text = strings.ToValidUTF8(text, "?")
	if len(text) <= limit {
		return text
	}
	end := max(limit, 0)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}

// Characters returns the beginning of a text with at most limit characters. Bytes that are not UTF-8 become "?".
func Characters(text string, limit int) string {
	text = strings.ToValidUTF8(text, "?")
	for end := range text {
		if limit--; limit < 0 {
			return text[:end]
		}
	}
	return text
}

// Ellipsis is Text, with "…" as the end of a text that was too long. The result has at most limit bytes, too.
func Ellipsis(text string, limit int) string {
	text = strings.ToValidUTF8(text, "?")
	if len(text) <= limit {
		return text
	}
	return Text(Text(text, limit-len(ellipsis))+ellipsis, limit)
}

// Last returns the end of a text with at most limit bytes. Bytes that are not UTF-8 become "?".
func Last(text string, limit int) string {
	begin := max(len(text)-max(limit, 0), 0)
	for begin < len(text) && begin > 0 && !utf8.RuneStart(text[begin]) {
		begin++
	}
	return strings.ToValidUTF8(text[begin:], "?")
}
