package notify

import (
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/mail"
	"strings"
	"testing"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

// Names of packages, images and rules are chosen by others: they add no markup to a mail, no header and no part.
func FuzzMail(f *testing.F) {
	for _, seed := range []string{"openssl", "<script>alert(1)</script>", `"><img src=x onerror=alert(1)>`, "a\r\n\r\n--part-x\r\n", "\x00\xff", "</style><b>", "{{.}}", "javascript:alert(1)"} {
		f.Add(seed)
	}
	r := &Receivers{Clock: &movable{}}
	from := &mail.Address{Address: "scanner@example.com"}
	f.Fuzz(func(t *testing.T, text string) {
		m := &Message{Rule: text, Group: text}
		m.addFinding(Finding{Kind: FindingOpened, VulnerabilityID: text, Package: text, Version: text, FixedIn: text, Severity: model.SeverityHigh, Images: 1}, noon)
		m.addOther(Other{Kind: ScanFailed, Text: text}, model.SeverityCounts{}, noon)
		m.addWorkloads([]string{text})
		parsed, err := mail.ReadMessage(strings.NewReader(string(r.letter(from, []string{"a@example.com"}, "key", m, nil))))
		must(t, err)
		if len(parsed.Header) != 8 {
			t.Fatalf("headers: %v", parsed.Header)
		}
		_, parameters, err := mime.ParseMediaType(parsed.Header.Get("Content-Type"))
		must(t, err)
		parts := multipart.NewReader(parsed.Body, parameters["boundary"])
		for _, want := range []string{"text/plain; charset=utf-8", "text/html; charset=utf-8"} {
			part, err := parts.NextPart()
			must(t, err)
			content, err := io.ReadAll(part)
			must(t, err)
			if got := part.Header.Get("Content-Type"); got != want {
				t.Fatalf("a part is %s, want %s", got, want)
			}
			if tags := strings.Count(string(content), "<"); strings.HasPrefix(want, "text/html") && tags != htmlTags {
				t.Fatalf("%d tags, want %d: %s", tags, htmlTags, content)
			}
		}
		if _, err := parts.NextPart(); !errors.Is(err, io.EOF) {
			t.Fatalf("after the parts: %v", err)
		}
	})
}

// htmlTags is the number of tags of a mail with one finding, one other change and one workload, whatever their names are.
var htmlTags = func() int {
	m := &Message{Rule: "r", Group: "g"}
	m.addFinding(Finding{Kind: FindingOpened, VulnerabilityID: "v", Package: "p", Version: "1", FixedIn: "2", Severity: model.SeverityHigh, Images: 1}, noon)
	m.addOther(Other{Kind: ScanFailed, Text: "text"}, model.SeverityCounts{}, noon)
	m.addWorkloads([]string{"w"})
	return strings.Count(defaultTexts.Page(m), "<")
}()
