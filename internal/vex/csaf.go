package vex

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"

	openvex "github.com/openvex/go-vex/pkg/vex"

	"github.com/scanner-operator/scanner-operator/internal/truncate"
)

// categoryVEX is the category of documents with the VEX profile.
const categoryVEX = "csaf_vex"

// readCSAF reads a document of CSAF 2.0 with the VEX profile. Of the mandatory tests of the standard, it applies those about products,
// their statuses and the profile: 6.1.1 to 6.1.6 and 6.1.27.4, 5 and 7 to 11.
func readCSAF(data []byte, limits Limits) (*Document, error) {
	var in csafDocument
	if err := decode(data, FormatCSAF, &in); err != nil {
		return nil, err
	}
	if err := in.check(); err != nil {
		return nil, err
	}
	if len(in.Vulnerabilities) > limits.Statements {
		return nil, tooManyStatements(len(in.Vulnerabilities), limits)
	}
	tracking := &in.Document.Tracking
	d := &Document{Format: FormatCSAF, ID: tracking.ID, Revision: tracking.Version, Author: in.Document.Publisher.Name}
	var err error
	if d.Timestamp, err = timestamp("document.tracking.current_release_date", tracking.CurrentReleaseDate); err != nil {
		return nil, err
	}
	tree, err := newProductTree(in.ProductTree)
	if err != nil {
		return nil, err
	}
	for i, raw := range in.Vulnerabilities {
		r := csafReader{position: fmt.Sprintf("vulnerabilities[%d]", i), tree: tree, document: d}
		if err := decodeKnown(raw, &r.in); err != nil {
			return nil, invalidf("%s: %w", r.position, err)
		}
		if err := r.read(); err != nil {
			return nil, err
		}
		if len(d.Statements) > limits.Statements {
			break // check says why
		}
	}
	return d, nil
}

// cvePattern is that of the schema.
var cvePattern = regexp.MustCompile(`^CVE-[0-9]{4}-[0-9]{4,}$`)

// csafReader reads one element of /vulnerabilities.
type csafReader struct {
	position string
	tree     *productTree
	in       csafVulnerability
	document *Document

	id      string
	aliases []string
	// known holds the status of each product that was read.
	known map[string]Status
	// products and groups hold what is said of them.
	products map[string]explanation
	groups   map[int]explanation
	// texts are those of threats and remediations, numbers holds their places there. The first is "".
	texts   []string
	numbers map[string]int
}

// explanation is what is said of some products; those with the same one share a statement. Texts are their numbers in csafReader.texts: a
// document can say the same long text of each of its products.
type explanation struct {
	label          string
	impact, action int
}

func (e explanation) or(other explanation) explanation {
	return explanation{cmp.Or(e.label, other.label), cmp.Or(e.impact, other.impact), cmp.Or(e.action, other.action)}
}

// text returns the number of a text, as far as it is kept.
func (r *csafReader) text(text string) int {
	text = truncate.Ellipsis(text, maxText)
	number, found := r.numbers[text]
	if !found {
		number = len(r.texts)
		r.texts, r.numbers[text] = append(r.texts, text), number
	}
	return number
}

func (r *csafReader) read() error {
	if err := r.readIDs(); err != nil {
		return err
	}
	if err := r.in.check(r.position); err != nil {
		return err
	}
	if err := r.explain(); err != nil {
		return err
	}
	r.known = map[string]Status{}
	s := &r.in.ProductStatus
	if len(s.KnownAffected)+len(s.KnownNotAffected)+len(s.Fixed)+len(s.UnderInvestigation) == 0 {
		return invalidf("%s.product_status has no product that is fixed, known_affected, known_not_affected or under_investigation", r.position)
	}
	for _, list := range []struct {
		name     string
		products []string
		status   Status
	}{
		{"known_affected", s.KnownAffected, StatusAffected},
		{"first_affected", s.FirstAffected, StatusAffected},
		{"last_affected", s.LastAffected, StatusAffected},
		{"known_not_affected", s.KnownNotAffected, StatusNotAffected},
		{"fixed", s.Fixed, StatusFixed},
		{"first_fixed", s.FirstFixed, StatusFixed},
		{"under_investigation", s.UnderInvestigation, StatusUnderInvestigation},
	} {
		if err := r.readStatus(r.position+".product_status."+list.name, list.products, list.status, list.name == "known_affected"); err != nil {
			return err
		}
	}
	return nil
}

// readIDs takes the CVE ID, or else the first other one, as that of the vulnerability.
func (r *csafReader) readIDs() error {
	var ids []string
	if r.in.CVE != "" {
		if !cvePattern.MatchString(r.in.CVE) {
			return invalidf("%s: the CVE %.50q is invalid", r.position, r.in.CVE)
		}
		ids = append(ids, r.in.CVE)
	}
	for i, id := range r.in.IDs {
		if err := required(fmt.Sprintf("%s.ids[%d]", r.position, i), "system_name", id.SystemName, "text", id.Text); err != nil {
			return err
		}
		ids = append(ids, id.Text)
	}
	if len(ids) == 0 {
		return invalidf(`%s has neither "cve" nor "ids"`, r.position)
	}
	r.id, r.aliases = ids[0], ids[1:]
	return nil
}

// readStatus makes a statement of the products of a list that have the same explanation.
func (r *csafReader) readStatus(position string, products []string, status Status, needsAction bool) error {
	byExplanation := map[explanation]int{}
	for i, id := range products {
		at := fmt.Sprintf("%s[%d]", position, i)
		product, err := r.tree.product(at, id)
		if err != nil {
			return err
		}
		if before, found := r.known[id]; found {
			if before != status {
				return invalidf("%s: the product %.50q has the status %s, too", at, id, before)
			}
			continue
		}
		r.known[id] = status
		e := r.explanationOf(id)
		switch {
		case status == StatusNotAffected && e.label == "" && e.impact == 0:
			return invalidf(`%s: the product %.50q has neither a flag nor a threat of the category "impact", which say why it is not affected`, at, id)
		case needsAction && e.action == 0:
			return invalidf("%s: the product %.50q has no remediation, which says what to do", at, id)
		}
		e = e.relevant(status)
		n, found := byExplanation[e]
		if !found {
			n = len(r.document.Statements)
			byExplanation[e] = n
			r.document.Statements = append(r.document.Statements, Statement{
				Vulnerability: r.id, Aliases: r.aliases, Status: status, Justification: Justification(e.label), ImpactStatement: r.texts[e.impact],
				ActionStatement: r.texts[e.action], Timestamp: r.document.Timestamp, Position: at,
			})
		}
		r.document.Statements[n].Products = append(r.document.Statements[n].Products, product)
	}
	return nil
}

// relevant leaves out what is no part of a statement with the status.
func (e explanation) relevant(status Status) explanation {
	switch status {
	case StatusNotAffected:
		return explanation{label: e.label, impact: e.impact}
	case StatusAffected:
		return explanation{action: e.action}
	case StatusFixed, StatusUnderInvestigation:
	}
	return explanation{}
}

// explain reads flags, threats and remediations.
func (r *csafReader) explain() error {
	r.products, r.groups = map[string]explanation{}, map[int]explanation{}
	r.texts, r.numbers = []string{""}, map[string]int{"": 0}
	for i, flag := range r.in.Flags {
		at := fmt.Sprintf("%s.flags[%d]", r.position, i)
		if !Justification(flag.Label).Valid() {
			return invalidf("%s: the label %.50q is not one of %s", at, flag.Label, strings.Join(openvex.Justifications(), ", "))
		}
		if _, err := timestamp(at+".date", flag.Date); err != nil {
			return err
		}
		if err := r.about(at, &flag.csafAbout, explanation{label: flag.Label}); err != nil {
			return err
		}
	}
	for i, threat := range r.in.Threats {
		at := fmt.Sprintf("%s.threats[%d]", r.position, i)
		if err := checkExplained(at, threat.Category, threat.Details, threat.Date, csafThreats); err != nil {
			return err
		}
		var e explanation
		if threat.Category == csafImpact {
			e.impact = r.text(threat.Details)
		}
		if err := r.about(at, &threat.csafAbout, e); err != nil {
			return err
		}
	}
	for i, remediation := range r.in.Remediations {
		at := fmt.Sprintf("%s.remediations[%d]", r.position, i)
		if err := checkExplained(at, remediation.Category, remediation.Details, remediation.Date, csafRemediations); err != nil {
			return err
		}
		if err := r.about(at, &remediation.csafAbout, explanation{action: r.text(remediation.Details)}); err != nil {
			return err
		}
	}
	return nil
}

// checkExplained checks a threat or a remediation.
func checkExplained(position, category, details, date string, categories []string) error {
	if err := required(position, "category", category, "details", details); err != nil {
		return err
	}
	if err := oneOf(position, "category", category, categories); err != nil {
		return err
	}
	_, err := timestamp(position+".date", date)
	return err
}

// about notes what is said of products and groups; what was said first stays. Groups are not expanded: each product looks up its own.
func (r *csafReader) about(position string, about *csafAbout, e explanation) error {
	for i, id := range about.ProductIDs {
		if _, err := r.tree.product(fmt.Sprintf("%s.product_ids[%d]", position, i), id); err != nil {
			return err
		}
		r.products[id] = r.products[id].or(e)
	}
	for i, id := range about.GroupIDs {
		group, found := r.tree.groups[id]
		if !found {
			return invalidf("%s.group_ids[%d]: the product group %.50q is not defined in the product_tree", position, i, id)
		}
		r.groups[group] = r.groups[group].or(e)
	}
	return nil
}

// explanationOf returns what is said of a product, itself or as one of a group.
func (r *csafReader) explanationOf(product string) explanation {
	e := r.products[product]
	if len(r.groups) == 0 {
		return e
	}
	for _, group := range r.tree.groupsOf[product] {
		e = e.or(r.groups[group])
	}
	return e
}
