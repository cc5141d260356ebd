package vex

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// The parts of a CSAF 2.0 document (https://docs.oasis-open.org/csaf/csaf/v2.0/csaf-v2.0.html) that statements are made of.
type (
	csafDocument struct {
		Document struct {
			Category    string `json:"category"`
			CSAFVersion string `json:"csaf_version"`
			Title       string `json:"title"`
			Publisher   struct {
				Category  string `json:"category"`
				Name      string `json:"name"`
				Namespace string `json:"namespace"`
			} `json:"publisher"`
			Tracking struct {
				ID                 string         `json:"id"`
				Version            string         `json:"version"`
				Status             string         `json:"status"`
				CurrentReleaseDate string         `json:"current_release_date"`
				InitialReleaseDate string         `json:"initial_release_date"`
				RevisionHistory    []csafRevision `json:"revision_history"`
			} `json:"tracking"`
		} `json:"document"`
		ProductTree     *csafProductTree  `json:"product_tree"`
		Vulnerabilities []json.RawMessage `json:"vulnerabilities"`
	}

	csafRevision struct {
		Date    string   `json:"date"`
		Number  string   `json:"number"`
		Summary csafText `json:"summary"`
	}

	// csafText reports whether a text is there that statements do not need.
	csafText bool

	csafNote struct {
		Category string   `json:"category"`
		Text     csafText `json:"text"`
	}

	csafProductTree struct {
		Branches         []csafBranch       `json:"branches"`
		FullProductNames []csafProduct      `json:"full_product_names"`
		ProductGroups    []csafGroup        `json:"product_groups"`
		Relationships    []csafRelationship `json:"relationships"`
	}

	csafBranch struct {
		Category string       `json:"category"`
		Name     string       `json:"name"`
		Branches []csafBranch `json:"branches"`
		Product  *csafProduct `json:"product"`
	}

	csafProduct struct {
		Name      string      `json:"name"`
		ProductID string      `json:"product_id"`
		Helper    *csafHelper `json:"product_identification_helper"`
	}

	csafHelper struct {
		CPE    string `json:"cpe"`
		PURL   string `json:"purl"`
		Hashes []struct {
			FileHashes []struct {
				Algorithm string `json:"algorithm"`
				Value     string `json:"value"`
			} `json:"file_hashes"`
		} `json:"hashes"`
	}

	csafGroup struct {
		GroupID    string   `json:"group_id"`
		ProductIDs []string `json:"product_ids"`
	}

	csafRelationship struct {
		Category        string      `json:"category"`
		FullProductName csafProduct `json:"full_product_name"`
		Product         string      `json:"product_reference"`
		RelatesTo       string      `json:"relates_to_product_reference"`
	}

	csafVulnerability struct {
		CVE string `json:"cve"`
		IDs []struct {
			SystemName string `json:"system_name"`
			Text       string `json:"text"`
		} `json:"ids"`
		DiscoveryDate string            `json:"discovery_date"`
		ReleaseDate   string            `json:"release_date"`
		Notes         []csafNote        `json:"notes"`
		ProductStatus csafProductStatus `json:"product_status"`
		Flags         []struct {
			Label string `json:"label"`
			Date  string `json:"date"`
			csafAbout
		} `json:"flags"`
		Threats []struct {
			Category string `json:"category"`
			Details  string `json:"details"`
			Date     string `json:"date"`
			csafAbout
		} `json:"threats"`
		Remediations []struct {
			Category string `json:"category"`
			Details  string `json:"details"`
			Date     string `json:"date"`
			csafAbout
		} `json:"remediations"`
	}

	// csafAbout is what a flag, a threat or a remediation is about.
	csafAbout struct {
		ProductIDs []string `json:"product_ids"`
		GroupIDs   []string `json:"group_ids"`
	}

	// csafProductStatus lacks the list "recommended", which says nothing about the vulnerability.
	csafProductStatus struct {
		FirstAffected      []string `json:"first_affected"`
		FirstFixed         []string `json:"first_fixed"`
		Fixed              []string `json:"fixed"`
		KnownAffected      []string `json:"known_affected"`
		KnownNotAffected   []string `json:"known_not_affected"`
		LastAffected       []string `json:"last_affected"`
		UnderInvestigation []string `json:"under_investigation"`
	}
)

// UnmarshalJSON reads a text without keeping it.
func (t *csafText) UnmarshalJSON(data []byte) error {
	if len(data) == 0 || data[0] != '"' {
		return errors.New("a value that must be a text is none")
	}
	*t = len(data) > len(`""`)
	return nil
}

// The values that the schema allows.
var (
	csafPublishers    = []string{"coordinator", "discoverer", "other", "translator", "user", "vendor"}
	csafStates        = []string{csafDraft, "final", "interim"}
	csafNotes         = []string{"description", "details", "faq", "general", "legal_disclaimer", "other", "summary"}
	csafThreats       = []string{"exploit_status", csafImpact, "target_set"}
	csafRemediations  = []string{"mitigation", "no_fix_planned", "none_available", "vendor_fix", "workaround"}
	csafRelationships = []string{"default_component_of", "external_component_of", "installed_on", "installed_with", "optional_component_of"}
	csafBranches      = []string{
		"architecture", "host_name", "language", "legacy", "patch_level", "product_family", "product_name", "product_version", "product_version_range",
		"service_pack", "specification", "vendor",
	}
	csafVersion = regexp.MustCompile(
		`^(0|[1-9][0-9]*)(\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?)?$`)
)

const (
	// csafDraft is the status of documents that are not issued yet.
	csafDraft = "draft"
	// csafImpact is the category of threats that say why a product is not affected.
	csafImpact = "impact"
)

// oneOf checks a value that the schema lists.
func oneOf(position, field, value string, allowed []string) error {
	if slices.Contains(allowed, value) {
		return nil
	}
	return invalidf("%s: the %s %.50q is not one of %s", position, field, value, strings.Join(allowed, ", "))
}

// check applies the schema and the profile to the head of the document.
func (d *csafDocument) check() error {
	in := &d.Document
	if in.CSAFVersion != "2.0" {
		return invalidf("its version %.50q of CSAF is not supported: use 2.0", in.CSAFVersion)
	}
	if in.Category != categoryVEX {
		return invalidf("its document.category is %.50q; only the VEX profile is supported, which is %q", in.Category, categoryVEX)
	}
	if err := required("document", "title", in.Title, "publisher.category", in.Publisher.Category, "publisher.name", in.Publisher.Name,
		"publisher.namespace", in.Publisher.Namespace, "tracking.id", in.Tracking.ID, "tracking.version", in.Tracking.Version,
		"tracking.status", in.Tracking.Status, "tracking.current_release_date", in.Tracking.CurrentReleaseDate,
		"tracking.initial_release_date", in.Tracking.InitialReleaseDate); err != nil {
		return err
	}
	if err := oneOf("document.publisher", "category", in.Publisher.Category, csafPublishers); err != nil {
		return err
	}
	switch err := d.checkTracking(); {
	case err != nil:
		return err
	case d.ProductTree == nil:
		return invalidf(`the document has no "product_tree"`)
	case len(d.Vulnerabilities) == 0:
		return invalidf(`the document has no "vulnerabilities"`)
	}
	return nil
}

func (d *csafDocument) checkTracking() error {
	const position = "document.tracking"
	in := &d.Document.Tracking
	if err := oneOf(position, "status", in.Status, csafStates); err != nil {
		return err
	}
	switch {
	case in.Status == csafDraft:
		return invalidf("its document.tracking.status is draft, and drafts are not applied; use the document that was issued, which is final or interim")
	case !csafVersion.MatchString(in.Version):
		return invalidf("%s: the version %.50q is neither an integer nor a semantic version", position, in.Version)
	case len(in.RevisionHistory) == 0:
		return invalidf(`%s has no "revision_history"`, position)
	}
	if _, err := timestamp(position+".initial_release_date", in.InitialReleaseDate); err != nil {
		return err
	}
	for i, revision := range in.RevisionHistory {
		at := fmt.Sprintf("%s.revision_history[%d]", position, i)
		if err := required(at, "date", revision.Date, "number", revision.Number, "summary", revision.Summary.text()); err != nil {
			return err
		}
		if !csafVersion.MatchString(revision.Number) {
			return invalidf("%s: the number %.50q is neither an integer nor a semantic version", at, revision.Number)
		}
		if _, err := timestamp(at+".date", revision.Date); err != nil {
			return err
		}
	}
	return nil
}

// text is not empty if the text is not.
func (t csafText) text() string {
	if t {
		return "text"
	}
	return ""
}

// check checks what statements do not need.
func (v *csafVulnerability) check(position string) error {
	if len(v.Notes) == 0 {
		return invalidf(`%s has no "notes"`, position)
	}
	for i, note := range v.Notes {
		at := fmt.Sprintf("%s.notes[%d]", position, i)
		if err := required(at, "category", note.Category, "text", note.Text.text()); err != nil {
			return err
		}
		if err := oneOf(at, "category", note.Category, csafNotes); err != nil {
			return err
		}
	}
	if _, err := timestamp(position+".discovery_date", v.DiscoveryDate); err != nil {
		return err
	}
	_, err := timestamp(position+".release_date", v.ReleaseDate)
	return err
}
