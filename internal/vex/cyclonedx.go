package vex

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

// The parts of a CycloneDX document that statements are made of. cdx.BOM would need a hundred times as much memory for a list of empty objects.
type (
	cdxDocument struct {
		SpecVersion  string `json:"specVersion"`
		SerialNumber string `json:"serialNumber"`
		Version      int    `json:"version"`
		Metadata     struct {
			Timestamp string        `json:"timestamp"`
			Component *cdxComponent `json:"component"`
			Authors   []cdxContact  `json:"authors"`
			Supplier  cdxContact    `json:"supplier"`
			// Manufacture is the name before version 1.6.
			Manufacture  cdxContact `json:"manufacture"`
			Manufacturer cdxContact `json:"manufacturer"`
		} `json:"metadata"`
		Components      []cdxComponent    `json:"components"`
		Vulnerabilities []json.RawMessage `json:"vulnerabilities"`
	}

	cdxContact struct {
		Name string `json:"name"`
	}

	cdxComponent struct {
		BOMRef     string         `json:"bom-ref"`
		Container  cdxContainer   `json:"type"`
		Version    string         `json:"version"`
		PURL       string         `json:"purl"`
		CPE        string         `json:"cpe"`
		Hashes     *[]cdxHash     `json:"hashes"` // few components have some
		Components []cdxComponent `json:"components"`
	}

	// cdxContainer is the type of a component: true for images.
	cdxContainer bool

	cdxHash struct {
		Algorithm string `json:"alg"`
		Content   string `json:"content"`
	}

	cdxVulnerability struct {
		ID         string `json:"id"`
		References []struct {
			ID string `json:"id"`
		} `json:"references"`
		Analysis *struct {
			State         string `json:"state"`
			Justification string `json:"justification"`
			Detail        string `json:"detail"`
			FirstIssued   string `json:"firstIssued"`
			LastUpdated   string `json:"lastUpdated"`
		} `json:"analysis"`
		Properties []struct {
			Name  string `json:"name"`
			Value string `json:"value"`
		} `json:"properties"`
		Recommendation string            `json:"recommendation"`
		Affects        []json.RawMessage `json:"affects"`
	}

	// cdxAffects has all fields of the schema: one that was ignored could be the one that restricts the versions.
	cdxAffects struct {
		Ref      string `json:"ref"`
		Versions []struct {
			Version string  `json:"version"`
			Range   string  `json:"range"`
			Status  *string `json:"status"`
		} `json:"versions"`
	}
)

// UnmarshalJSON reads the type, for which a string would need more memory.
func (c *cdxContainer) UnmarshalJSON(data []byte) error {
	*c = string(data) == `"`+string(cdx.ComponentTypeContainer)+`"`
	return nil
}

// cdxVersions are the versions of CycloneDX whose vulnerabilities we read.
var cdxVersions = []string{"1.4", "1.5", "1.6", "1.7"}

// cdxStates are the meanings of /vulnerabilities/*/analysis/state.
var cdxStates = map[cdx.ImpactAnalysisState]Status{
	cdx.IASResolved:             StatusFixed,
	cdx.IASResolvedWithPedigree: StatusFixed,
	cdx.IASExploitable:          StatusAffected,
	cdx.IASInTriage:             StatusUnderInvestigation,
	cdx.IASFalsePositive:        StatusNotAffected,
	cdx.IASNotAffected:          StatusNotAffected,
}

// cdxJustifications translates /vulnerabilities/*/analysis/justification. What needs something that is not there cannot be exploited by an
// attacker; protections are mitigations.
var cdxJustifications = map[cdx.ImpactAnalysisJustification]string{
	cdx.IAJCodeNotPresent:               "vulnerable_code_not_present",
	cdx.IAJCodeNotReachable:             "vulnerable_code_not_in_execute_path",
	cdx.IAJRequiresConfiguration:        "vulnerable_code_cannot_be_controlled_by_adversary",
	cdx.IAJRequiresDependency:           "vulnerable_code_cannot_be_controlled_by_adversary",
	cdx.IAJRequiresEnvironment:          "vulnerable_code_cannot_be_controlled_by_adversary",
	cdx.IAJProtectedByCompiler:          "inline_mitigations_already_exist",
	cdx.IAJProtectedAtRuntime:           "inline_mitigations_already_exist",
	cdx.IAJProtectedAtPerimeter:         "inline_mitigations_already_exist",
	cdx.IAJProtectedByMitigatingControl: "inline_mitigations_already_exist",
}

// readCycloneDX reads the analyses of a CycloneDX document. Vulnerabilities without one are no statements.
func readCycloneDX(data []byte, limits Limits) (*Document, error) {
	var in cdxDocument
	if err := decode(data, FormatCycloneDX, &in); err != nil {
		return nil, err
	}
	if !slices.Contains(cdxVersions, in.SpecVersion) {
		return nil, invalidf("its version %.50q of CycloneDX is not supported: use one of %s", in.SpecVersion, strings.Join(cdxVersions, ", "))
	}
	d := &Document{Format: FormatCycloneDX, ID: in.SerialNumber, Revision: strconv.Itoa(max(in.Version, 1)), Author: in.author()}
	var err error
	if d.Timestamp, err = timestamp("metadata.timestamp", in.Metadata.Timestamp); err != nil {
		return nil, err
	}
	components, err := newCDXComponents(&in)
	if err != nil {
		return nil, err
	}
	for i, raw := range in.Vulnerabilities {
		position := fmt.Sprintf("vulnerabilities[%d]", i)
		var v cdxVulnerability
		if err := decodeKnown(raw, &v); err != nil {
			return nil, invalidf("%s: %w", position, err)
		}
		if v.Analysis == nil {
			continue
		}
		statements, err := v.statements(position, d, components, limits)
		if err != nil {
			return nil, err
		}
		if d.Statements = append(d.Statements, statements...); len(d.Statements) > limits.Statements {
			break // check says why
		}
	}
	return d, nil
}

// author returns the first one that the metadata names.
func (d *cdxDocument) author() string {
	m := &d.Metadata
	for _, contact := range append(slices.Clone(m.Authors), m.Manufacturer, m.Manufacture, m.Supplier) {
		if contact.Name != "" {
			return contact.Name
		}
	}
	return ""
}

// cdxComponents holds what a document describes, by bom-ref.
type cdxComponents struct {
	byRef map[string]Component
	// containers hold the images that components are nested in.
	containers map[string]*Component
	// subject is what the document is about, nil when it does not say.
	subject    *Component
	subjectRef string
	// link begins BOM-Links to the document itself, "" if it has no serial number.
	link string
}

func newCDXComponents(in *cdxDocument) (*cdxComponents, error) {
	c := &cdxComponents{byRef: map[string]Component{}, containers: map[string]*Component{}}
	if serial, found := strings.CutPrefix(in.SerialNumber, "urn:uuid:"); found {
		c.link = schemeBOMLink + serial + "/" + strconv.Itoa(max(in.Version, 1))
	}
	if main := in.Metadata.Component; main != nil {
		subject, err := c.define("metadata.component", main)
		if err != nil {
			return nil, err
		}
		c.subject, c.subjectRef = &subject, main.BOMRef
		if err := c.add("metadata.component.components", main.Components, nil); err != nil {
			return nil, err
		}
	}
	return c, c.add("components", in.Components, nil)
}

// add walks down the components, whose nesting the reader of the document has bounded. container is the image that they are in, nil if there is none.
func (c *cdxComponents) add(position string, list []cdxComponent, container *Component) error {
	for i := range list {
		at := fmt.Sprintf("%s[%d]", position, i)
		component, err := c.define(at, &list[i])
		if err != nil {
			return err
		}
		within := container
		switch {
		case container != nil && list[i].BOMRef != "":
			c.containers[list[i].BOMRef] = container
		case container == nil && bool(list[i].Container) && len(list[i].Components) > 0:
			image := component // only this one is kept
			within = &image
		}
		if err := c.add(at+".components", list[i].Components, within); err != nil {
			return err
		}
	}
	return nil
}

func (c *cdxComponents) define(position string, in *cdxComponent) (Component, error) {
	var out Component
	if in.PURL != "" {
		if err := out.addPURL(in.PURL); err != nil {
			return out, invalidf("%s.purl: %w", position, err)
		}
	}
	if in.CPE != "" {
		if err := out.addCPE(in.CPE); err != nil {
			return out, invalidf("%s.cpe: %w", position, err)
		}
	}
	if in.Hashes != nil {
		for _, hash := range *in.Hashes {
			if hash.Algorithm == string(cdx.HashAlgoSHA256) {
				out.addSHA256(hash.Content)
			}
		}
	}
	if in.Version != "" {
		r, err := exactly(in.Version)
		if err != nil {
			return out, invalidf("%s.version: %w", position, err)
		}
		out.restrict(r)
	}
	if in.BOMRef == "" {
		return out, nil
	}
	if _, found := c.byRef[in.BOMRef]; found {
		return out, invalidf("%s: the bom-ref %.50q is defined twice", position, in.BOMRef)
	}
	c.byRef[in.BOMRef] = out
	return out, nil
}

// schemeBOMLink begins BOM-Links.
const schemeBOMLink = "urn:cdx:"

// product returns what a reference stands for: a component of the document, within what the document is about or else within the image that it is
// nested in, or a PURL. What a BOM-Link to another document stands for is not known: that document is about one product, in which the component is.
func (c *cdxComponents) product(position, ref string) (Product, error) {
	if strings.HasPrefix(ref, schemeBOMLink) {
		document, fragment, _ := strings.Cut(ref, "#")
		linked, err := url.PathUnescape(fragment)
		if err != nil {
			return Product{}, invalidf("%s: the BOM-Link %.100q is invalid: %w", position, ref, err)
		}
		if strings.HasPrefix(linked, schemePURL) {
			if _, err := ParsePURL(linked); err != nil {
				return Product{}, invalidf("%s: %w", position, err)
			}
		}
		if _, defined := c.byRef[linked]; !defined || document != c.link {
			return Product{}, nil
		}
		ref = linked
	}
	component, found := c.byRef[ref]
	container := c.containers[ref]
	switch {
	case found && c.subject == nil && container != nil:
		return Product{Component: *container, Subcomponents: []Component{component}}, nil
	case found && (c.subject == nil || ref == c.subjectRef):
		return Product{Component: component}, nil
	case found:
		return Product{Component: *c.subject, Subcomponents: []Component{component}}, nil
	case strings.HasPrefix(ref, schemePURL):
		return cdxPURL(position, ref)
	default:
		return Product{}, invalidf("%s: the bom-ref %.50q is not defined", position, ref)
	}
}

// cdxPURL reads a PURL that is a bom-ref. Programs make it unique with a qualifier that identifies nothing.
func cdxPURL(position, text string) (Product, error) {
	purl, err := ParsePURL(text)
	if err != nil {
		return Product{}, invalidf("%s: %w", position, err)
	}
	delete(purl.Qualifiers, "package-id")
	return Product{Component: Component{PURLs: []PURL{purl}}}, nil
}

// statements makes one statement for each status of the versions.
func (v *cdxVulnerability) statements(position string, d *Document, components *cdxComponents, limits Limits) ([]Statement, error) {
	base, err := v.base(position, d)
	if err != nil {
		return nil, err
	}
	if len(v.Affects) == 0 {
		return nil, invalidf(`%s has an analysis, but no "affects"`, position)
	}
	products := map[Status][]Product{}
	for i, raw := range v.Affects {
		at := fmt.Sprintf("%s.affects[%d]", position, i)
		affects, err := readCDXAffects(at, raw, limits)
		if err != nil {
			return nil, err
		}
		product, err := components.product(at, affects.Ref)
		if err != nil {
			return nil, err
		}
		if len(affects.Versions) == 0 {
			products[base.Status] = append(products[base.Status], product)
		}
		for j, versions := range affects.Versions {
			within := fmt.Sprintf("%s.versions[%d]", at, j)
			status, err := cdxVersionStatus(within, base.Status, versions.Status)
			if err != nil {
				return nil, err
			}
			var r *Range
			switch {
			case versions.Version != "" && versions.Range == "":
				r, err = exactly(versions.Version)
			case versions.Version == "" && versions.Range != "":
				if r, err = ParseRange(versions.Range); err != nil {
					// As in CSAF documents: what cannot be evaluated contains no version.
					r, err = &Range{}, nil
				}
			default:
				return nil, invalidf(`%s must have either "version" or "range"`, within)
			}
			if err != nil {
				return nil, invalidf("%s: %w", within, err)
			}
			products[status] = append(products[status], product.within(r))
		}
	}
	var out []Statement
	for _, status := range []Status{base.Status, StatusAffected, StatusNotAffected, StatusUnderInvestigation} {
		if len(products[status]) == 0 {
			continue
		}
		s := base
		s.Products = products[status]
		if s.Status != status {
			s.Status, s.Justification, s.ImpactStatement, s.Decided = status, "", "", Decided{}
		}
		out = append(out, s)
		delete(products, status)
	}
	return out, nil
}

// base is the statement without its products.
func (v *cdxVulnerability) base(position string, d *Document) (Statement, error) {
	a := v.Analysis
	s := Statement{Vulnerability: v.ID, Status: cdxStates[cdx.ImpactAnalysisState(a.State)], Timestamp: d.Timestamp, Position: position}
	if err := required(position, "id", v.ID, "analysis.state", a.State); err != nil {
		return s, err
	}
	if s.Status == "" {
		return s, invalidf("%s.analysis.state: %.50q is not a state of CycloneDX", position, a.State)
	}
	for _, reference := range v.References {
		if reference.ID != "" {
			s.Aliases = append(s.Aliases, reference.ID)
		}
	}
	justification, known := cdxJustifications[cdx.ImpactAnalysisJustification(a.Justification)]
	if a.Justification != "" && !known {
		return s, invalidf("%s.analysis.justification: %.50q is not a justification of CycloneDX", position, a.Justification)
	}
	switch s.Status {
	case StatusNotAffected:
		s.Justification, s.ImpactStatement = Justification(justification), a.Detail
	case StatusAffected:
		s.ActionStatement, s.Comment = v.Recommendation, a.Detail
	case StatusFixed, StatusUnderInvestigation:
		s.Comment = a.Detail
	}
	issued, err := timestamp(position+".analysis.firstIssued", a.FirstIssued)
	if err != nil {
		return s, err
	}
	if s.LastUpdated, err = timestamp(position+".analysis.lastUpdated", a.LastUpdated); err != nil {
		return s, err
	}
	for _, t := range []time.Time{issued, s.LastUpdated} {
		if !t.IsZero() {
			s.Timestamp = t
		}
	}
	if cdx.ImpactAnalysisState(a.State) == cdx.IASFalsePositive {
		s.Decided.Status = model.DecisionFalsePositive
	}
	properties := map[string]string{}
	for _, property := range v.Properties {
		if value, found := properties[property.Name]; found && value != property.Value && strings.HasPrefix(property.Name, propertyDecision) {
			return s, nil // They contradict each other, and say nothing.
		}
		properties[property.Name] = property.Value
	}
	s.readProperties(properties)
	return s, nil
}

// readCDXAffects reads an element of affects.
func readCDXAffects(position string, raw []byte, limits Limits) (*cdxAffects, error) {
	var affects cdxAffects
	err := decodeExactly(raw, &affects)
	if err == nil {
		err = checkNulls(raw, limits.Depth)
	}
	if err != nil {
		return nil, invalidf("%s: %w", position, err)
	}
	return &affects, required(position, "ref", affects.Ref)
}

// cdxVersionStatus is the status of some versions. Without one of their own, it is "affected", the default of the schema, as far as the analysis does not
// say that the vulnerability is resolved: published examples list the versions that are fixed without a status.
func cdxVersionStatus(position string, analysis Status, own *string) (Status, error) {
	if own == nil {
		if analysis == StatusNotAffected {
			return StatusAffected, nil
		}
		return analysis, nil
	}
	switch cdx.VulnerabilityStatus(*own) {
	case cdx.VulnerabilityStatusAffected:
		return StatusAffected, nil
	case cdx.VulnerabilityStatusNotAffected:
		if analysis.Suppresses() {
			return analysis, nil
		}
		return StatusNotAffected, nil
	case cdx.VulnerabilityStatusUnknown:
		return StatusUnderInvestigation, nil
	default:
		return "", invalidf("%s.status: %.50q is not one of affected, unaffected, unknown", position, *own)
	}
}

// within returns the product in some versions, which are those of its subcomponents if it has some.
func (p Product) within(r *Range) Product {
	if len(p.Subcomponents) == 0 {
		p.Versions = r
		return p
	}
	p.Subcomponents = slices.Clone(p.Subcomponents)
	for i := range p.Subcomponents {
		p.Subcomponents[i].Versions = r
	}
	return p
}
