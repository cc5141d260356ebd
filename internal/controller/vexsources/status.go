package vexsources

import (
	"errors"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scannerv1alpha1 "github.com/scanner-operator/scanner-operator/api/scanner/v1alpha1"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/truncate"
	"github.com/scanner-operator/scanner-operator/internal/vexdecisions"
)

const (
	// maxMessage bounds the message of a condition, maxText other texts of documents, in bytes.
	maxMessage = 1024
	maxText    = 255
)

// fetched reports whether the last attempt for this generation succeeded.
func fetched(s *scannerv1alpha1.VEXSource) bool { return isTrue(s, scannerv1alpha1.ConditionFetched) }

// valid reports whether the documents that were fetched last for this generation can be read.
func valid(s *scannerv1alpha1.VEXSource) bool { return isTrue(s, scannerv1alpha1.ConditionValid) }

func isTrue(s *scannerv1alpha1.VEXSource, kind string) bool {
	c := meta.FindStatusCondition(s.Status.Conditions, kind)
	return c != nil && c.Status == metav1.ConditionTrue && c.ObservedGeneration == s.Generation
}

func setFetched(s *scannerv1alpha1.VEXSource, now time.Time) {
	s.Status.LastFetchTime = new(metav1.NewTime(now))
	setCondition(s, scannerv1alpha1.ConditionFetched, metav1.ConditionTrue, scannerv1alpha1.ReasonFetched, "The documents are fetched.")
}

func setNotFetched(s *scannerv1alpha1.VEXSource, err error) {
	setCondition(s, scannerv1alpha1.ConditionFetched, metav1.ConditionFalse, scannerv1alpha1.ReasonFetchFailed, message(err))
	if c := meta.FindStatusCondition(s.Status.Conditions, scannerv1alpha1.ConditionValid); c == nil || c.ObservedGeneration != s.Generation {
		setCondition(s, scannerv1alpha1.ConditionValid, metav1.ConditionUnknown, scannerv1alpha1.ReasonNotFetched, "No document has been fetched.")
	}
}

func setValid(s *scannerv1alpha1.VEXSource) {
	setCondition(s, scannerv1alpha1.ConditionValid, metav1.ConditionTrue, scannerv1alpha1.ReasonDocumentsValid, "The documents can be read.")
}

func setInvalid(s *scannerv1alpha1.VEXSource, reason string, err error) {
	if errors.Is(err, ErrSignature) {
		setCondition(s, scannerv1alpha1.ConditionFetched, metav1.ConditionFalse, scannerv1alpha1.ReasonSignatureInvalid, "The documents are not used: see the condition Valid.")
	}
	setCondition(s, scannerv1alpha1.ConditionValid, metav1.ConditionFalse, reason, message(err))
}

// setApplied says what became of the documents of the source that the store has.
func setApplied(s *scannerv1alpha1.VEXSource, all []vexdecisions.Applied) {
	status := &s.Status
	status.ObservedGeneration = s.Generation
	n := slices.IndexFunc(all, func(a vexdecisions.Applied) bool { return a.Kind == store.VEXKindSource && a.Name == s.Name })
	if n < 0 {
		status.Digest, status.Documents, status.Statements, status.UnmatchedStatements = "", 0, 0, nil
		status.Matched, status.Unmatched, status.SuppressedFindings = nil, nil, nil
		setCondition(s, scannerv1alpha1.ConditionApplied, metav1.ConditionFalse, scannerv1alpha1.ReasonNotFetched,
			"No valid document has been fetched for this spec. Documents of an earlier spec no longer apply.")
		return
	}
	a := &all[n]
	status.Digest, status.Documents, status.Statements = "sha256:"+a.SHA256, int32(a.Documents), int32(a.Statements) //nolint:gosec // bounded by the store
	status.UnmatchedStatements = nil
	if a.Problem != nil {
		status.Matched, status.Unmatched, status.SuppressedFindings = nil, nil, nil
		setCondition(s, scannerv1alpha1.ConditionApplied, metav1.ConditionFalse, string(a.Problem.Reason), truncate.Ellipsis(a.Problem.Message, maxMessage))
		return
	}
	status.Matched, status.Unmatched = new(int32(a.Matched)), new(int32(a.Unmatched)) //nolint:gosec // bounded by the store
	status.SuppressedFindings = new(int64(a.Suppressed))
	for _, u := range a.Examples {
		status.UnmatchedStatements = append(status.UnmatchedStatements, scannerv1alpha1.VEXUnmatchedStatement{
			Document: truncate.Ellipsis(u.Document, maxText), Position: truncate.Ellipsis(u.Position, maxText),
			Vulnerability: truncate.Ellipsis(u.Vulnerability, maxText), Reason: string(u.Reason),
		})
	}
	setCondition(s, scannerv1alpha1.ConditionApplied, metav1.ConditionTrue, string(scannerv1alpha1.Applied), "Findings that match are decided by the statements.")
}

func setCondition(s *scannerv1alpha1.VEXSource, kind string, status metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition(&s.Status.Conditions, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: s.Generation,
	})
}
