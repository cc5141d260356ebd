package exceptions

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/truncate"
)

const (
	// maxManagers is the most field managers of an Exception.
	maxManagers = 10
	// maxText is the most bytes of a text that clients put into metadata.
	maxText = 253
)

// Manager is a field manager of a spec. Clients choose the names.
type Manager struct {
	Name string
	// At is when it changed the spec last, zero if that is not known.
	At time.Time
}

// Tool manages objects from another place, such as Git.
type Tool struct {
	// Name is that of the tool, Source the application or the release, if that is known.
	Name, Source string
}

// String is the name of the tool, with the source if that is known.
func (t Tool) String() string {
	if t.Source == "" {
		return t.Name
	}
	return t.Name + " (" + t.Source + ")"
}

// toolMark is a label or an annotation that a tool sets on the objects that it manages.
type toolMark struct{ tool, key string }

// toolMarks are the marks of tools, the one that says most of each tool first.
var toolMarks = []toolMark{
	{"Argo CD", "argocd.argoproj.io/tracking-id"}, {"Argo CD", "argocd.argoproj.io/instance"},
	{"Flux", "kustomize.toolkit.fluxcd.io/name"}, {"Flux", "helm.toolkit.fluxcd.io/name"},
	{"Helm", "meta.helm.sh/release-name"},
}

// managedBy lists the tools that an object is managed by according to its labels and annotations.
func managedBy(o object) []Tool {
	labels, annotations := o.GetLabels(), o.GetAnnotations()
	var tools []Tool
	for _, mark := range toolMarks {
		source := cmp.Or(annotations[mark.key], labels[mark.key])
		if source != "" && !slices.ContainsFunc(tools, func(t Tool) bool { return t.Name == mark.tool }) {
			tools = append(tools, Tool{mark.tool, truncate.Text(source, maxText)})
		}
	}
	if by := labels["app.kubernetes.io/managed-by"]; by == "Helm" && len(tools) == 0 {
		tools = append(tools, Tool{Name: by})
	}
	return tools
}

// managersOf lists the field managers of the spec of an object, the last one first.
func managersOf(o object) []Manager {
	var managers []Manager
	for _, entry := range o.GetManagedFields() {
		if entry.Subresource != "" || entry.FieldsV1 == nil {
			continue
		}
		var fields map[string]json.RawMessage
		if json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) != nil || fields["f:spec"] == nil {
			continue
		}
		m := Manager{Name: truncate.Text(entry.Manager, maxText)}
		if entry.Time != nil {
			m.At = entry.Time.Time
		}
		managers = append(managers, m)
	}
	slices.SortStableFunc(managers, func(a, b Manager) int { return cmp.Or(b.At.Compare(a.At), strings.Compare(a.Name, b.Name)) })
	return managers[:min(len(managers), maxManagers)]
}
