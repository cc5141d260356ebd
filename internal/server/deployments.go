package server

import (
	"context"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/scanner-operator/scanner-operator/internal/deploymentfeed"
	"github.com/scanner-operator/scanner-operator/internal/server/api"
	"github.com/scanner-operator/scanner-operator/internal/server/live"
	"github.com/scanner-operator/scanner-operator/internal/server/problem"
)

// FollowDeployments opens a WebSocket that tells what happens to Deployments.
func (o operations) FollowDeployments(ctx context.Context, request api.FollowDeploymentsRequestObject) (api.FollowDeploymentsResponseObject, error) {
	feed := o.s.config.Deployments
	if feed == nil {
		return nil, problem.New(http.StatusNotFound, "the Deployment feed is disabled: the flag --controllers disables the controller \"rollout\"")
	}
	scope, err := deploymentScope(request.Params)
	if err != nil {
		return nil, err
	}
	if !feed.Synced() {
		return nil, problem.Unavailable(nil, "the Deployments have not been listed yet; try again")
	}
	// Last: a browser does not see how a WebSocket was refused, and asks again without one.
	r := requestOf(ctx)
	if err := o.s.hub.CheckUpgrade(r); err != nil {
		return nil, err
	}
	return upgrade{o.s, r, live.Deployments(feed, scope, visible(ctx))}, nil
}

// deploymentScope reads the parameters.
func deploymentScope(params api.FollowDeploymentsParams) (deploymentfeed.Scope, error) {
	scope := deploymentfeed.Scope{Namespace: value(params.Namespace), Deployment: value(params.Deployment)}
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
			return deploymentfeed.Scope{}, problem.BadRequest("%s: %.40q is not a valid name: %s", check.parameter, check.value, strings.Join(faults, "; "))
		}
	}
	return scope, nil
}
