// Package ring keeps the newest items of an endless sequence. Items are numbered from 0, so that each reader can follow the
// sequence at its own pace and notice when it is too far behind.
package ring

// Buffer is a ring buffer. Its methods are not safe for concurrent use.
type Buffer[T any] struct {
	// items holds the item number n at n modulo its length.
	items []T
	next  int64
}

// New makes a buffer that keeps the newest size items; size must be positive.
func New[T any](size int) *Buffer[T] { return &Buffer[T]{items: make([]T, size)} }

// Add adds an item, in place of the oldest one when the buffer is full.
func (b *Buffer[T]) Add(item T) {
	b.items[b.next%int64(len(b.items))] = item
	b.next++
}

// Next returns the number of the item that is added next.
func (b *Buffer[T]) Next() int64 { return b.next }

// First returns the number of the oldest item that is kept.
func (b *Buffer[T]) First() int64 { return max(0, b.next-int64(len(b.items))) }

// Append appends to a slice the items from a number on, as far as its capacity allows. ok is false, and nothing is appended, when
// the first of them is not kept any more.
func (b *Buffer[T]) Append(to []T, from int64) (items []T, ok bool) {
	if from < b.First() {
		return to, false
	}
	for ; from < b.next && len(to) < cap(to); from++ {
		to = append(to, b.items[from%int64(len(b.items))])
	}
	return to, true
}
