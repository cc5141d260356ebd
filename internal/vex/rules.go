package vex

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/scanner-operator/scanner-operator/internal/decision"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/truncate"
)

// maxKeyName bounds the part of a key that names the vulnerability, in bytes.
const maxKeyName = 128

// maxRuleBytes is how long a rule may become before its statement is split. One product more may still fit.
const maxRuleBytes = 256 << 10

// maxRuleImages is the most images that a rule is about. A statement about more has several.
const maxRuleImages = 100

// inImage stands for the images of a rule in its products.
const inImage = "image"

// Rule is a statement, or some of its products, as a rule for package decision.
type Rule struct {
	Document  *Document
	Statement *Statement
	// Key names the rule within the set: the vulnerability, and a digest of its IDs, the author and the products. It stays the same when the
	// document changes elsewhere.
	Key string
	// Images are the digests of the images that the rule is about, sorted; nil for all images.
	Images []string
	// Decision is what the rule decides if it is independent of others, nil if it is a statement that may override others. See Document.ExportedDecisions.
	Decision *model.Decision
	// Text is the rule for Rules.Parse.
	Text string
}

// Rules returns the statements of a set as rules, and those that name images in another way than by digest, which no rule is about. Of several statements
// by the same author about the same vulnerability and the same products, the one that prevails has a rule. Statements without identifiers have none.
func (s *Set) Rules() (rules []Rule, images []*Statement, err error) {
	at := map[string]int{} // by key
	for _, d := range s.documents {
		for i := range d.Statements {
			statement := &d.Statements[i]
			parts, err := d.rules(statement)
			if err != nil {
				return nil, nil, err
			}
			if len(parts) == 0 && statement.Identified() {
				images = append(images, statement)
			}
			for _, rule := range parts {
				n, found := at[rule.Key]
				if !found {
					at[rule.Key] = len(rules)
					rules = append(rules, rule)
					continue
				}
				if rule.candidate().compareOfAuthor(rules[n].candidate()) > 0 {
					rules[n] = rule
				}
			}
		}
	}
	return rules, images, nil
}

func (r *Rule) candidate() candidate { return candidate{entry{r.Document, r.Statement}, anyVersion} }

// rules makes rules of the products that are packages in any image, and of those that are images named by a digest or packages in them.
func (d *Document) rules(s *Statement) ([]Rule, error) {
	ids := []string{key(s.Vulnerability)}
	for _, alias := range s.Aliases {
		ids = append(ids, key(alias))
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	anywhere, inImages, err := s.grouped()
	if err != nil {
		return nil, err
	}
	rules, err := d.split(s, ids, nil, anywhere)
	if err != nil {
		return nil, err
	}
	for _, digests := range slices.Sorted(maps.Keys(inImages)) {
		for part := range slices.Chunk(strings.Split(digests, "\n"), maxRuleImages) {
			more, err := d.split(s, ids, part, inImages[digests])
			if err != nil {
				return nil, err
			}
			rules = append(rules, more...)
		}
	}
	return rules, nil
}

// byText are products by their JSON text.
type byText map[string]*Product

// grouped returns the products that are packages in any image, and those that are packages in certain images by the digests of these, which are sorted
// and joined by line feeds.
func (s *Statement) grouped() (anywhere byText, inImages map[string]byText, err error) {
	anywhere, inImages = byText{}, map[string]byText{}
	// of are the digests of the images that have the same packages.
	of, held := map[string][]string{}, byText{}
	for i := range s.Products {
		if p := s.Products[i].outsideImages(); p != nil {
			text, err := json.Marshal(p)
			if err != nil {
				return nil, nil, err
			}
			anywhere[string(text)] = p
		}
		if digests := s.Products[i].imageDigests(); len(digests) > 0 {
			p := &Product{Component{Digests: []string{inImage}}, s.Products[i].Subcomponents}
			text, err := json.Marshal(p)
			if err != nil {
				return nil, nil, err
			}
			of[string(text)], held[string(text)] = append(of[string(text)], digests...), p
		}
	}
	for text, digests := range of {
		slices.Sort(digests)
		joined := strings.Join(slices.Compact(digests), "\n")
		if inImages[joined] == nil {
			inImages[joined] = byText{}
		}
		inImages[joined][text] = held[text]
	}
	return anywhere, inImages, nil
}

// split makes rules of products that are packages in the same images, nil for all.
func (d *Document) split(s *Statement, ids, images []string, products byText) ([]Rule, error) {
	var rules []Rule
	var decided *model.Decision
	if exported, found := d.exported(s); found {
		decided = &exported
	}
	texts := slices.Sorted(maps.Keys(products))
	for len(texts) > 0 {
		n, size := 0, 0
		hash := sha256.New()
		_, _ = fmt.Fprintf(hash, "%q %q", d.speaker(), ids)
		if decided != nil {
			// Decisions do not override each other.
			_, _ = fmt.Fprintf(hash, " decision %q %q", decided.Status, dateTime(decided.ExpiresAt))
		}
		if len(images) > 0 {
			_, _ = fmt.Fprintf(hash, " %q", images)
		}
		part := *s
		part.Products = nil
		for ; n < len(texts) && size < maxRuleBytes; n++ {
			size += len(texts[n])
			_, _ = hash.Write([]byte(texts[n]))
			part.Products = append(part.Products, *products[texts[n]])
		}
		texts = texts[n:]
		text, err := json.Marshal(ruleText{d.Format, d.ID, d.Revision, d.Author, d.Source, d.Trust, decided != nil, &part})
		if err != nil {
			return nil, err
		}
		key := printable(truncate.Text(s.Vulnerability, maxKeyName)) + "/" + hex.EncodeToString(hash.Sum(nil))[:32]
		rules = append(rules, Rule{d, s, key, images, decided, string(text)})
	}
	return rules, nil
}

// printable leaves out what databases do not store.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, text)
}

// outsideImages is the product without what names images, nil if it cannot be a package, or a distribution with packages, of any image.
func (p *Product) outsideImages() *Product {
	out := *p
	out.PURLs = slices.DeleteFunc(slices.Clone(p.PURLs), func(purl PURL) bool { return purl.Type == typeOCI })
	out.Digests, out.References = nil, nil
	if len(out.PURLs)+len(out.CPEs) == 0 {
		return nil
	}
	return &out
}

// imageDigests lists the digests by which the component names images, whatever their repositories. A PURL that is about one tag or architecture, and a
// component that is about some versions, is more than a digest says.
func (c *Component) imageDigests() []string {
	if c.Versions != nil && !c.Versions.all {
		return nil
	}
	digests := slices.Clone(c.Digests)
	for i := range c.PURLs {
		p := &c.PURLs[i]
		_, somewhere := p.Qualifiers["repository_url"]
		if p.Type == typeOCI && p.Namespace == "" && (len(p.Qualifiers) == 0 || somewhere && len(p.Qualifiers) == 1) {
			digests = append(digests, p.Version)
		}
	}
	for _, reference := range c.References {
		if _, digest, found := strings.Cut(reference, "@"); found && model.RepositoryOf(reference) != "" {
			digests = append(digests, digest)
		}
	}
	return slices.DeleteFunc(digests, func(digest string) bool {
		return digest == "" || (model.ImageKey{ImageID: digest}).Digest() != digest
	})
}

// ruleText is a rule as text.
type ruleText struct {
	Format      Format     `json:"format"`
	ID          string     `json:"id"`
	Revision    string     `json:"revision"`
	Author      string     `json:"author"`
	Source      string     `json:"source"`
	Trust       string     `json:"trust,omitempty"`
	Independent bool       `json:"independent,omitempty"`
	Statement   *Statement `json:"statement"`
}

// Evaluator implements decision.Rules for the rules of sets. Rules that match the same finding decide as the statements of a Set do.
type Evaluator struct {
	// Versions compares versions.
	Versions Versions
	// Arch returns the architecture in the MatchInput of a package; "" if it has none that the fingerprint covers.
	Arch func(input json.RawMessage) string
}

// Parse implements decision.Rules.
func (e *Evaluator) Parse(text string) (decision.Rule, error) {
	var in ruleText
	if err := json.Unmarshal([]byte(text), &in); err != nil {
		return nil, fmt.Errorf("read the rule of a VEX statement: %w", err)
	}
	if in.Statement == nil {
		return nil, errors.New("the rule of a VEX statement has no statement")
	}
	return &rule{entry: entry{&Document{Source: in.Source, Format: in.Format, ID: in.ID, Revision: in.Revision, Author: in.Author, Trust: in.Trust}, in.Statement}, independent: in.Independent}, nil
}

// rule is a rule that was read.
type rule struct {
	entry
	// work and independent are those of decision.Rules.
	work        int
	independent bool
}

// Work implements decision.Rules.
func (e *Evaluator) Work(r decision.Rule) int {
	if read, ok := r.(*rule); ok {
		return read.work
	}
	return 0
}

// Independent implements decision.Rules.
func (e *Evaluator) Independent(r decision.Rule) bool {
	read, ok := r.(*rule)
	return ok && read.independent
}

// Decide implements decision.Rules.
func (e *Evaluator) Decide(p *model.Package, rules []decision.Rule) int {
	i, s := e.subject(p)
	var d decider
	made := &counted{Versions: e.Versions}
	versions := &memo{made, map[comparison]bool{}}
	for _, r := range rules {
		read, ok := r.(*rule)
		if !ok {
			continue
		}
		before := made.work
		if precision := read.statement.matches(i, s, versions); precision != noMatch {
			d.add(candidate{read.entry, precision})
		}
		read.work += read.statement.size() + made.work - before
	}
	deciding := d.deciding()
	if deciding == nil {
		return -1
	}
	return slices.IndexFunc(rules, func(r decision.Rule) bool {
		read, ok := r.(*rule)
		return ok && read.statement == deciding.statement
	})
}

// subject is a package in the form in which statements are compared with it, made of what its fingerprint covers.
func (e *Evaluator) subject(p *model.Package) (*image, *subject) {
	arch := ""
	if e.Arch != nil {
		arch = e.Arch(p.MatchInput)
	}
	s := &subject{kind: p.Type, version: p.Version}
	if purl, err := ParsePURL(coveredPURL(p, arch)); err == nil {
		s.purl = &purl
	}
	for _, text := range p.CPEs {
		if cpe, err := ParseCPE(text); err == nil {
			s.cpes = append(s.cpes, cpe)
		}
	}
	return newImage(model.ImageNames{CPE: distributionCPE(p.Distro), Digests: []string{inImage}}), s
}
