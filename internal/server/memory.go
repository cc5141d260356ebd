package server

import (
	"bytes"
	"context"
	"fmt"

	"golang.org/x/sync/semaphore"

	"github.com/scanner-operator/scanner-operator/internal/server/problem"
)

// slot waits until a weight is free, for a short time. what is the limit, for who is refused.
func (s *Server) slot(ctx context.Context, of *semaphore.Weighted, weight int64, what string) (release func(), err error) {
	bounded, cancel := context.WithTimeout(ctx, s.limits.SlotPatience)
	defer cancel()
	if err := of.Acquire(bounded, weight); err != nil {
		return nil, problem.Unavailable(err, fmt.Sprintf("the limit of %s is reached; try again", what))
	}
	return func() { of.Release(weight) }, nil
}

// uploadSlot waits for a slot to read a body of a length, or of up to most bytes when the length is not known. It counts twice: a body is
// copied while it grows.
func (s *Server) uploadSlot(ctx context.Context, length, most int64) (release func(), err error) {
	if length < 0 || length > most {
		length = most
	}
	memory, count := s.limits.UploadMemory, int64(s.limits.Uploads)
	weight := min(max(2*length, memory/count), memory)
	return s.slot(ctx, s.uploads, weight, fmt.Sprintf("%d concurrent uploads, of %d MiB together,", count, memory>>20))
}

// exportSlot waits for a slot to make a document, or to read a stored one.
func (s *Server) exportSlot(ctx context.Context) (release func(), err error) {
	return s.slot(ctx, s.exports, 1, fmt.Sprintf("%d concurrent exports", s.limits.Exports))
}

// reportSlot waits for a slot to make a report.
func (s *Server) reportSlot(ctx context.Context) (release func(), err error) {
	return s.slot(ctx, s.reports, 1, fmt.Sprintf("%d concurrent reports", s.limits.Reports))
}

// answerMemory is the memory that the answer to one request takes, of that for all answers that are held whole. A client that reads
// slowly holds it for as long as its answer may take.
type answerMemory struct {
	of           *semaphore.Weighted
	limit, taken int64
}

// answerMemoryKey finds the memory in the context of a request.
type answerMemoryKey struct{}

// withAnswerMemory gives a request its memory, which is to be released once it is answered.
func (s *Server) withAnswerMemory(ctx context.Context) (context.Context, *answerMemory) {
	memory := &answerMemory{of: s.answers, limit: s.limits.AnswerMemory}
	return context.WithValue(ctx, answerMemoryKey{}, memory), memory
}

// memoryOf is nil for a context that is not of a request.
func memoryOf(ctx context.Context) *answerMemory {
	memory, _ := ctx.Value(answerMemoryKey{}).(*answerMemory)
	return memory
}

// take takes that many bytes more, or refuses them at once.
func (m *answerMemory) take(size int64) error {
	if !m.of.TryAcquire(size) {
		return problem.Unavailable(nil, fmt.Sprintf("the limit of %d MiB for documents that are sent at the same time is reached; try again, or read the lists page by page",
			m.limit>>20))
	}
	m.taken += size
	return nil
}

// release gives back all that was taken.
func (m *answerMemory) release() {
	m.of.Release(m.taken)
	m.taken = 0
}

// memoryWriter is a buffer whose memory is taken from that for answers.
type memoryWriter struct {
	memory *answerMemory
	buffer bytes.Buffer
}

// Write adds to the buffer.
func (w *memoryWriter) Write(data []byte) (int, error) {
	const least = 64 << 10
	if length, capacity := w.buffer.Len()+len(data), w.buffer.Cap(); length > capacity {
		next := max(length, 2*capacity, least)
		if err := w.memory.take(int64(next - capacity)); err != nil {
			return 0, err
		}
		w.buffer.Grow(next - w.buffer.Len())
	}
	return w.buffer.Write(data)
}
