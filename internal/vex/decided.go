package vex

import (
	"cmp"
	"regexp"
	"slices"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

// Decided is what a document of Write says of a decision beyond the words of its format. The zero value says nothing.
type Decided struct {
	// Status is one that the status of the statement stands for.
	Status model.DecisionStatus
	// ExpiresAt is when the decision ends, zero when it has no end.
	ExpiresAt time.Time
	// Stated says that the document states a decision as Write does, and not only a status of its format.
	Stated bool
}

// statuses are those of statements by decisions. A risk that is accepted is there: the products are affected.
var statuses = map[model.DecisionStatus]Status{
	model.DecisionNotAffected:        StatusNotAffected,
	model.DecisionFalsePositive:      StatusNotAffected,
	model.DecisionFixed:              StatusFixed,
	model.DecisionAcceptedRisk:       StatusAffected,
	model.DecisionUnderInvestigation: StatusUnderInvestigation,
}

// reasons stand for comments that are missing, where OpenVEX requires a text.
var reasons = map[model.DecisionStatus]string{
	model.DecisionNotAffected:   "The vulnerability cannot be exploited.",
	model.DecisionFalsePositive: "The package does not have the vulnerability.",
	model.DecisionAcceptedRisk:  "The risk is accepted, and no action is planned.",
}

// epoch is the earliest end of a decision.
var epoch = time.Unix(0, 0).UTC()

// decidedOf returns what texts of a document say of a decision; false when they contradict the status of the statement.
func decidedOf(s *Statement, status, expiresAt string) (Decided, bool) {
	d := Decided{Status: model.DecisionStatus(status), Stated: true}
	if statuses[d.Status] != s.Status || s.Status == "" {
		return Decided{}, false
	}
	if expiresAt != "" {
		t, err := time.Parse(time.RFC3339, expiresAt)
		if err != nil {
			return Decided{}, false
		}
		if d.ExpiresAt = t.UTC(); d.ExpiresAt.Before(epoch) {
			// The zero time would be no end.
			d.ExpiresAt = epoch
		}
	}
	return d, true
}

// notes begin the status notes of statements in OpenVEX documents. What follows is the comment.
var notes = regexp.MustCompile(`(?s)^Decision: ([A-Za-z]+)(?: until (\S+))?\.(?: (.*))?$`)

// notesOf is what notes matches.
func notesOf(d *model.Decision, comment string) string {
	text := "Decision: " + string(d.Status)
	if !d.ExpiresAt.IsZero() {
		text += " until " + dateTime(d.ExpiresAt)
	}
	text += "."
	if comment != "" {
		text += " " + comment
	}
	return text
}

// readNotes moves what the status notes say of a decision to Decided.
func (s *Statement) readNotes() {
	found := notes.FindStringSubmatch(s.Comment)
	if found == nil {
		return
	}
	if d, ok := decidedOf(s, found[1], found[2]); ok {
		s.Decided, s.Comment = d, found[3]
	}
}

// The properties of vulnerabilities in CycloneDX documents.
const (
	propertyDecision      = "scanner-operator:decision"
	propertyExpiresAt     = "scanner-operator:decision:expiresAt"
	propertyJustification = "scanner-operator:decision:justification"
)

// readProperties reads what the properties say of a decision. The justification is one that the format has no word for.
func (s *Statement) readProperties(properties map[string]string) {
	d, ok := decidedOf(s, properties[propertyDecision], properties[propertyExpiresAt])
	if !ok {
		return
	}
	s.Decided = d
	if exact := Justification(properties[propertyJustification]); s.Justification != "" && exact.Valid() && cdxJustificationOf(exact) == cdxJustificationOf(s.Justification) {
		s.Justification = exact
	}
}

// Decision returns what the statement says as a decision of this program; false when it says none: that products are affected is no decision,
// unless the document says that the risk is accepted. That is the word of its author: Set leaves such findings open, unless the document has
// ExportedDecisions.
func (s *Statement) Decision() (model.Decision, bool) {
	status := s.Decided.Status
	if status == "" {
		switch s.Status {
		case StatusNotAffected:
			status = model.DecisionNotAffected
		case StatusFixed:
			status = model.DecisionFixed
		case StatusUnderInvestigation:
			status = model.DecisionUnderInvestigation
		case StatusAffected:
			return model.Decision{}, false
		}
	}
	d := model.Decision{
		Status: status, Justification: string(s.Justification), Comment: cmp.Or(s.ImpactStatement, s.ActionStatement, s.Comment),
		Since: s.Timestamp, ExpiresAt: s.Decided.ExpiresAt, Suppresses: status.Suppresses(),
	}
	if d.Comment == reasons[status] {
		d.Comment = ""
	}
	return d, true
}

// exported returns the decision that the statement is, if the document has ExportedDecisions and the statement states one.
func (d *Document) exported(s *Statement) (model.Decision, bool) {
	if !d.ExportedDecisions || !s.Decided.Stated {
		return model.Decision{}, false
	}
	return s.Decision()
}

// decisionAbout returns the decision about a finding that a document states, nil when there is none: of those that suppress it the first one, and
// otherwise one that it is under investigation. Dry runs are none. A decision with places is none either: a statement is about the image, wherever it
// runs, for all readers. That several such decisions together suppress the finding everywhere says nothing of any of them. Nor is one that ends
// with a fix, which no format can say: it would stay in effect where the document is read.
func decisionAbout(f *model.Finding) *model.Decision {
	at := slices.IndexFunc(f.Decisions, func(d model.Decision) bool {
		switch {
		case d.Placed || d.Unfixed || statuses[d.Status] == "":
			return false
		case d.Suppresses:
			return f.Suppressed
		default:
			return d.Status == model.DecisionUnderInvestigation
		}
	})
	if at < 0 {
		return nil
	}
	return &f.Decisions[at]
}

func dateTime(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
