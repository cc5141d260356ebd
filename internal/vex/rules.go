package vex

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
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

// Rule is a statement, or some of its products, as a rule for package decision.
type Rule struct {
	Document  *Document
	Statement *Statement
	// Key names the rule within the set: the vulnerability, and a digest of its IDs, the author and the products. It stays the same when the
	// document changes elsewhere.
	Key string
	// Text is the rule for Rules.Parse.
	Text string
}

// Rules returns the statements of a set as rules, and the statements that are about images only, which no rule is about. Of several statements
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

// rules makes rules of the products that do not depend on the names of images.
func (d *Document) rules(s *Statement) ([]Rule, error) {
	var texts []string
	products := map[string]*Product{}
	for i := range s.Products {
		if !s.Products[i].inAnyImage() {
			continue
		}
		text, err := json.Marshal(&s.Products[i])
		if err != nil {
			return nil, err
		}
		if products[string(text)] == nil {
			texts = append(texts, string(text))
			products[string(text)] = &s.Products[i]
		}
	}
	slices.Sort(texts)
	ids := []string{key(s.Vulnerability)}
	for _, alias := range s.Aliases {
		ids = append(ids, key(alias))
	}
	slices.Sort(ids)
	var rules []Rule
	for len(texts) > 0 {
		n, size := 0, 0
		hash := sha256.New()
		_, _ = fmt.Fprintf(hash, "%q %q", d.speaker(), slices.Compact(ids))
		part := *s
		part.Products = nil
		for ; n < len(texts) && size < maxRuleBytes; n++ {
			size += len(texts[n])
			_, _ = hash.Write([]byte(texts[n]))
			part.Products = append(part.Products, *products[texts[n]])
		}
		texts = texts[n:]
		text, err := json.Marshal(ruleText{d.Format, d.ID, d.Revision, d.Author, d.Source, &part})
		if err != nil {
			return nil, err
		}
		rules = append(rules, Rule{d, s, printable(truncate.Text(s.Vulnerability, maxKeyName)) + "/" + hex.EncodeToString(hash.Sum(nil))[:32], string(text)})
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

// inAnyImage reports whether the product can be a package, or a distribution with packages, of images with any name.
func (p *Product) inAnyImage() bool {
	return len(p.CPEs) > 0 || slices.ContainsFunc(p.PURLs, func(purl PURL) bool { return purl.Type != typeOCI })
}

// ruleText is a rule as text.
type ruleText struct {
	Format    Format     `json:"format"`
	ID        string     `json:"id"`
	Revision  string     `json:"revision"`
	Author    string     `json:"author"`
	Source    string     `json:"source"`
	Statement *Statement `json:"statement"`
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
	return &entry{&Document{Source: in.Source, Format: in.Format, ID: in.ID, Revision: in.Revision, Author: in.Author}, in.Statement}, nil
}

// Decide implements decision.Rules.
func (e *Evaluator) Decide(p *model.Package, rules []decision.Rule) int {
	i, s := e.subject(p)
	var d decider
	versions := &memo{e.Versions, map[comparison]bool{}}
	for _, rule := range rules {
		statement, ok := rule.(*entry)
		if !ok {
			continue
		}
		if precision := statement.statement.matches(i, s, versions); precision != noMatch {
			d.add(candidate{*statement, precision})
		}
	}
	deciding := d.deciding()
	if deciding == nil {
		return -1
	}
	return slices.IndexFunc(rules, func(rule decision.Rule) bool {
		statement, ok := rule.(*entry)
		return ok && statement.statement == deciding.statement
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
	return newImage(model.ImageNames{CPE: distributionCPE(p.Distro)}), s
}
