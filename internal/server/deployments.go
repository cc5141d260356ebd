package server

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/gorilla/websocket"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/scanner-operator/scanner-operator/internal/rollout"
	"github.com/scanner-operator/scanner-operator/internal/server/api"
)

// FollowDeployments opens a WebSocket that tells what happens to Deployments.
func (o operations) FollowDeployments(ctx context.Context, request api.FollowDeploymentsRequestObject) (api.FollowDeploymentsResponseObject, error) {
	feed := o.s.config.Deployments
	if feed == nil {
		return nil, problemf(http.StatusNotFound, "this operator does not follow Deployments: its controller \"rollout\" is switched off by --controllers")
	}
	scope, err := deploymentScope(request.Params)
	if err != nil {
		return nil, err
	}
	if !feed.Synced() {
		return nil, unavailable(nil, "not all Deployments are known yet")
	}
	// Last: a browser does not see how a WebSocket was refused, and asks again without one.
	r := requestOf(ctx)
	if err := checkUpgrade(r); err != nil {
		return nil, err
	}
	return upgrade{o.s, r, nil, deploymentOpening(feed, scope)}, nil
}

// deploymentScope reads the parameters.
func deploymentScope(params api.FollowDeploymentsParams) (rollout.Scope, error) {
	scope := rollout.Scope{Namespace: value(params.Namespace), Deployment: value(params.Deployment)}
	for _, check := range []struct {
		parameter, value string
		validate         func(string) []string
	}{
		{"namespace", scope.Namespace, validation.IsDNS1123Label},
		{"deployment", scope.Deployment, validation.IsDNS1123Subdomain},
	} {
		if check.value == "" {
			continue
		}
		if faults := check.validate(check.value); len(faults) > 0 {
			return rollout.Scope{}, badRequest("%s: %.40q is no name that Kubernetes takes: %s", check.parameter, check.value, strings.Join(faults, "; "))
		}
	}
	return scope, nil
}

// deploymentOpening sends all that a client gets.
func deploymentOpening(feed *rollout.Feed, scope rollout.Scope) opening {
	return func(ctx context.Context, s *subscriber, connection *websocket.Conn) error {
		subscription := feed.Subscribe(scope)
		defer subscription.Close()
		for {
			texts, err := subscription.Next(ctx)
			if errors.Is(err, rollout.ErrSlow) {
				s.stop(websocket.CloseTryAgainLater, "too slow")
				s.hub.metrics.evicted.Inc()
			}
			if err != nil {
				return err
			}
			for _, text := range texts {
				if err := s.send(connection, []byte(text)); err != nil {
					return err
				}
			}
		}
	}
}
