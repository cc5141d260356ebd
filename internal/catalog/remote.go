package catalog

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

// digestTimeout bounds the time until a registry has told a digest.
const digestTimeout = time.Minute

// fetchFunc fetches what a reference was resolved to.
type fetchFunc func(context.Context, *resolved) error

// pullRemote resolves a reference and fetches what it refers to, from its own repository or a fallback. Layers that were delivered before a
// failure are not fetched again.
func pullRemote(ctx context.Context, request Request, limits Limits, fetch fetchFunc) (*resolved, error) {
	reference, err := parseReference(request.Image)
	if err == nil {
		var img *resolved
		if img, err = pullFrom(ctx, request, reference, limits, fetch); err == nil {
			return img, nil
		}
	}
	return pullFallbacks(ctx, request, limits, fetch, typed(ctx, err, model.ReasonRegistryUnavailable))
}

// pullFrom pulls from the mirrors of the registry, in order, and then from the registry.
func pullFrom(ctx context.Context, request Request, reference name.Reference, limits Limits, fetch fetchFunc) (*resolved, error) {
	return fromMirrors(ctx, request, reference.Context(), func(repository name.Repository) (*resolved, error) {
		img, err := openAt(ctx, request, reference, repository, limits)
		if err != nil {
			return nil, err
		}
		if err := fetch(ctx, img); err != nil {
			img.close()
			return nil, err
		}
		return img, nil
	})
}

// fromMirrors asks the mirrors of a registry, in order, and then the registry, until one answers.
func fromMirrors[T any](ctx context.Context, request Request, own name.Repository, from func(name.Repository) (T, error)) (T, error) {
	var tried []string
	var none T
	for _, mirror := range request.Registries.Mirrors(own) {
		answer, err := from(mirror)
		if err == nil {
			return answer, nil
		}
		failure := typed(ctx, err, model.ReasonRegistryUnavailable)
		if ctx.Err() != nil || !elsewhere(failure.Reason) {
			return none, failure
		}
		tried = append(tried, quoteText(mirror.Name()+": "+failure.Error(), maxQuotedBytes))
	}
	answer, err := from(own)
	if err == nil || len(tried) == 0 {
		return answer, err
	}
	failure := typed(ctx, err, model.ReasonRegistryUnavailable)
	return none, &Error{Reason: failure.Reason, Err: fmt.Errorf("%w; the mirrors failed before: %s", failure.Err, strings.Join(tried, "; "))}
}

// elsewhere reports whether a failure says nothing about the same image at another registry. What a mirror modified fails with CatalogFailed.
func elsewhere(reason model.Reason) bool {
	return slices.Contains([]model.Reason{
		model.ReasonImagePullDenied, model.ReasonImageNotFound, model.ReasonRegistryUnavailable, model.ReasonRegistryRateLimited, model.ReasonCatalogFailed,
	}, reason)
}

// openAt resolves a reference in a repository: its own, or that of a mirror.
func openAt(ctx context.Context, request Request, reference name.Reference, repository name.Repository, limits Limits) (*resolved, error) {
	return withCredentials(ctx, request, repository, func(client *registryClient) (*resolved, error) {
		img, err := (&remoteSource{client: client}).open(ctx, reference, request.Platform, limits)
		if err == nil {
			img.registry, img.release = client, client.http.CloseIdleConnections
		}
		return img, err
	})
}

// withCredentials asks a repository with each credential in turn; one that is refused, or that sees nothing, gives way to the next. The caller closes idle
// connections after an answer.
func withCredentials[T any](ctx context.Context, request Request, repository name.Repository, ask func(*registryClient) (T, error)) (T, error) {
	var none T
	rules := hostRules{
		registry: repository.RegistryStr(), plainHTTP: slices.Concat(request.PlainHTTP, request.Registries.PlainHTTP()), tokenHosts: request.TokenHosts,
	}
	httpClient, err := newHTTPClient(rules, request.Registries, request.CAFile)
	if err != nil {
		return none, failf(model.ReasonCatalogFailed, "create an HTTP client for %s: %w", rules.registry, err)
	}
	candidates := credentialsFor(request.DockerConfigs, rules.registry, repository.RepositoryStr(), request.literalHosts)
	var refused *Error
	for _, candidate := range candidates.found {
		answer, err := ask(&registryClient{
			http: httpClient, rules: rules, repository: repository, credential: candidate, scheme: "https", sleep: request.sleep,
		})
		if err == nil {
			return answer, nil
		}
		httpClient.CloseIdleConnections()
		failure := typed(ctx, err, model.ReasonRegistryUnavailable)
		if failure.Reason != model.ReasonImagePullDenied && failure.Reason != model.ReasonImageNotFound {
			return none, failure
		}
		// "Not found" is more specific than "denied", and the first failure more specific than that of anonymous access.
		if refused == nil || (refused.Reason == model.ReasonImagePullDenied && failure.Reason == model.ReasonImageNotFound) {
			refused = failure
		}
	}
	return none, candidates.explain(refused)
}

// Digest returns the digest of what request.Image refers to now, which can be an index, without pulling it. The error is always an *Error.
func Digest(ctx context.Context, request Request) (string, error) {
	reference, err := parseReference(request.Image)
	if err != nil {
		return "", typed(ctx, err, model.ReasonNotPullable)
	}
	if request.sleep == nil {
		request.sleep = sleepContext
	}
	bounded, cancel := context.WithTimeout(ctx, min(digestTimeout, request.Limits.orDefaults().Timeout))
	defer cancel()
	digest, err := fromMirrors(bounded, request, reference.Context(), func(repository name.Repository) (string, error) {
		return withCredentials(bounded, request, repository, func(client *registryClient) (string, error) {
			defer client.http.CloseIdleConnections()
			raw, _, err := (&remoteSource{client: client}).manifestBytes(bounded, reference.Identifier())
			if err != nil {
				return "", err
			}
			if pinned, err := v1.NewHash(reference.Identifier()); err == nil {
				return pinned.String(), verify(raw, pinned, "manifest")
			}
			return digestOf(raw), nil
		})
	})
	if err != nil {
		return "", typed(bounded, err, model.ReasonRegistryUnavailable)
	}
	return digest, nil
}

func parseReference(image string) (name.Reference, error) {
	key := model.ImageKey{ImageID: image}
	if err := key.Validate(); err != nil {
		return nil, failf(model.ReasonNotPullable, "%w", err)
	}
	if key.Repository() == "" && key.Digest() != "" {
		return nil, failf(model.ReasonNotPullable, "%s has no repository: the image exists only on its node and cannot be pulled", image)
	}
	if key.Imported() {
		return nil, failf(model.ReasonNotPullable, "%s was loaded into its node, and no registry has it under this name: push it to a registry and deploy "+
			"it from there, or set spec.job.source of the Scanner to Auto or ImageVolume, so that scans read it from the node", image)
	}
	reference, err := name.ParseReference(image)
	if err != nil {
		return nil, failf(model.ReasonNotPullable, "%q is not an image reference: %w", image, err)
	}
	return reference, nil
}

// remoteSource reads from a repository.
type remoteSource struct{ client *registryClient }

func (s *remoteSource) open(ctx context.Context, reference name.Reference, platform model.Platform, limits Limits) (*resolved, error) {
	raw, header, err := s.manifestBytes(ctx, reference.Identifier())
	if err != nil {
		return nil, err
	}
	digest, err := v1.NewHash(reference.Identifier())
	if err == nil {
		if err := verify(raw, digest, "manifest"); err != nil {
			return nil, err
		}
	} else {
		hasher, _ := v1.Hasher("sha256")
		_, _ = hasher.Write(raw)
		digest = v1.Hash{Algorithm: "sha256", Hex: fmt.Sprintf("%x", hasher.Sum(nil))}
	}
	img, err := resolveManifest(ctx, s, raw, types.MediaType(header.Get("Content-Type")), platform, limits)
	if err != nil {
		return nil, err
	}
	img.repoDigests = []string{reference.Context().Name() + "@" + digest.String()}
	if tag, ok := reference.(name.Tag); ok {
		img.tags = []string{tag.Name()}
	}
	return img, nil
}

func (s *remoteSource) manifestBytes(ctx context.Context, identifier string) ([]byte, http.Header, error) {
	return s.client.read(ctx, "manifests/"+identifier, acceptedManifests, maxManifestBytes)
}

func (s *remoteSource) manifest(ctx context.Context, digest v1.Hash) ([]byte, error) {
	raw, _, err := s.manifestBytes(ctx, digest.String())
	return raw, err
}

func (s *remoteSource) config(ctx context.Context, descriptor v1.Descriptor) ([]byte, error) {
	raw, _, err := s.client.read(ctx, "blobs/"+descriptor.Digest.String(), "", maxConfigBytes)
	return raw, err
}

func (s *remoteSource) blob(ctx context.Context, descriptor v1.Descriptor) (io.ReadCloser, error) {
	response, err := s.client.get(ctx, "blobs/"+descriptor.Digest.String())
	if err != nil {
		return nil, err
	}
	return response.Body, nil
}
