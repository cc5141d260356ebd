package report

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/truncate"
)

// maxRecommendations bounds the sentences of one recommendation; the fixed versions are all listed under "affects".
const maxRecommendations = 20

// recordKey identifies a record of a vulnerability database, and what was decided about some of its findings, "" for those that count.
type recordKey struct{ id, namespace, decided string }

func (k recordKey) compare(other recordKey) int {
	return cmp.Or(strings.Compare(k.id, other.id), strings.Compare(k.namespace, other.namespace), strings.Compare(k.decided, other.decided))
}

// record is a vulnerability with the packages that it affects, about which the same was decided.
type record struct {
	vulnerability model.Vulnerability
	// affects holds one entry per bom-ref.
	affects map[string]cdx.Affects
	// upgrades holds the sentences of the recommendation.
	upgrades map[string]struct{}
	// decision suppresses its findings, nil if they count.
	decision *model.Decision
}

// vulnerabilities writes each vulnerability of an image once for each decision about it; first says that none stands before.
func (d *document) vulnerabilities(in Input, first *bool) error {
	records := map[recordKey]*record{}
	err := in.Findings(func(f model.Finding) error {
		ref, known := d.refs[f.Package.Fingerprint]
		switch {
		case d.refs == nil:
			ref = d.prefix + packageRef(f.Package)
		case !known:
			return fmt.Errorf("package %s %s: %w", f.Package.Name, f.Package.Version, ErrInconsistent)
		}
		key, decided := recordKey{id: f.Vulnerability.ID, namespace: f.Vulnerability.Namespace}, analysedDecision(&f)
		if decided != nil {
			key.decided = because(decided)
		}
		r := records[key]
		if r == nil {
			r = &record{vulnerability: f.Vulnerability, affects: map[string]cdx.Affects{}, upgrades: map[string]struct{}{}, decision: decided}
			records[key] = r
		}
		r.add(ref, f)
		return nil
	})
	if err != nil {
		return fmt.Errorf("findings of %s: %w", in.ImageID, err)
	}
	names := map[string]int{}
	for _, key := range slices.SortedFunc(maps.Keys(records), recordKey.compare) {
		v := records[key].cyclonedx()
		v.BOMRef = d.prefix + v.BOMRef
		if names[v.BOMRef]++; names[v.BOMRef] > 1 {
			v.BOMRef += fmt.Sprintf("#%d", names[v.BOMRef])
		}
		if err := d.element(*first, v); err != nil {
			return fmt.Errorf("write the report of %s: %w", in.ImageID, err)
		}
		*first = false
	}
	return nil
}

// add notes that a package is affected, and which versions of it are not.
func (r *record) add(ref string, f model.Finding) {
	versions := []cdx.AffectedVersions{{Version: truncate.Characters(f.Package.Version, maxVersion), Status: cdx.VulnerabilityStatusAffected}}
	if f.Package.Version == "" {
		versions = nil
	}
	if f.Fix.State == model.FixStateFixed {
		for _, fixed := range f.Fix.Versions {
			if fixed == "" {
				continue
			}
			versions = append(versions, cdx.AffectedVersions{Version: truncate.Characters(fixed, maxVersion), Status: cdx.VulnerabilityStatusNotAffected})
			r.upgrades["Upgrade "+f.Package.Name+" to version "+fixed+"."] = struct{}{}
		}
	}
	affects := cdx.Affects{Ref: ref}
	if len(versions) > 0 {
		affects.Range = &versions
	}
	r.affects[ref] = affects
}

func (r *record) cyclonedx() cdx.Vulnerability {
	v := r.vulnerability
	out := cdx.Vulnerability{
		BOMRef:      "vulnerability:" + v.ID + "@" + v.Namespace,
		ID:          v.ID,
		Source:      &cdx.Source{Name: v.Namespace, URL: webURL(v.DataSource)},
		Description: v.Description,
		Ratings:     ratings(v),
		CWEs:        cwes(v.CWEs),
		Advisories:  advisories(v),
		Properties:  vulnerabilityProperties(v),
	}
	if len(v.Aliases) > 0 {
		references := make([]cdx.VulnerabilityReference, 0, len(v.Aliases))
		for _, alias := range v.Aliases {
			references = append(references, cdx.VulnerabilityReference{ID: alias, Source: &cdx.Source{Name: v.Namespace}})
		}
		out.References = &references
	}
	if r.decision != nil {
		out.Analysis = analysis(r.decision)
	}
	upgrades := slices.Sorted(maps.Keys(r.upgrades))
	out.Recommendation = strings.Join(upgrades[:min(maxRecommendations, len(upgrades))], " ")
	affects := make([]cdx.Affects, 0, len(r.affects))
	for _, ref := range slices.Sorted(maps.Keys(r.affects)) {
		affects = append(affects, r.affects[ref])
	}
	out.Affects = &affects
	return out
}

// ratings lists the severity of the database first, then its CVSS scores.
func ratings(v model.Vulnerability) *[]cdx.VulnerabilityRating {
	list := []cdx.VulnerabilityRating{{
		Source: &cdx.Source{Name: v.Namespace}, Severity: severity(v.Severity), Method: cdx.ScoringMethodOther,
	}}
	for _, c := range v.CVSS {
		r := cdx.VulnerabilityRating{Method: cvssMethod(c), Vector: c.Vector, Severity: severity(cvssSeverity(c.Score))}
		if c.Score > 0 {
			score := c.Score
			r.Score = &score
		}
		if c.Source != "" {
			r.Source = &cdx.Source{Name: c.Source}
		}
		list = append(list, r)
	}
	return &list
}

// severity is the name of a severity in CycloneDX, which has no "negligible".
func severity(s model.Severity) cdx.Severity {
	switch s {
	case model.SeverityCritical:
		return cdx.SeverityCritical
	case model.SeverityHigh:
		return cdx.SeverityHigh
	case model.SeverityMedium:
		return cdx.SeverityMedium
	case model.SeverityLow:
		return cdx.SeverityLow
	case model.SeverityNegligible:
		return cdx.SeverityInfo
	case model.SeverityUnknown:
		return cdx.SeverityUnknown
	default:
		return cdx.SeverityUnknown
	}
}

// cvssSeverity is the qualitative rating of a score (https://www.first.org/cvss/v3.1/specification-document, table 14).
func cvssSeverity(score float64) model.Severity {
	switch {
	case score >= 9:
		return model.SeverityCritical
	case score >= 7:
		return model.SeverityHigh
	case score >= 4:
		return model.SeverityMedium
	case score > 0:
		return model.SeverityLow
	default:
		return model.SeverityUnknown
	}
}

// cvssMethod prefers the version in the vector, which distinguishes 3.0 from 3.1, to the one beside it.
func cvssMethod(c model.CVSS) cdx.ScoringMethod {
	version := c.Version
	if rest, found := strings.CutPrefix(c.Vector, "CVSS:"); found {
		version, _, _ = strings.Cut(rest, "/")
	}
	switch {
	case strings.HasPrefix(version, "4"):
		return cdx.ScoringMethodCVSSv4
	case version == "3.1":
		return cdx.ScoringMethodCVSSv31
	case strings.HasPrefix(version, "3"):
		return cdx.ScoringMethodCVSSv3
	case strings.HasPrefix(version, "2"):
		return cdx.ScoringMethodCVSSv2
	default:
		return cdx.ScoringMethodOther
	}
}

// cwes reads the numbers of "CWE-79" and leaves out what is none.
func cwes(names []string) *[]int {
	var list []int
	for _, name := range names {
		number, found := strings.CutPrefix(strings.ToUpper(name), "CWE-")
		if !found {
			continue
		}
		if n, err := strconv.Atoi(number); err == nil && n > 0 && !slices.Contains(list, n) {
			list = append(list, n)
		}
	}
	if len(list) == 0 {
		return nil
	}
	return &list
}

// advisories lists the web addresses of the record.
func advisories(v model.Vulnerability) *[]cdx.Advisory {
	var list []cdx.Advisory
	seen := map[string]bool{}
	for _, address := range append([]string{v.DataSource}, v.URLs...) {
		address = webURL(address)
		if address == "" || seen[address] {
			continue
		}
		seen[address] = true
		list = append(list, cdx.Advisory{URL: address})
	}
	if len(list) == 0 {
		return nil
	}
	return &list
}

// webURL returns a normalised http or https address, and "" for anything else: addresses come from outside.
func webURL(address string) string {
	u, err := url.Parse(strings.TrimSpace(address))
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return ""
	}
	return u.String()
}

func vulnerabilityProperties(v model.Vulnerability) *[]cdx.Property {
	var p properties
	p.addFloat("risk", v.Risk)
	if v.EPSS != nil {
		p.addFloat("epss:score", v.EPSS.Score)
		p.addFloat("epss:percentile", v.EPSS.Percentile)
		p.add("epss:date", v.EPSS.Date)
	}
	if len(v.KEV) > 0 {
		p.add("kev", "true")
	}
	for _, k := range v.KEV {
		p.add("kev:cve", k.CVE)
		p.add("kev:dateAdded", k.DateAdded)
		p.add("kev:dueDate", k.DueDate)
		p.add("kev:requiredAction", k.RequiredAction)
		p.add("kev:knownRansomwareUse", k.KnownRansomwareUse)
	}
	return p.list()
}
