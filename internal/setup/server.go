package setup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"slices"

	"github.com/scanner-operator/scanner-operator/internal/feed"
	"github.com/scanner-operator/scanner-operator/internal/match"
	"github.com/scanner-operator/scanner-operator/internal/matching"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/places"
	"github.com/scanner-operator/scanner-operator/internal/server"
	"github.com/scanner-operator/scanner-operator/internal/server/auth"
	"github.com/scanner-operator/scanner-operator/internal/server/auth/oidc"
	"github.com/scanner-operator/scanner-operator/internal/server/exceptions"
	"github.com/scanner-operator/scanner-operator/internal/server/live"
	"github.com/scanner-operator/scanner-operator/internal/server/problem"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/version"
	"github.com/scanner-operator/scanner-operator/internal/vulndb"
	"github.com/scanner-operator/scanner-operator/web"
)

// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create

func (o *Operator) newServer(matcher *matching.Matcher, library *vulndb.Library, hub *feed.Hub) (*server.Server, error) {
	config := server.Config{
		BindAddress: o.opts.APIAddress,
		BasePath:    o.opts.SignIn.BasePath,
		Origin:      o.opts.SignIn.origin(),
		Auth:        auth.Mode(o.opts.Auth),
		Assets:      assets(),
		Store:       o.ready,
		Databases:   databases{library},
		Rematcher:   library,
		Leads:       o.leads,
		Feed: func(ctx context.Context) live.Subscription {
			return hub.Subscribe(ctx, feed.Filter{})
		},
		Deployments: o.deployments,
		Ingest:      ingester{matcher},
		VEX:         o.applier,
		Versions:    match.Versions{},
		Previews:    previewer{matching.NewPreviewer(o.store, library)},
		Cluster:     o.opts.ClusterName,
		Version:     version.String(),
		Limits:      limits(o.opts),
		Log:         o.opts.Log.WithName("server"),
		Places:      o.places,
		Tracer:      o.traces.Tracer("server"),
	}
	if o.opts.WriteExceptions {
		config.Exceptions = exceptions.New(o.manager.GetAPIReader(), o.manager.GetClient())
	}
	if o.rules != nil {
		config.NotificationRules = o.rules
	}
	if o.certificate != nil {
		config.TLS = o.certificate.TLSConfig()
	}
	if o.opts.Auth == AuthKubernetes {
		reviews, err := auth.NewReviews(o.manager.GetConfig(), o.manager.GetHTTPClient())
		if err != nil {
			return nil, fmt.Errorf("set up authentication: %w", err)
		}
		config.Reviews = reviews
		config.Uploads = auth.NewUploadAuthorizer(reviews.Tokens, o.manager.GetAPIReader(), o.store)
		config.AnonymousRead = o.opts.SignIn.AnonymousRead
	}
	if o.opts.SignIn.OIDC.Issuer != "" {
		provider, err := oidc.New(o.opts.SignIn.OIDC)
		if err != nil {
			return nil, fmt.Errorf("set up signing in: %w", err)
		}
		config.Provider = provider
	}
	if err := o.addFrontProxy(&config); err != nil {
		return nil, err
	}
	s, err := server.New(config)
	if err != nil {
		return nil, fmt.Errorf("set up the API: %w", err)
	}
	return s, nil
}

// places reads the labels of namespaces and pods for previews. The API server is asked, as only the leader has caches of them.
func (o *Operator) places(ctx context.Context, selection *places.Selection, in func(namespace string) bool) (*store.DecisionPlaces, error) {
	watched := o.opts.WatchNamespaces
	resolver := places.Resolver{Reader: o.manager.GetAPIReader(), Live: true, In: func(namespace string) bool {
		return in(namespace) && (len(watched) == 0 || slices.Contains(watched, namespace))
	}}
	return resolver.Resolve(ctx, selection)
}

// leads says whether this replica is the one that looks after databases.
func (o *Operator) leads() bool {
	select {
	case <-o.manager.Elected():
		return true
	default:
		return false
	}
}

func assets() fs.FS {
	files, built := web.Assets()
	if !built {
		return nil
	}
	return files
}

// previewer matches packages in other versions.
type previewer struct{ *matching.Previewer }

// MatchVersions implements server.Previewer.
func (p previewer) MatchVersions(ctx context.Context, packages []model.Package, versions []string) ([]model.PackageAnswer, model.DatabaseBuild, error) {
	answers, build, err := p.Previewer.MatchVersions(ctx, packages, versions)
	if errors.Is(err, matching.ErrNotInstalled) {
		err = problem.Unavailable(err, matching.ErrNotInstalled.Error()+". Try again")
	}
	return answers, build, err
}

// databases tells the server how up to date the vulnerability database is.
type databases struct{ library *vulndb.Library }

// Status implements server.DatabaseStatusProvider.
func (d databases) Status() server.DatabaseStatus {
	status := d.library.Status()
	out := server.DatabaseStatus{
		LastCheck: status.LastCheck, NextCheck: status.NextCheck, Stage: status.Stage, Done: status.Done, Total: status.Total,
		Stale: status.Stale, MaxAge: status.MaxAge,
	}
	if status.LastError != nil {
		out.LastError = status.LastError.Error()
	}
	return out
}

// ingester tells the server which errors are the sender's fault.
type ingester struct{ matcher *matching.Matcher }

// IngestSBOM implements server.Ingester.
func (i ingester) IngestSBOM(ctx context.Context, key model.ImageKey, delivery store.Delivery, body io.Reader) error {
	return refusal(i.matcher.IngestSBOM(ctx, key, delivery, body))
}

// IngestNewerTags implements server.Ingester.
func (i ingester) IngestNewerTags(ctx context.Context, delivery store.Delivery, body io.Reader) error {
	return refusal(i.matcher.IngestNewerTags(ctx, delivery, body))
}

// IngestReport implements server.Ingester.
func (i ingester) IngestReport(ctx context.Context, imageID string, uploaded server.UploadedReport) error {
	report := store.Report{Content: uploaded.Content, Counts: uploaded.Counts}
	return refusal(i.matcher.IngestReport(ctx, uploaded.May, imageID, report, uploaded.MediaType, uploaded.Document))
}

func refusal(err error) error {
	switch {
	case errors.Is(err, matching.ErrRefused):
		return &problem.RefusedError{Status: http.StatusUnprocessableEntity, Detail: err.Error()}
	case errors.Is(err, matching.ErrBusy):
		return problem.Unavailable(err, err.Error())
	default:
		return err
	}
}
