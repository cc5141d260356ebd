package notify

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// addOverdue adds findings of an image that are overdue. Which images such events name follows from all namespaces: rules of a namespace get the events
// of their namespace instead.
func (e *Engine) addOverdue(ctx context.Context, batches []*batch, event *store.Event) error {
	var data store.OverdueEvent
	if err := unmarshal(event, &data); err != nil {
		return err
	}
	ofCluster := slices.DeleteFunc(slices.Clone(batches), func(b *batch) bool { return b.rule.Namespace != "" })
	if len(ofCluster) == 0 {
		return nil
	}
	if data.Omitted > 0 {
		addOmittedOverdue(ofCluster, event.At, "", data.Omitted)
		return nil
	}
	return e.addOverdueImage(ctx, ofCluster, event.At, store.OverdueImage{ImageID: event.ImageID, Platform: event.Platform, Findings: data.Findings, Keys: data.Keys})
}

// addOverdueIn adds findings that are overdue in a namespace to the rules of this namespace.
func (e *Engine) addOverdueIn(ctx context.Context, batches []*batch, event *store.Event) error {
	var data store.NamespaceOverdueEvent
	if err := unmarshal(event, &data); err != nil {
		return err
	}
	here := slices.DeleteFunc(slices.Clone(batches), func(b *batch) bool { return b.rule.Namespace == "" || b.rule.Namespace != data.Namespace })
	if len(here) == 0 {
		return nil
	}
	for _, image := range data.Images {
		if err := e.addOverdueImage(ctx, here, event.At, image); err != nil {
			return err
		}
	}
	if data.Omitted > 0 {
		addOmittedOverdue(here, event.At, data.Namespace, data.Omitted)
	}
	return nil
}

func (e *Engine) addOverdueImage(ctx context.Context, batches []*batch, at time.Time, image store.OverdueImage) error {
	running, err := e.runningImage(ctx, store.AllNamespaces(), image.ImageID, image.Platform)
	if err != nil {
		return err
	}
	for _, b := range batches {
		b.addRunning(FindingOverdue, at, &image, running, overdueText(&image))
	}
	return nil
}

func overdueText(image *store.OverdueImage) string {
	if image.Findings.Total() == 1 {
		return "1 finding is overdue in " + image.ImageID
	}
	return fmt.Sprintf("%d findings are overdue in %s", image.Findings.Total(), image.ImageID)
}

func addOmittedOverdue(batches []*batch, at time.Time, namespace string, images int) {
	for _, b := range batches {
		b.addCluster(FindingOverdue, at, namespace, images, fmt.Sprintf("findings in %d further images are overdue", images))
	}
}

// keyOf is the key of an image with overdue findings, the zero value if it is not valid.
func keyOf(image *store.OverdueImage) model.ImageKey {
	platform, err := model.ParsePlatform(image.Platform)
	if err != nil {
		return model.ImageKey{}
	}
	return model.ImageKey{ImageID: image.ImageID, Platform: platform}
}

// overdueImages are the images whose findings became overdue.
func (m *Message) overdueImages() []model.ImageKey {
	var keys []model.ImageKey
	for i := range m.Others {
		if image := m.Others[i].Overdue; image != nil {
			keys = append(keys, keyOf(image))
		}
	}
	return keys
}

// keepOverdue leaves out findings that are not overdue any more, and images whose other findings the rule does not select. still has those that are
// overdue, by image. It reports whether anything changed.
func (m *Message) keepOverdue(rule *Rule, still map[model.ImageKey][]store.OverdueFinding) (changed bool) {
	left := m.stillOverdue(still)
	return m.reviseOthers(FindingOverdue, func(i int, o Other) *revised {
		if o.Overdue == nil || left[i] == o.Overdue.Findings {
			return nil
		}
		before := o.Overdue.Findings
		o.Overdue = new(*o.Overdue)
		o.Overdue.Findings = left[i]
		o.Text = overdueText(o.Overdue)
		return &revised{before, left[i], o, left[i].Total() > 0 && rule.keeps(FindingOverdue, left[i], false)}
	})
}

// stillOverdue counts, for each of Others, the findings that are still overdue. Without their keys they can be any that are overdue in the image and that no
// other change is about.
func (m *Message) stillOverdue(still map[model.ImageKey][]store.OverdueFinding) []model.SeverityCounts {
	left, rest := make([]model.SeverityCounts, len(m.Others)), make(map[model.ImageKey]model.SeverityCounts, len(still))
	for key, findings := range still {
		rest[key] = count(findings, nil)
	}
	for _, known := range []bool{true, false} {
		for i := range m.Others {
			image := m.Others[i].Overdue
			if image == nil || len(image.Keys) > 0 != known {
				continue
			}
			key := keyOf(image)
			if known {
				left[i] = count(still[key], image.Keys)
			} else {
				// What is more than the rest is not there any more.
				left[i] = difference(image.Findings, difference(image.Findings, rest[key]))
			}
			rest[key] = difference(rest[key], left[i])
		}
	}
	return left
}

// count counts findings that have one of some keys, nil for all.
func count(findings []store.OverdueFinding, keys store.FindingKeys) model.SeverityCounts {
	var counts model.SeverityCounts
	for _, f := range findings {
		if keys == nil || keys.Has(f.Key) {
			counts.Add(f.Severity)
		}
	}
	return counts
}

// difference subtracts counts, down to zero.
func difference(from, counts model.SeverityCounts) model.SeverityCounts {
	for _, s := range model.Severities() {
		from = from.Minus(s, min(from.Of(s), counts.Of(s)))
	}
	return from
}
