package model

import (
	"encoding/json"
	"time"
)

// Vulnerability is one record of a vulnerability database. ID and Namespace together identify it.
type Vulnerability struct {
	ID        string   `json:"id"`
	Namespace string   `json:"namespace"`
	Aliases   []string `json:"aliases,omitempty"`
	Severity  Severity `json:"severity"`
	// Description is plain text from the advisory; untrusted.
	Description string   `json:"description,omitempty"`
	DataSource  string   `json:"dataSource,omitempty"`
	URLs        []string `json:"urls,omitempty"`
	CWEs        []string `json:"cwes,omitempty"`
	CVSS        []CVSS   `json:"cvss,omitempty"`
	// CVEs are the CVE IDs of the record itself: EPSS, KEV and CWEs are looked up by them.
	CVEs []string         `json:"cves,omitempty"`
	EPSS *EPSS            `json:"epss,omitempty"`
	KEV  []KnownExploited `json:"kev,omitempty"`
	// Risk is Grype's figure from 0 to 100, made of severity, EPSS and KEV.
	Risk float64 `json:"risk"`
}

// CVSS is one score of the Common Vulnerability Scoring System.
type CVSS struct {
	Version string  `json:"version"`
	Vector  string  `json:"vector"`
	Source  string  `json:"source,omitempty"`
	Type    string  `json:"type,omitempty"`
	Score   float64 `json:"score"`
}

// EPSS is the probability that a CVE is exploited within 30 days (https://www.first.org/epss).
type EPSS struct {
	CVE        string  `json:"cve,omitempty"`
	Score      float64 `json:"score"`
	Percentile float64 `json:"percentile"`
	Date       string  `json:"date,omitempty"`
}

// KnownExploited is an entry of CISA's catalog of known exploited vulnerabilities.
type KnownExploited struct {
	CVE                string `json:"cve,omitempty"`
	VendorProject      string `json:"vendorProject,omitempty"`
	Product            string `json:"product,omitempty"`
	DateAdded          string `json:"dateAdded,omitempty"`
	DueDate            string `json:"dueDate,omitempty"`
	RequiredAction     string `json:"requiredAction,omitempty"`
	KnownRansomwareUse string `json:"knownRansomwareUse,omitempty"`
}

// FixState says whether a fix exists, in Grype's words.
type FixState string

// The fix states.
const (
	FixStateFixed    FixState = "fixed"
	FixStateNotFixed FixState = "not-fixed"
	FixStateWontFix  FixState = "wont-fix"
	FixStateUnknown  FixState = "unknown"
)

// Fix says in which versions of a package a vulnerability is fixed.
type Fix struct {
	State    FixState `json:"state"`
	Versions []string `json:"versions,omitempty"`
}

// MatchDetail says why a package was matched with a vulnerability.
type MatchDetail struct {
	// Type is Grype's match type: "exact-direct-match", "exact-indirect-match" or "cpe-match".
	Type string `json:"type"`
	// Matcher is the name of the Grype matcher, such as "dpkg-matcher".
	Matcher string `json:"matcher"`
	// SearchedBy and Found are Grype's own account of the search and of what it hit; Found carries the version constraint.
	SearchedBy json.RawMessage `json:"searchedBy,omitempty"`
	Found      json.RawMessage `json:"found,omitempty"`
}

// PackageFinding says that a package has a vulnerability, whatever image holds the package.
type PackageFinding struct {
	Vulnerability Vulnerability `json:"vulnerability"`
	Fix           Fix           `json:"fix"`
	Details       []MatchDetail `json:"details"`
}

// Finding is a PackageFinding in one image.
type Finding struct {
	PackageFinding
	Package   Package
	Locations []Location
	// FirstSeen is since when the image has it, FixedAt when the finding was closed: zero while it is open, or where no history is
	// kept.
	FirstSeen, FixedAt time.Time
	// Suppressed says that a decision suppresses it. Decisions are those about it, the one that matters most first, at most MaxDecisionsShown.
	Suppressed bool
	Decisions  []Decision
	// Deadline is until when it is due, nil if it is not, or if it is suppressed.
	Deadline *Deadline
	// Origin says where the package comes from, "" if the image has no known base.
	Origin Origin
}

// Origin says where a package of an image comes from.
type Origin string

// The origins. A package is from the base if the base holds the same package, or, where the base is not a known image, if a file of the package is in one of its
// layers.
const (
	OriginBase  Origin = "base"
	OriginImage Origin = "image"
)

// MatchResult is what one database build says about one image.
type MatchResult struct {
	// Packages holds the findings of every package of the image that takes part in matching, by fingerprint; a package
	// without findings is there with an empty list, since that too is an answer.
	Packages map[string][]PackageFinding
}

// DatabaseSource says where a vulnerability database came from.
type DatabaseSource string

// The sources.
const (
	DatabaseSourceOfficial DatabaseSource = "official"
	DatabaseSourceSample   DatabaseSource = "sample"
	DatabaseSourceImported DatabaseSource = "imported"
)

// DatabaseBuild describes one build of a vulnerability database.
type DatabaseBuild struct {
	// ID identifies the content: "xxh64:…" or "sha256:…" of the database file.
	ID            string         `json:"id"`
	SchemaVersion string         `json:"schemaVersion"`
	Built         time.Time      `json:"built"`
	Source        DatabaseSource `json:"source"`
}
