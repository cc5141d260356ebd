package plugin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf16"

	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/yaml"

	"github.com/scanner-operator/scanner-operator/internal/server/api"
	"github.com/scanner-operator/scanner-operator/internal/truncate"
)

// Bounds of a cell in bytes: in a table, and in a wide one.
const (
	maxCell     = 100
	maxWideCell = 1000
)

// none is what a table shows for a value that does not exist, as kubectl does.
const none = "<none>"

// column is a column of a table of rows of one kind.
type column[T any] struct {
	header string
	// wide says that only wide tables have it, namespaced that only those of all namespaces do.
	wide, namespaced bool
	value            func(T) string
}

// show writes a list in the format that was asked for. what names its rows, for an empty list.
func show[T any](o *options, list rows[T], namespace, what string, columns []column[T]) error {
	if o.output == "json" || o.output == "yaml" {
		if list.raw == nil {
			list.raw = []json.RawMessage{}
		}
		return o.document(map[string]any{"items": list.raw, "total": list.total})
	}
	if len(list.items) == 0 {
		where := ""
		if namespace != "" {
			where = " in " + namespace + " namespace"
		}
		_, _ = fmt.Fprintf(o.errOut, "No %s found%s.\n", what, printable(where))
		return nil
	}
	if err := table(o, list.items, namespace == "", columns); err != nil {
		return err
	}
	if list.total > len(list.items) {
		_, _ = fmt.Fprintf(o.errOut, "Showing %d of %d %s. Use --limit to show more.\n", len(list.items), list.total, what)
	}
	return nil
}

// table writes rows with the widths and spaces of kubectl.
func table[T any](o *options, items []T, allNamespaces bool, columns []column[T]) error {
	wide, limit := o.output == "wide", maxCell
	if wide {
		limit = maxWideCell
	}
	shown := func(c column[T]) bool { return (wide || !c.wide) && (allNamespaces || !c.namespaced) }
	lines := tabwriter.NewWriter(o.out, 6, 4, 3, ' ', 0)
	line := func(cell func(column[T]) string) {
		var cells []string
		for _, c := range columns {
			if shown(c) {
				cells = append(cells, cell(c))
			}
		}
		_, _ = fmt.Fprintln(lines, strings.Join(cells, "\t"))
	}
	if !o.noHeaders {
		line(func(c column[T]) string { return c.header })
	}
	for _, item := range items {
		line(func(c column[T]) string {
			// The limit comes first: a hostile text may be long.
			cell := printable(truncate.Ellipsis(c.value(item), limit))
			if cell == "" {
				return none
			}
			return cell
		})
	}
	// Errors of the writer stay until here.
	return lines.Flush()
}

// document writes a value as JSON or YAML.
func (o *options) document(value any) error {
	content, err := json.Marshal(value)
	if err != nil {
		return err
	}
	if o.output == "yaml" {
		if content, err = toYAML(content); err != nil {
			return err
		}
		_, err = o.out.Write(content)
		return err
	}
	var indented bytes.Buffer
	if err := json.Indent(&indented, content, "", "    "); err != nil {
		return err
	}
	indented.WriteByte('\n')
	_, err = o.out.Write(escapedJSON(indented.Bytes()))
	return err
}

// escapedJSON writes each character of a JSON text that terminals do not show as an escape of JSON. The values stay the same: outside of strings there
// are none but line breaks.
func escapedJSON(content []byte) []byte {
	return escaped(content, func(out *bytes.Buffer, r rune) {
		high, low := utf16.EncodeRune(r)
		_, _ = fmt.Fprintf(out, `\u%04x\u%04x`, high, low)
	})
}

// escaped escapes what terminals do not show; beyond writes a character of more than 16 bits.
func escaped(content []byte, beyond func(out *bytes.Buffer, r rune)) []byte {
	var out bytes.Buffer
	for _, r := range string(content) {
		switch {
		case r == '\n' || unicode.IsPrint(r):
			out.WriteRune(r)
		case r > 0xffff:
			beyond(&out, r)
		default:
			_, _ = fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	return out.Bytes()
}

// toYAML converts a JSON text. The YAML library refuses control characters in its input unless they are escaped, escapes them in its output, and does neither
// with characters that change the direction of text: those are replaced.
func toYAML(content []byte) ([]byte, error) {
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.UseNumber()
	var decoded any
	if err := decoder.Decode(&decoded); err != nil {
		return nil, err
	}
	// Escapes of JSON that YAML does not have are gone after this.
	content, err := json.Marshal(decoded)
	if err != nil {
		return nil, err
	}
	content, err = yaml.JSONToYAML(escaped(content, func(out *bytes.Buffer, r rune) { _, _ = fmt.Fprintf(out, `\U%08x`, r) }))
	if err != nil {
		return nil, err
	}
	return bytes.Map(func(r rune) rune {
		if r != '\n' && !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, content), nil
}

// printable keeps what a terminal shows in one line: letters, marks, digits, punctuation, symbols and plain spaces. Line breaks become spaces; control
// characters and those that change the direction of text go.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case !unicode.IsPrint(r):
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, string(unicode.ReplacementChar)))
}

// linef writes a line of a description; what is in it is untrusted.
func linef(w io.Writer, format string, arguments ...any) {
	for i, argument := range arguments {
		if text, ok := argument.(string); ok {
			arguments[i] = printable(truncate.Ellipsis(text, maxWideCell))
		}
	}
	_, _ = fmt.Fprintf(w, format+"\n", arguments...)
}

// age is how long ago something was, as kubectl shows it.
func (o *options) age(at *time.Time) string {
	if at == nil || at.IsZero() {
		return ""
	}
	return duration.HumanDuration(o.now().Sub(*at))
}

// shortImage cuts the digest of an image ID to twelve digits.
func (o *options) shortImage(id string) string {
	const algorithm = "@sha256:"
	name, digest, found := strings.Cut(id, algorithm)
	if o.output == "wide" || !found || len(digest) <= 12 {
		return id
	}
	return name + algorithm + digest[:12]
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func number[N int | int64](n N) string { return strconv.FormatInt(int64(n), 10) }

// decimal is a number with one digit after the point.
func decimal(f float64) string { return strconv.FormatFloat(f, 'f', 1, 64) }

// percent does not round a probability down to none.
func percent(p float64) string {
	if p > 0 && p < 0.001 {
		return "<0.1%"
	}
	return decimal(p*100) + "%"
}

func value[T ~string](p *T) string {
	if p == nil {
		return ""
	}
	return string(*p)
}

func fixedIn(f api.Fix) string {
	if f.State == api.FixStateWontFix {
		return "(won't fix)"
	}
	if f.Versions == nil {
		return ""
	}
	return strings.Join(*f.Versions, ", ")
}

func workload(w api.Workload) string { return strings.ToLower(w.Kind) + "/" + w.Name }
