package scanner

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scannerv1 "github.com/scanner-operator/scanner-operator/api/scanner/v1"
	"github.com/scanner-operator/scanner-operator/internal/coverage"
	"github.com/scanner-operator/scanner-operator/internal/inventory"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// setStatus computes the whole status from what was seen and what is planned.
func setStatus(scanner *scannerv1.Scanner, v *observed, p plan) {
	summary, findings := sum(v)
	status := &scanner.Status
	status.ObservedGeneration = scanner.Generation
	status.Containers = &scannerv1.ContainerCounts{
		Total: int32(summary.Total), Scanned: int32(summary.Scanned), Partial: int32(summary.Partial), Pending: int32(summary.Pending), //nolint:gosec // far below
		Failed: int32(summary.Failed), Skipped: int32(summary.Skipped), Stale: int32(summary.Stale), //nolint:gosec // far below
	}
	status.Coverage = summary.Percent()
	status.Images = int32(len(v.images)) //nolint:gosec // far below
	status.Findings = &findings
	status.DatabaseBuild, status.DatabaseBuilt = "", nil
	if v.hasBuild {
		// The API server keeps whole seconds: a fraction would make every status a changed one.
		built := metav1.NewTime(v.build.Built.Truncate(time.Second))
		status.DatabaseBuild, status.DatabaseBuilt = v.build.ID, &built
	}
	setReady(scanner, v, summary, p)
	setDatabaseReady(scanner, v)
	setCoverageComplete(scanner, v, summary)
	setNewerTagsComplete(scanner, v)
}

// sum counts containers by coverage, and the findings of their images, each image once.
func sum(v *observed) (coverage.Summary, scannerv1.FindingCounts) {
	var summary coverage.Summary
	for _, result := range v.coverage() {
		summary.Add(result)
	}
	var total store.Counts
	for _, image := range v.images {
		total.SeverityCounts = total.SeverityCounts.Plus(image.Counts.SeverityCounts)
		total.KEV += image.Counts.KEV
		total.Fixable += image.Counts.Fixable
	}
	return summary, scannerv1.FindingCounts{
		Critical: int32(total.Critical), High: int32(total.High), Medium: int32(total.Medium), //nolint:gosec // far below
		Low: int32(total.Low), Negligible: int32(total.Negligible), Unknown: int32(total.Unknown), //nolint:gosec // far below
		KEV: int32(total.KEV), Fixable: int32(total.Fixable), //nolint:gosec // far below
	}
}

func cover(c *inventory.Container, v *observed) coverage.Result {
	image := v.images[c.Key]
	known := coverage.Image{
		Cataloged: image.State == store.StateCataloged || image.State == store.StateScanned,
		Partial:   image.Partial(),
		Reason:    image.Reason,
	}
	// What a report says that an image holds is not what a scan finds in it.
	if image.Database != nil && !image.FromReport {
		known.Build = image.Database.ID
	}
	return coverage.Of(coverage.Container{
		Skip: c.Skip, Key: c.Key, WaitingReason: c.WaitingReason, WaitingMessage: c.WaitingMessage, OnNode: v.reads.image(c),
	}, known, v.build.ID)
}

// setReady sets Ready, with the first of these that holds: Scanning while scans run, Waiting while something is left that will
// go on by itself, Failed when only images are left that could not be pulled or scanned, Reconciled. An image that has failed counts as
// such until its next attempt starts, also while its registry is paused.
func setReady(scanner *scannerv1.Scanner, v *observed, summary coverage.Summary, p plan) {
	notPulled := summary.Reasons[coverage.ReasonNotPulled]
	var reason scannerv1.StatusReason
	var message string
	switch {
	case p.problem != nil:
		reason, message = scannerv1.Failed, p.problem.Error()+"."
	case p.running > 0:
		reason, message = scannerv1.Scanning, "Images are being scanned."
	case scanner.Spec.Suspend && p.queued > 0:
		reason, message = scannerv1.Waiting, "The Scanner is suspended, and images are waiting to be scanned."
	case p.queued > p.paused:
		reason, message = scannerv1.Waiting, "Images are waiting for a scan slot or for their registry."
	case notPulled > 0:
		reason, message = scannerv1.Waiting, fmt.Sprintf("%s an image that is not pulled yet.", plural(notPulled, "container is waiting for", "containers are waiting for"))
	case summary.Pending > 0 && !v.hasBuild:
		reason, message = scannerv1.Waiting, "No vulnerability database is available yet. SBOMs are stored, and matched when a database is available."
	case summary.Pending > 0 || summary.Stale > 0:
		reason, message = scannerv1.Waiting, "Images are being scanned or matched with the vulnerability database."
	case summary.Failed > 0:
		reason, message = scannerv1.Failed, fmt.Sprintf("%s not scanned: %s.", plural(summary.Failed, "container is", "containers are"), reasons(summary))
	case summary.Partial > 0:
		reason, message = scannerv1.Reconciled, fmt.Sprintf("All containers are scanned or skipped; the results of %s are partial: %s.",
			plural(summary.Partial, "container", "containers"), reasons(summary))
	default:
		reason, message = scannerv1.Reconciled, "All containers are scanned or skipped."
	}
	status := metav1.ConditionFalse
	if reason == scannerv1.Reconciled {
		status = metav1.ConditionTrue
	}
	setCondition(scanner, scannerv1.ConditionReady, status, string(reason), message)
}

func setDatabaseReady(scanner *scannerv1.Scanner, v *observed) {
	switch {
	case v.missing != "":
		setCondition(scanner, scannerv1.ConditionDatabaseReady, metav1.ConditionFalse, v.missing, v.missingMessage)
	case !v.hasBuild:
		setCondition(scanner, scannerv1.ConditionDatabaseReady, metav1.ConditionFalse, "NoDatabase", "No vulnerability database is available yet.")
	case v.build.Source == model.DatabaseSourceSample:
		setCondition(scanner, scannerv1.ConditionDatabaseReady, metav1.ConditionTrue, "SampleDatabase",
			"The sample database is in use. It is for demonstration only and lacks most vulnerabilities.")
	default:
		setCondition(scanner, scannerv1.ConditionDatabaseReady, metav1.ConditionTrue, "Loaded", "A vulnerability database is loaded.")
	}
}

// maxNamespaces is how many namespaces a condition names.
const maxNamespaces = 5

// setCoverageComplete says what is missing: containers that are left out, containers without a result, and namespaces that are not looked at.
func setCoverageComplete(scanner *scannerv1.Scanner, v *observed, summary coverage.Summary) {
	if summary.Complete() && len(v.beyond) == 0 && len(v.omitted) == 0 {
		setCondition(scanner, scannerv1.ConditionCoverageComplete, metav1.ConditionTrue, "Complete",
			"All containers that are not skipped have a current result.")
		return
	}
	reason := "NamespacesNotWatched"
	var missing []string
	if len(v.omitted) > 0 {
		reason = "TooManyContainers"
		missing = append(missing, v.omittedMessage())
	}
	if !summary.Complete() {
		reason = "Incomplete"
		what := "no current result"
		if summary.Partial > 0 {
			what = "no complete and current result"
		}
		missing = append(missing, fmt.Sprintf("%s %s: %s.",
			plural(summary.Total-summary.Skipped-summary.Scanned, "container has", "containers have"), what, reasons(summary)))
	}
	if count := len(v.beyond); count > 0 {
		named := strings.Join(v.beyond[:min(count, maxNamespaces)], ", ")
		if count > maxNamespaces {
			named += fmt.Sprintf(" and %d more", count-maxNamespaces)
		}
		missing = append(missing, fmt.Sprintf("%s not watched: --watch-namespaces excludes %s.",
			plural(count, "selected namespace is", "selected namespaces are"), named))
	}
	setCondition(scanner, scannerv1.ConditionCoverageComplete, metav1.ConditionFalse, reason, strings.Join(missing, " "))
}

// setFailed sets Ready after an error. The text of the error stays out unless the user caused it: it may change from
// try to try, and every change of a condition is a write.
func setFailed(scanner *scannerv1.Scanner, err error) {
	message := "Failed to reconcile the Scanner; the log of the operator has the error. The operator retries."
	problem, inSpec := errors.AsType[*specError](err)
	switch {
	case inSpec:
		message = problem.Error() + "."
	case errors.Is(err, store.ErrUnavailable):
		message = "The database of the operator is not available."
	}
	scanner.Status.ObservedGeneration = scanner.Generation
	setCondition(scanner, scannerv1.ConditionReady, metav1.ConditionFalse, string(scannerv1.Failed), message)
}

func setCondition(scanner *scannerv1.Scanner, kind string, status metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition(&scanner.Status.Conditions, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: scanner.Generation,
	})
}

// reasons lists the reasons with their numbers, most frequent first.
func reasons(summary coverage.Summary) string {
	names := slices.Sorted(maps.Keys(summary.Reasons))
	slices.SortStableFunc(names, func(a, b string) int { return summary.Reasons[b] - summary.Reasons[a] })
	parts := make([]string, 0, len(names))
	for _, name := range names {
		parts = append(parts, fmt.Sprintf("%d %s", summary.Reasons[name], name))
	}
	return strings.Join(parts, ", ")
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
