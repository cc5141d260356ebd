package storetest

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/scanner-operator/scanner-operator/internal/store"
)

// report uploads a report about an image on all platforms that are known.
func (h *history) report() string {
	key, image, found := h.anyImage(func(*scannedImage) bool { return true })
	if !found || key.ImageID == visibleKey(0).ImageID { // What becomes known on another platform later would not show the counts.
		return "nothing to report"
	}
	report := &store.Report{Content: []byte(fmt.Sprintf(`{"at": %d}`, h.clock.Now().Unix())), Counts: store.Counts{KEV: h.random.IntN(9)}}
	image.report = report
	h.both(h.known(key), func(f *fixture) { must(h.t, f.SaveReport(h.t.Context(), store.AllNamespaces(), key.ImageID, *report)) })
	return "report " + key.ImageID
}

// cover records the coverage of containers.
func (h *history) cover() string {
	var rows []store.ContainerCoverage
	for range h.random.IntN(12) {
		state := []string{"Scanned", "Pending", "Failed"}[h.random.IntN(3)]
		key := visibleKey(h.random.IntN(visibleImages))
		message := "stands for " + state
		if image := h.images[key]; state == "Failed" && image != nil && len(image.failures) > 0 {
			message = image.failures[len(image.failures)-1].outcome.Message
		}
		rows = append(rows, store.ContainerCoverage{
			Workload:  h.workload([]string{"a", "b", "c", "d"}[h.random.IntN(4)], "web"),
			Container: fmt.Sprint("c", h.random.IntN(2)), Image: key, Reference: "app", Pods: 1, State: state, Reason: "R", Message: message,
		})
	}
	scope := fmt.Sprint("scope-", h.random.IntN(2))
	must(h.t, h.whole.RecordCoverage(h.t.Context(), scope, rows))
	rows = slices.DeleteFunc(rows, func(row store.ContainerCoverage) bool { return !h.in.Contains(row.Workload.Namespace) })
	must(h.t, h.part.RecordCoverage(h.t.Context(), scope, rows))
	return "coverage"
}

// object tells of a change of an object.
func (h *history) object() string {
	change := store.ObjectChange{Kind: store.EventPodSetChanged, ObjectEvent: store.ObjectEvent{
		Object: store.ObjectName{Namespace: []string{"a", "b", "c", "d"}[h.random.IntN(4)], Name: "p"}, Detail: json.RawMessage(fmt.Sprint(h.random.IntN(3))),
	}}
	h.both(h.in.Contains(change.Object.Namespace), func(f *fixture) { must(h.t, f.RecordChange(h.t.Context(), change)) })
	return "an object changes"
}
