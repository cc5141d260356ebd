package setup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"

	batchv1 "k8s.io/api/batch/v1"

	"github.com/scanner-operator/scanner-operator/internal/assess"
	"github.com/scanner-operator/scanner-operator/internal/feed"
	"github.com/scanner-operator/scanner-operator/internal/match"
	"github.com/scanner-operator/scanner-operator/internal/scanjob"
	"github.com/scanner-operator/scanner-operator/internal/server"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/version"
	"github.com/scanner-operator/scanner-operator/internal/vuln"
	"github.com/scanner-operator/scanner-operator/internal/vulndb"
	"github.com/scanner-operator/scanner-operator/web"
)

// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create

func (o *Operator) newServer(assessor *assess.Assessor, library *vulndb.Library, hub *feed.Hub) (*server.Server, error) {
	config := server.Config{
		BindAddress: o.opts.APIAddress,
		Auth:        server.AuthMode(o.opts.Auth),
		Assets:      assets(),
		Store:       o.steady,
		Databases:   databases{library},
		Rematcher:   library,
		Leads:       o.leads,
		Feed: func(ctx context.Context) server.Subscription {
			return hub.Subscribe(ctx, feed.Filter{})
		},
		Deployments: o.deployments,
		Ingest:      ingester{assessor},
		Versions:    match.Versions{},
		Version:     version.String(),
		Log:         o.opts.Log.WithName("server"),
	}
	if o.opts.Auth == AuthKubernetes {
		reviews, err := server.NewReviews(o.manager.GetConfig(), o.manager.GetHTTPClient())
		if err != nil {
			return nil, fmt.Errorf("set up sign-in: %w", err)
		}
		config.Reviews = reviews
		config.Uploads = server.NewUploadAuthorizer(reviews.Tokens, o.manager.GetAPIReader(), o.checkJob)
	}
	s, err := server.New(config)
	if err != nil {
		return nil, fmt.Errorf("set up the API: %w", err)
	}
	return s, nil
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

// checkJob accepts a Job only when its name is the one of the image's current attempt. The name cannot be known before the operator
// has created the Job, and a name is taken as long as its Job exists.
func (o *Operator) checkJob(ctx context.Context, job *batchv1.Job, key vuln.ImageKey) error {
	image, err := o.store.Image(ctx, key)
	if err != nil {
		return fmt.Errorf("read the image: %w", err)
	}
	if image.Key != key || job.Name != scanjob.Name(key, image.Nonce, image.Attempts) {
		return errors.New("the Job is not the one that catalogues this image now")
	}
	return nil
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
type ingester struct{ assessor *assess.Assessor }

// IngestSBOM implements server.Ingester.
func (i ingester) IngestSBOM(ctx context.Context, key vuln.ImageKey, body io.Reader) error {
	return refusal(i.assessor.IngestSBOM(ctx, key, body))
}

// IngestReport implements server.Ingester.
func (i ingester) IngestReport(ctx context.Context, imageID string, uploaded server.UploadedReport) error {
	report := store.Report{Content: uploaded.Content, Counts: uploaded.Counts}
	return refusal(i.assessor.IngestReport(ctx, imageID, report, uploaded.MediaType, uploaded.Document))
}

func refusal(err error) error {
	if errors.Is(err, assess.ErrRefused) {
		return &server.RefusedError{Status: http.StatusUnprocessableEntity, Detail: err.Error()}
	}
	return err
}
