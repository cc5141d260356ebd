package scanner

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scannerv1 "github.com/scanner-operator/scanner-operator/api/scanner/v1"
	"github.com/scanner-operator/scanner-operator/internal/inventory"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/vuln"
)

// maxNamed bounds the vulnerabilities that one event names; it tells how many there are in all.
const maxNamed = 10

// recordUses tells the store what runs in the scope of a Scanner, so that a finding can be traced to workloads.
func (r *Reconciler) recordUses(ctx context.Context, scanner types.NamespacedName, containers []inventory.Container) error {
	var uses []store.Use
	for i := range containers {
		c := &containers[i]
		if c.Skip != "" || !c.Key.Pullable() || c.Key.Validate() != nil {
			continue
		}
		uses = append(uses, store.Use{Image: c.Key, Workload: workloadOf(c), Container: c.Name})
	}
	if err := r.Store.RecordUses(ctx, scopeOf(scanner), uses); err != nil {
		return fmt.Errorf("record where images run: %w", err)
	}
	return nil
}

// tellChanges writes events about what is worst in a new database, for images in the Scanner's scope. The status names the database
// that the last events were about, so each is told once; when the status cannot be written, once more.
func (r *Reconciler) tellChanges(ctx context.Context, scanner *scannerv1.Scanner, v *view) error {
	if !v.hasBuild || scanner.Status.DatabaseBuild == "" || scanner.Status.DatabaseBuild == v.build.ID {
		return nil
	}
	query := store.ChangeQuery{
		Build: v.build.ID, Scope: scopeOf(client.ObjectKeyFromObject(scanner)), Kinds: []store.ChangeKind{store.ChangeOpened, store.ChangeChanged},
		Page: store.Page{Size: store.MaxPageSize},
	}
	critical, exploited := query, query
	critical.Kinds, critical.MinSeverity = []store.ChangeKind{store.ChangeOpened}, vuln.SeverityCritical
	exploited.KEV = true
	for _, tell := range []struct {
		query        store.ChangeQuery
		reason, what string
	}{
		{exploited, "KnownExploited", "known to be exploited"},
		{critical, "CriticalFindings", "of severity Critical"},
	} {
		page, err := r.Store.Changes(ctx, tell.query)
		if err != nil {
			return fmt.Errorf("read what the vulnerability database changed: %w", err)
		}
		note, found := noteOf(page, v.build, tell.what, tell.query.KEV)
		if found {
			r.Recorder.Eventf(scanner, nil, corev1.EventTypeWarning, tell.reason, "Match", "%s", cutNote(note))
		}
	}
	return nil
}

// noteOf says in a sentence what changed; false when nothing of the kind did. The page need not hold all.
func noteOf(page store.ChangePage, build vuln.DatabaseBuild, what string, exploited bool) (string, bool) {
	seen := map[string]bool{}
	var named []string
	count := 0
	for i := range page.Changes {
		c := &page.Changes[i]
		if exploited && c.Before != nil && c.Before.KEV {
			continue // It was known before; something else changed.
		}
		count++
		if name := c.VulnerabilityID + " in " + c.Package.Name; !seen[name] && len(named) < maxNamed {
			seen[name] = true
			named = append(named, name)
		}
	}
	if count == 0 {
		return "", false
	}
	amount := fmt.Sprintf("%d new findings", count)
	switch {
	case page.NextToken != "":
		amount = fmt.Sprintf("at least %d new findings", count)
	case count == 1:
		amount = "1 new finding"
	}
	note := fmt.Sprintf("The vulnerability database of %s brought %s %s: %s", build.Built.UTC().Format("2006-01-02 15:04"), amount, what,
		strings.Join(named, ", "))
	if count > len(named) {
		note += ", …"
	}
	return note, true
}
