package server

import (
	"bytes"
	"io"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/server/problem"
)

// notBuilt is what the root says when the program was built without the UI.
const notBuilt = `This build of scanner-operator does not include the UI. Run "make ui" and "make build" to include it.
The API is at /api/v1 and /scan-results.
`

// uiHandler serves the built UI. Paths that are no files belong to the UI's own router and get its page; image IDs in them hold
// dots, so that it is not the extension but what the browser asks for that tells a page from a missing file.
func (s *Server) uiHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reading := r.Method == http.MethodGet || r.Method == http.MethodHead
		if !reading || strings.HasPrefix(r.URL.Path, "/api/") {
			s.writeProblem(w, r, problem.New(http.StatusNotFound, "resource not found"))
			return
		}
		if rec := recorderOf(w); rec != nil {
			rec.route = "ui"
		}
		name := strings.TrimPrefix(path.Clean("/"+r.URL.Path), "/")
		switch {
		case s.config.Assets == nil && name == "":
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			w.Header().Set("Cache-Control", "no-cache")
			_, _ = io.WriteString(w, notBuilt) // the client is gone if this fails
		case name != "" && name != "index.html" && s.serveFile(w, r, name):
		case name == "" || name == "index.html" || (acceptsHTML(r) && !strings.HasPrefix(name, "assets/")):
			if s.page == nil {
				s.writeProblem(w, r, problem.New(http.StatusNotFound, "the UI is not part of this build"))
				return
			}
			w.Header().Set("Cache-Control", "no-cache")
			http.ServeContent(w, r, "index.html", time.Time{}, bytes.NewReader(s.page))
		default:
			s.writeProblem(w, r, problem.New(http.StatusNotFound, "resource not found"))
		}
	})
}

// page returns the page of the UI, nil if it was not built. The build names files relative to the page, as in src="./assets/a.js"; but the page is
// shown at many paths, and needs their addresses. The UI reads the base path from the page too.
func page(assets fs.FS, basePath string) []byte {
	if assets == nil {
		return nil
	}
	content, err := fs.ReadFile(assets, "index.html")
	if err != nil {
		return nil
	}
	return bytes.ReplaceAll(content, []byte(`="./`), []byte(`="`+basePath))
}

// serveFile serves a file of the UI, and returns false when there is none of that name. Names of files under assets/ change
// with their content.
func (s *Server) serveFile(w http.ResponseWriter, r *http.Request, name string) bool {
	if s.config.Assets == nil || !fs.ValidPath(name) {
		return false
	}
	info, err := fs.Stat(s.config.Assets, name)
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	content, err := fs.ReadFile(s.config.Assets, name)
	if err != nil {
		return false
	}
	if strings.HasPrefix(name, "assets/") {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	} else {
		w.Header().Set("Cache-Control", "no-cache")
	}
	http.ServeContent(w, r, path.Base(name), time.Time{}, bytes.NewReader(content))
	return true
}

// acceptsHTML reports whether the client asks for a page, as a browser does that follows a link.
func acceptsHTML(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), "text/html")
}
