package store

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// Kinds of events beside those about images, findings and databases.
const (
	// EventImageQueued says that an attempt to catalog an image has begun. Its data is a QueuedEvent.
	EventImageQueued EventKind = "image.queued"
	// EventScannerChanged and the next two tell that an object changed; their data is an ObjectEvent.
	EventScannerChanged EventKind = "scanner.changed"
	EventPodSetChanged  EventKind = "podset.changed"
	EventSheroChanged   EventKind = "shero.changed"
	// EventRolloutChanged says that another image began to run in a container of a workload; its data names the workload.
	EventRolloutChanged EventKind = "rollout.changed"
	// EventRolloutEvaluated says what a rollout did to what is vulnerable, or that it will not be known. Its data is a RolloutEvaluatedEvent.
	EventRolloutEvaluated EventKind = "rollout.evaluated"
	// EventImageIntroduced says that an image with findings began to run in a namespace in which it was not known, other than by a rollout. Its data is an
	// IntroducedEvent.
	EventImageIntroduced EventKind = "image.introduced"
)

// EventLog says which part of the event log there is.
type EventLog struct {
	// Floor is the sequence number up to which events were removed, 0 before any was.
	Floor int64
	// Last is that of the newest event that was ever written, 0 when there is none.
	Last int64
	// FloorID and LastID identify the log up to these numbers, as Event.LogID does.
	FloorID, LastID string
}

// QueuedEvent is the data of EventImageQueued.
type QueuedEvent struct {
	// Attempt counts from 0.
	Attempt int `json:"attempt"`
}

// ObjectChange tells that an object of the cluster has changed.
type ObjectChange struct {
	Kind EventKind
	// Gone says that the object is not there any more.
	Gone bool
	ObjectEvent
}

// ObjectEvent is the data of an event about an object.
type ObjectEvent struct {
	Object ObjectName `json:"object"`
	// Detail says what it is like now, as a small JSON object; it may be nil.
	Detail json.RawMessage `json:"detail,omitempty"`
}

// ObjectName names an object of the cluster.
type ObjectName struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// Bounds of an ObjectChange, in bytes.
const (
	maxObjectName   = 253
	maxObjectDetail = 16 << 10
)

// Validate refuses a change that is not about an object, or is too large for the event log.
func (c ObjectChange) Validate() error {
	switch c.Kind {
	case EventScannerChanged, EventPodSetChanged, EventSheroChanged:
	default:
		return fmt.Errorf("%q is not an event kind for objects", c.Kind)
	}
	for _, name := range []string{c.Object.Namespace, c.Object.Name} {
		if len(name) > maxObjectName || !utf8.ValidString(name) {
			return fmt.Errorf("a name has %d bytes; names of Kubernetes objects have at most %d bytes and are valid UTF-8", len(name), maxObjectName)
		}
	}
	if c.Object.Name == "" {
		return errors.New("the object name is missing")
	}
	if len(c.Detail) > maxObjectDetail {
		return fmt.Errorf("the detail has %d bytes, the maximum is %d", len(c.Detail), maxObjectDetail)
	}
	if c.Detail != nil && !json.Valid(c.Detail) {
		return errors.New("the detail is not valid JSON")
	}
	return nil
}

// Public is the event without what is for the operator alone: the keys of findings.
func (e Event) Public() Event {
	if !bytes.Contains(e.Data, []byte(`"keys":`)) {
		return e
	}
	var data any
	var err error
	switch e.Kind {
	case EventFindingOverdue:
		var one OverdueEvent
		err = json.Unmarshal(e.Data, &one)
		one.Keys, data = nil, &one
	case EventNamespaceOverdue:
		var one NamespaceOverdueEvent
		err = json.Unmarshal(e.Data, &one)
		for i := range one.Images {
			one.Images[i].Keys = nil
		}
		data = &one
	default:
		return e
	}
	if err == nil {
		e.Data, err = json.Marshal(data)
	}
	if err != nil {
		e.Data = json.RawMessage("{}")
	}
	return e
}

// Namespace is that of the object, or of the workload, that the event is about, "" when it is about none.
func (e Event) Namespace() string {
	switch e.Kind {
	case EventScannerChanged, EventPodSetChanged, EventSheroChanged, EventRolloutChanged, EventRolloutEvaluated, EventDecisionChanged, EventDecisionExpired,
		EventDecisionExpiring, EventCoverageLost, EventNamespaceOverdue, EventImageIntroduced:
	default:
		return ""
	}
	var data struct {
		Object   ObjectName `json:"object"`
		Workload Workload   `json:"workload"`
		// Namespace is that of an event about a namespace.
		Namespace string `json:"namespace"`
	}
	if json.Unmarshal(e.Data, &data) != nil {
		return ""
	}
	return cmp.Or(data.Object.Namespace, data.Workload.Namespace, data.Namespace)
}

// EventKinds lists every kind of event.
func EventKinds() []EventKind {
	return []EventKind{
		EventImageDiscovered, EventImageQueued, EventImageCataloged, EventImageMatched, EventImageFailed, EventImageRemoved, EventImageReported, EventScanRequested,
		EventFindingOpened, EventFindingClosed, EventFindingChanged, EventDatabaseUpdated,
		EventScannerChanged, EventPodSetChanged, EventSheroChanged, EventRolloutChanged, EventRolloutEvaluated, EventImageIntroduced, EventChangeRequested,
		EventDecisionChanged, EventDecisionExpired, EventFindingOverdue, EventNamespaceOverdue, EventDecisionExpiring, EventDatabaseStale,
		EventCoverageLost,
	}
}
