package match

import "sync"

// cache remembers values up to a total size. When half of it is full, what was not asked for since is forgotten. Caches of
// libraries that are linked count entries; the answers here differ in size by thousands.
type cache[K comparable, V any] struct {
	mu         sync.Mutex
	half, used int
	young, old map[K]sized[V]
}

type sized[V any] struct {
	value V
	size  int
}

func newCache[K comparable, V any](limit int) *cache[K, V] {
	return &cache[K, V]{half: limit / 2, young: map[K]sized[V]{}}
}

func (c *cache[K, V]) get(key K) (V, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if found, ok := c.young[key]; ok {
		return found.value, true
	}
	found, ok := c.old[key]
	if ok {
		c.keep(key, found)
	}
	return found.value, ok
}

// put keeps a value. One that is larger than half of the cache is not kept.
func (c *cache[K, V]) put(key K, value V, size int) {
	if size > c.half {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keep(key, sized[V]{value, size})
}

func (c *cache[K, V]) keep(key K, entry sized[V]) {
	if before, ok := c.young[key]; ok {
		c.used -= before.size
	}
	if c.used+entry.size > c.half {
		c.old, c.young, c.used = c.young, map[K]sized[V]{}, 0
	}
	c.young[key] = entry
	c.used += entry.size
}

func (c *cache[K, V]) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.young, c.old, c.used = map[K]sized[V]{}, nil, 0
}
