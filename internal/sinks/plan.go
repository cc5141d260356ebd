package sinks

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/report"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// target is where an item of a sink is, and what it is about. Parts identifies it.
type target struct {
	// Parts are the results of the sink's templates.
	Parts []string `json:"parts"`
	// Type is that of the sink when the item was planned.
	Type Type `json:"type"`
	// Formats are those of the objects that a bucket is given, and Former those of objects that it may have besides.
	Formats []report.Format `json:"formats,omitempty"`
	Former  []report.Format `json:"former,omitempty"`

	// labels are the results of the templates of tags. images are what is reported, and namespaces those in which they run.
	labels     map[string]bool
	images     []*targetImage
	namespaces map[string]bool
}

// targetImage is an image of a target.
type targetImage struct {
	*store.RunningReport
	// workloads are those that it is reported of, as indexes of Workloads.
	workloads []int
}

// uses are the workloads that the image is reported of.
func (i *targetImage) uses() []store.Workload {
	workloads := make([]store.Workload, len(i.workloads))
	for n, w := range i.workloads {
		workloads[n] = i.Workloads[w]
	}
	return workloads
}

// key identifies a target in its sink.
func (t *target) key() string { return digestOf(append([]string{string(t.Type)}, t.Parts...)...) }

// String names a target for people.
func (t *target) String() string { return strings.Join(t.Parts, " ") }

// encode is a target as the store keeps it.
func (t *target) encode() (string, error) {
	text, err := json.Marshal(t)
	return string(text), err
}

// decodeTarget reads what encode wrote.
func decodeTarget(text string) (*target, error) {
	t := &target{}
	if err := json.Unmarshal([]byte(text), t); err != nil {
		return nil, fmt.Errorf("read the target of an item: %w", err)
	}
	return t, nil
}

// follow notes which objects a bucket may have of an item whose target was another one.
func (t *target) follow(before *target) {
	had := slices.Concat(before.Formats, before.Former)
	slices.Sort(had)
	t.Former = slices.DeleteFunc(slices.Compact(had), func(format report.Format) bool { return slices.Contains(t.Formats, format) })
}

// in are the namespaces of a target.
func (t *target) in() store.Namespaces {
	return store.OnlyNamespaces(slices.Collect(maps.Keys(t.namespaces))...)
}

// reported are the images of a target with the workloads that they are reported of.
func (t *target) reported() (keys []model.ImageKey, uses map[model.ImageKey][]store.Workload) {
	uses = make(map[model.ImageKey][]store.Workload, len(t.images))
	for _, image := range t.images {
		keys = append(keys, image.ImageKey)
		uses[image.ImageKey] = image.uses()
	}
	return keys, uses
}

// worst counts the findings of all images of a target.
func (t *target) worst() model.SeverityCounts {
	var sum model.SeverityCounts
	for _, image := range t.images {
		sum.Critical += image.Counts.Critical
		sum.High += image.Counts.High
	}
	return sum
}

// stamp tells apart the states of a target between which what is delivered differs.
func (t *target) stamp(config string, findings bool) string {
	texts := append([]string{config}, slices.Sorted(maps.Keys(t.labels))...)
	for _, image := range t.images {
		texts = append(texts, image.ImageKey.String(), image.SBOMSHA256, strconv.Itoa(image.CatalogStamp))
		if findings {
			texts = append(append(texts, fmt.Sprint(image.Counts)), image.decided()...)
		}
	}
	if findings {
		texts = append(texts, slices.Sorted(maps.Keys(t.namespaces))...)
	}
	return digestOf(texts...)
}

// decided tells apart what decisions about some places suppress in the workloads that the image is reported of; nil if there are no such decisions.
func (i *targetImage) decided() []string {
	if i.Decided == nil {
		return nil
	}
	var texts []string
	for _, n := range i.workloads {
		w := &i.Workloads[n]
		texts = append(texts, w.Namespace, w.Kind, w.Name, i.Decided[n])
	}
	return texts
}

// targets returns what a sink is to be given, by key.
func (s *Sink) targets(running []store.RunningReport, cluster string) map[string]*target {
	all := map[string]*target{}
	for i := range running {
		image := &running[i]
		if !s.selects(image.ImageID) {
			continue
		}
		for j := range image.Workloads {
			w := &image.Workloads[j]
			if !s.Namespaces.Contains(w.Namespace) {
				continue
			}
			p := &place{cluster, image.ImageKey, w}
			t := &target{Type: s.Type}
			if s.S3 != nil {
				t.Formats = s.S3.Formats
			}
			for _, part := range s.parts {
				t.Parts = append(t.Parts, s.receiver.clean(part.render(p, s.receiver.longest())))
			}
			key := t.key()
			if known := all[key]; known != nil {
				t = known
			} else {
				t.labels, t.namespaces = map[string]bool{}, map[string]bool{}
				all[key] = t
			}
			n := len(t.images)
			if n == 0 || t.images[n-1].RunningReport != image {
				t.images = append(t.images, &targetImage{RunningReport: image})
				n++
			}
			t.images[n-1].workloads = append(t.images[n-1].workloads, j)
			t.namespaces[w.Namespace] = true
			for _, label := range s.labels {
				if text := label.render(p, s.receiver.longest()); text != "" && len(t.labels) < maxLabels {
					t.labels[text] = true
				}
			}
		}
	}
	return all
}

// changes are what the events of a part of the log say.
type changes struct {
	// all says that each item may differ, as after events were lost.
	all bool
	// images are those whose findings changed.
	images map[string]bool
	// decided are the namespaces in which decisions changed; "" stands for all.
	decided map[string]bool
}

// add adds an event.
func (c *changes) add(e *store.Event) {
	switch e.Kind {
	case store.EventImageMatched:
		c.images[e.ImageID] = true
	case store.EventDecisionChanged, store.EventDecisionExpired:
		c.decided[e.Namespace()] = true
	default:
		// The stamps tell of the rest.
	}
}

// concern reports whether the content of a target with findings may differ.
func (c *changes) concern(t *target) bool {
	if c.all || c.decided[""] {
		return true
	}
	for namespace := range t.namespaces {
		if c.decided[namespace] {
			return true
		}
	}
	return slices.ContainsFunc(t.images, func(image *targetImage) bool { return c.images[image.ImageID] })
}

// difference is what has to be written of a plan.
type difference struct {
	items   []store.ReportItem
	deleted []string
	// omitted counts the targets beyond the bound of items.
	omitted int
}

// compare compares what a sink is to be given with its items, and deletes what is beyond the bound from the former. Items that are still to be removed count
// towards the bound: the system may have them. Everything is due again if resync is set.
func (s *Sink) compare(wanted map[string]*target, known map[string]*store.ReportItem, c *changes, resync bool, now time.Time) (difference, error) {
	d := difference{}
	bound := s.receiver.most()
	findings := s.receiver.findings()
	// Where there are too many, those with the worst findings come first. Items that are there stay, unless the bound is lower than before.
	keys := slices.SortedFunc(maps.Keys(wanted), func(a, b string) int {
		x, y := wanted[a].worst(), wanted[b].worst()
		return cmp.Or(cmp.Compare(y.Critical, x.Critical), cmp.Compare(y.High, x.High), cmp.Compare(a, b))
	})
	stay := 0
	for i, key := range keys {
		if known[key] == nil {
			continue
		}
		if stay++; stay > bound {
			delete(wanted, key)
			keys[i] = ""
			d.omitted++
		}
	}
	keys = slices.DeleteFunc(keys, func(key string) bool { return key == "" })
	for key, item := range known {
		before, err := decodeTarget(item.Target)
		if err != nil {
			return d, err
		}
		if !item.Due {
			// They were deleted, or are to stay.
			before.Former = nil
		}
		if t := wanted[key]; t != nil {
			t.follow(before)
			continue
		}
		if s.remover(before.Type) == nil {
			d.deleted = append(d.deleted, key)
			continue
		}
		if item.Gone && !resync {
			continue
		}
		gone := *item
		gone.Gone, gone.Due, gone.Attempts, gone.NextAt, gone.Version = true, true, 0, time.Time{}, now.UnixMicro()
		if gone.Target, err = before.encode(); err != nil {
			return d, err
		}
		d.items = append(d.items, gone)
	}
	there := len(known) - len(d.deleted)
	for _, key := range keys {
		t, item := wanted[key], known[key]
		if item == nil {
			if there >= bound {
				d.omitted++
				continue
			}
			there++
			item = &store.ReportItem{Sink: s.UID, Key: key}
		}
		stamp := t.stamp(s.receiver.config(), findings)
		if item.Stamp == stamp && !item.Gone && !resync && (!findings || !c.concern(t)) {
			continue
		}
		text, err := t.encode()
		if err != nil {
			return d, err
		}
		again := *item
		again.Target, again.Stamp, again.Due, again.Gone, again.Attempts, again.NextAt, again.Version = text, stamp, true, false, 0, time.Time{}, now.UnixMicro()
		if item.Gone || resync {
			again.Digest = ""
		}
		d.items = append(d.items, again)
	}
	return d, nil
}
