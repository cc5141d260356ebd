package vex

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	openvex "github.com/openvex/go-vex/pkg/vex"
)

// isOpenVEX recognizes the context of any version.
func isOpenVEX(context string) bool {
	return context == openvex.TypeURI || strings.HasPrefix(context, openvex.TypeURI+"/")
}

// readOpenVEX reads a document of OpenVEX 0.2.0, whose context may lack the version.
func readOpenVEX(data []byte, limits Limits) (*Document, error) {
	var in struct {
		openvex.Metadata
		Statements []json.RawMessage `json:"statements"`
	}
	if err := decode(data, FormatOpenVEX, &in); err != nil {
		return nil, err
	}
	if in.Context != openvex.TypeURI && in.Context != openvex.ContextLocator() {
		return nil, invalidf("its version %.100q of OpenVEX is not supported: use %s", in.Context, openvex.ContextLocator())
	}
	if len(in.Statements) > limits.Statements {
		return nil, tooManyStatements(len(in.Statements), limits)
	}
	at := ""
	if in.Timestamp != nil {
		at = in.Timestamp.String()
	}
	if err := required("the document", "@id", in.ID, "author", in.Author, "timestamp", at); err != nil {
		return nil, err
	}
	if in.Version < 1 {
		return nil, invalidf(`the document has no "version" of 1 or more`)
	}
	d := &Document{
		Format: FormatOpenVEX, ID: in.ID, Revision: strconv.Itoa(in.Version), Author: in.Author, Timestamp: utc(in.Timestamp),
	}
	for i, raw := range in.Statements {
		position := fmt.Sprintf("statements[%d]", i)
		var statement openvex.Statement
		if err := json.Unmarshal(raw, &statement); err != nil {
			return nil, invalidf("%s: %w", position, short(err))
		}
		s, err := openVEXStatement(position, &statement, d)
		if err != nil {
			return nil, err
		}
		d.Statements = append(d.Statements, s)
	}
	return d, nil
}

func utc(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}

func openVEXStatement(position string, in *openvex.Statement, d *Document) (Statement, error) {
	s := Statement{
		Vulnerability: string(in.Vulnerability.Name), Status: Status(in.Status), Justification: in.Justification,
		ImpactStatement: in.ImpactStatement, ActionStatement: in.ActionStatement, Comment: in.StatusNotes,
		Timestamp: utc(in.Timestamp), LastUpdated: utc(in.LastUpdated), Position: position,
	}
	if s.Timestamp.IsZero() {
		s.Timestamp = d.Timestamp
	}
	for _, alias := range in.Vulnerability.Aliases {
		s.Aliases = append(s.Aliases, string(alias))
	}
	if in.Vulnerability.ID != "" {
		s.Aliases = append(s.Aliases, in.Vulnerability.ID)
	}
	if err := required(position, "vulnerability.name", s.Vulnerability, "status", string(s.Status)); err != nil {
		return s, err
	}
	if err := s.checkOpenVEX(); err != nil {
		return s, err
	}
	s.readNotes()
	if len(in.Products) == 0 {
		return s, invalidf(`%s has no "products"`, position)
	}
	for i := range in.Products {
		at := fmt.Sprintf("%s.products[%d]", position, i)
		component, err := openVEXComponent(at, &in.Products[i].Component)
		if err != nil {
			return s, err
		}
		product := Product{Component: component}
		for j := range in.Products[i].Subcomponents {
			sub, err := openVEXComponent(fmt.Sprintf("%s.subcomponents[%d]", at, j), &in.Products[i].Subcomponents[j].Component)
			if err != nil {
				return s, err
			}
			product.Subcomponents = append(product.Subcomponents, sub)
		}
		s.Products = append(s.Products, product)
	}
	return s, nil
}

// checkOpenVEX checks the words, and what the status requires.
func (s *Statement) checkOpenVEX() error {
	switch {
	case !openvex.Status(s.Status).Valid():
		return invalidf("%s: the status %.50q is not one of %s", s.Position, s.Status, strings.Join(openvex.Statuses(), ", "))
	case s.Justification != "" && !s.Justification.Valid():
		return invalidf("%s: the justification %.50q is not one of %s", s.Position, s.Justification, strings.Join(openvex.Justifications(), ", "))
	case s.Justification != "" && s.Status != StatusNotAffected:
		return invalidf("%s has a justification, which only the status %s may have", s.Position, StatusNotAffected)
	case s.Status == StatusNotAffected && s.Justification == "" && s.ImpactStatement == "":
		return invalidf(`%s has the status %s, but neither "justification" nor "impact_statement"`, s.Position, s.Status)
	case s.Status == StatusAffected && s.ActionStatement == "":
		return invalidf(`%s has the status %s, but no "action_statement"`, s.Position, s.Status)
	}
	return nil
}

func openVEXComponent(position string, in *openvex.Component) (Component, error) {
	var c Component
	if in.ID == "" && len(in.Identifiers) == 0 && len(in.Hashes) == 0 {
		return c, invalidf(`%s has no "@id", no "identifiers" and no "hashes"`, position)
	}
	if err := c.addIdentifier(in.ID); err != nil {
		return c, invalidf(`%s["@id"]: %w`, position, err)
	}
	for _, kind := range slices.Sorted(maps.Keys(in.Identifiers)) {
		var err error
		switch kind {
		case openvex.PURL:
			err = c.addPURL(in.Identifiers[kind])
		case openvex.CPE22, openvex.CPE23:
			err = c.addCPE(in.Identifiers[kind])
		default:
			err = fmt.Errorf("the type is not one of %s, %s, %s", openvex.PURL, openvex.CPE22, openvex.CPE23)
		}
		if err != nil {
			return c, invalidf("%s.identifiers[%.50q]: %w", position, kind, err)
		}
	}
	// Only this algorithm identifies images.
	if hash, found := in.Hashes[openvex.SHA256]; found {
		c.addSHA256(string(hash))
	}
	return c, nil
}

// addIdentifier adds a PURL or another identifier.
func (c *Component) addIdentifier(id string) error {
	switch {
	case id == "":
		return nil
	case strings.HasPrefix(id, schemePURL):
		return c.addPURL(id)
	case len(id) > maxIdentifier:
		return fmt.Errorf("the identifier has %d bytes, more than the limit of %d", len(id), maxIdentifier)
	}
	c.References = append(c.References, id)
	return nil
}

func (c *Component) addPURL(text string) error {
	p, err := ParsePURL(text)
	if err != nil {
		return err
	}
	c.PURLs = append(c.PURLs, p)
	return nil
}

// addCPE leaves out a name that is valid but identifies nothing.
func (c *Component) addCPE(text string) error {
	cpe, err := ParseCPE(text)
	switch {
	case errors.Is(err, errUnspecific):
		return nil
	case err != nil:
		return err
	}
	c.CPEs = append(c.CPEs, cpe)
	return nil
}

func (c *Component) addSHA256(hex string) {
	c.Digests = append(c.Digests, "sha256:"+strings.ToLower(strings.TrimPrefix(hex, "sha256:")))
}
