package sqldb

import (
	"database/sql/driver"
	"fmt"
	"strconv"
	"strings"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

// maxSpan is what the numbers of a set span at most. With SQLite, it has a byte for each.
const maxSpan = 1 << 20

// Databases make a table of a list of numbers each time, and look up each value of a column in it. A set that has a place for each number between the least and the
// greatest is a value, in which they find a number at once. Numbers that span too much are a list.

// among is the condition that a column is one of some numbers, which a set has. Its values are the least and the greatest number, the set, and the least one again as often as it
// is asked for.
func among(condition, column string, numbers []int64, set func(numbers []int64) encodedSet, list func(column, numbers string) clause.Expr) clause.Expr {
	if len(numbers) == 0 {
		return gorm.Expr("1 = 0")
	}
	if numbers[len(numbers)-1]-numbers[0] >= maxSpan {
		return list(column, JoinNumbers(numbers))
	}
	condition = fmt.Sprintf(condition, column)
	values := []any{numbers[0], numbers[len(numbers)-1], set(numbers)}
	for range strings.Count(condition, "?") - len(values) {
		values = append(values, numbers[0])
	}
	return gorm.Expr(condition, values...)
}

// JoinNumbers joins numbers with commas.
func JoinNumbers(numbers []int64) string {
	var text []byte
	for i, n := range numbers {
		if i > 0 {
			text = append(text, ',')
		}
		text = strconv.AppendInt(text, n, 10)
	}
	return string(text)
}

// encodedSet is a set of numbers as databases get it. Bytes that are not a driver.Valuer are a list for GORM.
type encodedSet []byte

// Value implements driver.Valuer.
func (s encodedSet) Value() (driver.Value, error) { return []byte(s), nil }

// bitSet has a bit for each number from the first on, beginning with the lowest bit of each byte.
func bitSet(numbers []int64) encodedSet {
	set := make(encodedSet, (numbers[len(numbers)-1]-numbers[0])/8+1)
	for _, n := range numbers {
		n -= numbers[0]
		set[n/8] |= 1 << (n % 8)
	}
	return set
}

// byteSet has a byte for each number from the first on, which is 1 or 0.
func byteSet(numbers []int64) encodedSet {
	set := make(encodedSet, numbers[len(numbers)-1]-numbers[0]+1)
	for _, n := range numbers {
		set[n-numbers[0]] = 1
	}
	return set
}
