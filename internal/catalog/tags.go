package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/registries"
)

// Bounds of a list of tags.
const (
	// MaxTags bounds the tags of a list.
	MaxTags = 100_000
	// maxTagPages bounds the requests that a list takes, without repeated ones; tagsPerPage is how many tags each asks for. Many registries permit no more.
	maxTagPages = 200
	tagsPerPage = 1000
	// maxTagPageBytes bounds one answer. Some registries answer with all tags at once.
	maxTagPageBytes = 8 << 20
	// maxTagBytes bounds all answers together, as soon as there is one.
	maxTagBytes = 32 << 20
	// maxTagQueryBytes bounds the query of the next page, which the registry chooses.
	maxTagQueryBytes = 4 << 10
	// maxLinkBytes bounds a Link header that is read.
	maxLinkBytes = 16 << 10
	// tagsTimeout bounds the whole list.
	tagsTimeout = 2 * time.Minute
)

// tagsPath is what tags are listed at, below the repository.
const tagsPath = "tags/list"

var (
	tagPattern = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$`)
	// linkPattern matches one link of a Link header with its parameters.
	linkPattern = regexp.MustCompile(`<([^<>]*)>([^<]*)`)
	relNext     = regexp.MustCompile(`(?i);\s*rel\s*=\s*(?:next\b|"(?:[^"]*\s)?next(?:\s[^"]*)?")`)
)

// TagList holds tags of a repository, in the order of the registry.
type TagList struct {
	// Repository is where the tags were listed: the repository of the image, or that of a mirror, which may know fewer tags.
	Repository string
	Tags       []string
	// Cut says why tags can be missing, "" if the list is complete. Registries list tags by their text, so that the highest versions can be missing.
	Cut string
}

// cut returns the list with the reason why tags can be missing.
func (l *TagList) cut(format string, args ...any) (*TagList, error) {
	l.Cut = fmt.Sprintf(format, args...)
	return l, nil
}

// Tags lists the tags of the repository of request.Image, with the mirrors, proxy and credentials with which an image is pulled. The error is always an *Error.
func Tags(ctx context.Context, request Request) (*TagList, error) {
	reference, err := parseReference(request.Image)
	if err != nil {
		return nil, typed(ctx, err, model.ReasonNotPullable)
	}
	if request.sleep == nil {
		request.sleep = sleepContext
	}
	limit := min(tagsTimeout, request.Limits.orDefaults().Timeout)
	bounded, cancel := context.WithTimeoutCause(ctx, limit, failf(model.ReasonDeadlineExceeded,
		"listing the tags of %s exceeded the limit of %s: try again when the registry responds faster", reference.Context().Name(), limit))
	defer cancel()
	list, err := fromMirrors(bounded, request, reference.Context(), func(repository name.Repository) (*TagList, error) {
		return withCredentials(bounded, request, repository, func(client *registryClient) (*TagList, error) {
			defer client.http.CloseIdleConnections()
			return client.tags(ctx, bounded, limit)
		})
	})
	if err != nil {
		return nil, typed(bounded, err, model.ReasonRegistryUnavailable)
	}
	return list, nil
}

// tags lists the tags of the repository, page by page. The list is cut at a bound, also of time, if it has a page.
func (c *registryClient) tags(ctx, bounded context.Context, limit time.Duration) (*TagList, error) {
	list := &TagList{Repository: c.repository.Name()}
	known, asked := map[string]bool{}, map[string]bool{}
	size := 0
	for query := "n=" + strconv.Itoa(tagsPerPage); ; {
		asked[query] = true
		content, header, err := c.read(bounded, tagsPath+"?"+query, "application/json", maxTagPageBytes)
		outOfTime := ctx.Err() == nil && bounded.Err() != nil
		switch {
		case err != nil && outOfTime && len(asked) > 1:
			return list.cut("listing the tags takes longer than %s", limit)
		case err != nil:
			return nil, explainTags(bounded, err)
		}
		size += len(content)
		var page struct {
			Tags []string `json:"tags"`
		}
		if err := json.Unmarshal(content, &page); err != nil {
			return nil, failf(model.ReasonRegistryUnavailable, "the response of %s is no list of tags in JSON: check that it is a registry", c.repository.RegistryStr())
		}
		before := len(list.Tags)
		for _, tag := range page.Tags {
			if known[tag] || !tagPattern.MatchString(tag) {
				continue
			}
			if len(list.Tags) == MaxTags {
				return list.cut("the repository has more than %d tags", MaxTags)
			}
			known[tag] = true
			list.Tags = append(list.Tags, tag)
		}
		next, link, refused := c.nextTags(header)
		switch {
		case refused != "":
			return list.cut("%s", refused)
		case !link && (len(page.Tags) < tagsPerPage || len(list.Tags) == before):
			return list, nil
		case !link:
			// Some registries cut a full page without a link to the next one.
			next = url.Values{"n": {strconv.Itoa(tagsPerPage)}, "last": {list.Tags[len(list.Tags)-1]}}.Encode()
		}
		switch {
		case asked[next] || len(list.Tags) == before:
			return list.cut("the registry repeats its pages of tags")
		case size > maxTagBytes:
			return list.cut("the list of tags has more than %d bytes", maxTagBytes)
		case len(asked) == maxTagPages:
			return list.cut("the registry has more than %d pages of tags", maxTagPages)
		}
		query = next
	}
}

// nextTags returns the query of the next page that a registry names with a link, or says why the link is not followed: it can only be one of tags of the same
// repository in the same registry.
func (c *registryClient) nextTags(header http.Header) (query string, found bool, refused string) {
	text := strings.Join(header.Values("Link"), ",")
	if len(text) > maxLinkBytes {
		return "", false, fmt.Sprintf("the registry names the next page of tags with a link of more than %d bytes", maxLinkBytes)
	}
	for _, link := range linkPattern.FindAllStringSubmatch(text, -1) {
		if !relNext.MatchString(";" + strings.TrimLeft(link[2], "; \t")) {
			continue
		}
		target, err := url.Parse(link[1])
		if err != nil || target.Host != "" && registries.Canonical(target.Host) != registries.Canonical(c.rules.registry) || target.User != nil || target.Opaque != "" {
			return "", false, "the registry names another host for the next page of tags"
		}
		// A path that is relative begins at that of the list.
		path := (&url.URL{Path: "/v2/" + c.repository.RepositoryStr() + "/" + tagsPath}).ResolveReference(&url.URL{Path: target.Path, RawQuery: "x"}).Path
		if path != "/v2/"+c.repository.RepositoryStr()+"/"+tagsPath {
			return "", false, "the registry names another address than that of its tags for the next page of them"
		}
		values, err := url.ParseQuery(target.RawQuery)
		if query = values.Encode(); err != nil || query == "" || len(query) > maxTagQueryBytes {
			return "", false, fmt.Sprintf("the registry names the next page of tags with an invalid query; 1 to %d bytes are valid", maxTagQueryBytes)
		}
		return query, true, ""
	}
	return "", false, ""
}

// explainTags adds what can be done to the error of a list. Permission to pull is not always permission to list.
func explainTags(ctx context.Context, err error) error {
	failure := typed(ctx, err, model.ReasonRegistryUnavailable)
	status, ok := errors.AsType[*statusError](err)
	if !ok {
		return failure
	}
	var advice string
	switch status.status {
	case http.StatusUnauthorized, http.StatusForbidden:
		advice = "provide credentials that may list the tags of the repository"
	case http.StatusNotFound:
		advice = "check the name of the repository, and whether the credentials may list its tags"
	case http.StatusMethodNotAllowed, http.StatusNotImplemented, http.StatusBadRequest, http.StatusNotAcceptable:
		advice = "the registry does not list tags: compare with a tag that you know"
	case http.StatusTooManyRequests:
		advice = "try again later, or provide credentials, for which the limit is often higher"
		if status.retryAfter > 0 {
			advice = fmt.Sprintf("try again in %s, or provide credentials, for which the limit is often higher", min(status.retryAfter, model.MaxRetryAfter).Round(time.Second))
		}
	default:
		return failure
	}
	return &Error{Reason: failure.Reason, Err: fmt.Errorf("%w: %s", failure.Err, advice)}
}
