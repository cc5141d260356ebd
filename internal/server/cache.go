package server

import (
	"container/list"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"sync"
	"time"
)

// cacheKey stands for a token, or for a token and a verb. It is a keyed hash with a key that lives as long as the process:
// whoever reads the memory of a cache learns no token, and cannot try tokens against a dump of another process.
type cacheKey [sha256.Size]byte

// keyer makes cache keys.
type keyer struct{ secret []byte }

func newKeyer() keyer {
	secret := make([]byte, sha256.Size)
	// crypto/rand.Read never fails: it ends the program instead.
	_, _ = rand.Read(secret)
	return keyer{secret}
}

func (k keyer) key(parts ...string) cacheKey {
	mac := hmac.New(sha256.New, k.secret)
	for _, part := range parts {
		mac.Write([]byte(part))
		mac.Write([]byte{0})
	}
	return cacheKey(mac.Sum(nil))
}

// cache is a bounded map whose entries end. The least recently used one makes room.
type cache[V any] struct {
	mu      sync.Mutex
	size    int
	clock   func() time.Time
	entries map[cacheKey]*list.Element
	// order holds *cached[V], most recently used first.
	order *list.List
}

type cached[V any] struct {
	key     cacheKey
	value   V
	expires time.Time
}

func newCache[V any](size int, clock func() time.Time) *cache[V] {
	return &cache[V]{size: size, clock: clock, entries: map[cacheKey]*list.Element{}, order: list.New()}
}

// get returns a value that has not expired.
func (c *cache[V]) get(key cacheKey) (value V, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	element, found := c.entries[key]
	if !found {
		return value, false
	}
	entry, _ := element.Value.(*cached[V])
	if !c.clock().Before(entry.expires) {
		c.remove(element)
		return value, false
	}
	c.order.MoveToFront(element)
	return entry.value, true
}

// put keeps a value for some time.
func (c *cache[V]) put(key cacheKey, value V, ttl time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if element, found := c.entries[key]; found {
		c.remove(element)
	}
	c.entries[key] = c.order.PushFront(&cached[V]{key: key, value: value, expires: c.clock().Add(ttl)})
	for c.order.Len() > c.size {
		c.remove(c.order.Back())
	}
}

func (c *cache[V]) remove(element *list.Element) {
	entry, _ := element.Value.(*cached[V])
	delete(c.entries, entry.key)
	c.order.Remove(element)
}
