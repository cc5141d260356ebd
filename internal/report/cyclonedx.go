package report

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/uuid"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/truncate"
)

// ErrInconsistent says that a finding named a package that the image does not hold: the image changed while it was read.
var ErrInconsistent = errors.New("the image changed while its report was written")

// propertyPrefix names the properties that are ours, as the CycloneDX property taxonomy asks for.
const propertyPrefix = "scanner-operator:"

// namespace is the UUID of this package's version 5 UUIDs.
var namespace = uuid.NewSHA1(uuid.NameSpaceURL, []byte("https://scanner.zoltankerezsi.xyz/report"))

// Input is what a report is made of. The same input gives the same bytes.
type Input struct {
	ImageID  string
	Platform model.Platform
	// Distro is "id:version", "" when the image has no distribution.
	Distro string
	// Lifecycle is that of the distribution, and Created when the image was created, zero when that is not known. CSV about several images
	// has both.
	Lifecycle model.Lifecycle
	Created   time.Time
	// SBOMSHA256 distinguishes reports of an image that was scanned again.
	SBOMSHA256 string
	// Source is how the image was read, "" when that is not known. Unreadable counts the files and directories that could not be: the report is
	// partial unless it is 0.
	Source     model.ImageSource
	Unreadable int64
	// Build is the database build that the findings come from, nil when there is none.
	Build *model.DatabaseBuild
	// MatchedAt becomes the document's timestamp unless it is zero.
	MatchedAt time.Time
	// ToolVersion is the version of this program.
	ToolVersion string
	// History adds to CSV when findings were first seen and fixed, until when they are due, and the owners.
	History bool
	// Owners are those of the workloads that run the image, by name.
	Owners []string
	// Decisions adds to CSV what suppresses findings.
	Decisions bool
	// Packages and Findings call yield for each package and each finding of the image, in a stable order, until
	// yield fails; they return that error. Without Findings, CycloneDX and SPDX contain only the packages.
	Packages func(yield func(model.HeldPackage) error) error
	Findings func(yield func(model.Finding) error) error
	// Suppressed are findings that do not count because of VEX documents, nil when nobody asked for them. JSON contains them, and with ShowSuppressed
	// all formats but SPDX do: as Findings that are Suppressed, with the statement as the decision.
	Suppressed     []model.SuppressedFinding
	ShowSuppressed bool
}

// CycloneDX writes the report. Packages are written as they come; findings are collected first, since a document lists
// each vulnerability once with all packages that it affects. Nothing useful has been written when an error is returned.
func CycloneDX(w io.Writer, in Input) error {
	buffered := bufio.NewWriterSize(w, 64<<10)
	d := &document{w: buffered, refs: map[string]string{}}
	d.header(documentID(in), metadata(in))
	if err := d.components(in); err != nil {
		return err
	}
	if in.Unreadable > 0 {
		d.raw(`,"compositions":`)
		d.value([]cdx.Composition{{Aggregate: cdx.CompositionAggregateIncomplete, Assemblies: &[]cdx.BOMReference{imageRef}}})
	}
	if in.Findings != nil {
		d.raw(`,"vulnerabilities":[`)
		first := true
		if err := d.vulnerabilities(in, &first); err != nil {
			return err
		}
		d.raw("]")
	}
	return d.end(in.ImageID)
}

// document is a report that is being written. The first error of a write stays.
type document struct {
	w   *bufio.Writer
	err error
	// refs holds the bom-ref of each package by fingerprint; nil when those of findings are not to be looked up.
	refs map[string]string
	// prefix is what the bom-refs of an image begin with where there are several images.
	prefix string
}

// end closes the document.
func (d *document) end(name string) error {
	d.raw("}\n")
	if d.err == nil {
		d.err = d.w.Flush()
	}
	if d.err != nil {
		return fmt.Errorf("write the report of %s: %w", name, d.err)
	}
	return nil
}

func (d *document) raw(s string) {
	if d.err == nil {
		_, d.err = d.w.WriteString(s)
	}
}

func (d *document) value(v any) {
	if d.err != nil {
		return
	}
	data, err := json.Marshal(v)
	if err != nil {
		d.err = err
		return
	}
	_, d.err = d.w.Write(data)
}

// element writes one element of an array; first says that it is the first one.
func (d *document) element(first bool, v any) error {
	if !first {
		d.raw(",")
	}
	d.value(v)
	return d.err
}

func (d *document) header(id uuid.UUID, metadata cdx.Metadata) {
	d.raw(`{"$schema":"http://cyclonedx.org/schema/bom-1.6.schema.json","bomFormat":"CycloneDX","specVersion":"1.6","serialNumber":`)
	d.value(id.URN())
	d.raw(`,"version":1,"metadata":`)
	d.value(metadata)
}

// documentID follows from what the document is about, so that the same document has the same one.
func documentID(in Input) uuid.UUID {
	build := ""
	if in.Build != nil {
		build = in.Build.ID
	}
	return uuid.NewSHA1(namespace, []byte(strings.Join([]string{in.ImageID, in.Platform.String(), in.SBOMSHA256, build}, "\n")))
}

func metadata(in Input) cdx.Metadata {
	m := cdx.Metadata{Tools: tools(in.ToolVersion), Component: imageComponent(in), Properties: imageProperties(in)}
	if !in.MatchedAt.IsZero() {
		m.Timestamp = in.MatchedAt.UTC().Format(time.RFC3339)
	}
	return m
}

// tools names this program.
func tools(version string) *cdx.ToolsChoice {
	return &cdx.ToolsChoice{Components: &[]cdx.Component{{
		Type: cdx.ComponentTypeApplication, Name: "scanner-operator", Version: version,
	}}}
}

// imageProperties say of an image where its packages and findings come from.
func imageProperties(in Input) *[]cdx.Property {
	var p properties
	p.add("platform", in.Platform.String())
	p.add("distro", in.Distro)
	p.add("sbom:sha256", in.SBOMSHA256)
	p.add("source", string(in.Source))
	if in.Unreadable > 0 {
		p.add("unreadable", strconv.FormatInt(in.Unreadable, 10))
	}
	if in.Build != nil {
		p.add("database:id", in.Build.ID)
		p.add("database:schemaVersion", in.Build.SchemaVersion)
		p.add("database:built", in.Build.Built.UTC().Format(time.RFC3339))
		p.add("database:source", string(in.Build.Source))
	}
	return p.list()
}

// imageRef is the bom-ref of the image in a report about one image.
const imageRef = "image"

// imageComponent is the image itself, the subject of the document.
func imageComponent(in Input) *cdx.Component {
	key := model.ImageKey{ImageID: in.ImageID, Platform: in.Platform}
	c := &cdx.Component{BOMRef: imageRef, Type: cdx.ComponentTypeContainer, Name: key.Repository(), Version: key.Digest()}
	if c.Name == "" {
		c.Name = in.ImageID
	}
	if !key.Pullable() {
		return c
	}
	// The repository keeps its full name as repository_url; see the purl specification, type "oci".
	qualifiers := url.Values{"repository_url": {key.Repository()}}
	if in.Platform.Architecture != "" {
		qualifiers.Set("arch", in.Platform.Architecture)
	}
	name := strings.ToLower(path.Base(key.Repository()))
	c.PackageURL = "pkg:oci/" + url.PathEscape(name) + "@" + url.QueryEscape(key.Digest()) + "?" + qualifiers.Encode()
	return c
}

func (d *document) components(in Input) error {
	d.raw(`,"components":[`)
	first := true
	if id, version, found := strings.Cut(in.Distro, ":"); id != "" {
		c := cdx.Component{BOMRef: d.prefix + "os:" + in.Distro, Type: cdx.ComponentTypeOS, Name: id}
		if found {
			c.Version = truncate.Characters(version, maxVersion)
		}
		if err := d.element(first, c); err != nil {
			return fmt.Errorf("write the report of %s: %w", in.ImageID, err)
		}
		first = false
	}
	err := in.Packages(func(held model.HeldPackage) error {
		if _, known := d.refs[held.Package.Fingerprint]; known {
			return nil
		}
		c := packageComponent(held)
		c.BOMRef = d.prefix + c.BOMRef
		d.refs[held.Package.Fingerprint] = c.BOMRef
		err := d.element(first, c)
		first = false
		return err
	})
	if err != nil {
		return fmt.Errorf("packages of %s: %w", in.ImageID, err)
	}
	d.raw("]")
	return nil
}

// packageComponent is one package of the image.
func packageComponent(held model.HeldPackage) cdx.Component {
	p := held.Package
	c := cdx.Component{
		BOMRef: packageRef(p), Type: cdx.ComponentTypeLibrary, Name: p.Name, Version: truncate.Characters(p.Version, maxVersion),
		PackageURL: p.PURL, Licenses: licenses(p.Licenses),
	}
	if p.Type == "binary" {
		c.Type = cdx.ComponentTypeApplication
	}
	var properties properties
	properties.add("package:type", p.Type)
	properties.add("package:language", p.Language)
	properties.add("package:distro", p.Distro)
	if held.Excluded {
		properties.add("package:excluded", "true")
	}
	for i, cpe := range p.CPEs {
		if i == 0 {
			c.CPE = cpe
			continue
		}
		properties.add("package:cpe", cpe)
	}
	c.Properties = properties.list()
	if len(held.Locations) > 0 {
		occurrences := make([]cdx.EvidenceOccurrence, 0, len(held.Locations))
		for _, l := range held.Locations {
			occurrences = append(occurrences, cdx.EvidenceOccurrence{Location: l.Path, AdditionalContext: l.Layer})
		}
		c.Evidence = &cdx.Evidence{Occurrences: &occurrences}
	}
	return c
}

// packageRef is the package URL with a package-id: unique in the document, and the same in every report that holds the
// package. 128 bits of the fingerprint rule out constructed collisions.
func packageRef(p model.Package) string {
	id := "package-id=" + p.Fingerprint[:min(32, len(p.Fingerprint))]
	switch {
	case p.PURL == "":
		return p.Type + ":" + p.Name + "@" + p.Version + "?" + id
	case strings.Contains(p.PURL, "?"):
		return p.PURL + "&" + id
	default:
		return p.PURL + "?" + id
	}
}

// maxVersion is the longest version that CycloneDX allows, in characters.
const maxVersion = 1024

// properties collects name-value pairs under our prefix.
type properties []cdx.Property

func (p *properties) add(name, value string) {
	if value != "" {
		*p = append(*p, cdx.Property{Name: propertyPrefix + name, Value: value})
	}
}

func (p *properties) addFloat(name string, value float64) {
	p.add(name, strconv.FormatFloat(value, 'f', -1, 64))
}

func (p *properties) list() *[]cdx.Property {
	if len(*p) == 0 {
		return nil
	}
	list := []cdx.Property(*p)
	return &list
}
