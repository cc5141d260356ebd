package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// xmlNamespace is what the namespaces of CycloneDX documents begin with; their version follows.
const xmlNamespace = "http://cyclonedx.org/schema/bom/"

// jsonOf writes a CycloneDX document that is in XML as JSON.
func jsonOf(document []byte, limits Limits) ([]byte, error) {
	version, err := measureXML(document, limits)
	if err != nil {
		return nil, err
	}
	bom := cdx.BOM{BOMFormat: cdx.BOMFormat, JSONSchema: "http://cyclonedx.org/schema/bom-" + version + ".schema.json"}
	if err := cdx.NewBOMDecoder(bytes.NewReader(document), cdx.BOMFileFormatXML).Decode(&bom); err != nil {
		return nil, invalidf("the body is not a CycloneDX document: %v", err)
	}
	var written bytes.Buffer
	if err := cdx.NewBOMEncoder(&written, cdx.BOMFileFormatJSON).SetEscapeHTML(false).Encode(&bom); err != nil {
		return nil, invalidf("the document cannot be written as JSON: %v", err)
	}
	return written.Bytes(), nil
}

// measureXML bounds what a decoder would have to build, and returns the version of CycloneDX that the root names. A document
// type is refused: CycloneDX has none, and entities are a way to make much of little.
func measureXML(document []byte, limits Limits) (version string, err error) {
	// Every element and every attribute has one of these. Attributes are collected before they can be counted.
	if n := bytes.Count(document, []byte("<")) + bytes.Count(document, []byte("=")); n > limits.Values {
		return "", tooLargef("the XML document holds more than the limit of %d tags and attributes", limits.Values)
	}
	decoder := xml.NewDecoder(bytes.NewReader(document))
	root, components, vulnerabilities := xml.Name{}, 0, 0
	for depth, closed := 0, false; ; {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return versionOf(root)
		}
		if err != nil {
			return "", invalidf("the body is not valid XML: %v", err)
		}
		switch token := token.(type) {
		case xml.Directive:
			return "", invalidf("the XML document contains a document type declaration, which is not allowed")
		case xml.StartElement:
			if closed {
				return "", invalidf("the body contains data after the root element")
			}
			if depth == 0 {
				root = token.Name
			}
			depth++
			switch token.Name.Local {
			case "component":
				components++
			case "vulnerability":
				vulnerabilities++
			}
			switch {
			case depth > limits.Depth:
				return "", tooLargef("the XML document is nested deeper than the limit of %d levels", limits.Depth)
			case components > limits.Components:
				return "", tooLargef("the XML document holds more than the limit of %d components", limits.Components)
			case vulnerabilities > limits.Vulnerabilities:
				return "", tooLargef("the XML document holds more than the limit of %d vulnerabilities", limits.Vulnerabilities)
			}
		case xml.EndElement:
			depth--
			closed = depth == 0
		}
	}
}

// versionOf reads the version of CycloneDX from the name of the root element.
func versionOf(root xml.Name) (string, error) {
	version, found := strings.CutPrefix(root.Space, xmlNamespace)
	if root.Local != "bom" || !found {
		return "", invalidf("the body is not a CycloneDX document: its root is %.40q in the namespace %.80q", root.Local, root.Space)
	}
	return version, checkVersion(version)
}
