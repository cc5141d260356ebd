package main

import (
	"errors"
	"testing"
)

func TestParseStartTime(t *testing.T) {
	const rest = " 1 10 10 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 4711 9 9\n"
	for name, test := range map[string]struct {
		stat, want string
	}{
		"sleeping":              {"10 (sleep) S" + rest, "4711"},
		"name with parenthesis": {"10 (a) Z 1 (b) S" + rest, "4711"},
		"zombie":                {"10 (sleep) Z" + rest, ""},
		"dead":                  {"10 (sleep) X" + rest, ""},
		"cut off":               {"10 (sleep) S 1 10", ""},
		"empty":                 {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseStartTime(test.stat)
			if got != test.want || (test.want == "") != errors.Is(err, errNoProcess) {
				t.Errorf("got %q, %v; want %q", got, err, test.want)
			}
		})
	}
}

func TestBootID(t *testing.T) {
	if id := bootID(); len(id) != 36 || id != bootID() {
		t.Errorf("boot %q, then %q", id, bootID())
	}
}
