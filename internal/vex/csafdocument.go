package vex

import "encoding/json"

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
				ID                 string            `json:"id"`
				Version            string            `json:"version"`
				Status             string            `json:"status"`
				CurrentReleaseDate string            `json:"current_release_date"`
				InitialReleaseDate string            `json:"initial_release_date"`
				RevisionHistory    []json.RawMessage `json:"revision_history"`
			} `json:"tracking"`
		} `json:"document"`
		ProductTree     *csafProductTree  `json:"product_tree"`
		Vulnerabilities []json.RawMessage `json:"vulnerabilities"`
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
		Notes         []json.RawMessage `json:"notes"`
		ProductStatus csafProductStatus `json:"product_status"`
		Flags         []struct {
			Label string `json:"label"`
			csafAbout
		} `json:"flags"`
		Threats []struct {
			Category string `json:"category"`
			Details  string `json:"details"`
			csafAbout
		} `json:"threats"`
		Remediations []struct {
			Category string `json:"category"`
			Details  string `json:"details"`
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
	switch {
	case len(in.Tracking.RevisionHistory) == 0:
		return invalidf(`document.tracking has no "revision_history"`)
	case d.ProductTree == nil:
		return invalidf(`the document has no "product_tree"`)
	case len(d.Vulnerabilities) == 0:
		return invalidf(`the document has no "vulnerabilities"`)
	}
	return nil
}
