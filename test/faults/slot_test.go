//go:build faults

package faults

import "sync"

// slot is a share of the processors, which a run has while its operators do something.
type slot struct {
	mu          sync.Mutex
	held, freed bool
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
	s.release()
	s.mu.Unlock()
	wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held || s.freed {
		return
	}
	select {
	case active <- struct{}{}:
		s.held = true
	default:
	}
}

func (s *slot) release() {
	if s.held {
		s.held = false
		<-active
	}
}
