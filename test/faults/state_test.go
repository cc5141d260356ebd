//go:build faults

package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// What differs between two runs that come to the same.
var (
	// The hash of what a BellerophonSimple applies covers the UID of the owner.
	hashes = regexp.MustCompile(`"stable.simple-bellerophon.io/applied":"[0-9a-f]+"`)
	uids   = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	// The numbers of rollouts: PostgreSQL and MariaDB do not assign that of a transaction that was rolled back again.
	ids = regexp.MustCompile(`"id":[0-9]+`)
	// A restarted operator does not know the pods of a PodSet that are gone, by its documentation.
	predecessors = regexp.MustCompile(`"app.example.com/podset-(failures|replacement)":"[0-9]+"`)
	times        = regexp.MustCompile(`20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?Z`)
)

// served are the paths of the API that show what the operator holds, of scenarios with scans.
var served = []string{"/api/v1/images", "/api/v1/coverage", "/api/v1/vulnerabilities", "/api/v1/workloads", "/api/v1/rollouts", "/api/v1/packages"}

// reached returns how a world differs from the state of the undisturbed run, nil if it does not. The API is asked only if the objects are equal.
func (w *world) reached(ctx context.Context, s snapshot, want []string) error {
	objects, err := w.objects(s)
	if err != nil {
		return err
	}
	masked := func(lines []string) []string { return lines }
	if w.trace.restarts() {
		masked = withoutPredecessors
	}
	objects, want = masked(objects), masked(want)
	if more := surplus(objects, want); len(more) > 0 {
		return difference(objects, slices.DeleteFunc(slices.Clone(want), func(line string) bool {
			return strings.HasPrefix(line, "/") || strings.HasPrefix(line, "Event ")
		}))
	}
	got, err := w.state(ctx, s)
	if err != nil {
		return err
	}
	return difference(masked(got), want)
}

// withoutPredecessors returns lines without the numbers of the pods that were before those of a PodSet.
func withoutPredecessors(lines []string) []string {
	lines = slices.Clone(lines)
	for i, line := range lines {
		lines[i] = predecessors.ReplaceAllString(line, `"PREDECESSORS"`)
	}
	return lines
}

// objects returns a line per object, without what differs between runs.
func (w *world) objects(s snapshot) (texts []string, err error) {
	for _, object := range s {
		object = object.DeepCopy()
		for _, field := range []string{"uid", "resourceVersion", "creationTimestamp", "managedFields"} {
			unstructured.RemoveNestedField(object.Object, "metadata", field)
		}
		text, err := json.Marshal(object.Object)
		if err != nil {
			return nil, err
		}
		texts = append(texts, object.GetKind()+" "+string(text))
	}
	return w.masked(s, texts), nil
}

// state is what can be seen of a world, a line per object and per answer of the API, without names that are derived from UIDs, UIDs, resource
// versions, numbers that the database assigns, and times.
func (w *world) state(ctx context.Context, s snapshot) ([]string, error) {
	var texts []string
	if w.scenario.scans {
		for _, path := range served {
			var answer any
			if err := w.get(ctx, "http://"+w.managers[0].api+path, &answer); err != nil {
				return nil, err
			}
			text, err := json.Marshal(answer)
			if err != nil {
				return nil, err
			}
			texts = append(texts, path+" "+string(text))
		}
	}
	if w.scenario.rollouts {
		var list eventsv1.EventList
		if err := w.c.List(ctx, &list, client.InNamespace(w.namespace)); err != nil {
			return nil, err
		}
		for i := range list.Items {
			if event := &list.Items[i]; event.Reason == "RolloutEvaluated" {
				texts = append(texts, "Event "+event.Regarding.Kind+" "+event.Regarding.Name+": "+event.Note)
			}
		}
	}
	objects, err := w.objects(s)
	if err != nil {
		return nil, err
	}
	texts = append(w.masked(s, texts), objects...)
	slices.Sort(texts)
	return texts, nil
}

// masked returns texts without what differs between runs.
func (w *world) masked(s snapshot, texts []string) []string {
	masks := w.masks(s)
	for i, text := range texts {
		text = hashes.ReplaceAllString(uids.ReplaceAllString(masks.Replace(text), "UID"), "HASH")
		texts[i] = times.ReplaceAllString(ids.ReplaceAllString(text, `"id":"ID"`), "TIME")
	}
	return texts
}

// masks replaces the namespace and the names of Reports and of the pods and Jobs of others, longest first: that of a Job begins that of its pod.
func (w *world) masks(s snapshot) *strings.Replacer {
	var names []string
	kinds := map[string]string{}
	for _, object := range s {
		if kind := object.GetKind(); kind == "Report" || metav1.GetControllerOfNoCopy(object) != nil && (kind == "Pod" || kind == "Job") {
			names = append(names, object.GetName())
			kinds[object.GetName()] = kind
		}
	}
	slices.SortFunc(names, func(a, b string) int { return len(b) - len(a) })
	var pairs []string
	for _, name := range names {
		pairs = append(pairs, name, kinds[name])
	}
	return strings.NewReplacer(append(pairs, w.namespace, "NAMESPACE")...)
}

// difference returns what is in one of two states alone, nil when they are equal.
func difference(got, want []string) error {
	var lines []string
	for _, line := range surplus(got, want) {
		lines = append(lines, "unexpected "+line)
	}
	for _, line := range surplus(want, got) {
		lines = append(lines, "missing    "+line)
	}
	if len(lines) == 0 {
		return nil
	}
	return fmt.Errorf("the state differs from that of the undisturbed run:\n%s", strings.Join(lines, "\n"))
}
