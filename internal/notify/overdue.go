package notify

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/store"
)

// addOverdue adds findings of an image that are overdue. Which images such events name follows from all namespaces: rules of a namespace get the events
// of their namespace instead.
func (e *Engine) addOverdue(ctx context.Context, batches []*batch, event *store.Event) error {
	var data store.OverdueEvent
	if err := json.Unmarshal(event.Data, &data); err != nil {
		return fmt.Errorf("read event %d: %w", event.Sequence, err)
	}
	ofCluster := slices.DeleteFunc(slices.Clone(batches), func(b *batch) bool { return b.rule.Namespace != "" })
	if len(ofCluster) == 0 {
		return nil
	}
	if data.Omitted > 0 {
		addOmittedOverdue(ofCluster, event.At, "", data.Omitted)
		return nil
	}
	return e.addOverdueImage(ctx, ofCluster, event.At, store.OverdueImage{ImageID: event.ImageID, Platform: event.Platform, Findings: data.Findings})
}

// addOverdueIn adds findings that are overdue in a namespace to the rules of this namespace.
func (e *Engine) addOverdueIn(ctx context.Context, batches []*batch, event *store.Event) error {
	var data store.NamespaceOverdueEvent
	if err := json.Unmarshal(event.Data, &data); err != nil {
		return fmt.Errorf("read event %d: %w", event.Sequence, err)
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
	running, err := e.runningImage(ctx, image.ImageID, image.Platform)
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
		b.addCluster(FindingOverdue, at, namespace, fmt.Sprintf("findings in %d further images are overdue", images))
	}
}
