package report

import (
	"slices"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/owenrumney/go-sarif/sarif"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

// DecisionColumns are the columns of CSV about the decision that takes precedence.
var DecisionColumns = []string{"decision", "decision_expires_at", "decision_reason", "decision_author"}

// DecisionCells returns the cells of DecisionColumns: the status and the object, when the decision ends, why it was made and by whom.
func DecisionCells(decisions []model.Decision) []string {
	if len(decisions) == 0 {
		return make([]string, len(DecisionColumns))
	}
	first := &decisions[0]
	reason := slices.DeleteFunc([]string{first.Justification, first.Comment}, func(text string) bool { return text == "" })
	return []string{string(first.Status) + " (" + objectName(first) + ")", csvTime(first.ExpiresAt), strings.Join(reason, "; "), first.Author}
}

// objectName names the object that a decision comes from.
func objectName(d *model.Decision) string {
	if d.Namespace != "" {
		return d.Kind + " " + d.Namespace + "/" + d.Name
	}
	return d.Kind + " " + d.Name
}

// because says why a decision was made, who says so, and until when.
func because(d *model.Decision) string {
	words := []string{string(d.Status)}
	if d.Justification != "" {
		words = append(words, d.Justification)
	}
	if d.Comment != "" {
		words = append(words, d.Comment)
	}
	words = append(words, objectName(d))
	if !d.ExpiresAt.IsZero() {
		words = append(words, "until "+d.ExpiresAt.UTC().Format(time.RFC3339))
	}
	return printable(strings.Join(words, "; "))
}

// withSuppressed moves what VEX documents suppress to the findings, each with its statement as the decision.
func (in Input) withSuppressed() Input {
	open, suppressed := in.Findings, in.Suppressed
	in.Decisions = true
	in.Findings = func(yield func(model.Finding) error) error {
		if open != nil {
			if err := open(yield); err != nil {
				return err
			}
		}
		for i := range suppressed {
			f := suppressed[i].Finding
			f.Suppressed, f.Decisions = true, []model.Decision{decisionOf(&suppressed[i].Suppression)}
			if err := yield(f); err != nil {
				return err
			}
		}
		return nil
	}
	return in
}

// decisionOf is a statement of a VEX document as a decision.
func decisionOf(s *model.Suppression) model.Decision {
	d := model.Decision{
		Kind: "VEX document", Name: s.Source + " " + s.Position, Status: model.DecisionNotAffected, Justification: s.Justification,
		Comment: strings.Join(slices.DeleteFunc([]string{s.ImpactStatement, s.Comment}, func(text string) bool { return text == "" }), "; "),
		Author:  s.Author, Since: s.Timestamp, Suppresses: true,
	}
	switch {
	case s.Decision != "":
		d.Status, d.ExpiresAt = s.Decision, s.ExpiresAt
	case s.Status == "fixed":
		d.Status = model.DecisionFixed
	}
	return d
}

// sarifSuppressions are the decisions that suppress a finding.
func sarifSuppressions(f model.Finding) []*sarif.Suppression {
	var list []*sarif.Suppression
	for i := range f.Decisions {
		if f.Suppressed && f.Decisions[i].Suppresses {
			list = append(list, sarif.NewSuppression("external").WithStatus("accepted").WithJustifcation(because(&f.Decisions[i])))
		}
	}
	return list
}

// analysedDecision is the decision that suppresses a finding as a report states it, nil if there is none. An analysis is about the image, wherever it
// runs: what applies in some places only is none.
func analysedDecision(f *model.Finding) *model.Decision {
	at := slices.IndexFunc(f.Decisions, func(d model.Decision) bool { return f.Suppressed && d.Suppresses && !d.Placed })
	if at < 0 {
		return nil
	}
	return &f.Decisions[at]
}

// analysis is a decision in CycloneDX.
func analysis(d *model.Decision) *cdx.VulnerabilityAnalysis {
	a := &cdx.VulnerabilityAnalysis{Detail: because(d)}
	switch d.Status {
	case model.DecisionNotAffected:
		a.State = cdx.IASNotAffected
	case model.DecisionFalsePositive:
		a.State = cdx.IASFalsePositive
	case model.DecisionFixed:
		a.State = cdx.IASResolved
	case model.DecisionAcceptedRisk:
		a.State, a.Response = cdx.IASExploitable, &[]cdx.ImpactAnalysisResponse{cdx.IARWillNotFix}
	case model.DecisionAffected:
		a.State = cdx.IASExploitable
	case model.DecisionUnderInvestigation:
		a.State = cdx.IASInTriage
	}
	switch d.Justification {
	case "component_not_present", "vulnerable_code_not_present":
		a.Justification = cdx.IAJCodeNotPresent
	case "vulnerable_code_not_in_execute_path":
		a.Justification = cdx.IAJCodeNotReachable
	case "vulnerable_code_cannot_be_controlled_by_adversary":
		a.Justification = cdx.IAJRequiresEnvironment
	case "inline_mitigations_already_exist":
		a.Justification = cdx.IAJProtectedByMitigatingControl
	}
	return a
}
