package truncate

import (
	"testing"
	"unicode/utf8"
)

func TestText(t *testing.T) {
	for _, test := range []struct {
		text           string
		limit          int
		want, ellipsis string
	}{
		{"", 0, "", ""},
		{"abc", 3, "abc", "abc"},
		{"abcd", 3, "abc", "…"},
		{"abcde", 4, "abcd", "a…"},
		{"abc", 0, "", ""},
		{"abc", -1, "", ""},
		{"abc", 1, "a", ""},
		{"äöü", 6, "äöü", "äöü"},
		{"äöü", 5, "äö", "ä…"},
		{"äöü", 4, "äö", "…"},
		{"x😀y", 4, "x", "x…"},
		{"x😀y", 5, "x😀", "x…"},
		{"a\xffb", 3, "a?b", "a?b"},
		{"\xff\xfe\xfd", 1, "?", "?"},
		{"a\xffbc", 2, "a?", ""},
	} {
		if got := Text(test.text, test.limit); got != test.want {
			t.Errorf("Text(%q, %d) = %q, want %q", test.text, test.limit, got, test.want)
		}
		if got := Ellipsis(test.text, test.limit); got != test.ellipsis {
			t.Errorf("Ellipsis(%q, %d) = %q, want %q", test.text, test.limit, got, test.ellipsis)
		}
	}
}

func TestCharacters(t *testing.T) {
	for _, test := range []struct {
		text  string
		limit int
		want  string
	}{
		{"", 0, ""},
		{"abc", 3, "abc"},
		{"abcd", 3, "abc"},
		{"abc", 0, ""},
		{"abc", -1, ""},
		{"äöü", 3, "äöü"},
		{"äöü", 2, "äö"},
		{"x😀y", 2, "x😀"},
		{"a\xffbc", 3, "a?b"},
	} {
		if got := Characters(test.text, test.limit); got != test.want {
			t.Errorf("Characters(%q, %d) = %q, want %q", test.text, test.limit, got, test.want)
		}
	}
}

func TestLast(t *testing.T) {
	for _, test := range []struct {
		text  string
		limit int
		want  string
	}{
		{"", 0, ""}, {"abc", 3, "abc"}, {"abcd", 3, "bcd"}, {"abc", 0, ""}, {"abc", -1, ""}, {"äöü", 6, "äöü"}, {"äöü", 5, "öü"}, {"äöü", 1, ""},
		{"x😀y", 4, "y"}, {"x😀y", 5, "😀y"}, {"\x80bc", 3, "?bc"}, {"a\xff", 1, "?"},
	} {
		if got := Last(test.text, test.limit); got != test.want {
			t.Errorf("Last(%q, %d) = %q, want %q", test.text, test.limit, got, test.want)
		}
	}
}

func FuzzText(f *testing.F) {
	f.Add("x😀\xff", 3)
	f.Fuzz(func(t *testing.T, text string, limit int) {
		for _, got := range []string{Text(text, limit), Ellipsis(text, limit), Last(text, limit)} {
			if len(got) > max(limit, 0) || !utf8.ValidString(got) {
				t.Errorf("%q with the limit %d became %q", text, limit, got)
			}
		}
	})
}
