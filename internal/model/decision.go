package model

import "time"

// MaxDecisionsShown bounds the decisions that are shown of a finding.
const MaxDecisionsShown = 10

// DecisionStatus is what was decided about findings.
type DecisionStatus string

// The statuses. All but DecisionUnderInvestigation and DecisionAffected suppress the findings that they are about.
const (
	// DecisionNotAffected: the vulnerability is there, but cannot be exploited.
	DecisionNotAffected DecisionStatus = "NotAffected"
	// DecisionFixed: the package contains the fix, though its version does not say so.
	DecisionFixed DecisionStatus = "Fixed"
	// DecisionFalsePositive: the package does not have the vulnerability.
	DecisionFalsePositive DecisionStatus = "FalsePositive"
	// DecisionAcceptedRisk: the vulnerability is there, and stays.
	DecisionAcceptedRisk DecisionStatus = "AcceptedRisk"
	// DecisionUnderInvestigation: it is not known yet whether the vulnerability matters. It suppresses nothing and overrides nothing.
	DecisionUnderInvestigation DecisionStatus = "UnderInvestigation"
	// DecisionAffected: a VEX document says that the vulnerability can be exploited. It suppresses nothing; of VEX statements it overrides others.
	DecisionAffected DecisionStatus = "Affected"
)

// Suppresses reports whether findings with this status are suppressed.
func (s DecisionStatus) Suppresses() bool {
	switch s {
	case DecisionNotAffected, DecisionFixed, DecisionFalsePositive, DecisionAcceptedRisk:
		return true
	default:
		return false
	}
}

// Decision is what a finding shows of a decision about it.
type Decision struct {
	// Kind, Namespace and Name are those of the object that it comes from; Namespace is "" for objects of the cluster.
	Kind, Namespace, Name string
	Status                DecisionStatus
	// Justification is one of those of OpenVEX, such as "component_not_present", or "".
	Justification string
	// Comment says why, in free text; untrusted.
	Comment string
	// Author decided it, "" when that is not known or not shown.
	Author string
	// Since is when it began to apply, ExpiresAt when it ends, zero when it has no end.
	Since, ExpiresAt time.Time
	// Suppresses says that findings are suppressed because of it. If not, it is about them without an effect: it is a dry run, or its status
	// suppresses nothing.
	Suppresses bool
	// Placed says that it applies in some namespaces or to some workloads only, so that it says nothing of the image elsewhere.
	Placed bool
	// Unfixed says that it applies as long as no fixed version is known.
	Unfixed bool
}
