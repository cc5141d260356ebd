package storetest

import (
	"encoding/json"
	"fmt"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/store"
)

// checkEvents compares what is told with what is overdue and was not told: everywhere, and in each namespace.
func (m *policyModel) checkEvents() {
	m.t.Helper()
	want, owners := map[string]int{}, map[string][]string{}
	var next time.Time
	for i, key := range m.images {
		for namespace, in := range map[string]store.Namespaces{"": store.AllNamespaces(), "dev": store.OnlyNamespaces("dev"), "prod": store.OnlyNamespaces("prod")} {
			shown, err := m.Image(m.t.Context(), in, key)
			if err != nil {
				continue // It is not visible.
			}
			page, err := m.Findings(m.t.Context(), in, store.FindingQuery{Image: key, Page: store.Page{Size: store.MaxPageSize}})
			must(m.t, err)
			for j := range page.Findings {
				d := m.deadline(&page.Findings[j], m.visibleUses(i, in))
				// What was told of an image that became visible again is told again.
				one := fmt.Sprint(i, namespace, shown.FirstSeen, page.Findings[j].Vulnerability.ID, page.Findings[j].Package.Name)
				switch {
				case d == nil:
				case !d.Overdue:
					if next.IsZero() || d.At.Before(next) {
						next = d.At
					}
					delete(m.told, one)
				case d.At.After(m.begun[d.Policy]) && !m.told[one]:
					want[namespace+" "+key.ImageID]++
					owners[namespace+" "+key.ImageID] = m.ownersIn(i, in)
					m.told[one] = true
				}
			}
		}
	}
	last := m.last(m.t)
	if got := m.tell(m.t); !got.Equal(next) {
		m.t.Errorf("the next date is %s, want %s", got, next)
	}
	got, named := map[string]int{}, map[string][]string{}
	for _, e := range m.events(m.t, last) {
		switch e.Kind {
		case store.EventFindingOverdue:
			var data store.OverdueEvent
			must(m.t, fromEvent(e, &data))
			got[" "+e.ImageID] += data.Findings.Total()
			named[" "+e.ImageID] = data.Owners
		case store.EventNamespaceOverdue:
			var data store.NamespaceOverdueEvent
			must(m.t, fromEvent(e, &data))
			for _, one := range data.Images {
				got[data.Namespace+" "+one.ImageID] += one.Findings.Total()
				named[data.Namespace+" "+one.ImageID] = one.Owners
			}
		default:
		}
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		m.t.Errorf("told (-want +got):\n%s", diff)
	}
	if diff := gocmp.Diff(owners, named); diff != "" {
		m.t.Errorf("owners that are told (-want +got):\n%s", diff)
	}
}

func fromEvent(e store.Event, data any) error { return json.Unmarshal(e.Data, data) }
