package advice_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/scanner-operator/scanner-operator/internal/advice"
)

// byNumbers compares versions of numbers and dots.
func byNumbers(a, b string) (int, error) {
	x, y := strings.Split(a, "."), strings.Split(b, ".")
	for i := range max(len(x), len(y)) {
		var n [2]int
		for side, parts := range [][]string{x, y} {
			if i < len(parts) {
				number, err := strconv.Atoi(parts[i])
				if err != nil {
					return 0, err
				}
				n[side] = number
			}
		}
		if n[0] != n[1] {
			return n[0] - n[1], nil
		}
	}
	return 0, nil
}

func TestUpdate(t *testing.T) {
	for _, c := range []struct {
		installed string
		fixes     [][]string
		want      string
	}{
		{"1.0", [][]string{{"1.2"}}, "1.2"},
		{"1.0", [][]string{{"1.2"}, {"1.10"}, {"1.9"}}, "1.10"},
		{"1.0", [][]string{{"1.2", "2.0"}}, "1.2"},
		{"1.0", [][]string{{"1.2", "2.3"}, {"1.3"}}, "1.3"},
		{"1.0", [][]string{{"1.2", "2.3"}, {"2.1"}}, "2.3"}, // 2.1 does not have what 2.3 fixes
		{"2.0", [][]string{{"1.2", "2.3"}}, "2.3"},          // 1.2 is older
		{"2.5", [][]string{{"1.2", "2.3", "3.1"}}, "3.1"},
		{"1.22.1", [][]string{{"1.21.9", "1.22.2"}, {"1.21.11", "1.22.4"}}, "1.22.4"}, // 1.22.2 is in another line than 1.21.11.
		{"1.21.1", [][]string{{"1.21.9", "1.22.2"}, {"1.21.11", "1.22.4"}}, "1.21.11"},
		{"1.21.1", [][]string{{"1.21.9", "1.22.2"}, {"1.21.12"}}, "1.21.12"},
		{"1.1", [][]string{{"1.2", "1.2.5"}, {"1.2.1"}}, "1.2.5"}, // Both are of one line, so nothing says that 1.2.1 has the fix.
		{"1.0", [][]string{{"1.2"}, {}}, ""},
		{"1.0", nil, ""},
		{"1.0", [][]string{{"x"}}, ""},
		{"3.0", [][]string{{"1.2"}}, ""},
	} {
		if got := advice.Update(c.installed, c.fixes, byNumbers); got != c.want {
			t.Errorf("%s with %v: %q, want %q", c.installed, c.fixes, got, c.want)
		}
	}
	many := make([][]string, advice.MaxVersions+1)
	for i := range many {
		many[i] = []string{fmt.Sprint(i + 1)}
	}
	compared := 0
	if got := advice.Update("0", many, func(string, string) (int, error) { compared++; return 0, errors.New("no") }); got != "" || compared > 0 {
		t.Errorf("%q after %d comparisons of too many versions", got, compared)
	}
}
