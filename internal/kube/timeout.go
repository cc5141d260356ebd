package kube

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

// How long the API server may take to answer, including the body of the answer. It limits requests itself, to a minute by default, but a proxy or
// a load balancer in between may never answer.
const (
	readTimeout = time.Minute
	// writeTimeout is shorter, since writes are small. Admission webhooks are part of it.
	writeTimeout = 20 * time.Second
)

// LimitRequests wraps a transport; it is a function for rest.Config.Wrap. Requests that are not answered in time fail: without a limit, the worker
// of a controller would wait forever, and its object would never be reconciled again. Watches have no limit.
func LimitRequests(next http.RoundTripper) http.RoundTripper {
	return limitRequests(next, readTimeout, writeTimeout)
}

func limitRequests(next http.RoundTripper, read, write time.Duration) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		limit := write
		if request.Method == http.MethodGet {
			if watches, _ := strconv.ParseBool(request.URL.Query().Get("watch")); watches {
				return next.RoundTrip(request)
			}
			limit = read
		}
		late := fmt.Errorf("the API server did not answer within %s: %w", limit, context.DeadlineExceeded)
		ctx, cancel := context.WithTimeoutCause(request.Context(), limit, late)
		response, err := next.RoundTrip(request.WithContext(ctx))
		if err != nil {
			defer cancel()
			if ctx.Err() != nil && request.Context().Err() == nil {
				return nil, late
			}
			return nil, err
		}
		response.Body = &limitedBody{response.Body, cancel}
		return response, nil
	})
}

// limitedBody ends the time limit of a request with its body.
type limitedBody struct {
	io.ReadCloser
	cancel context.CancelFunc
}

// Close implements io.Closer.
func (b *limitedBody) Close() error {
	defer b.cancel()
	return b.ReadCloser.Close()
}
