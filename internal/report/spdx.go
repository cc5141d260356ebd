package report

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spdx/tools-golang/spdx/v2/common"
	"github.com/spdx/tools-golang/spdx/v2/v2_3"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/truncate"
)

const (
	noAssertion  = "NOASSERTION"
	spdxDocument = common.ElementID("DOCUMENT")
	spdxImage    = common.ElementID("Image")
)

// spdxJSON writes an SPDX 2.3 document: the packages, and the findings as external references of theirs, since this
// version of SPDX knows vulnerabilities in no other form.
func spdxJSON(w io.Writer, in Input) error {
	b := newSPDXBuilder("")
	b.start(in)
	if err := b.image(in); err != nil {
		return err
	}
	// As the module's own package json does, which would bring the readers of all versions of SPDX.
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(&b.document); err != nil {
		return fmt.Errorf("write the report of %s: %w", in.ImageID, err)
	}
	return nil
}

// image adds an image with its packages, and what was found in them.
func (b *spdxBuilder) image(in Input) error {
	b.addImage(in)
	if err := in.Packages(func(held model.HeldPackage) error {
		b.add(held)
		return nil
	}); err != nil {
		return fmt.Errorf("packages of %s: %w", in.ImageID, err)
	}
	if in.Findings == nil {
		return nil
	}
	findings, err := sortedFindings(in)
	if err != nil {
		return err
	}
	for _, f := range findings {
		p, known := b.packages[f.Package.Fingerprint]
		if !known {
			return fmt.Errorf("findings of %s: package %s %s: %w", in.ImageID, f.Package.Name, f.Package.Version, ErrInconsistent)
		}
		p.PackageExternalReferences = append(p.PackageExternalReferences, spdxAdvisory(f))
	}
	return nil
}

type spdxBuilder struct {
	document v2_3.Document
	// suffix distinguishes the identifiers of one image from those of others in the same document.
	suffix   string
	packages map[string]*v2_3.Package
	// licenses names the texts of licences that are not on the SPDX list and have been defined.
	licenses map[string]bool
}

func newSPDXBuilder(suffix string) *spdxBuilder {
	return &spdxBuilder{suffix: suffix, packages: map[string]*v2_3.Package{}, licenses: map[string]bool{}}
}

func (b *spdxBuilder) start(in Input) {
	b.document = v2_3.Document{
		SPDXVersion: v2_3.Version, DataLicense: v2_3.DataLicense, SPDXIdentifier: spdxDocument, DocumentName: in.ImageID,
		DocumentNamespace: "https://scanner.zoltankerezsi.xyz/spdx/" + documentID(in).String(),
		CreationInfo: &v2_3.CreationInfo{
			Creators: []common.Creator{{CreatorType: "Tool", Creator: "scanner-operator-" + in.ToolVersion}},
			Created:  in.MatchedAt.UTC().Format(time.RFC3339),
		},
	}
	if in.Build != nil {
		b.document.DocumentComment = fmt.Sprintf("Vulnerabilities are those of the %s database %s of %s, schema %s.",
			in.Build.Source, in.Build.ID, in.Build.Built.UTC().Format(time.RFC3339), in.Build.SchemaVersion)
	}
}

func (b *spdxBuilder) addImage(in Input) {
	image := imageComponent(in)
	p := newSPDXPackage(spdxImage+common.ElementID(b.suffix), image.Name, image.Version)
	p.PrimaryPackagePurpose = "CONTAINER"
	if image.PackageURL != "" {
		p.PackageExternalReferences = append(p.PackageExternalReferences, purlReference(image.PackageURL))
	}
	if in.Unreadable > 0 {
		p.PackageComment = fmt.Sprintf("Partial: %d files or directories of the image could not be read.", in.Unreadable)
	}
	b.document.Packages = append(b.document.Packages, p)
	b.relate(spdxDocument, common.TypeRelationshipDescribe, p.PackageSPDXIdentifier)
}

func newSPDXPackage(id common.ElementID, name, version string) *v2_3.Package {
	return &v2_3.Package{
		PackageName: name, PackageSPDXIdentifier: id, PackageVersion: version, PackageDownloadLocation: noAssertion,
		PackageLicenseConcluded: noAssertion, PackageLicenseDeclared: noAssertion, PackageCopyrightText: noAssertion,
	}
}

func (b *spdxBuilder) relate(from common.ElementID, kind string, to common.ElementID) {
	b.document.Relationships = append(b.document.Relationships, &v2_3.Relationship{
		RefA: common.DocElementID{ElementRefID: from}, RefB: common.DocElementID{ElementRefID: to}, Relationship: kind,
	})
}

func (b *spdxBuilder) add(held model.HeldPackage) {
	p := held.Package
	if _, known := b.packages[p.Fingerprint]; known {
		return
	}
	out := newSPDXPackage(common.ElementID("Package-"+p.Fingerprint+b.suffix), p.Name, p.Version)
	b.packages[p.Fingerprint] = out
	out.PackageLicenseDeclared = b.declared(p.Licenses)
	if p.PURL != "" {
		out.PackageExternalReferences = append(out.PackageExternalReferences, purlReference(p.PURL))
	}
	for _, cpe := range p.CPEs {
		out.PackageExternalReferences = append(out.PackageExternalReferences, &v2_3.PackageExternalReference{
			Category: common.CategorySecurity, RefType: common.TypeSecurityCPE23Type, Locator: cpe,
		})
	}
	if len(held.Locations) > 0 {
		paths := make([]string, 0, len(held.Locations))
		for _, l := range held.Locations {
			paths = append(paths, l.Path)
		}
		out.PackageSourceInfo = "found in " + strings.Join(slices.Compact(paths), ", ")
	}
	if held.Excluded {
		out.PackageComment = "Left out of matching: a package of the distribution owns its files."
	}
	b.document.Packages = append(b.document.Packages, out)
	b.relate(spdxImage+common.ElementID(b.suffix), common.TypeRelationshipContains, out.PackageSPDXIdentifier)
}

func purlReference(purl string) *v2_3.PackageExternalReference {
	return &v2_3.PackageExternalReference{
		Category: common.CategoryPackageManager, RefType: common.TypePackageManagerPURL, Locator: purl,
	}
}

// spdxAdvisory refers to the vulnerability of a package by its web address, or by its name where there is none.
func spdxAdvisory(f model.Finding) *v2_3.PackageExternalReference {
	v := f.Vulnerability
	comment := v.ID + ", severity " + v.Severity.String()
	if fixed := fixedIn(f); len(fixed) > 0 {
		comment += ", fixed in " + strings.Join(fixed, ", ")
	}
	if len(v.KEV) > 0 {
		comment += ", known to be exploited"
	}
	reference := &v2_3.PackageExternalReference{
		Category: common.CategorySecurity, RefType: common.TypeSecurityAdvisory, Locator: bestURL(v), ExternalRefComment: comment,
	}
	if reference.Locator == "" {
		// An advisory needs an address, while "other" takes anything without spaces.
		reference.Category, reference.RefType, reference.Locator = common.CategoryOther, "vulnerability", url.PathEscape(v.ID)
	}
	return reference
}

// bestURL is the first web address of a vulnerability, "" when it has none.
func bestURL(v model.Vulnerability) string {
	for _, address := range append([]string{v.DataSource}, v.URLs...) {
		if address = webURL(address); address != "" {
			return address
		}
	}
	return ""
}

// declared joins the licences of a package into an expression. What is not on the SPDX list is defined in the document.
func (b *spdxBuilder) declared(names []string) string {
	var parts []string
	for _, name := range names {
		if name = strings.TrimSpace(name); name == "" {
			continue
		}
		part, known := spdxID(name)
		switch {
		case known:
		case isExpression(name) && !strings.Contains(name, "LicenseRef-"):
			part = name
			if len(names) > 1 {
				part = "(" + name + ")"
			}
		default:
			part = b.custom(name)
		}
		if !slices.Contains(parts, part) {
			parts = append(parts, part)
		}
	}
	if len(parts) == 0 {
		return noAssertion
	}
	return strings.Join(parts, " AND ")
}

func (b *spdxBuilder) custom(text string) string {
	digest := sha256.Sum256([]byte(text))
	id := "LicenseRef-" + hex.EncodeToString(digest[:16])
	if !b.licenses[id] {
		b.licenses[id] = true
		b.document.OtherLicenses = append(b.document.OtherLicenses, &v2_3.OtherLicense{
			LicenseIdentifier: id, ExtractedText: text, LicenseName: truncate.Ellipsis(printable(text), maxCell),
		})
	}
	return id
}
