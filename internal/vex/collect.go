package vex

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/package-url/packageurl-go"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/truncate"
)

// collector holds what a document states, by what its statements have in common.
type collector struct {
	limits Limits
	// images are those that statements are about, by the text that identifies them.
	images     map[string]*writtenImage
	statements map[statementKey]products
	// products counts images and packages of all statements.
	products int
}

// writtenImage is an image that statements are about. Packages are those of statements, by PURL.
type writtenImage struct {
	key      model.ImageKey
	packages map[string]writtenPackage
}

type writtenPackage struct{ name, version string }

// statementKey is a statement without its products. It says nothing about where the decision comes from and who made it.
type statementKey struct {
	vulnerability string
	// aliases are joined by line feeds.
	aliases  string
	decision model.Decision
}

// newKey makes times comparable, and cuts the comment to what Read accepts.
func newKey(vulnerability string, aliases []string, d *model.Decision) statementKey {
	k := statementKey{vulnerability: vulnerability, aliases: strings.Join(aliases, "\n")}
	k.decision = model.Decision{Status: d.Status, Since: d.Since.Round(0).UTC(), ExpiresAt: d.ExpiresAt.Round(0).UTC()}
	if j := Justification(d.Justification); j.Valid() && statuses[d.Status] == StatusNotAffected {
		k.decision.Justification = d.Justification
	}
	k.decision.Comment = truncate.Ellipsis(d.Comment, maxText-len(notesOf(&k.decision, "."))+1)
	return k
}

func (k statementKey) compare(other statementKey) int {
	a, b := &k.decision, &other.decision
	return cmp.Or(
		cmp.Compare(k.vulnerability, other.vulnerability), cmp.Compare(a.Status, b.Status), a.Since.Compare(b.Since),
		cmp.Compare(a.Justification, b.Justification), cmp.Compare(a.Comment, b.Comment), a.ExpiresAt.Compare(b.ExpiresAt),
		cmp.Compare(k.aliases, other.aliases),
	)
}

// products are PURLs of packages, by the text that identifies the image.
type products map[string]map[string]bool

// collected is a finding of an image.
type collected struct {
	subject  *subject
	decision *model.Decision
	// id and aliases are those of the vulnerability, in the case in which they are known.
	id      string
	aliases []string
	// purl is what a statement says of the package, and text the same as it is written, "" when it does not identify a version.
	purl   *PURL
	text   string
	held   writtenPackage
	chosen bool
}

// collectedOf reads a finding.
func collectedOf(f *model.Finding, chosen bool) collected {
	c := collected{
		subject: newSubject(f), decision: decisionAbout(f), id: f.Vulnerability.ID, chosen: chosen,
		held: writtenPackage{f.Package.Name, f.Package.Version},
	}
	if p := c.subject.purl; p != nil && p.Version != "" && p.Type != typeOCI && strings.HasPrefix(f.Package.PURL, schemePURL) {
		c.purl, c.text = writtenPURL(&f.Package, p)
	}
	written := map[string]bool{key(c.id): true}
	for _, alias := range slices.Sorted(slices.Values(slices.Concat(f.Vulnerability.Aliases, f.Vulnerability.CVEs))) {
		// A record that combines several CVEs has no other names.
		if id := key(alias); slices.Contains(c.subject.ids, id) && !written[id] && len(alias) <= maxID && len(c.aliases) < maxAliases {
			written[id] = true
			c.aliases = append(c.aliases, strings.TrimSpace(alias))
		}
	}
	return c
}

// writtenPURL is the PURL of a package without what its fingerprint does not cover, such as the architecture of Debian packages: a store that reads the
// document compares with nothing else. Scanners compare with PURLs that have more.
func writtenPURL(p *model.Package, purl *PURL) (*PURL, string) {
	arch := ""
	if purl.Type == packageurl.TypeRPM || purl.Type == packageurl.TypeApk {
		arch = purl.Qualifiers["arch"]
	}
	covered, err := ParsePURL(coveredPURL(p, arch))
	if err != nil {
		return purl, p.PURL
	}
	written := *purl
	written.Qualifiers, written.Subpath = maps.Clone(purl.Qualifiers), covered.Subpath
	maps.DeleteFunc(written.Qualifiers, func(key, value string) bool { return covered.Qualifiers[key] != value })
	if !written.Contains(&covered) || written.Subpath == purl.Subpath && len(written.Qualifiers) == len(purl.Qualifiers) {
		return purl, p.PURL
	}
	text := packageurl.NewPackageURL(
		written.Type, written.Namespace, written.Name, written.Version, packageurl.QualifiersFromMap(written.Qualifiers), written.Subpath,
	).ToString()
	return &written, text
}

// status is that of a statement about the finding, "" when there is none.
func (c *collected) status() Status {
	if c.decision == nil {
		return ""
	}
	return statuses[c.decision.Status]
}

// end is when the decision about the finding ends, zero when it has no end or there is none.
func (c *collected) end() time.Time {
	if c.decision == nil {
		return time.Time{}
	}
	return c.decision.ExpiresAt
}

// bucket names what a statement about a vulnerability and a version of a package can match.
func bucket(id string, p *PURL) string {
	return strings.Join([]string{key(id), p.Type, p.Namespace, p.Name, p.Version}, "\x00")
}

// add collects the decisions about the findings of an image.
func (c *collector) add(image Image) error {
	name := imageName(image.Key)
	if name == "" {
		return nil
	}
	var findings []collected
	buckets := map[string][]int{}
	if err := image.Findings(func(f model.Finding) error {
		one := collectedOf(&f, image.Chosen == nil || image.Chosen(&f))
		if one.subject.purl != nil {
			for _, id := range one.subject.ids {
				b := bucket(id, one.subject.purl)
				buckets[b] = append(buckets[b], len(findings))
			}
		}
		findings = append(findings, one)
		return nil
	}); err != nil {
		return err
	}
	// exact reports whether a statement with this name of the vulnerability says the same of all findings of the image that it matches.
	exact := func(one *collected, name string) bool {
		return !slices.ContainsFunc(buckets[bucket(name, one.subject.purl)], func(i int) bool {
			return (findings[i].status() != one.status() || !findings[i].end().Equal(one.end())) && one.purl.Contains(findings[i].subject.purl)
		})
	}
	for i := range findings {
		one := &findings[i]
		if one.decision == nil || !one.chosen || one.text == "" || one.id == "" || len(one.id) > maxID || !exact(one, one.id) {
			continue
		}
		aliases := slices.DeleteFunc(one.aliases, func(alias string) bool { return !exact(one, alias) })
		if err := c.state(image.Key, name, newKey(one.id, aliases, one.decision), one); err != nil {
			return err
		}
	}
	return nil
}

// state adds a package of an image to a statement.
func (c *collector) state(image model.ImageKey, name string, k statementKey, one *collected) error {
	if c.images[name] == nil {
		c.images[name] = &writtenImage{image, map[string]writtenPackage{}}
	}
	if held, found := c.images[name].packages[one.text]; !found || one.held.compare(held) < 0 {
		c.images[name].packages[one.text] = one.held
	}
	about := c.statements[k]
	if about == nil {
		if len(c.statements) == c.limits.Statements {
			return limitf("it would have more than %d statements; select fewer images or findings", c.limits.Statements)
		}
		about = products{}
		c.statements[k] = about
	}
	if about[name] == nil {
		about[name] = map[string]bool{}
		c.products++
	}
	if !about[name][one.text] {
		about[name][one.text] = true
		c.products++
	}
	if c.products > c.limits.TotalProducts {
		return limitf("its statements would have more than %d images and packages; select fewer images or findings", c.limits.TotalProducts)
	}
	return nil
}

func (p writtenPackage) compare(other writtenPackage) int {
	return cmp.Or(cmp.Compare(p.name, other.name), cmp.Compare(p.version, other.version))
}

// sorted returns the statements in the order in which they are written.
func (c *collector) sorted() []statementKey {
	return slices.SortedFunc(maps.Keys(c.statements), statementKey.compare)
}

// issued is when the newest decision began to apply.
func (c *collector) issued() time.Time {
	var newest time.Time
	for k := range c.statements {
		if k.decision.Since.After(newest) {
			newest = k.decision.Since
		}
	}
	return newest
}

// imageName identifies an image: by its PURL, or by its ID if it has no repository or no digest. It is "" for an ID that would be read as a PURL.
func imageName(image model.ImageKey) string {
	if image.Pullable() {
		qualifiers := map[string]string{"repository_url": image.Repository()}
		if image.Platform.Architecture != "" {
			qualifiers["arch"] = image.Platform.Architecture
		}
		name := strings.ToLower(path.Base(image.Repository()))
		purl := packageurl.NewPackageURL(typeOCI, "", name, image.Digest(), packageurl.QualifiersFromMap(qualifiers), "").String()
		if _, err := ParsePURL(purl); err == nil {
			return purl
		}
	}
	if strings.HasPrefix(image.ImageID, schemePURL) {
		return ""
	}
	return image.ImageID
}

// sha256Of is the digest of an image without its algorithm, "" when it has none or another one.
func sha256Of(image model.ImageKey) string {
	hex, found := strings.CutPrefix(image.Digest(), "sha256:")
	if !found {
		return ""
	}
	return hex
}
