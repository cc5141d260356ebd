package vex

import (
	"errors"
	"fmt"
	"strings"

	"github.com/facebookincubator/nvdtools/wfn"
)

// CPE is a CPE name, version 2.2 or 2.3, whose product is given. Each attribute is in lower case, "" for any value and "-" for none.
type CPE struct {
	Part      string `json:"part,omitempty"`
	Vendor    string `json:"vendor,omitempty"`
	Product   string `json:"product,omitempty"`
	Version   string `json:"version,omitempty"`
	Update    string `json:"update,omitempty"`
	Edition   string `json:"edition,omitempty"`
	Language  string `json:"language,omitempty"`
	SWEdition string `json:"swEdition,omitempty"`
	TargetSW  string `json:"targetSW,omitempty"`
	TargetHW  string `json:"targetHW,omitempty"`
	Other     string `json:"other,omitempty"`
}

// errUnspecific says that a valid CPE name identifies nothing that we could look for.
var errUnspecific = errors.New("the CPE names no product, or has a wildcard within a value")

// ParseCPE reads a URI (2.2) or a formatted string (2.3) of at most 2048 bytes. Names with * or ? as a part of a value, and names of any
// product, are refused.
func ParseCPE(text string) (CPE, error) {
	if len(text) > maxIdentifier {
		return CPE{}, fmt.Errorf("the CPE has %d bytes, more than the limit of %d", len(text), maxIdentifier)
	}
	// The scheme of a URI may be in upper case.
	if len(text) > 5 && strings.EqualFold(text[:5], "cpe:/") {
		text = "cpe:/" + text[5:]
	}
	a, err := wfn.Parse(text)
	if err != nil {
		return CPE{}, fmt.Errorf("the CPE %.100q is invalid: %w", text, err)
	}
	c := CPE{a.Part, a.Vendor, a.Product, a.Version, a.Update, a.Edition, a.Language, a.SWEdition, a.TargetSW, a.TargetHW, a.Other}
	for _, attribute := range c.attributes() {
		if wfn.HasWildcard(*attribute) {
			return CPE{}, fmt.Errorf("%.100q: %w", text, errUnspecific)
		}
		*attribute = strings.ToLower(*attribute)
	}
	if c.Product == wfn.Any || c.Product == wfn.NA {
		return CPE{}, fmt.Errorf("%.100q: %w", text, errUnspecific)
	}
	return c, nil
}

func (c *CPE) attributes() [11]*string {
	return [...]*string{
		&c.Part, &c.Vendor, &c.Product, &c.Version, &c.Update, &c.Edition, &c.Language, &c.SWEdition, &c.TargetSW, &c.TargetHW, &c.Other,
	}
}

// Contains reports whether the other name is equal or a subset, as the CPE Name Matching Specification (NISTIR 7696) says.
func (c *CPE) Contains(other *CPE) bool {
	theirs := other.attributes()
	for i, attribute := range c.attributes() {
		if *attribute != wfn.Any && *attribute != *theirs[i] {
			return false
		}
	}
	return true
}
