package vex

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"
	openvex "github.com/openvex/go-vex/pkg/vex"
)

// writeOpenVEX makes a document of OpenVEX 0.2.0. Its ID follows from its statements, so that other content is another document.
func writeOpenVEX(c *collector, author string) ([]byte, error) {
	list := make([]*openvex.Statement, 0, len(c.statements))
	for _, k := range c.sorted() {
		list = append(list, c.openVEXStatement(k))
	}
	statements, err := json.Marshal(list)
	if err != nil {
		return nil, err
	}
	issued := c.issued()
	data, err := json.Marshal(struct {
		openvex.Metadata
		Statements json.RawMessage `json:"statements"`
	}{openvex.Metadata{
		Context: openvex.ContextLocator(), ID: "https://scanner.zoltankerezsi.xyz/vex/" + uuid.NewSHA1(namespace, append([]byte(author+"\n"), statements...)).String(),
		Author: author, Timestamp: &issued, Version: 1, Tooling: tool,
	}, statements})
	return append(data, '\n'), err
}

func (c *collector) openVEXStatement(k statementKey) *openvex.Statement {
	d := &k.decision
	s := &openvex.Statement{
		Vulnerability: openvex.Vulnerability{Name: openvex.VulnerabilityID(k.vulnerability)},
		Status:        openvex.Status(statuses[d.Status]), Justification: Justification(d.Justification),
	}
	for alias := range strings.SplitSeq(k.aliases, "\n") {
		if alias != "" {
			s.Vulnerability.Aliases = append(s.Vulnerability.Aliases, openvex.VulnerabilityID(alias))
		}
	}
	if !d.Since.IsZero() {
		s.Timestamp = new(d.Since)
	}
	text := d.Comment
	if text == "" {
		text = reasons[d.Status]
	}
	switch Status(s.Status) {
	case StatusNotAffected:
		s.ImpactStatement, s.StatusNotes = text, notesOf(d, "")
	case StatusAffected:
		s.ActionStatement, s.StatusNotes = text, notesOf(d, "")
	case StatusFixed, StatusUnderInvestigation:
		s.StatusNotes = notesOf(d, text)
	}
	for _, name := range slices.Sorted(maps.Keys(c.statements[k])) {
		product := openvex.Product{Component: openvex.Component{ID: name}}
		if hex := sha256Of(c.images[name].key); hex != "" {
			product.Hashes = map[openvex.Algorithm]openvex.Hash{openvex.SHA256: openvex.Hash(hex)}
		}
		for _, purl := range slices.Sorted(maps.Keys(c.statements[k][name])) {
			product.Subcomponents = append(product.Subcomponents, openvex.Subcomponent{Component: openvex.Component{ID: purl}})
		}
		s.Products = append(s.Products, product)
	}
	return s
}
