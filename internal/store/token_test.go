package store

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

type tokenQuery struct{ Text, Sort string }

func TestTokenRoundTrip(t *testing.T) {
	query := tokenQuery{Text: "a%b", Sort: "-risk"}
	for name, values := range map[string][]string{
		"one":     {"docker.io/library/nginx@sha256:0"},
		"empty":   {"", ""},
		"unicode": {"ünï", "\x00\xff", "日本"},
		"long":    {strings.Repeat("\x01", 1024), strings.Repeat("\"", 1024)},
	} {
		t.Run(name, func(t *testing.T) {
			token, err := EncodeToken(query, values...)
			if err != nil {
				t.Fatal(err)
			}
			got, err := DecodeToken(token, query, len(values))
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got, values) {
				t.Errorf("got %q, want %q", got, values)
			}
		})
	}
}

func TestTokenRefusals(t *testing.T) {
	query := tokenQuery{Text: "x"}
	token, err := EncodeToken(query, "1", "2")
	if err != nil {
		t.Fatal(err)
	}
	other := tokenQuery{Text: "y"}
	for name, c := range map[string]struct {
		token string
		query tokenQuery
		count int
	}{
		"other query":   {token, other, 2},
		"other count":   {token, query, 3},
		"not base64":    {"%%%", query, 2},
		"padded":        {token + "=", query, 2},
		"not JSON":      {"AAAA", query, 2},
		"too long":      {strings.Repeat("A", MaxTokenLength+1), query, 2},
		"cut":           {token[:len(token)/2], query, 2},
		"other version": {"eyJ2IjoyfQ", query, 2},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := DecodeToken(c.token, c.query, c.count); !errors.Is(err, ErrInvalidToken) {
				t.Errorf("got %v, want ErrInvalidToken", err)
			}
		})
	}
	if _, err := EncodeToken(query, strings.Repeat("x", MaxTokenLength)); err == nil {
		t.Error("a token beyond the limit was made")
	}
}

func TestPageLimit(t *testing.T) {
	for size, want := range map[int]int{
		-1: DefaultPageSize, 0: DefaultPageSize, 1: 1, MaxPageSize: MaxPageSize, MaxPageSize + 1: MaxPageSize,
	} {
		if got := (Page{Size: size}).Limit(); got != want {
			t.Errorf("Limit of %d: got %d, want %d", size, got, want)
		}
	}
}

func FuzzDecodeToken(f *testing.F) {
	query := tokenQuery{Text: "x"}
	valid, err := EncodeToken(query, "a", "b")
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{"", valid, valid[1:], "eyJ2IjoxfQ", "AAAA", "%", strings.Repeat("A", 9000)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, token string) {
		values, err := DecodeToken(token, query, 2)
		if err != nil {
			if !errors.Is(err, ErrInvalidToken) {
				t.Fatalf("got %v, want ErrInvalidToken", err)
			}
			return
		}
		again, err := EncodeToken(query, values...)
		if err != nil {
			t.Fatal(err)
		}
		back, err := DecodeToken(again, query, 2)
		if err != nil || !slices.Equal(values, back) {
			t.Fatalf("got %q (%v), want %q", back, err, values)
		}
		if !utf8.ValidString(again) {
			t.Fatal("the token is not text")
		}
	})
}

// TestTokenLengths: the length of a token does not tell how great a row number is, also when the token is encrypted.
func TestTokenLengths(t *testing.T) {
	lengths := map[int]bool{}
	for _, number := range []string{"0", "9", "10", "12345", "1234567890123", "9223372036854775807", "-9223372036854775808"} {
		token, err := EncodeToken(tokenQuery{}, "name", number)
		if err != nil {
			t.Fatal(err)
		}
		if values, err := DecodeToken(token, tokenQuery{}, 2); err != nil || values[1] != number {
			t.Errorf("%s: %q, %v", number, values, err)
		}
		lengths[len(token)] = true
	}
	if len(lengths) != 1 {
		t.Errorf("the tokens have these lengths: %v", lengths)
	}
}
