package vex

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/uuid"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

// maxCDXVersion is the longest version that CycloneDX allows, in characters.
const maxCDXVersion = 1024

// cdxStatesOf are the states of decisions.
var cdxStatesOf = map[model.DecisionStatus]cdx.ImpactAnalysisState{
	model.DecisionNotAffected:        cdx.IASNotAffected,
	model.DecisionFalsePositive:      cdx.IASFalsePositive,
	model.DecisionFixed:              cdx.IASResolved,
	model.DecisionAcceptedRisk:       cdx.IASExploitable,
	model.DecisionUnderInvestigation: cdx.IASInTriage,
}

// cdxJustificationOf is the nearest one of CycloneDX.
func cdxJustificationOf(j Justification) cdx.ImpactAnalysisJustification {
	switch j {
	case "component_not_present", "vulnerable_code_not_present":
		return cdx.IAJCodeNotPresent
	case "vulnerable_code_not_in_execute_path":
		return cdx.IAJCodeNotReachable
	case "vulnerable_code_cannot_be_controlled_by_adversary":
		return cdx.IAJRequiresEnvironment
	case "inline_mitigations_already_exist":
		return cdx.IAJProtectedByMitigatingControl
	default:
		return ""
	}
}

// writeCycloneDX makes a document of CycloneDX 1.6. One image is its subject; several are containers beside each other. The serial number follows
// from the content.
func writeCycloneDX(c *collector, author string) ([]byte, error) {
	names := slices.Sorted(maps.Keys(c.images))
	refs := make(map[string]string, len(names))
	components, vulnerabilities := newArray(), newArray()
	for i, name := range names {
		refs[name] = fmt.Sprintf("image-%d", i+1)
		if err := components.add(c.cdxImage(name, refs[name])); err != nil {
			return nil, err
		}
	}
	for i, k := range c.sorted() {
		if err := vulnerabilities.add(c.cdxVulnerability(k, fmt.Sprintf("statement-%d", i+1), refs)); err != nil {
			return nil, err
		}
	}
	metadata := struct {
		Timestamp string                      `json:"timestamp"`
		Tools     cdx.ToolsChoice             `json:"tools"`
		Authors   []cdx.OrganizationalContact `json:"authors"`
		Component json.RawMessage             `json:"component,omitempty"`
	}{
		Timestamp: dateTime(c.issued()), Authors: []cdx.OrganizationalContact{{Name: author}},
		Tools: cdx.ToolsChoice{Components: &[]cdx.Component{{Type: cdx.ComponentTypeApplication, Name: tool}}},
	}
	list := components.end()
	if len(names) == 1 {
		metadata.Component, list = list[1:len(list)-1], nil
	}
	document := struct {
		Schema          string          `json:"$schema"`
		BOMFormat       string          `json:"bomFormat"`
		SpecVersion     string          `json:"specVersion"`
		SerialNumber    string          `json:"serialNumber"`
		Version         int             `json:"version"`
		Metadata        any             `json:"metadata"`
		Components      json.RawMessage `json:"components,omitempty"`
		Vulnerabilities json.RawMessage `json:"vulnerabilities"`
	}{
		Schema: "http://cyclonedx.org/schema/bom-1.6.schema.json", BOMFormat: "CycloneDX", SpecVersion: "1.6", Version: 1,
		Metadata: metadata, Components: list, Vulnerabilities: vulnerabilities.end(),
	}
	document.SerialNumber = uuid.NewSHA1(namespace, slices.Concat([]byte(author+"\n"), list, metadata.Component, document.Vulnerabilities)).URN()
	data, err := json.Marshal(document)
	return append(data, '\n'), err
}

// array is a JSON array that grows.
type array struct{ buffer bytes.Buffer }

func newArray() *array {
	a := &array{}
	a.buffer.WriteByte('[')
	return a
}

func (a *array) add(element any) error {
	data, err := json.Marshal(element)
	if a.buffer.Len() > 1 {
		a.buffer.WriteByte(',')
	}
	a.buffer.Write(data)
	return err
}

func (a *array) end() []byte {
	a.buffer.WriteByte(']')
	return a.buffer.Bytes()
}

// cdxImage is an image with the packages that statements are about.
func (c *collector) cdxImage(name, ref string) cdx.Component {
	image := c.images[name]
	out := cdx.Component{BOMRef: ref, Type: cdx.ComponentTypeContainer, Name: image.key.Repository(), Version: image.key.Digest()}
	if out.Name == "" {
		out.Name = image.key.ImageID
	}
	if strings.HasPrefix(name, schemePURL) {
		out.PackageURL = name
	}
	if hex := sha256Of(image.key); hex != "" {
		out.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex}}
	}
	packages := make([]cdx.Component, 0, len(image.packages))
	for _, purl := range slices.Sorted(maps.Keys(image.packages)) {
		p := image.packages[purl]
		one := cdx.Component{BOMRef: packageRef(ref, purl), Type: cdx.ComponentTypeLibrary, Name: p.name, PackageURL: purl}
		if len(p.version) <= maxCDXVersion {
			one.Version = p.version
		}
		packages = append(packages, one)
	}
	out.Components = &packages
	return out
}

// packageRef is the reference of a package in an image.
func packageRef(image, purl string) string { return image + "/" + purl }

func (c *collector) cdxVulnerability(k statementKey, ref string, refs map[string]string) cdx.Vulnerability {
	d := &k.decision
	out := cdx.Vulnerability{
		BOMRef: ref, ID: k.vulnerability,
		Analysis: &cdx.VulnerabilityAnalysis{
			State: cdxStatesOf[d.Status], Justification: cdxJustificationOf(Justification(d.Justification)), Detail: d.Comment,
		},
	}
	if k.aliases != "" {
		var references []cdx.VulnerabilityReference
		for alias := range strings.SplitSeq(k.aliases, "\n") {
			references = append(references, cdx.VulnerabilityReference{ID: alias, Source: &cdx.Source{}})
		}
		out.References = &references
	}
	if d.Status == model.DecisionAcceptedRisk {
		out.Analysis.Response = &[]cdx.ImpactAnalysisResponse{cdx.IARWillNotFix}
	}
	if !d.Since.IsZero() {
		out.Analysis.FirstIssued = dateTime(d.Since)
	}
	properties := []cdx.Property{{Name: propertyDecision, Value: string(d.Status)}}
	if d.Justification != "" {
		properties = append(properties, cdx.Property{Name: propertyJustification, Value: d.Justification})
	}
	if !d.ExpiresAt.IsZero() {
		properties = append(properties, cdx.Property{Name: propertyExpiresAt, Value: dateTime(d.ExpiresAt)})
	}
	out.Properties = &properties
	var affects []cdx.Affects
	for _, name := range slices.Sorted(maps.Keys(c.statements[k])) {
		for _, purl := range slices.Sorted(maps.Keys(c.statements[k][name])) {
			affects = append(affects, cdx.Affects{Ref: packageRef(refs[name], purl)})
		}
	}
	out.Affects = &affects
	return out
}
