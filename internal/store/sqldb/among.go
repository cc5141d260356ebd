package sqldb

import (
	"database/sql/driver"
	"fmt"
	"strings"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

// MaxSpan is what numbers for Dialect.Among span at most. A statement is given up to two bytes for each of them.
const MaxSpan = 1 << 20

// A list of numbers is made to a table by databases each time, and each value of a column is looked up in that. A set that has a place for each number between
// the least and the greatest is a value, in which they find a number at once.

// among is the condition that a column is one of some numbers. Its values are the least and the greatest number, the set, and the least one again as often as it is asked for.
func among(condition, column string, numbers []int64, set func(numbers []int64) numberSet) clause.Expr {
	if len(numbers) == 0 {
		return gorm.Expr("1 = 0")
	}
	condition = fmt.Sprintf(condition, column)
	values := []any{numbers[0], numbers[len(numbers)-1], set(numbers)}
	for range strings.Count(condition, "?") - len(values) {
		values = append(values, numbers[0])
	}
	return gorm.Expr(condition, values...)
}

// numberSet is a set of numbers. Bytes that are not a driver.Valuer are a list for GORM.
type numberSet []byte

// Value implements driver.Valuer.
func (s numberSet) Value() (driver.Value, error) { return []byte(s), nil }

// bitSet has a bit for each number from the first on, beginning with the lowest bit of each byte.
func bitSet(numbers []int64) numberSet {
	set := make(numberSet, (numbers[len(numbers)-1]-numbers[0])/8+1)
	for _, n := range numbers {
		n -= numbers[0]
		set[n/8] |= 1 << (n % 8)
	}
	return set
}

// byteSet has a byte for each number from the first on, which is 1 or 0.
func byteSet(numbers []int64) numberSet {
	set := make(numberSet, numbers[len(numbers)-1]-numbers[0]+1)
	for _, n := range numbers {
		set[n-numbers[0]] = 1
	}
	return set
}
