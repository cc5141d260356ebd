package server

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/scanner-operator/scanner-operator/internal/server/problem"
)

// maxBasePath bounds a base path in bytes.
const maxBasePath = 256

// basePathPattern are paths that are the same in any encoding, so that proxies and browsers agree about them.
var basePathPattern = regexp.MustCompile(`^/([A-Za-z0-9._~-]+/)*$`)

// ownPaths are what the paths of the API and of the files of the UI begin with.
var ownPaths = []string{"api", "assets", "scan-results", "subscribe"}

// ValidateBasePath says what is wrong with a base path.
func ValidateBasePath(path string) error {
	if len(path) > maxBasePath || !basePathPattern.MatchString(path) {
		return fmt.Errorf("%.300q is not a base path: use a path such as /scanner/, of letters, digits and -._~, with at most %d bytes", path, maxBasePath)
	}
	segments := strings.Split(strings.Trim(path, "/"), "/")
	if slices.ContainsFunc(segments, isDots) {
		return fmt.Errorf("%q is not a base path: it has a segment of dots", path)
	}
	if slices.Contains(ownPaths, segments[0]) {
		return fmt.Errorf("the base path %q begins with /%s/, which is a path of the API or the UI: use another one", path, segments[0])
	}
	return nil
}

// belowBasePath serves requests below the base path as those without it. It refuses paths that a proxy in front may have understood in
// another way, and which would have to be redirected otherwise.
func (s *Server) belowBasePath(next http.Handler) http.Handler {
	base := s.config.BasePath
	stripped := http.StripPrefix(strings.TrimSuffix(base, "/"), next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := r.URL.EscapedPath()
		switch {
		case ambiguous(path):
			s.writeProblem(w, r, problem.BadRequest("the path has an empty segment, or one of dots: use the path without it"))
		case base != "/" && strings.HasPrefix(path, base):
			stripped.ServeHTTP(w, r)
		case path+"/" == base && (r.Method == http.MethodGet || r.Method == http.MethodHead):
			target := url.URL{Path: base, RawQuery: r.URL.RawQuery}
			w.Header().Set("Cache-Control", "no-cache")
			w.Header().Set("Location", target.String())
			w.WriteHeader(http.StatusTemporaryRedirect)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// ambiguous reports whether a path, as it was sent, names something else once it is cleaned. An encoded slash separates nothing: it is a
// part of an image ID.
func ambiguous(path string) bool {
	segments := strings.Split(strings.TrimPrefix(path, "/"), "/")
	for i, segment := range segments {
		decoded, err := url.PathUnescape(segment)
		if err != nil || isDots(decoded) || segment == "" && i < len(segments)-1 {
			return true
		}
	}
	return false
}

// isDots reports whether a segment of a path leads to the same or the parent directory.
func isDots(segment string) bool { return segment == "." || segment == ".." }
