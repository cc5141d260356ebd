package match

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/anchore/syft/syft/format/cyclonedxjson"
	"github.com/anchore/syft/syft/format/cyclonedxxml"
	"github.com/anchore/syft/syft/sbom"
)

// The media types of SBOMs that can be decoded.
const (
	MediaTypeSyft          = "application/vnd.syft+json"
	MediaTypeCycloneDXJSON = "application/vnd.cyclonedx+json"
	MediaTypeCycloneDXXML  = "application/vnd.cyclonedx+xml"
)

// DecodeAs reads an SBOM of one of the media types above. imports and errors are those of Decode, besides one that wraps ErrFormat for any other
// media type.
func DecodeAs(mediaType string, r io.Reader, lim DecodeLimits, imports *Imports) (*SBOM, error) {
	switch mediaType {
	case MediaTypeSyft:
		return Decode(r, lim, imports)
	case MediaTypeCycloneDXJSON:
		return decodeCycloneDX(r, cyclonedxjson.NewFormatDecoder(), checkCycloneDXJSON, lim, imports)
	case MediaTypeCycloneDXXML:
		return decodeCycloneDX(r, cyclonedxxml.NewFormatDecoder(), checkCycloneDXXML, lim, imports)
	default:
		return nil, fmt.Errorf("%w: the media type %.80q is not supported", ErrFormat, mediaType)
	}
}

// decodeCycloneDX reads the components of a CycloneDX document as Grype does for "grype sbom:FILE".
func decodeCycloneDX(r io.Reader, format sbom.FormatDecoder, check func([]byte, DecodeLimits) error, lim DecodeLimits, imports *Imports) (s *SBOM, err error) {
	lim = lim.withDefaults()
	data, err := readBounded(r, lim.Bytes)
	if err != nil {
		return nil, err
	}
	if !utf8.Valid(data) {
		return nil, fmt.Errorf("%w: it is not valid UTF-8", ErrFormat)
	}
	if err := check(data, lim); err != nil {
		return nil, err
	}
	defer func() { // as in Decode
		if p := recover(); p != nil {
			s, err = nil, fmt.Errorf("%w: the parser of the SBOM panicked: %v", ErrFormat, p)
		}
	}()
	if id, version := format.Identify(bytes.NewReader(data)); (id != cyclonedxjson.ID && id != cyclonedxxml.ID) || version == "" {
		return nil, fmt.Errorf("%w: it is not a CycloneDX document of a known version", ErrFormat)
	}
	return provide(data, lim, imports)
}

// checkCycloneDXJSON bounds a document by bytes first and then by its components, which may hold others.
func checkCycloneDXJSON(data []byte, lim DecodeLimits) error {
	if err := checkBounds(data, lim); err != nil {
		return err
	}
	count := componentCounter{limit: lim.Packages}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%w: %w", ErrFormat, err)
		}
		if err := count.json(token); err != nil {
			return err
		}
	}
}

// componentCounter counts the objects in arrays of components at any depth.
type componentCounter struct {
	limit, components int
	// open holds an entry for each array and object around, the innermost last.
	open []container
}

// container is an array or an object of a JSON document.
type container struct {
	object bool
	// key is the last member name of an object; wantKey says that another follows.
	key     string
	wantKey bool
	// components says that the elements of an array are components.
	components bool
}

func (c *componentCounter) json(token json.Token) error {
	var around *container
	if len(c.open) > 0 {
		around = &c.open[len(c.open)-1]
	}
	switch token {
	case json.Delim('}'), json.Delim(']'):
		c.open = c.open[:len(c.open)-1]
		return nil
	}
	if around != nil && around.object && around.wantKey {
		around.key, _ = token.(string)
		around.wantKey = false
		return nil
	}
	if around != nil && around.object {
		around.wantKey = true
	}
	switch token {
	case json.Delim('{'):
		if around != nil && around.components {
			if err := c.add(); err != nil {
				return err
			}
		}
		c.open = append(c.open, container{object: true, wantKey: true})
	case json.Delim('['):
		// The decoder takes member names without regard to case.
		named := around != nil && around.object && strings.EqualFold(around.key, "components")
		c.open = append(c.open, container{components: named})
	}
	return nil
}

func (c *componentCounter) add() error {
	c.components++
	if c.components > c.limit {
		return fmt.Errorf("%w: it has more than %d components", ErrLimit, c.limit)
	}
	return nil
}

// checkCycloneDXXML bounds an XML document, and refuses one that declares a document type: entities have no place in it.
func checkCycloneDXXML(data []byte, lim DecodeLimits) error {
	// Every element and every attribute has one of these. The decoder collects the attributes of an element before it gives them.
	if n := bytes.Count(data, []byte("<")) + bytes.Count(data, []byte("=")); n > lim.Values {
		return fmt.Errorf("%w: it has more than %d tags and attributes", ErrLimit, lim.Values)
	}
	count := componentCounter{limit: lim.Packages}
	decoder := xml.NewDecoder(bytes.NewReader(data))
	for depth := 0; ; {
		token, err := decoder.RawToken()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%w: %w", ErrFormat, err)
		}
		switch token := token.(type) {
		case xml.Directive:
			return fmt.Errorf("%w: it declares a document type", ErrFormat)
		case xml.StartElement:
			depth++
			if depth > lim.Depth {
				return fmt.Errorf("%w: elements nest deeper than %d", ErrLimit, lim.Depth)
			}
			if token.Name.Local == "component" {
				if err := count.add(); err != nil {
					return err
				}
			}
		case xml.EndElement:
			depth--
		}
	}
}
