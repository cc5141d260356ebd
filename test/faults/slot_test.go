//go:build faults

package faults

import "sync"

// slot is a share of the processors, which a run has while its operators do something.
type slot struct {
	mu          sync.Mutex
	held, freed bool
	// resting counts what waits.
	resting int
}

// takeSlot waits for a slot.
func takeSlot() *slot {
	active <- struct{}{}
	return &slot{held: true}
}

// free gives the slot back for good.
func (s *slot) free() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.freed = true
	s.release()
}

// rest gives the slot back while something waits. If another run has it then, this one goes on without: it must not take longer because of others.
func (s *slot) rest(wait func()) {
	s.mu.Lock()
	s.resting++
	s.release()
	s.mu.Unlock()
	wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.resting--
	if s.held || s.freed {
		return
	}
	select {
	case active <- struct{}{}:
		s.held = true
	default:
	}
}

// rests says whether something waits.
func (s *slot) rests() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.resting > 0
}

func (s *slot) release() {
	if s.held {
		s.held = false
		<-active
	}
}
