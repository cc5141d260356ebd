package vex

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/truncate"
)

// Limits bounds what Read accepts. A field that is zero or less means its default, never "unlimited".
type Limits struct {
	// Bytes is the size of the document. Default 16 MiB.
	Bytes int64
	// Depth is the nesting of arrays and objects. Default 64.
	Depth int
	// Values is the number of JSON values and member names. Default 500,000.
	Values int
	// Statements is the number of statements. Default 20,000.
	Statements int
	// Products is the number of products and subcomponents of one statement. Default 50,000.
	Products int
	// TotalProducts is the number of products and subcomponents of all statements. Default 200,000.
	TotalProducts int
	// Comparisons is the number of versions in the ranges of all statements about one vulnerability, where each counts once per statement: all may be
	// compared with the version of each package that has the vulnerability. Default 5,000.
	Comparisons int
}

func (l Limits) withDefaults() Limits {
	if l.Bytes <= 0 {
		l.Bytes = 16 << 20
	}
	for _, f := range []struct {
		value    *int
		fallback int
	}{
		{&l.Depth, 64},
		{&l.Values, 500_000},
		{&l.Statements, 20_000},
		{&l.Products, 50_000},
		{&l.TotalProducts, 200_000},
		{&l.Comparisons, 5_000},
	} {
		if *f.value <= 0 {
			*f.value = f.fallback
		}
	}
	return l
}

// The errors that those of Read wrap.
var (
	// ErrLimit says that a document exceeds a bound; the message names the bound.
	ErrLimit = errors.New("the VEX document exceeds a limit")
	// ErrFormat says that it is not a valid document of a supported format.
	ErrFormat = errors.New("the VEX document cannot be read")
)

// The bounds of texts in bytes. IDs that are longer are refused, other texts are truncated.
const (
	maxID   = 500
	maxText = 4096
)

// maxAliases bounds the further IDs of one vulnerability.
const maxAliases = 100

// Read reads a VEX document in JSON, and finds out its format. source names it in errors and in the result.
func Read(source string, r io.Reader, limits Limits) (document *Document, err error) {
	limits = limits.withDefaults()
	defer func() {
		if p := recover(); p != nil { // the libraries expect no hostile documents
			document, err = nil, invalidf("its parser panicked: %v", p)
		}
		if err != nil {
			document, err = nil, fmt.Errorf("%s: %w", source, err)
		}
	}()
	data, err := io.ReadAll(io.LimitReader(r, limits.Bytes+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > limits.Bytes {
		return nil, limitf("it is larger than %d bytes; split it", limits.Bytes)
	}
	if err := checkBounds(data, limits); err != nil {
		return nil, err
	}
	read, err := detect(data)
	if err != nil {
		return nil, err
	}
	if document, err = read(data, limits); err != nil {
		return nil, err
	}
	document.Source = source
	return document, document.check(limits)
}

func invalidf(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrFormat, fmt.Errorf(format, args...))
}

func limitf(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrLimit, fmt.Errorf(format, args...))
}

// detect returns the reader of the format.
func detect(data []byte) (func([]byte, Limits) (*Document, error), error) {
	if bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n\ufeff"), []byte("<")) {
		return nil, invalidf("XML is not supported; convert it to JSON")
	}
	var head struct {
		Context     string `json:"@context"`
		BOMFormat   string `json:"bomFormat"`
		PayloadType string `json:"payloadType"`
		Document    struct {
			CSAFVersion string `json:"csaf_version"`
		} `json:"document"`
	}
	err := json.Unmarshal(data, &head)
	var other *json.UnmarshalTypeError
	if err != nil && !errors.As(err, &other) {
		return nil, invalidf("it is not valid JSON: %w", short(err))
	}
	switch {
	case isOpenVEX(head.Context):
		return readOpenVEX, nil
	case head.Document.CSAFVersion != "":
		return readCSAF, nil
	case head.BOMFormat == "CycloneDX":
		return readCycloneDX, nil
	case head.PayloadType != "":
		return nil, invalidf("it is a signed envelope; extract the VEX document from its payload")
	default:
		return nil, invalidf(`its format is unknown: it has neither "@context" of OpenVEX, nor "document.csaf_version" of CSAF, nor "bomFormat" of CycloneDX`)
	}
}

// short bounds the text of an error of the JSON decoder, which contains whole numbers.
func short(err error) error { return errors.New(truncate.Ellipsis(err.Error(), 200)) }

func tooManyStatements(n int, limits Limits) error {
	return limitf("it has %d statements, more than %d; split it", n, limits.Statements)
}

// decode reads JSON into v, and names the format in errors.
func decode(data []byte, format Format, v any) error {
	if err := decodeKnown(data, v); err != nil {
		return invalidf("it is not a valid %s document: %w", format, err)
	}
	return nil
}

// check applies what holds for documents of all formats.
func (d *Document) check(limits Limits) error {
	switch {
	case len(d.Statements) == 0:
		return invalidf("it contains no VEX statement")
	case len(d.Statements) > limits.Statements:
		return tooManyStatements(len(d.Statements), limits)
	}
	for _, id := range []struct{ name, value string }{{"ID", d.ID}, {"author", d.Author}, {"version", d.Revision}} {
		if len(id.value) > maxID {
			return limitf("its %s has %d bytes, more than %d", id.name, len(id.value), maxID)
		}
	}
	total := 0
	for i := range d.Statements {
		s := &d.Statements[i]
		size := s.size()
		if total += size; size > limits.Products {
			return limitf("%s has %d products and subcomponents, more than %d; split the statement", s.Position, size, limits.Products)
		}
		if len(s.Aliases) > maxAliases {
			return limitf("%s: the vulnerability has %d aliases, more than %d", s.Position, len(s.Aliases), maxAliases)
		}
		for _, id := range append([]string{s.Vulnerability}, s.Aliases...) {
			if len(id) > maxID {
				return limitf("%s: an ID of the vulnerability has %d bytes, more than %d", s.Position, len(id), maxID)
			}
		}
		for _, text := range []*string{&s.ImpactStatement, &s.ActionStatement, &s.Comment} {
			*text = truncate.Ellipsis(*text, maxText)
		}
	}
	if total > limits.TotalProducts {
		return limitf("its statements have %d products and subcomponents, more than %d; split the document", total, limits.TotalProducts)
	}
	return d.checkComparisons(limits)
}

// checkComparisons bounds what statements about one vulnerability cost for each package that has it.
func (d *Document) checkComparisons(limits Limits) error {
	comparisons := map[string]int{} // by key
	for i := range d.Statements {
		s := &d.Statements[i]
		n := s.comparisons()
		if n == 0 {
			continue
		}
		counted := map[string]bool{}
		for _, name := range append([]string{s.Vulnerability}, s.Aliases...) {
			id := key(name)
			if counted[id] {
				continue
			}
			counted[id] = true
			if comparisons[id] += n; comparisons[id] > limits.Comparisons {
				return limitf("%s: the statements about %.100q up to this one have ranges with more than %d versions together; state fewer ranges", s.Position, id, limits.Comparisons)
			}
		}
	}
	return nil
}

// timestamp reads a date and time as of RFC 3339; "" is the zero time.
func timestamp(position, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return t, invalidf("%s: %.50q is not a date and time as of RFC 3339, such as 2026-01-31T12:00:00Z", position, text)
	}
	return t.UTC(), nil
}

// required returns an error that lists the fields that are empty. They are given as names and values in turn.
func required(position string, fields ...string) error {
	var missing []string
	for field := range slices.Chunk(fields, 2) {
		if len(field) == 2 && field[1] == "" {
			missing = append(missing, fmt.Sprintf("%q", field[0]))
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return invalidf("%s has no %s", position, strings.Join(missing, ", "))
}
