//go:build faults

package faults

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// watchFaults are what can happen to a watch when an event comes.
var watchFaults = []string{"delay", "duplicate", "reorder", "drop", "gone-http", "gone-stream", "truncate", "withhold-bookmarks"}

// withheld is how long a watch lives that gets no bookmarks.
const withheld = 3 * time.Second

// frame is an event as it is sent.
type frame struct {
	line     []byte
	bookmark bool
	// object tells the events of different objects apart.
	object string
}

// watch passes on a watch, event by event.
func (p *proxy) watch(w http.ResponseWriter, r *http.Request) {
	d := describe(r)
	fault := p.takePending(d.resource, r.URL.Query().Has("sendInitialEvents"))
	if fault == "gone-http" {
		answerWith(http.StatusGone, metav1.StatusReasonExpired)(p, w, r)
		return
	}
	out := r.Clone(r.Context())
	acceptJSON(out.Header)
	out.URL.Scheme, out.URL.Host, out.Host, out.RequestURI = p.target.Scheme, p.target.Host, p.target.Host, ""
	response, err := p.transport.RoundTrip(out)
	if err != nil {
		abort()
	}
	defer response.Body.Close()
	w.Header().Set("Content-Type", response.Header.Get("Content-Type"))
	w.WriteHeader(response.StatusCode)
	_ = http.NewResponseController(w).Flush()
	if response.StatusCode != http.StatusOK {
		_, _ = io.Copy(w, response.Body)
		return
	}
	s := &stream{proxy: p, w: w, r: r, resource: d.resource, frames: framesOf(r, response.Body)}
	if fault == "withhold-bookmarks" {
		s.end = time.After(withheld)
	}
	s.copy()
}

// takePending returns what the next watch of a resource meets. Bookmarks are withheld from one that begins with all objects.
func (p *proxy) takePending(resource string, initial bool) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	fault := p.pending[resource]
	if fault == "withhold-bookmarks" != initial {
		return ""
	}
	delete(p.pending, resource)
	return fault
}

func (p *proxy) leave(resource, fault string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pending[resource] = fault
}

func framesOf(r *http.Request, body io.Reader) <-chan frame {
	frames := make(chan frame)
	go func() {
		defer close(frames)
		for decoder := json.NewDecoder(body); ; {
			var line json.RawMessage
			if decoder.Decode(&line) != nil {
				return
			}
			var event struct {
				Type   watch.EventType
				Object struct {
					Metadata struct{ Namespace, Name string }
				}
			}
			_ = json.Unmarshal(line, &event)
			f := frame{line: append(line, '\n'), bookmark: event.Type == watch.Bookmark}
			f.object = event.Object.Metadata.Namespace + "/" + event.Object.Metadata.Name
			select {
			case frames <- f:
			case <-r.Context().Done():
				return
			}
		}
	}()
	return frames
}

// stream is a watch under way.
type stream struct {
	proxy    *proxy
	w        http.ResponseWriter
	r        *http.Request
	resource string
	frames   <-chan frame
	// end closes the watch, which gets no bookmarks until then; nil for one that gets them.
	end <-chan time.Time
}

func (s *stream) copy() {
	for {
		f, open := s.next(nil)
		switch {
		case !open:
			return
		case f.bookmark && s.end != nil:
		case f.bookmark:
			s.send(f.line)
		case !s.disturb(f, s.fault()):
			return
		}
	}
}

// fault counts an event, and returns the fault that it meets. What happens to Namespaces and Nodes comes from other runs too.
func (s *stream) fault() string {
	if !strings.Contains(s.r.URL.Path, "/namespaces/") {
		return ""
	}
	return s.proxy.trace.take("watch-" + s.resource)
}

// next returns the next frame, false when the watch has ended, or after some time, nil for never.
func (s *stream) next(timeout <-chan time.Time) (frame, bool) {
	select {
	case f, open := <-s.frames:
		return f, open
	case <-s.end:
	case <-timeout:
	case <-s.r.Context().Done():
	case <-s.proxy.world.ended:
	}
	return frame{}, false
}

// disturb sends an event with the fault that it meets, and returns whether the watch goes on.
func (s *stream) disturb(f frame, fault string) bool {
	switch fault {
	case "drop":
		return true
	case "delay":
		s.proxy.wait(s.r, delay)
	case "duplicate":
		s.send(f.line)
	case "reorder":
		// The API server never swaps the events of one object.
		var second frame
		var open bool
		s.proxy.world.slot.rest(func() { second, open = s.next(time.After(delay)) })
		if !open || second.object == f.object || second.bookmark {
			s.send(f.line)
			f = second
		} else {
			s.send(second.line)
		}
		if f.line == nil {
			return s.r.Context().Err() == nil
		}
	case "gone-http":
		s.proxy.leave(s.resource, fault)
		return false
	case "gone-stream", "withhold-bookmarks":
		if fault == "withhold-bookmarks" {
			s.proxy.leave(s.resource, fault)
		}
		s.send(expired())
		return false
	case "truncate":
		s.send(f.line[:len(f.line)/2])
		abort()
	}
	s.send(f.line)
	return true
}

func (s *stream) send(line []byte) {
	_, _ = s.w.Write(line)
	_ = http.NewResponseController(s.w).Flush()
}

// expired is the event that ends a watch whose history the API server has lost.
func expired() []byte {
	line, err := json.Marshal(map[string]any{"type": watch.Error, "object": statusOf(http.StatusGone, metav1.StatusReasonExpired)})
	if err != nil {
		panic(fmt.Sprint("encode a status: ", err))
	}
	return append(line, '\n')
}

// nameIn reads the name from an object in JSON. Where the name is in the request already, nobody asks.
func nameIn(content []byte) string {
	var object metav1.PartialObjectMetadata
	if json.Unmarshal(content, &object) != nil {
		return ""
	}
	return object.Name
}
