package vex

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	openvex "github.com/openvex/go-vex/pkg/vex"
)

// isOpenVEX recognizes the context of any version.
func isOpenVEX(context string) bool {
	return context == openvex.TypeURI || strings.HasPrefix(context, openvex.TypeURI+"/")
}

// The parts of an OpenVEX document as its schema has them, and the supplier that go-vex writes for documents and components.
type (
	openVEXStatement struct {
		ID            string `json:"@id"`
		Version       *int   `json:"version"`
		Vulnerability struct {
			ID          string   `json:"@id"`
			Name        string   `json:"name"`
			Description string   `json:"description"`
			Aliases     []string `json:"aliases"`
		} `json:"vulnerability"`
		Timestamp                *time.Time       `json:"timestamp"`
		LastUpdated              *time.Time       `json:"last_updated"`
		Products                 []openVEXProduct `json:"products"`
		Status                   Status           `json:"status"`
		Supplier                 string           `json:"supplier"`
		StatusNotes              string           `json:"status_notes"`
		Justification            *Justification   `json:"justification"`
		ImpactStatement          string           `json:"impact_statement"`
		ActionStatement          string           `json:"action_statement"`
		ActionStatementTimestamp *time.Time       `json:"action_statement_timestamp"`
	}

	openVEXProduct struct {
		openVEXComponent
		Subcomponents []openVEXComponent `json:"subcomponents"`
	}

	openVEXComponent struct {
		ID          string              `json:"@id"`
		Identifiers *openVEXIdentifiers `json:"identifiers"`
		Hashes      *openVEXHashes      `json:"hashes"`
		Supplier    string              `json:"supplier"`
	}

	openVEXIdentifiers struct {
		PURL  string `json:"purl"`
		CPE22 string `json:"cpe22"`
		CPE23 string `json:"cpe23"`
	}

	openVEXHashes struct {
		MD5        string `json:"md5"`
		SHA1       string `json:"sha1"`
		SHA256     string `json:"sha-256"`
		SHA384     string `json:"sha-384"`
		SHA512     string `json:"sha-512"`
		SHA3224    string `json:"sha3-224"`
		SHA3256    string `json:"sha3-256"`
		SHA3384    string `json:"sha3-384"`
		SHA3512    string `json:"sha3-512"`
		Blake2s256 string `json:"blake2s-256"`
		Blake2b256 string `json:"blake2b-256"`
		Blake2b512 string `json:"blake2b-512"`
	}
)

// readOpenVEX reads a document of OpenVEX 0.2.0, whose context may lack the version.
func readOpenVEX(data []byte, limits Limits) (*Document, error) {
	var in struct {
		openvex.Metadata
		Statements []json.RawMessage `json:"statements"`
	}
	err := decodeExactly(data, &in)
	if err == nil {
		err = checkNulls(data, 1)
	}
	if err != nil {
		return nil, invalidf("it is not a valid %s document: %w", FormatOpenVEX, err)
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
		var statement openVEXStatement
		if err = decodeExactly(raw, &statement); err == nil {
			err = checkNulls(raw, limits.Depth)
		}
		if err != nil {
			return nil, invalidf("%s: %w", position, err)
		}
		s, err := statement.read(position, d)
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

func (in *openVEXStatement) read(position string, d *Document) (Statement, error) {
	s := Statement{
		Vulnerability: in.Vulnerability.Name, Aliases: in.Vulnerability.Aliases, Status: in.Status,
		ImpactStatement: in.ImpactStatement, ActionStatement: in.ActionStatement, Comment: in.StatusNotes,
		Timestamp: utc(in.Timestamp), LastUpdated: utc(in.LastUpdated), Position: position,
	}
	if s.Timestamp.IsZero() {
		s.Timestamp = d.Timestamp
	}
	if in.Vulnerability.ID != "" {
		s.Aliases = append(s.Aliases, in.Vulnerability.ID)
	}
	if err := required(position, "vulnerability.name", s.Vulnerability, "status", string(s.Status)); err != nil {
		return s, err
	}
	if in.Justification != nil {
		if s.Justification = *in.Justification; s.Justification == "" {
			return s, invalidf(`%s: "justification" is empty`, position)
		}
	}
	if in.Version != nil && *in.Version < 1 {
		return s, invalidf(`%s: "version" is %d, less than 1`, position, *in.Version)
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
		component, err := in.Products[i].read(at)
		if err != nil {
			return s, err
		}
		product := Product{Component: component}
		for j := range in.Products[i].Subcomponents {
			sub, err := in.Products[i].Subcomponents[j].read(fmt.Sprintf("%s.subcomponents[%d]", at, j))
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

func (in *openVEXComponent) read(position string) (Component, error) {
	var c Component
	if in.ID == "" && in.Identifiers == nil && (in.Hashes == nil || *in.Hashes == openVEXHashes{}) {
		return c, invalidf(`%s has no "@id", no "identifiers" and no "hashes"`, position)
	}
	if err := c.addIdentifier(in.ID); err != nil {
		return c, invalidf(`%s["@id"]: %w`, position, err)
	}
	if in.Identifiers != nil {
		if err := c.addIdentifiers(position+".identifiers", in.Identifiers); err != nil {
			return c, err
		}
	}
	// Only this algorithm identifies images.
	if in.Hashes != nil && in.Hashes.SHA256 != "" {
		c.addSHA256(in.Hashes.SHA256)
	}
	return c, nil
}

func (c *Component) addIdentifiers(position string, in *openVEXIdentifiers) error {
	if *in == (openVEXIdentifiers{}) {
		return invalidf(`%s has none of "purl", "cpe22", "cpe23"`, position)
	}
	for _, one := range []struct {
		kind openvex.IdentifierType
		text string
		add  func(string) error
	}{{openvex.CPE22, in.CPE22, c.addCPE}, {openvex.CPE23, in.CPE23, c.addCPE}, {openvex.PURL, in.PURL, c.addPURL}} {
		if one.text == "" {
			continue
		}
		if err := one.add(one.text); err != nil {
			return invalidf("%s[%q]: %w", position, one.kind, err)
		}
	}
	return nil
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
