package catalog

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

// pullFallbacks pulls the digest of an image from other repositories, after its own has failed. If they fail too, the failure remains that of
// its own repository, also if they do not respond in time. What they respond is not part of it: somebody who can create a pod named them, and
// others read the failure.
func pullFallbacks(ctx context.Context, request Request, limits Limits, fetch fetchFunc, failure *Error) (*resolved, error) {
	digest := model.ImageKey{ImageID: request.Image}.Digest()
	fallbacks := request.Fallbacks[:min(len(request.Fallbacks), model.MaxFallbacks)]
	if digest == "" || len(fallbacks) == 0 || !elsewhere(failure.Reason) && failure.Reason != model.ReasonNotPullable {
		return nil, failure
	}
	request.literalHosts = true
	var reasons []string
	for i, repository := range fallbacks {
		img, err := pullFallback(ctx, request, repository+"@"+digest, len(fallbacks)-i, limits, fetch)
		if err == nil {
			request.warn("Pulled %s from %s instead: %v", request.Image, repository, failure)
			return img, nil
		}
		if ctx.Err() != nil {
			return nil, interrupted(ctx, err)
		}
		request.warn("Cannot pull %s from %s either: %v", request.Image, repository, err)
		if reason := string(typed(ctx, err, model.ReasonRegistryUnavailable).Reason); !slices.Contains(reasons, reason) {
			reasons = append(reasons, reason)
		}
	}
	return nil, &Error{Reason: failure.Reason, Err: fmt.Errorf("%w; the repositories that the pods name failed too: %s", failure.Err, strings.Join(reasons, ", "))}
}

// pullFallback pulls from one repository. Each that is left, and the analysis of the image, gets an equal part of the remaining time.
func pullFallback(ctx context.Context, request Request, image string, left int, limits Limits, fetch fetchFunc) (*resolved, error) {
	if deadline, bounded := ctx.Deadline(); bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(deadline)/time.Duration(left+1))
		defer cancel()
	}
	reference, err := name.NewDigest(image)
	if err != nil {
		return nil, failf(model.ReasonNotPullable, "%q is not an image reference: %w", image, err)
	}
	return pullFrom(ctx, request, reference, limits, fetch)
}

// warn reports what did not work and was replaced by something else.
func (r *Request) warn(format string, args ...any) {
	if r.Warn != nil {
		r.Warn(fmt.Sprintf(format, args...))
	}
}
