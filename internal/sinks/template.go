package sinks

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"unicode"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/truncate"
)

// maxTemplate bounds a template, in bytes.
const maxTemplate = 512

// place is an image in a workload, which a template is about.
type place struct {
	cluster  string
	image    model.ImageKey
	workload *store.Workload
}

// placeholders are what templates contain in braces.
var placeholders = map[string]func(p *place) string{
	"cluster":    func(p *place) string { return p.cluster },
	"namespace":  func(p *place) string { return p.workload.Namespace },
	"kind":       func(p *place) string { return p.workload.Kind },
	"workload":   func(p *place) string { return p.workload.Name },
	"owner":      func(p *place) string { return p.workload.Owner },
	"registry":   func(p *place) string { return p.image.Registry() },
	"repository": func(p *place) string { return p.image.Repository() },
	"image":      func(p *place) string { return path.Base(p.image.Repository()) },
	"digest":     func(p *place) string { return p.image.Digest() },
	"platform":   func(p *place) string { return p.image.Platform.String() },
}

// template is a text with placeholders.
type template struct {
	// literals are around the values: there is one more of them.
	literals []string
	values   []func(p *place) string
}

// parseTemplates reads templates.
func parseTemplates(texts []string) ([]*template, error) {
	var all []*template
	for _, text := range texts {
		t, err := parseTemplate(text)
		if err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	return all, nil
}

// parseTemplate reads a text such as "{namespace}/{workload}". There is no way to write a brace.
func parseTemplate(text string) (*template, error) {
	if len(text) > maxTemplate {
		return nil, fmt.Errorf("the template has %d bytes, the maximum is %d", len(text), maxTemplate)
	}
	t, rest := &template{}, text
	for {
		literal, behind, found := strings.Cut(rest, "{")
		if strings.Contains(literal, "}") {
			return nil, fmt.Errorf("the template %q has a } without {", text)
		}
		t.literals = append(t.literals, literal)
		if !found {
			return t, nil
		}
		name, after, closed := strings.Cut(behind, "}")
		value, known := placeholders[name]
		if !closed || !known {
			return nil, fmt.Errorf("the template %q has an unknown placeholder: use {%s}", text, strings.Join(slices.Sorted(maps.Keys(placeholders)), "}, {"))
		}
		t.values = append(t.values, value)
		rest = after
	}
}

// render returns the text for a place, with at most limit bytes, which are at least 32. Characters that do not print become "_", and the end of a longer text
// is replaced by a hash, so that different texts stay different.
func (t *template) render(p *place, limit int) string {
	var text strings.Builder
	for i, literal := range t.literals {
		text.WriteString(literal)
		if i < len(t.values) {
			text.WriteString(t.values[i](p))
		}
	}
	clean := strings.TrimSpace(printable(text.String()))
	if len(clean) <= limit {
		return clean
	}
	hash := "-" + digestOf(clean)[:16]
	return truncate.Text(clean, limit-len(hash)) + hash
}

// printable is a text with "_" in place of characters that do not print.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '_'
		}
		return r
	}, strings.ToValidUTF8(text, "_"))
}

// digestOf is a hash of texts, in 64 hexadecimal digits.
func digestOf(texts ...string) string {
	hash := sha256.New()
	for _, text := range texts {
		fmt.Fprintf(hash, "%d:%s", len(text), text)
	}
	return hex.EncodeToString(hash.Sum(nil))
}
