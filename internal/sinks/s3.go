package sinks

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/scanner-operator/scanner-operator/internal/outbound"
	"github.com/scanner-operator/scanner-operator/internal/report"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// The files of the credential of a bucket, besides those of all.
const (
	fileAccessKeyID     = "accessKeyID"
	fileSecretAccessKey = "secretAccessKey"
	fileSessionToken    = "sessionToken"
)

// bucket writes objects into a bucket with the interface of Amazon S3.
type bucket struct {
	factory *Factory
	spec    *S3
}

func (*bucket) parts() int { return 1 }

// Keys have at most 1024 bytes. The extension follows.
func (*bucket) longest() int { return 1000 }

// clean makes a key that file systems and clients take as it is: no empty segment, and none that means another folder.
func (*bucket) clean(text string) string {
	segments := strings.Split(text, "/")
	kept := segments[:0]
	for _, segment := range segments {
		switch segment {
		case "":
			continue
		case ".", "..":
			segment = strings.Repeat("_", len(segment))
		}
		kept = append(kept, segment)
	}
	return strings.Join(kept, "/")
}

func (*bucket) most() int { return store.MaxReportItems }

func (b *bucket) config() string {
	texts := []string{b.spec.Credential, b.spec.Bucket, b.spec.Region}
	for _, format := range b.spec.Formats {
		texts = append(texts, string(format))
	}
	return digestOf(texts...)
}

func (*bucket) findings() bool { return true }

func (b *bucket) removes() bool { return b.spec.Delete }

// extensions are those of the formats, with the types of their content.
var extensions = map[report.Format][2]string{
	report.FormatCycloneDX: {".cdx.json", "application/vnd.cyclonedx+json"},
	report.FormatSPDX:      {".spdx.json", "application/spdx+json"},
	report.FormatSARIF:     {".sarif.json", "application/sarif+json"},
	report.FormatCSV:       {".csv", "text/csv"},
}

func (b *bucket) encode(ctx context.Context, _ *target, r *reports) ([]document, error) {
	var documents []document
	for _, format := range b.spec.Formats {
		body, err := r.full(ctx, format)
		if err != nil {
			return nil, err
		}
		kind := extensions[format]
		documents = append(documents, document{kind[0], kind[1], body})
	}
	return documents, nil
}

func (b *bucket) deliver(ctx context.Context, t *target, documents []document, _ bool) error {
	for i := range documents {
		d := &documents[i]
		if err := b.call(ctx, http.MethodPut, t.Parts[0]+d.name, d.contentType, d.body); err != nil {
			return err
		}
	}
	if !b.removes() {
		return nil
	}
	return b.erase(ctx, t, t.Former)
}

func (b *bucket) remove(ctx context.Context, t *target) error {
	return b.erase(ctx, t, slices.Concat(t.Formats, t.Former))
}

// erase deletes the objects of formats. Those that are not there are no error.
func (b *bucket) erase(ctx context.Context, t *target, formats []report.Format) error {
	for _, format := range formats {
		if err := b.call(ctx, http.MethodDelete, t.Parts[0]+extensions[format][0], "", nil, http.StatusNotFound); err != nil {
			return err
		}
	}
	return nil
}

// call sends a signed request about an object. The bucket is in the path, which all servers understand.
func (b *bucket) call(ctx context.Context, method, key, contentType string, body []byte, accepted ...int) error {
	files := outbound.Credential{Dir: b.factory.Dir, Name: b.spec.Credential}
	id, err := files.Need(fileAccessKeyID)
	if err != nil {
		return unavailable(err)
	}
	secret, err := files.Need(fileSecretAccessKey)
	if err != nil {
		return unavailable(err)
	}
	session, err := files.Read(fileSessionToken)
	if err != nil {
		return unavailable(err)
	}
	keys := accessKey{id, secret, session}
	sign := func(call *http.Request, body []byte) { keys.sign(call, body, b.spec.Region, b.factory.Clock.Now()) }
	_, err = b.factory.call(ctx, b.spec.Credential, &request{
		method: method, path: b.spec.Bucket + "/" + key, contentType: contentType, body: body, sign: sign, accepted: accepted,
	})
	return err
}
