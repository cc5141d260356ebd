package vex

import (
	"cmp"
	"slices"
	"time"

	openvex "github.com/openvex/go-vex/pkg/vex"
)

// Format is the format of a VEX document.
type Format string

// The formats.
const (
	FormatOpenVEX   Format = "OpenVEX"
	FormatCSAF      Format = "CSAF"
	FormatCycloneDX Format = "CycloneDX"
)

// Document is a VEX document in any format.
type Document struct {
	// Source is the name that the caller of Read gave, such as the name of a file.
	Source string
	Format Format
	// ID and Revision are what the document says of itself, "" when it has none. Of the revisions of a document, a Set uses only the newest.
	ID, Revision string
	// Author is who makes the statements.
	Author string
	// Trust says where the document is from, for documents that are not equally trusted. What one with another Trust states is of another author, whatever
	// it has as Author: anybody can write that. Read does not set it.
	Trust string
	// ExportedDecisions says that what the document states of decisions as Write does applies in full: accepted risks and the ends of decisions, too. Such
	// a statement is a decision, which overrides no statement, and which none overrides. Read does not set it: it is for documents whose authors are trusted
	// to accept risks.
	ExportedDecisions bool
	// Timestamp is that of statements that have none; zero when the document has none either.
	Timestamp  time.Time
	Statements []Statement
}

// Status says how a vulnerability concerns products.
type Status string

// The statuses, in the words of OpenVEX.
const (
	StatusNotAffected        = Status(openvex.StatusNotAffected)
	StatusAffected           = Status(openvex.StatusAffected)
	StatusFixed              = Status(openvex.StatusFixed)
	StatusUnderInvestigation = Status(openvex.StatusUnderInvestigation)
)

// Suppresses reports whether findings with this status are suppressed: not_affected and fixed.
func (s Status) Suppresses() bool { return s == StatusNotAffected || s == StatusFixed }

// caution orders statuses: of two that contradict each other, the one that claims less safety prevails.
func (s Status) caution() int {
	return slices.Index([]Status{StatusFixed, StatusNotAffected, StatusUnderInvestigation, StatusAffected}, s)
}

// Justification says why products are not affected, in the words of OpenVEX; "" when there is only a text.
type Justification = openvex.Justification

// Statement says what a vulnerability means for products. As JSON, it is the part that decides which findings with the vulnerability it matches
// and which of several statements prevails.
type Statement struct {
	// Vulnerability is the ID, and Aliases are further IDs of the same vulnerability.
	Vulnerability string   `json:"-"`
	Aliases       []string `json:"-"`
	// Products are those that the statement is about. One that matches is enough.
	Products      []Product     `json:"products"`
	Status        Status        `json:"status"`
	Justification Justification `json:"-"`
	// ImpactStatement says why products are not affected, ActionStatement what to do about those that are, Comment anything else.
	ImpactStatement string `json:"-"`
	ActionStatement string `json:"-"`
	Comment         string `json:"-"`
	// Decided is what a document of this program says in addition.
	Decided Decided `json:"-"`
	// Timestamp is since when the statement holds, zero when the document does not say. LastUpdated is informative.
	Timestamp   time.Time `json:"timestamp,omitzero"`
	LastUpdated time.Time `json:"-"`
	// Position is where the document has the statement, such as "statements[3]".
	Position string `json:"position"`
}

// Product is what a statement is about: an image or a package, or packages in an image.
type Product struct {
	Component
	// Subcomponents are the packages of the product that the statement is about; all when there are none.
	Subcomponents []Component `json:"subcomponents,omitempty"`
}

// Component identifies an image or a package. One identifier that matches is enough; without any, it matches nothing.
type Component struct {
	PURLs []PURL `json:"purls,omitempty"`
	CPEs  []CPE  `json:"cpes,omitempty"`
	// Digests identify images, as "sha256:…".
	Digests []string `json:"digests,omitempty"`
	// References are other identifiers; those that are image references as the image has them identify images.
	References []string `json:"references,omitempty"`
	// Versions restricts what the identifiers match; nil allows all versions.
	Versions *Range `json:"versions,omitempty"`
}

// restrict limits the component to versions that stand beside its identifiers. Where identifiers have versions of their own, which are more
// exact, only these are used.
func (c *Component) restrict(r *Range) {
	purls := slices.DeleteFunc(slices.Clone(c.PURLs), func(p PURL) bool { return p.Version == "" })
	cpes := slices.DeleteFunc(slices.Clone(c.CPEs), func(p CPE) bool { return p.Version == "" })
	if len(purls)+len(cpes)+len(c.Digests) == 0 {
		c.Versions = r
		return
	}
	c.PURLs, c.CPEs = purls, cpes
}

// Identified reports whether the component has an identifier.
func (c *Component) Identified() bool {
	return len(c.PURLs) > 0 || len(c.CPEs) > 0 || len(c.Digests) > 0 || len(c.References) > 0
}

// Identified reports whether a product of the statement has identifiers, so that it can match at all.
func (s *Statement) Identified() bool {
	return slices.ContainsFunc(s.Products, func(p Product) bool {
		return p.Identified() && (len(p.Subcomponents) == 0 ||
			slices.ContainsFunc(p.Subcomponents, func(c Component) bool { return c.Identified() }))
	})
}

// comparisons is with how many versions the statement compares that of a package at most: with each once, however many products state it.
func (s *Statement) comparisons() int {
	var distinct map[constraint]bool
	add := func(c *Component) {
		if c.Versions == nil || len(c.PURLs)+len(c.CPEs) == 0 {
			return
		}
		if distinct == nil {
			distinct = map[constraint]bool{}
		}
		for _, one := range c.Versions.constraints {
			distinct[one] = true
		}
	}
	for i := range s.Products {
		add(&s.Products[i].Component)
		for c := range s.Products[i].Subcomponents {
			add(&s.Products[i].Subcomponents[c])
		}
	}
	return len(distinct)
}

// compareMeaning orders statements by the fields that are shown, so that equal ones are alike to users.
func compareMeaning(a, b *Statement) int {
	return cmp.Or(
		cmp.Compare(a.Vulnerability, b.Vulnerability),
		cmp.Compare(a.Justification, b.Justification),
		cmp.Compare(a.ImpactStatement, b.ImpactStatement),
		cmp.Compare(a.ActionStatement, b.ActionStatement),
		cmp.Compare(a.Comment, b.Comment),
		a.LastUpdated.Compare(b.LastUpdated),
	)
}
