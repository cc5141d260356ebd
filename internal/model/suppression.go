package model

import "time"

// Suppression says why a finding does not count. The texts are those of a VEX document; untrusted.
type Suppression struct {
	// Status is "not_affected" or "fixed", and "affected" if the Decision is that the risk is accepted.
	Status string `json:"status"`
	// Decision is that of a statement that is an exported decision, "" for other statements, and ExpiresAt is when it ends, zero when it has no end.
	Decision  DecisionStatus `json:"decision,omitempty"`
	ExpiresAt time.Time      `json:"expiresAt,omitzero"`
	// Justification is one of OpenVEX's words, "" when the statement has none.
	Justification   string `json:"justification,omitempty"`
	ImpactStatement string `json:"impactStatement,omitempty"`
	Comment         string `json:"comment,omitempty"`
	Author          string `json:"author"`
	// Source names the file, Document the ID of the document, and Position the statement in it, such as "statements[3]".
	Source   string `json:"source"`
	Document string `json:"document,omitempty"`
	Position string `json:"position"`
	// Timestamp is when the statement was made, LastUpdated when it was changed; each is zero when the document does not say.
	Timestamp   time.Time `json:"timestamp,omitzero"`
	LastUpdated time.Time `json:"lastUpdated,omitzero"`
}

// SuppressedFinding is a finding that does not count.
type SuppressedFinding struct {
	Finding
	Suppression Suppression
}

// ImageNames is how documents identify an image. Each list may be empty.
type ImageNames struct {
	// References are the image references with a digest or a tag under which the image is known.
	References []string
	// Digests are those of its manifest and of the indexes that contain it, as "sha256:…".
	Digests []string
	// Architecture is the one of the image, as in Platform.
	Architecture string
	// CPE is the one of its distribution, as in CPE_NAME of /etc/os-release.
	CPE string
}
