package setup

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/utils/clock"

	scannerv1alpha1 "github.com/scanner-operator/scanner-operator/api/scanner/v1alpha1"
	"github.com/scanner-operator/scanner-operator/internal/catalog"
	"github.com/scanner-operator/scanner-operator/internal/controller/vexsources"
	"github.com/scanner-operator/scanner-operator/internal/match"
	"github.com/scanner-operator/scanner-operator/internal/registries"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/vex"
)

// vexRules evaluates the statements of VEX documents in the store.
func vexRules() *vex.Evaluator { return &vex.Evaluator{Versions: match.Versions{}, Arch: match.Arch} }

func (o *Operator) addVEXSources() error {
	config, err := registries.Parse(o.opts.Registries)
	if err != nil {
		return err
	}
	documents := &catalog.Documents{Registries: config, PlainHTTP: o.opts.PlainHTTPRegistries, MaxBytes: store.MaxVEXDocumentBytes}
	if o.opts.VEXCredentials != "" {
		documents.Credentials = []string{o.opts.VEXCredentials}
	}
	fetcher := vexFetcher{documents}
	reconciler := vexsources.NewReconciler(o.manager.GetClient(), o.manager.GetAPIReader(), o.store, o.applier, fetcher, o.opts.Namespace, clock.RealClock{})
	if err := reconciler.SetupWithManager(o.manager); err != nil {
		return fmt.Errorf("set up the VEXSource controller: %w", err)
	}
	return nil
}

// vexFetcher fetches the documents of VEXSources.
type vexFetcher struct{ documents *catalog.Documents }

// Fetch implements vexsources.Fetcher.
func (f vexFetcher) Fetch(ctx context.Context, spec *scannerv1alpha1.VEXSourceSpec, version string) ([]store.VEXContent, string, error) {
	request := catalog.DocumentRequest{Version: version}
	switch {
	case spec.HTTP != nil:
		request.URL, request.CABundle = spec.HTTP.URL, spec.HTTP.CABundle
	case spec.OCI != nil:
		request.Reference = spec.OCI.Reference
	default:
		return nil, "", errors.New("the spec has neither http nor oci")
	}
	if spec.Signature != nil {
		key, err := registries.ParseKey(spec.Signature.PublicKey)
		if err != nil {
			return nil, "", fmt.Errorf("spec.signature.publicKey: %w", err)
		}
		request.Key = &key
	}
	documents, next, err := f.documents.Fetch(ctx, request)
	switch {
	case errors.Is(err, catalog.ErrNotModified):
		return nil, "", vexsources.ErrNotModified
	case errors.Is(err, catalog.ErrSignature):
		return nil, "", fmt.Errorf("%w: %w", vexsources.ErrSignature, err)
	case err != nil:
		return nil, "", err
	}
	contents := make([]store.VEXContent, len(documents))
	for i, d := range documents {
		contents[i] = store.VEXContent{Name: d.Name, Content: d.Content}
	}
	return contents, next, nil
}
