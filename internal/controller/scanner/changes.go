package scanner

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scannerv1 "github.com/scanner-operator/scanner-operator/api/scanner/v1"
	"github.com/scanner-operator/scanner-operator/internal/kube"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/truncate"
)

// maxNamed is the maximum number of vulnerabilities that an Event names; its text has the total number.
const maxNamed = 10

// recordUses records the running images in the scope of a Scanner, so that findings can be traced to workloads.
func (r *Reconciler) recordUses(ctx context.Context, scanner types.NamespacedName, v *observed) error {
	r.newPods.deciding.Lock()
	defer r.newPods.deciding.Unlock()
	uses := append(v.uses(), r.newPods.uses[scanner]...)
	if err := r.Store.RecordUses(ctx, scopeOf(scanner), boundedUses(uses)); err != nil {
		return fmt.Errorf("record the uses of images: %w", err)
	}
	return nil
}

// uses lists where the images to catalog run. The pods of a workload have the same.
func (v *observed) uses() []store.Use {
	wanted, seen := set(v.wanted()), map[store.Use]bool{}
	var uses []store.Use
	for i := range v.containers {
		c := &v.containers[i]
		if c.Skip != "" || !wanted[c.Key] {
			continue
		}
		if use := (store.Use{Image: c.Key, Workload: v.workloadOf(c), Container: c.Name}); !seen[use] {
			seen[use] = true
			uses = append(uses, use)
		}
	}
	return uses
}

// reportChanges creates Events about the most severe findings of a new database, for images in the scope of the Scanner. The status has the
// database of the last Events, so that each is reported once, or again when the status could not be written.
func (r *Reconciler) reportChanges(ctx context.Context, scanner *scannerv1.Scanner, v *observed) error {
	if !v.hasBuild || scanner.Status.DatabaseBuild == "" || scanner.Status.DatabaseBuild == v.build.ID {
		return nil
	}
	query := store.ChangeQuery{
		Build: v.build.ID, Scope: scopeOf(client.ObjectKeyFromObject(scanner)), Kinds: []store.ChangeKind{store.ChangeOpened, store.ChangeChanged},
		Page: store.Page{Size: store.MaxPageSize},
	}
	critical, exploited := query, query
	critical.Kinds, critical.MinSeverity = []store.ChangeKind{store.ChangeOpened}, model.SeverityCritical
	exploited.KEV = true
	for _, report := range []struct {
		query        store.ChangeQuery
		reason, what string
	}{
		{exploited, "KnownExploited", "known to be exploited"},
		{critical, "CriticalFindings", "of severity Critical"},
	} {
		page, err := r.Store.Changes(ctx, store.AllNamespaces(), report.query)
		if err != nil {
			return fmt.Errorf("read the changes of the vulnerability database: %w", err)
		}
		note, found := noteOf(page, v.build, report.what, report.query.KEV)
		if found {
			r.Recorder.Eventf(scanner, nil, corev1.EventTypeWarning, report.reason, "Match", "%s", truncate.Ellipsis(note, kube.MaxNote))
		}
	}
	return nil
}

// noteOf describes the changes of a kind, false when there are none. The page may be incomplete.
func noteOf(page store.ChangePage, build model.DatabaseBuild, what string, exploited bool) (string, bool) {
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
	note := fmt.Sprintf("The vulnerability database of %s has %s %s: %s", build.Built.UTC().Format("2006-01-02 15:04"), amount, what,
		strings.Join(named, ", "))
	if count > len(named) {
		note += ", …"
	}
	return note, true
}
