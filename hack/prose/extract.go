package main

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strings"
)

// An extractor returns a text as long as the file, line by line, in which everything but prose is masked: a mask is no white
// space, so that no phrase goes across it.
const mask = 0

// masked returns a masked copy of a text.
func masked(content []byte) []byte {
	out := bytes.Repeat([]byte{mask}, len(content))
	for i, b := range content {
		if b == '\n' {
			out[i] = b
		}
	}
	return out
}

// hide masks the parts of a text that an expression matches.
func hide(text []byte, pattern *regexp.Regexp) {
	for _, at := range pattern.FindAllIndex(text, -1) {
		copy(text[at[0]:at[1]], masked(text[at[0]:at[1]]))
	}
}

var (
	code = regexp.MustCompile("(?s)``.+?``|`[^`]+`")
	// The glossary strikes out the words that it replaces.
	struck     = regexp.MustCompile(`~~[^~\n]+~~`)
	linkTarget = regexp.MustCompile(`\]\([^)\n]*\)|<https?://[^>\n]*>`)
	quoteMark  = regexp.MustCompile(`(?m)^[ \t]*> ?`)
)

func plain(content []byte) ([]byte, error) { return bytes.Clone(content), nil }

// markdown masks code, struck-out words and targets of links. Texts in pictures are prose.
func markdown(content []byte) ([]byte, error) {
	text := bytes.Clone(content)
	fenced, picture := false, false
	at := 0
	for line := range bytes.Lines(text) {
		trimmed := bytes.TrimSpace(line)
		switch {
		case bytes.HasPrefix(trimmed, []byte("```")):
			picture = !fenced && bytes.Equal(trimmed, []byte("```mermaid"))
			fenced = !fenced
			copy(text[at:], masked(line))
		case fenced && !picture:
			copy(text[at:], masked(line))
		}
		at += len(line)
	}
	for _, pattern := range []*regexp.Regexp{code, struck, linkTarget} {
		hide(text, pattern)
	}
	return blank(text, quoteMark), nil
}

// blank replaces what an expression matches by spaces.
func blank(text []byte, pattern *regexp.Regexp) []byte {
	return pattern.ReplaceAllFunc(text, func(match []byte) []byte { return bytes.Repeat([]byte{' '}, len(match)) })
}

var (
	helpText    = regexp.MustCompile(`(?m)^[\w.-]+:.*?## (.*)$`)
	yamlComment = regexp.MustCompile(`(?m)(?:^|\s)#(.*)$`)
	yamlValue   = regexp.MustCompile(`(?m)\b(?:description|summary|message):[ \t]*([^\s|>][^\n}]*)`)
	yamlBlock   = regexp.MustCompile(`^( *)(?:- )?(?:description|summary|message): *[|>][-+]?\s*$`)
	template    = regexp.MustCompile(`(?s)\{\{.*?\}\}`)
	remark      = regexp.MustCompile(`(?s)\{\{-?\s*/\*.*?\*/`)
)

// only keeps the first group of an expression, and masks everything else.
func only(content []byte, patterns ...*regexp.Regexp) []byte {
	text := masked(content)
	for _, pattern := range patterns {
		for _, at := range pattern.FindAllSubmatchIndex(content, -1) {
			copy(text[at[2]:at[3]], content[at[2]:at[3]])
		}
	}
	return text
}

// makefile keeps the help texts.
func makefile(content []byte) ([]byte, error) { return only(content, helpText), nil }

// yamlText keeps comments and the values of description, summary and message. Lines of a comment are one text.
func yamlText(content []byte) ([]byte, error) {
	text := only(content, yamlComment, yamlValue)
	at, indent := 0, -1
	for line := range bytes.Lines(content) {
		spaces := len(line) - len(bytes.TrimLeft(line, " "))
		switch begin := yamlBlock.FindSubmatch(line); {
		case begin != nil:
			indent = len(begin[1])
		case indent >= 0 && (spaces > indent || len(bytes.TrimSpace(line)) == 0):
			copy(text[at:], line)
		default:
			indent = -1
		}
		if trimmed := bytes.TrimSpace(line); bytes.HasPrefix(trimmed, []byte("#")) {
			copy(text[at:at+spaces+1], bytes.Repeat([]byte{' '}, spaces+1))
		}
		at += len(line)
	}
	hide(text, code)
	hide(text, template)
	for _, at := range remark.FindAllIndex(content, -1) {
		copy(text[at[0]:at[1]], content[at[0]:at[1]])
	}
	return text, nil
}

// goComments keeps comments, without the markers of generators.
func goComments(content []byte) ([]byte, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, "", content, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	text := masked(content)
	for _, group := range file.Comments {
		for _, comment := range group.List {
			if strings.HasPrefix(comment.Text, "// +") || strings.HasPrefix(comment.Text, "//nolint") {
				continue
			}
			at := files.Position(comment.Pos()).Offset
			copy(text[at:], "  "+comment.Text[2:])
		}
	}
	hide(text, code)
	return text, nil
}

// goStrings keeps the string literals that have more than one word.
func goStrings(content []byte) ([]byte, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, "", content, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	text := masked(content)
	ast.Inspect(file, func(node ast.Node) bool {
		literal, ok := node.(*ast.BasicLit)
		if !ok || literal.Kind != token.STRING || !strings.Contains(literal.Value, " ") || isQuery(literal.Value) {
			return true
		}
		copy(text[files.Position(literal.Pos()).Offset:], literal.Value[1:len(literal.Value)-1])
		return true
	})
	return text, nil
}

var query = regexp.MustCompile("^[`\"]\\s*(?:SELECT|INSERT|UPDATE|DELETE|CREATE|WITH|FROM|WHERE|AND|OR|JOIN|LEFT|ORDER|GROUP|SET|ON|EXISTS)\\b")

// isQuery reports whether a literal is a piece of SQL.
func isQuery(literal string) bool { return query.MatchString(literal) }

var (
	scriptString  = regexp.MustCompile(`"([^"\n]* [^"\n]*)"`)
	scriptQuote   = regexp.MustCompile("`([^`]* [^`]*)`")
	elementText   = regexp.MustCompile(`>([^<>{}=;]+)[<{]`)
	elementEnd    = regexp.MustCompile(`}([^<>{}=;]+)</`)
	scriptComment = regexp.MustCompile(`(?s)/\*.*?\*/|//[^\n]*`)
)

// typescript keeps string literals of more than one word and the texts of elements.
func typescript(content []byte) ([]byte, error) {
	source := bytes.Clone(content)
	hide(source, scriptComment)
	return only(source, scriptString, scriptQuote, elementText, elementEnd), nil
}
