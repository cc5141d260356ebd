package sample

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"
	"time"

	v6 "github.com/anchore/grype/grype/db/v6"
	"sigs.k8s.io/yaml"
)

//go:embed advisories.yaml
var source []byte

// Document is the data file.
type Document struct {
	// Built is the date that the database carries.
	Built      time.Time   `json:"built"`
	EPSSDate   string      `json:"epssDate"`
	Lifecycles []Lifecycle `json:"lifecycles"`
	Advisories []Advisory  `json:"advisories"`
}

// Lifecycle says until when a release of a distribution is maintained. Dates are written YYYY-MM-DD.
type Lifecycle struct {
	// Of is the release, as in Affected. Some advisory must name it.
	Of string `json:"of"`
	// EndOfSupport is the end of active support, "" when the publisher does not tell it apart.
	EndOfSupport string `json:"endOfSupport,omitempty"`
	// EndOfLife is the end of security updates.
	EndOfLife string `json:"endOfLife"`
}

// Advisory is one vulnerability, as its publisher describes it.
type Advisory struct {
	ID       string          `json:"id"`
	Aliases  []string        `json:"aliases,omitempty"`
	Severity string          `json:"severity"`
	CVSS     *CVSS           `json:"cvss,omitempty"`
	CWEs     []string        `json:"cwes,omitempty"`
	Summary  string          `json:"summary"`
	EPSS     *EPSS           `json:"epss,omitempty"`
	KEV      *KnownExploited `json:"kev,omitempty"`
	Affected []Affected      `json:"affected"`
}

// CVSS is a base score of version 3.1 and the vector that it follows from.
type CVSS struct {
	Score  float64 `json:"score"`
	Vector string  `json:"vector"`
}

// EPSS is the probability of exploitation.
type EPSS struct {
	Score      float64 `json:"score"`
	Percentile float64 `json:"percentile"`
}

// KnownExploited is an entry of CISA's catalog. Dates are written YYYY-MM-DD.
type KnownExploited struct {
	Vendor     string `json:"vendor"`
	Product    string `json:"product"`
	Added      string `json:"added"`
	Due        string `json:"due"`
	Ransomware string `json:"ransomware"`
}

// Affected is one range of affected versions of one package.
type Affected struct {
	// In is the place of the package: "debian 11", "go", "cpe", and so on as the data file explains.
	In       string `json:"in"`
	Name     string `json:"name"`
	Versions string `json:"versions"`
	Fixed    string `json:"fixed,omitempty"`
	State    string `json:"state,omitempty"`
	Example  string `json:"example"`
}

// CVE is the first identifier of the advisory that is one of a CVE, "" when there is none.
func (a Advisory) CVE() string {
	for _, id := range append([]string{a.ID}, a.Aliases...) {
		if strings.HasPrefix(id, "CVE-") {
			return id
		}
	}
	return ""
}

var load = sync.OnceValues(func() (*Document, error) {
	var d Document
	if err := yaml.UnmarshalStrict(source, &d); err != nil {
		return nil, fmt.Errorf("read the built-in advisories: %w", err)
	}
	return &d, nil
})

// Load returns the data. The caller must not change it.
func Load() (*Document, error) { return load() }

// buildVersion changes when Build makes something else of the same data.
const buildVersion = 1

// Digest identifies the database that Build makes: the data, how they are turned into rows, and the schema.
func Digest() string {
	hash := sha256.New()
	fmt.Fprintf(hash, "%d v%d.%d.%d\n", buildVersion, v6.ModelVersion, v6.Revision, v6.Addition)
	hash.Write(source)
	return "sha256:" + hex.EncodeToString(hash.Sum(nil))
}
