package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

// Limits bound what an uploaded report may hold. They are far above what scanners write for real images.
type Limits struct {
	// Depth is the deepest nesting of the whole body.
	Depth int
	// Values is the most strings, numbers, words, objects and arrays in the body.
	Values int
	// Components and Vulnerabilities bound the two lists of the report.
	Components      int
	Vulnerabilities int
}

// DefaultLimits are the limits that hold unless others are asked for.
func DefaultLimits() Limits {
	return Limits{Depth: 64, Values: 2_000_000, Components: 200_000, Vulnerabilities: 200_000}
}

// InvalidError says that an upload is not what it should be.
type InvalidError struct {
	Detail string
	// TooLarge says that it exceeds a limit, which Detail names.
	TooLarge bool
}

// Error returns the detail.
func (e *InvalidError) Error() string { return e.Detail }

func invalidf(format string, args ...any) error {
	return &InvalidError{Detail: fmt.Sprintf(format, args...)}
}

func tooLargef(format string, args ...any) error {
	return &InvalidError{Detail: fmt.Sprintf(format, args...), TooLarge: true}
}

// The media types of CycloneDX documents.
const (
	MediaTypeCycloneDXJSON = "application/vnd.cyclonedx+json"
	MediaTypeCycloneDXXML  = "application/vnd.cyclonedx+xml"
)

// Upload is a report that came from outside. Its slices may be parts of the body that it was read from.
type Upload struct {
	ImageID string
	// Report is the CycloneDX document in JSON: byte for byte, unless it came in XML.
	Report json.RawMessage
	// Document is the CycloneDX document as it came, of the media type MediaType.
	Document  []byte
	MediaType string
	Summary   Summary
}

// Summary is what a CycloneDX document says in numbers. A vulnerability counts once for each thing that it affects.
type Summary struct {
	SpecVersion string
	Components  int
	Severities  model.SeverityCounts
	KEV         int
	Fixable     int
}

// ReadUpload reads {"imageId": …, "report": …}. It builds nothing of the report in memory, so that its cost is bounded by
// the size of the body alone. Errors are *InvalidError.
//
// A shell script that builds the body with echo may append a newline as the two characters \n. These are accepted after the
// object.
func ReadUpload(body []byte, limits Limits) (Upload, error) {
	object, rest, err := objectOf(body, limits)
	if err != nil {
		return Upload{}, err
	}
	if rest = bytes.TrimSpace(bytes.ReplaceAll(rest, []byte(`\n`), nil)); len(rest) > 0 {
		return Upload{}, invalidf("the body contains data after the JSON object")
	}
	upload := Upload{MediaType: MediaTypeCycloneDXJSON}
	seen := map[string]bool{}
	err = members(object, func(name string, value []byte) error {
		if name != "imageId" && name != "report" {
			return nil
		}
		if seen[name] {
			return invalidf("the body contains %q more than once", name)
		}
		seen[name] = true
		if name == "report" {
			upload.Report = value
			return nil
		}
		id, err := text(value)
		upload.ImageID = id
		if err != nil {
			return invalidf("imageId is not a string")
		}
		return nil
	})
	if err != nil {
		return Upload{}, asInvalid(err)
	}
	if err := (model.ImageKey{ImageID: upload.ImageID}).Validate(); err != nil {
		return Upload{}, invalidf("imageId: %v", err)
	}
	if !isObject(upload.Report) {
		return Upload{}, invalidf("report is missing or not a JSON object")
	}
	upload.Document = upload.Report
	upload.Summary, err = summarize(upload.Report, limits)
	if err != nil {
		return Upload{}, asInvalid(err)
	}
	return upload, nil
}

// ReadDocument reads a bare CycloneDX document about an image, in JSON or in XML as the media type says. It costs no more than
// ReadUpload for JSON; XML is written anew as JSON. Errors are *InvalidError.
func ReadDocument(imageID, mediaType string, body []byte, limits Limits) (Upload, error) {
	if err := (model.ImageKey{ImageID: imageID}).Validate(); err != nil {
		return Upload{}, invalidf("imageId: %v", err)
	}
	upload := Upload{ImageID: imageID, MediaType: mediaType, Document: body}
	document := body
	if mediaType == MediaTypeCycloneDXXML {
		var err error
		if document, err = jsonOf(body, limits); err != nil {
			return Upload{}, err
		}
	}
	object, rest, err := objectOf(document, limits)
	if err != nil {
		return Upload{}, err
	}
	if len(bytes.TrimSpace(rest)) > 0 {
		return Upload{}, invalidf("the body contains data after the JSON object")
	}
	upload.Report = object
	if upload.Summary, err = summarize(object, limits); err != nil {
		return Upload{}, asInvalid(err)
	}
	return upload, nil
}

// objectOf finds the JSON object that a body begins with, and what follows it.
func objectOf(body []byte, limits Limits) (object, rest []byte, err error) {
	end, err := measure(body, limits)
	if err != nil {
		return nil, nil, err
	}
	object = body[skipSpace(body, 0):end]
	switch {
	case !json.Valid(object):
		return nil, nil, invalidf("the body is not valid JSON")
	case !utf8.Valid(object):
		// It is given back as it came, within other documents.
		return nil, nil, invalidf("the body is not valid UTF-8")
	}
	return object, body[end:], nil
}

// asInvalid makes an InvalidError of every error: none of them is ours to blame.
func asInvalid(err error) error {
	if invalid, ok := errors.AsType[*InvalidError](err); ok {
		return invalid
	}
	return invalidf("%v", err)
}

// summarize reads a CycloneDX document, which is a valid JSON object.
func summarize(document []byte, limits Limits) (Summary, error) {
	var s Summary
	format := ""
	seen := map[string]bool{}
	err := members(document, func(name string, value []byte) (err error) {
		switch name {
		case "bomFormat", "specVersion", "components", "vulnerabilities":
			if seen[name] {
				return invalidf("report contains %q more than once", name)
			}
			seen[name] = true
		}
		switch name {
		case "bomFormat":
			format, err = text(value)
		case "specVersion":
			s.SpecVersion, err = text(value)
		case "components":
			s.Components, err = countObjects("components", value, limits.Components)
		case "vulnerabilities":
			if _, err := countObjects("vulnerabilities", value, limits.Vulnerabilities); err != nil {
				return err
			}
			err = elements(value, s.addVulnerability)
		}
		if err != nil {
			return fmt.Errorf("report: %s: %w", name, err)
		}
		return nil
	})
	if err != nil {
		return Summary{}, err
	}
	if format != "CycloneDX" {
		return Summary{}, invalidf("report is not a CycloneDX document: bomFormat is %.40q", format)
	}
	return s, checkVersion(s.SpecVersion)
}

// checkVersion refuses versions of CycloneDX that are not known.
func checkVersion(version string) error {
	switch version {
	case "1.4", "1.5", "1.6":
		return nil
	default:
		return invalidf("report: specVersion %.40q is not one of 1.4, 1.5, 1.6", version)
	}
}

// countObjects counts the elements of an array of objects.
func countObjects(name string, value []byte, limit int) (int, error) {
	if !isArray(value) {
		return 0, invalidf("report: %s is not an array", name)
	}
	count := 0
	err := elements(value, func(element []byte) error {
		count++
		switch {
		case count > limit:
			return tooLargef("report: there are more than the limit of %d %s", limit, name)
		case !isObject(element):
			return invalidf("report: %s contains an element that is not an object", name)
		}
		return nil
	})
	return count, err
}

// addVulnerability counts one vulnerability by the worst of its ratings.
func (s *Summary) addVulnerability(vulnerability []byte) error {
	worst, affected, fixable, exploited := model.SeverityUnknown, 0, false, false
	err := members(vulnerability, func(name string, value []byte) error {
		switch name {
		case "ratings":
			return objectsOf(name, value, func(rating []byte) error {
				severity, err := ratingSeverity(rating)
				worst = max(worst, severity)
				return err
			})
		case "affects":
			return objectsOf(name, value, func([]byte) error {
				affected++
				return nil
			})
		case "recommendation":
			recommendation, err := text(value)
			fixable = recommendation != ""
			return err
		case "properties":
			return objectsOf(name, value, func(property []byte) error {
				key, content, err := nameAndValue(property)
				exploited = exploited || (key == propertyPrefix+"kev" && content == "true")
				return err
			})
		default:
			return nil
		}
	})
	if err != nil {
		return err
	}
	for range max(1, affected) {
		s.Severities.Add(worst)
	}
	if exploited {
		s.KEV += max(1, affected)
	}
	if fixable {
		s.Fixable += max(1, affected)
	}
	return nil
}

// objectsOf calls f with each object of an array of objects.
func objectsOf(name string, value []byte, f func([]byte) error) error {
	if !isArray(value) {
		return invalidf("report: %s of a vulnerability is not an array", name)
	}
	return elements(value, func(element []byte) error {
		if !isObject(element) {
			return invalidf("report: %s of a vulnerability contains an element that is not an object", name)
		}
		return f(element)
	})
}

// ratingSeverity reads the severity of a rating, and takes that of its CVSS score when it names none.
func ratingSeverity(rating []byte) (model.Severity, error) {
	named, score := "", 0.0
	err := members(rating, func(name string, value []byte) (err error) {
		switch name {
		case "severity":
			named, err = text(value)
		case "score":
			score, err = strconv.ParseFloat(string(value), 64)
		}
		return err
	})
	if err != nil {
		return model.SeverityUnknown, invalidf("report: rating of a vulnerability: %v", err)
	}
	switch named {
	case "":
		return cvssSeverity(score), nil
	case "info", "none":
		return model.SeverityNegligible, nil
	default:
		severity, err := model.ParseSeverity(named)
		if err != nil {
			return model.SeverityUnknown, invalidf("report: severity %.40q of a rating is not a CycloneDX severity", named)
		}
		return severity, nil
	}
}

// nameAndValue reads a property.
func nameAndValue(property []byte) (name, content string, err error) {
	err = members(property, func(member string, value []byte) (err error) {
		switch member {
		case "name":
			name, err = text(value)
		case "value":
			content, err = text(value)
		}
		return err
	})
	return name, content, err
}
