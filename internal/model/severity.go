package model

import (
	"fmt"
	"strings"
)

// Severity ranks how bad a vulnerability is, in the words that Grype uses. The zero value is
// SeverityUnknown and the values are ordered: a greater one is worse.
type Severity uint8

// The severities, from least to most severe.
const (
	SeverityUnknown Severity = iota
	SeverityNegligible
	SeverityLow
	SeverityMedium
	SeverityHigh
	SeverityCritical
)

var severityNames = [...]string{"Unknown", "Negligible", "Low", "Medium", "High", "Critical"}

// Severities lists every severity, worst first.
func Severities() []Severity {
	return []Severity{SeverityCritical, SeverityHigh, SeverityMedium, SeverityLow, SeverityNegligible, SeverityUnknown}
}

// String returns the name, such as "Critical".
func (s Severity) String() string {
	if int(s) < len(severityNames) {
		return severityNames[s]
	}
	return severityNames[SeverityUnknown]
}

// ParseSeverity reads a name without regard to case. The empty string is SeverityUnknown.
func ParseSeverity(name string) (Severity, error) {
	if name == "" {
		return SeverityUnknown, nil
	}
	for i, n := range severityNames {
		if strings.EqualFold(n, name) {
			return Severity(i), nil
		}
	}
	return SeverityUnknown, fmt.Errorf("severity %q is not one of %s", name, strings.Join(severityNames[:], ", "))
}

// MarshalText writes the name.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads a name as ParseSeverity does.
func (s *Severity) UnmarshalText(text []byte) error {
	parsed, err := ParseSeverity(string(text))
	if err != nil {
		return err
	}
	*s = parsed
	return nil
}

// SeverityCounts counts findings by severity.
type SeverityCounts struct {
	Critical   int `json:"critical"`
	High       int `json:"high"`
	Medium     int `json:"medium"`
	Low        int `json:"low"`
	Negligible int `json:"negligible"`
	Unknown    int `json:"unknown"`
}

// of is where findings of a severity are counted.
func (c *SeverityCounts) of(s Severity) *int {
	switch s {
	case SeverityCritical:
		return &c.Critical
	case SeverityHigh:
		return &c.High
	case SeverityMedium:
		return &c.Medium
	case SeverityLow:
		return &c.Low
	case SeverityNegligible:
		return &c.Negligible
	case SeverityUnknown:
		return &c.Unknown
	default:
		return &c.Unknown
	}
}

// Add counts one more finding of that severity.
func (c *SeverityCounts) Add(s Severity) { *c.of(s)++ }

// Plus returns the sum of both.
func (c SeverityCounts) Plus(o SeverityCounts) SeverityCounts {
	return SeverityCounts{
		Critical: c.Critical + o.Critical, High: c.High + o.High, Medium: c.Medium + o.Medium,
		Low: c.Low + o.Low, Negligible: c.Negligible + o.Negligible, Unknown: c.Unknown + o.Unknown,
	}
}

// Of is the number of findings of a severity.
func (c SeverityCounts) Of(s Severity) int { return *c.of(s) }

// Minus are the counts without n findings of a severity.
func (c SeverityCounts) Minus(s Severity, n int) SeverityCounts {
	*c.of(s) -= n
	return c
}

// Total is the number of findings of all severities.
func (c SeverityCounts) Total() int {
	return c.Critical + c.High + c.Medium + c.Low + c.Negligible + c.Unknown
}
