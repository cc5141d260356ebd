package notify

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	htmltemplate "html/template"
	"io"
	"maps"
	"slices"
	"strings"
	"text/template"
	"time"
	"unicode/utf8"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

var (
	//go:embed templates/text.tmpl
	textTemplate string
	//go:embed templates/slack.tmpl
	slackTemplate string
	//go:embed templates/teams.tmpl
	teamsTemplate string
	//go:embed templates/mail.html
	mailTemplate string
)

const (
	// maxTemplate is the most characters of a template of the administrator. The schema of the chart has the same bound.
	maxTemplate = 16 << 10
	// maxOutput is the most bytes that such a template may write.
	maxOutput = 256 << 10
)

// Templates are those of the administrator, "" for the default: with the syntax of text/template, and mail with that of html/template.
type Templates struct {
	// Text is the text of a mail, and the description of an alert.
	Text string `json:"text,omitempty"`
	// Slack is a message in the markup of Slack.
	Slack string `json:"slack,omitempty"`
	// Teams has the lines of a card in Markdown, below its title.
	Teams string `json:"teams,omitempty"`
	// Mail is the page of a mail.
	Mail string `json:"mail,omitempty"`
}

// executor is a template, of text or of HTML.
type executor interface {
	Execute(w io.Writer, data any) error
}

// texts makes the texts of messages.
type texts struct{ text, slack, teams, mail executor }

// functions are those of all templates.
var functions = template.FuncMap{
	"title":     Title,
	"workloads": (*Message).workloadCount,
	"lines":     lines,
	"clean":     clean,
	"names":     names,
	"span":      span,
	"period":    period,
	"fix":       fix,
	"images":    images,
	"color":     color,
}

// defaultTexts are those of the program.
var defaultTexts = &texts{
	text: template.Must(parseText("text", textTemplate)), slack: template.Must(parseText("slack", slackTemplate)), teams: template.Must(parseText("teams", teamsTemplate)),
	mail: htmltemplate.Must(parsePage(mailTemplate)),
}

func parseText(name, content string) (*template.Template, error) {
	return template.New(name).Funcs(functions).Parse(content)
}

func parsePage(content string) (*htmltemplate.Template, error) {
	return htmltemplate.New("mail").Funcs(functions).Parse(content)
}

// parseTexts reads templates, and takes the defaults for those that are "".
func parseTexts(custom Templates) (*texts, error) {
	t := *defaultTexts
	text := func(name string) func(string) (executor, error) {
		return func(content string) (executor, error) { return parseText(name, content) }
	}
	for _, one := range []struct {
		name, content string
		parse         func(content string) (executor, error)
		to            *executor
	}{
		{"text", custom.Text, text("text"), &t.text}, {"slack", custom.Slack, text("slack"), &t.slack}, {"teams", custom.Teams, text("teams"), &t.teams},
		{"mail", custom.Mail, func(content string) (executor, error) { return parsePage(content) }, &t.mail},
	} {
		if one.content == "" {
			continue
		}
		if n := utf8.RuneCountInString(one.content); n > maxTemplate {
			return nil, fmt.Errorf("templates.%s: %d characters, the maximum is %d", one.name, n, maxTemplate)
		}
		parsed, err := one.parse(one.content)
		if err != nil {
			return nil, fmt.Errorf("templates.%s: %w", one.name, err)
		}
		*one.to = parsed
	}
	return &t, nil
}

// newTexts reads the templates of the administrator, and tries them with examples of messages.
func newTexts(custom Templates) (*texts, error) {
	t, err := parseTexts(custom)
	if err != nil {
		return nil, err
	}
	for _, m := range examples() {
		for name, one := range map[string]executor{"text": t.text, "slack": t.slack, "teams": t.teams, "mail": t.mail} {
			text, err := run(one, m)
			if err == nil && strings.TrimSpace(text) == "" {
				err = errors.New("it writes nothing")
			}
			if err != nil {
				return nil, fmt.Errorf("templates.%s: with an example of a message: %w", name, err)
			}
		}
	}
	return t, nil
}

// examples are messages with all fields, and those that have some fields alone.
func examples() []*Message {
	at := time.Date(2026, 1, 1, 8, 0, 0, 0, time.UTC)
	all := &Message{Rule: "shop/example", Group: "shop", Combined: true, Link: "https://scanner.example.com/database"}
	for _, kind := range Kinds() {
		all.addOther(Other{Kind: kind, Text: "an example"}, model.SeverityCounts{}, at)
	}
	for _, f := range []Finding{
		{Kind: FindingOpened, VulnerabilityID: "CVE-2026-1", Severity: model.SeverityCritical, KEV: true, Package: "openssl", Version: "3.0.1", FixedIn: "3.0.2", Images: 2},
		{Kind: FindingClosed, VulnerabilityID: "CVE-2026-2", Severity: model.SeverityLow, Package: "zlib", Version: "1.3", Images: 1},
	} {
		all.addFinding(f, at.Add(24*time.Hour))
	}
	all.addWorkloads([]string{"shop/Deployment/web"})
	others := &Message{Rule: "example"}
	others.addOther(Other{Kind: DatabaseUpdated, Text: "an example"}, model.SeverityCounts{}, at)
	return []*Message{
		all, others, {Rule: "shop/example", Test: true, From: at, To: at}, {Rule: "shop/example", Report: &Report{Scope{Namespace: "shop"}, at}, From: at, To: at},
	}
}

// limited is a writer that accepts so many bytes more.
type limited struct {
	bytes.Buffer
	left int
}

func (l *limited) Write(content []byte) (int, error) {
	if l.left -= len(content); l.left < 0 {
		return 0, fmt.Errorf("it writes more than %d bytes", maxOutput)
	}
	return l.Buffer.Write(content)
}

// run executes a template.
func run(t executor, m *Message) (string, error) {
	out := &limited{left: maxOutput}
	err := t.Execute(out, m)
	return out.String(), err
}

// either executes a template, and the default if it fails or writes nothing: a message is more important than its form.
func either(t, fallback executor, m *Message) string {
	text, err := run(t, m)
	if err != nil || strings.TrimSpace(text) == "" {
		// Templates of the program fail for no message; tests execute all of them.
		text, _ = run(fallback, m)
	}
	return text
}

// Text is a message as plain text.
func (t *texts) Text(m *Message) string { return either(t.text, defaultTexts.text, m) }

// Page is a message in HTML.
func (t *texts) Page(m *Message) string { return either(t.mail, defaultTexts.mail, m) }

// Slack is a message in the markup of Slack. Texts of others make no links and mention nobody.
func (t *texts) Slack(m *Message) string {
	// These three characters control the text of Slack.
	return either(t.slack, defaultTexts.slack, m.escaped(strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")))
}

// inMarkdown is a text in the part of Markdown that cards of Teams show: names of packages are not to make links.
var inMarkdown = strings.NewReplacer(`\`, `\\`, "[", `\[`, "]", `\]`, "*", `\*`, "_", `\_`)

// Teams are the lines of a message in Markdown. Texts of others make no links.
func (t *texts) Teams(m *Message) string {
	return either(t.teams, defaultTexts.teams, m.escaped(inMarkdown))
}

// escaped is the message with texts of others that fit into a line and are escaped.
func (m *Message) escaped(markup *strings.Replacer) *Message {
	plain := func(text string) string { return markup.Replace(clean(text)) }
	e := *m
	e.Rule, e.Group = plain(m.Rule), plain(m.Group)
	e.Worst, e.Others, e.Workloads = slices.Clone(m.Worst), slices.Clone(m.Others), slices.Clone(m.Workloads)
	for i := range e.Worst {
		f := &e.Worst[i]
		f.VulnerabilityID, f.Package, f.Version, f.FixedIn, f.Image = plain(f.VulnerabilityID), plain(f.Package), plain(f.Version), plain(f.FixedIn), plain(f.Image)
	}
	for i := range e.Others {
		e.Others[i].Text = plain(e.Others[i].Text)
	}
	for i := range e.Workloads {
		e.Workloads[i] = plain(e.Workloads[i])
	}
	if m.Report != nil {
		e.Report = &Report{Scope{plain(m.Report.Namespace), plain(m.Report.Owner)}, m.Report.Since}
	}
	e.Counts = maps.Clone(m.Counts)
	return &e
}
