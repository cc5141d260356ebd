package report

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/uuid"
	"github.com/owenrumney/go-sarif/sarif"
	"github.com/spdx/tools-golang/spdx/v2/v2_3"
)

// Set describes several images in one report. Of their packages and findings, only those of one image are in memory at a
// time.
type Set struct {
	// Name of the document.
	Name string
	// ToolVersion is the version of this program.
	ToolVersion string
	CreatedAt   time.Time
	// Images calls yield for each image until yield fails, and returns that error. Some formats call it several times: it must give
	// the same images in the same order.
	Images func(yield func(Input) error) error
}

// WriteSet writes one document about many images: CycloneDX with an image as a component that holds its packages, SPDX with
// an image as a package that contains others, SARIF with a run for each image, or CSV.
func WriteSet(w io.Writer, format Format, set Set) error {
	d := &document{w: bufio.NewWriterSize(w, 64<<10)}
	switch format {
	case FormatCycloneDX:
		return set.cyclonedx(d)
	case FormatSPDX:
		return set.spdx(d)
	case FormatSARIF:
		return set.sarif(d)
	case FormatCSV:
		return set.csv(w)
	case FormatTable, FormatJSON, FormatOpenVEX, FormatCycloneDXVEX:
	}
	return fmt.Errorf("the format %q does not support reports about several images", format)
}

// id is another one for each set that is written.
func (s Set) id() uuid.UUID {
	return uuid.NewSHA1(namespace, []byte(s.Name+"\n"+s.CreatedAt.UTC().Format(time.RFC3339Nano)))
}

// shortID identifies an image within a set.
func shortID(in Input) string {
	sum := sha256.Sum256([]byte(in.ImageID + "\n" + in.Platform.String()))
	return hex.EncodeToString(sum[:12])
}

// each calls write for each image and says whether it is the first one.
func (s Set) each(write func(in Input, first bool) error) error {
	first := true
	return s.Images(func(in Input) error {
		err := write(in, first)
		first = false
		return err
	})
}

func (s Set) cyclonedx(d *document) error {
	d.header(s.id(), cdx.Metadata{
		Timestamp: s.CreatedAt.UTC().Format(time.RFC3339), Tools: tools(s.ToolVersion),
		Component: &cdx.Component{BOMRef: "set", Type: cdx.ComponentTypePlatform, Name: s.Name},
	})
	d.raw(`,"components":[`)
	if err := s.each(d.imageWithPackages); err != nil {
		return err
	}
	d.raw(`],"vulnerabilities":[`)
	// The packages were written before, and with the same references.
	d.refs = nil
	first := true
	if err := s.Images(func(in Input) error {
		d.prefix = shortID(in) + "/"
		return d.vulnerabilities(in, &first)
	}); err != nil {
		return err
	}
	d.raw("]")
	return d.end(s.Name)
}

// imageWithPackages writes an image as a component that holds its packages.
func (d *document) imageWithPackages(in Input, first bool) error {
	d.prefix, d.refs = shortID(in)+"/", map[string]string{}
	c := imageComponent(in)
	c.BOMRef = d.prefix + c.BOMRef
	c.Properties = imageProperties(in)
	head, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("write the report of %s: %w", in.ImageID, err)
	}
	if !first {
		d.raw(",")
	}
	d.raw(string(bytes.TrimSuffix(head, []byte("}"))))
	if err := d.components(in); err != nil {
		return err
	}
	d.raw("}")
	return d.err
}

func (s Set) sarif(d *document) error {
	d.raw(`{"version":"2.1.0","$schema":`)
	document, err := sarif.New(sarif.Version210)
	if err != nil {
		return fmt.Errorf("write the report of %s: %w", s.Name, err)
	}
	d.value(document.Schema)
	d.raw(`,"runs":[`)
	if err := s.each(func(in Input, first bool) error {
		run, err := sarifRun(in)
		if err != nil {
			return err
		}
		return d.element(first, run)
	}); err != nil {
		return err
	}
	d.raw("]")
	return d.end(s.Name)
}

func (s Set) csv(w io.Writer) error {
	rows := NewCSV(w, slices.Concat(csvImageColumns, csvColumns, csvHistoryColumns, csvDeadlineColumns)...)
	if err := s.Images(func(in Input) error {
		in.History = true
		return csvImage(rows, in, csvImageCells(in)...)
	}); err != nil {
		return err
	}
	if err := rows.Flush(); err != nil { // of the names of the columns, when there are no rows
		return fmt.Errorf("write the report of %s: %w", s.Name, err)
	}
	return nil
}

// spdx passes over the images three times: packages, relationships and licences are lists of their own.
func (s Set) spdx(d *document) error {
	var head spdxBuilder
	head.start(Input{ImageID: s.Name, ToolVersion: s.ToolVersion, MatchedAt: s.CreatedAt})
	d.raw(`{"spdxVersion":`)
	d.value(head.document.SPDXVersion)
	d.raw(`,"dataLicense":`)
	d.value(head.document.DataLicense)
	d.raw(`,"SPDXID":`)
	d.value(head.document.SPDXIdentifier)
	d.raw(`,"name":`)
	d.value(s.Name)
	d.raw(`,"documentNamespace":`)
	d.value("https://scanner.zoltankerezsi.xyz/spdx/" + s.id().String())
	d.raw(`,"creationInfo":`)
	d.value(head.document.CreationInfo)

	defined := map[string]bool{}
	for _, list := range []struct {
		name     string
		findings bool
		write    func(*v2_3.Document, *bool) error
	}{
		{"packages", true, func(part *v2_3.Document, first *bool) error { return listed(d, first, part.Packages) }},
		{"relationships", false, func(part *v2_3.Document, first *bool) error { return listed(d, first, part.Relationships) }},
		{"hasExtractedLicensingInfos", false, func(part *v2_3.Document, first *bool) error {
			var others []*v2_3.OtherLicense
			for _, license := range part.OtherLicenses {
				if !defined[license.LicenseIdentifier] {
					defined[license.LicenseIdentifier] = true
					others = append(others, license)
				}
			}
			return listed(d, first, others)
		}},
	} {
		d.raw(`,"` + list.name + `":[`)
		first := true
		if err := s.Images(func(in Input) error {
			if !list.findings {
				in.Findings = nil
			}
			b := newSPDXBuilder("-" + shortID(in))
			if err := b.image(in); err != nil {
				return err
			}
			return list.write(&b.document, &first)
		}); err != nil {
			return err
		}
		d.raw("]")
	}
	return d.end(s.Name)
}

// listed writes elements of an array; first says that none stands before.
func listed[T any](d *document, first *bool, list []T) error {
	for _, element := range list {
		if err := d.element(*first, element); err != nil {
			return err
		}
		*first = false
	}
	return nil
}
