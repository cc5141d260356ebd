package kube

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Expectations remembers which objects this process made or took away for an owner until its cache shows it. Who counts the objects of
// an owner in a cache that does not show them yet, makes too many.
//
// controller-runtime has a client that reads its own writes (CacheOptions.EnableReadYourWritesConsistency), which does not do here: it
// does not work with a cache of several namespaces, its lists wait for the writes of everybody to the whole kind, for as long as it
// takes, and that blocks a worker.
//
// The zero value is ready. It is safe for concurrent use; for one owner, calls must come one after the other, as a workqueue has them.
type Expectations struct {
	mu     sync.Mutex
	owners map[types.NamespacedName]*expected
}

// expected is what is expected of the objects of one owner, by their UIDs.
type expected struct {
	owner   types.UID
	objects map[types.UID]expectation
}

type expectation struct {
	there bool
	since time.Time
}

// Added says that an object belongs to an owner now.
func (e *Expectations) Added(key types.NamespacedName, owner, object types.UID, now time.Time) {
	e.expect(key, owner, object, expectation{there: true, since: now})
}

// Removed says that an object does not belong to an owner any more, or is being deleted.
func (e *Expectations) Removed(key types.NamespacedName, owner, object types.UID, now time.Time) {
	e.expect(key, owner, object, expectation{since: now})
}

func (e *Expectations) expect(key types.NamespacedName, owner, object types.UID, what expectation) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.owners == nil {
		e.owners = map[types.NamespacedName]*expected{}
	}
	of := e.owners[key]
	if of == nil || of.owner != owner {
		// What was expected of the objects of an earlier owner of that name, concerns this one not.
		of = &expected{owner: owner, objects: map[types.UID]expectation{}}
		e.owners[key] = of
	}
	of.objects[object] = what
}

// Unseen reports whether the cache does not show everything that was written for an owner, and since when. shown holds the objects of
// the owner that the cache has; the value is false for those that are being deleted.
func (e *Expectations) Unseen(key types.NamespacedName, owner types.UID, shown map[types.UID]bool) (since time.Time, unseen bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	of := e.owners[key]
	if of == nil || of.owner != owner {
		return time.Time{}, false
	}
	for object, want := range of.objects {
		active, there := shown[object]
		if want.there && there || !want.there && !active {
			delete(of.objects, object)
			continue
		}
		if !unseen || want.since.Before(since) {
			since = want.since
		}
		unseen = true
	}
	if !unseen {
		delete(e.owners, key)
	}
	return since, unseen
}

// Correct drops what cannot be seen any more: objects that the API server itself does not have, because somebody removed them before
// the cache showed them, or still has, because somebody else gave them back to the owner.
func (e *Expectations) Correct(key types.NamespacedName, live map[types.UID]bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	of := e.owners[key]
	if of == nil {
		return
	}
	for object, want := range of.objects {
		active, there := live[object]
		if want.there && !there || !want.there && active {
			delete(of.objects, object)
		}
	}
}

// Forget drops what is known about an owner that is gone.
func (e *Expectations) Forget(key types.NamespacedName) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.owners, key)
}
