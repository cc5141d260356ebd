package sqlstore

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// Findings and vulnerabilities are stored by what they say: the digest of that is their identity.

// answerContent is a model.PackageAnswer as it is stored.
type answerContent struct {
	keys     []byte
	failure  string
	findings []findingContent
}

type findingContent struct {
	digest                        string
	vulnerability                 *vulnerabilityContent
	fixState, fixVersions, detail string
	fixable                       int64
}

type vulnerabilityContent struct {
	digest, id, namespace string
	severity              int64
	detail                string
	names                 []string
	scores                scoresRow
}

// scoresRow holds the columns of what changes about a vulnerability from result set to result set.
type scoresRow struct {
	EpssMicros, RiskMicros, Kev int64
	Scores                      string
}

var scoreColumns = []string{"epss_micros", "risk_micros", "kev", "scores"}

func (r scoresRow) values() []any { return []any{r.EpssMicros, r.RiskMicros, r.Kev, r.Scores} }

// scores is the content of the column of that name.
type scores struct {
	EPSS *model.EPSS            `json:"epss,omitempty"`
	KEV  []model.KnownExploited `json:"kev,omitempty"`
	CWEs []string               `json:"cwes,omitempty"`
	Risk float64                `json:"risk,omitempty"`
}

func scoresOf(v *model.Vulnerability) (scoresRow, error) {
	content, err := json.Marshal(scores{EPSS: v.EPSS, KEV: v.KEV, CWEs: v.CWEs, Risk: v.Risk})
	if err != nil {
		return scoresRow{}, fmt.Errorf("encode the scores of %s: %w", sqldb.Truncate(v.ID, maxIdentifier), err)
	}
	row := scoresRow{RiskMicros: millionths(v.Risk), Kev: boolean(len(v.KEV) > 0), Scores: string(content)}
	if v.EPSS != nil {
		row.EpssMicros = millionths(v.EPSS.Score)
	}
	return row, nil
}

// vulnerabilityOf joins what was taken apart.
func vulnerabilityOf(detail, volatile string) (model.Vulnerability, error) {
	var v model.Vulnerability
	if err := json.Unmarshal([]byte(detail), &v); err != nil {
		return v, fmt.Errorf("vulnerability in the database: %w", err)
	}
	var changing scores
	if err := json.Unmarshal([]byte(volatile), &changing); err != nil {
		return v, fmt.Errorf("scores of vulnerability %s in the database: %w", v.ID, err)
	}
	v.EPSS, v.KEV, v.CWEs, v.Risk = changing.EPSS, changing.KEV, changing.CWEs, changing.Risk
	return v, nil
}

// answerEncoder keeps each vulnerability of many answers once.
type answerEncoder map[string]*vulnerabilityContent

func (e answerEncoder) answer(answer *model.PackageAnswer) (answerContent, error) {
	content := answerContent{failure: sqldb.Clean(answer.Failure), keys: make([]byte, 0, 8*len(answer.SearchKeys))}
	if content.failure != "" {
		return content, nil
	}
	for _, key := range answer.SearchKeys {
		content.keys = binary.BigEndian.AppendUint64(content.keys, uint64(key))
	}
	seen := make(map[string]bool, len(answer.Findings))
	for i := range answer.Findings {
		finding, err := e.finding(&answer.Findings[i])
		if err != nil {
			return answerContent{}, err
		}
		if !seen[finding.digest] {
			seen[finding.digest] = true
			content.findings = append(content.findings, finding)
		}
	}
	return content, nil
}

func (e answerEncoder) finding(finding *model.PackageFinding) (findingContent, error) {
	v, err := e.vulnerability(&finding.Vulnerability)
	if err != nil {
		return findingContent{}, err
	}
	versions, err := toJSON(finding.Fix.Versions)
	if err != nil {
		return findingContent{}, err
	}
	detail, err := toJSON(finding.Details)
	if err != nil {
		return findingContent{}, fmt.Errorf("encode the details of %s: %w", v.id, err)
	}
	state := sqldb.Clean(string(finding.Fix.State))
	return findingContent{
		digest: contentDigest(v.digest, state, versions, detail), vulnerability: v,
		fixState: state, fixVersions: versions, detail: detail, fixable: boolean(finding.Fix.State == model.FixStateFixed),
	}, nil
}

func (e answerEncoder) vulnerability(v *model.Vulnerability) (*vulnerabilityContent, error) {
	if err := checkIdentifier("the ID of a vulnerability", v.ID); err != nil {
		return nil, err
	}
	if v.Namespace != "" {
		if err := checkIdentifier("the namespace of "+v.ID, v.Namespace); err != nil {
			return nil, err
		}
	}
	static := *v
	static.EPSS, static.KEV, static.CWEs, static.Risk = nil, nil, nil, 0
	detail, err := json.Marshal(&static)
	if err != nil {
		return nil, fmt.Errorf("encode vulnerability %s: %w", v.ID, err)
	}
	digest := contentDigest(string(detail))
	if known, found := e[digest]; found {
		return known, nil
	}
	volatile, err := scoresOf(v)
	if err != nil {
		return nil, err
	}
	content := &vulnerabilityContent{
		digest: digest, id: v.ID, namespace: v.Namespace, severity: int64(v.Severity), detail: string(detail),
		names: vulnerabilityNames(v), scores: volatile,
	}
	e[digest] = content
	return content, nil
}

// searchKeys reads what answerEncoder wrote.
func searchKeys(content []byte) []model.SearchKey {
	keys := make([]model.SearchKey, 0, len(content)/8)
	for ; len(content) >= 8; content = content[8:] {
		keys = append(keys, model.SearchKey(binary.BigEndian.Uint64(content)))
	}
	return keys
}

// contentDigest is 128 bits of the SHA-256 of texts, each with its length, in hexadecimal.
func contentDigest(texts ...string) string {
	hash := sha256.New()
	var length [8]byte
	for _, text := range texts {
		binary.BigEndian.PutUint64(length[:], uint64(len(text)))
		hash.Write(length[:])
		hash.Write([]byte(text))
	}
	return hex.EncodeToString(hash.Sum(nil)[:16])
}

// checkIdentifier refuses what would not fit into an index of every database.
func checkIdentifier(what, text string) error {
	if text == "" || len(text) > maxIdentifier || sqldb.Clean(text) != text {
		return fmt.Errorf("%s must be valid UTF-8 of 1 to %d bytes, got %q with %d bytes", what, maxIdentifier, sqldb.Truncate(text, maxIdentifier), len(text))
	}
	return nil
}

// millionths turns a figure into a whole number that compares the same everywhere.
func millionths(figure float64) int64 {
	if math.IsNaN(figure) {
		return 0
	}
	return int64(math.Round(min(max(figure, 0), 1e6) * 1e6))
}
