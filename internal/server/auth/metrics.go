package auth

import (
	"net/http"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/scanner-operator/scanner-operator/internal/server/problem"
)

// ProtectMetrics is a FilterProvider of controller-runtime's metrics server: see MetricsFilter.
func ProtectMetrics(config *rest.Config, client *http.Client) (metricsserver.Filter, error) {
	reviews, err := NewReviews(config, client)
	if err != nil {
		return nil, err
	}
	return MetricsFilter(reviews, time.Now), nil
}

// MetricsFilter requires a bearer token of the Kubernetes API server whose owner may use the method of the request, in lower case, as a
// verb on its path: a ClusterRole with nonResourceURLs ["/metrics"] and verbs ["get"] grants that.
func MetricsFilter(reviews Reviews, clock func() time.Time) metricsserver.Filter {
	// Its own caches and slots: clients of the API cannot keep Prometheus from being checked.
	reviewer := newReviewer(reviews, nil, clock, nil)
	return func(log logr.Logger, next http.Handler) (http.Handler, error) {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			err := reviewer.authorizePath(r)
			if err == nil {
				next.ServeHTTP(w, r)
				return
			}
			p := problem.From(err)
			if p.Status >= http.StatusInternalServerError {
				log.Error(err, "Cannot check the permission to read metrics", "path", r.URL.Path)
			}
			if err := problem.Write(w, p); err != nil {
				log.V(1).Info("Cannot write the problem document", "error", err.Error())
			}
		}), nil
	}
}

// authorizePath refuses a request whose bearer may not use its method on its path.
func (r *reviewer) authorizePath(request *http.Request) error {
	token, found, err := bearerToken(request)
	if err != nil {
		return err
	}
	if !found {
		return problem.New(http.StatusUnauthorized, "a bearer token is required")
	}
	p, err := r.authenticate(request.Context(), token)
	if err != nil {
		return err
	}
	wanted := action{verb: strings.ToLower(request.Method), path: request.URL.Path}
	allowed, err := r.allowed(request.Context(), p, wanted)
	if err != nil {
		return err
	}
	if !allowed {
		return problem.New(http.StatusForbidden, "user %q is not allowed to %s %s", p.user.Username, wanted.verb, wanted.path)
	}
	return nil
}
