package sinks

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
)

// caOf is the certificate of a server in PEM.
func caOf(server *httptest.Server) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
}

// hooks are called around the requests that a server gets; false stops the connection.
type hooks struct {
	mu            sync.Mutex
	before, after func(r *http.Request) bool
}

// set makes these the hooks, nil for none.
func (h *hooks) set(before, after func(r *http.Request) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.before, h.after = before, after
}

// around calls the hooks around the requests of a handler, of which it handles one at a time.
func (h *hooks) around(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.before != nil && !h.before(r) {
			panic(http.ErrAbortHandler)
		}
		handler.ServeHTTP(w, r)
		if h.after != nil && !h.after(r) {
			panic(http.ErrAbortHandler)
		}
	})
}

// trackServer has the part of the API of Dependency-Track that a sink uses, as its published resources BomResource and ProjectResource define it.
type trackServer struct {
	*httptest.Server
	mu       sync.Mutex
	projects map[string]*trackProject
	uploads  int
	problems []string
	hooks    hooks
}

type trackProject struct {
	UUID       string `json:"uuid"`
	Name       string `json:"name"`
	Version    string `json:"version,omitempty"`
	Active     bool   `json:"active"`
	IsLatest   bool   `json:"isLatest"`
	tags       []string
	components []string
}

func newTrackServer(t *testing.T) *trackServer {
	t.Helper()
	s := &trackServer{projects: map[string]*trackProject{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /dtrack/api/v1/project/lookup", s.lookup)
	mux.HandleFunc("PATCH /dtrack/api/v1/project/{uuid}", s.patch)
	mux.HandleFunc("POST /dtrack/api/v1/bom", s.upload)
	s.Server = httptest.NewTLSServer(s.hooks.around(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if r.Header.Get("X-Api-Key") != "odt_key" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		mux.ServeHTTP(w, r)
	})))
	t.Cleanup(s.Close)
	return s
}

func (s *trackServer) files() map[string]string {
	return map[string]string{"url": s.URL + "/dtrack/", "token": "odt_key", "ca.crt": caOf(s.Server)}
}

func (s *trackServer) lookup(w http.ResponseWriter, r *http.Request) {
	p := s.projects[r.URL.Query().Get("name")+" "+r.URL.Query().Get("version")]
	if p == nil {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	_ = json.NewEncoder(w).Encode(p)
}

func (s *trackServer) patch(w http.ResponseWriter, r *http.Request) {
	// A field that is missing has the default of the model: a project is not the latest version.
	change := struct {
		Active   bool `json:"active"`
		IsLatest bool `json:"isLatest"`
	}{Active: true}
	decoder := json.NewDecoder(r.Body)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&change); err != nil || r.Header.Get("Content-Type") != "application/json" {
		s.problems = append(s.problems, fmt.Sprint("patch: ", err))
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	for _, p := range s.projects {
		if p.UUID == r.PathValue("uuid") {
			if p.Active == change.Active && p.IsLatest == change.IsLatest {
				w.WriteHeader(http.StatusNotModified)
				return
			}
			p.Active, p.IsLatest = change.Active, change.IsLatest
			_ = json.NewEncoder(w).Encode(p)
			return
		}
	}
	w.WriteHeader(http.StatusNotFound)
}

func (s *trackServer) upload(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseMultipartForm(1 << 20); err != nil {
		s.problems = append(s.problems, err.Error())
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	known := []string{"project", "autoCreate", "projectName", "projectVersion", "projectTags", "parentName", "parentVersion", "parentUUID", "isLatest", "isActive"}
	for name := range r.MultipartForm.Value {
		if !slices.Contains(known, name) {
			s.problems = append(s.problems, "there is no form parameter "+name)
		}
	}
	file, _, err := r.FormFile("bom")
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	content, _ := io.ReadAll(file)
	var bom struct {
		BOMFormat   string `json:"bomFormat"`
		SpecVersion string `json:"specVersion"`
		Components  []struct {
			Name       string `json:"name"`
			PURL       string `json:"purl"`
			Components []struct {
				PURL string `json:"purl"`
			} `json:"components"`
		} `json:"components"`
		Vulnerabilities []any `json:"vulnerabilities"`
	}
	if err := json.Unmarshal(content, &bom); err != nil || bom.BOMFormat != "CycloneDX" || bom.SpecVersion != "1.6" || len(bom.Vulnerabilities) > 0 {
		s.problems = append(s.problems, fmt.Sprintf("the BOM is not valid: %v", err))
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if parent := r.FormValue("parentName"); parent != "" && s.projects[parent+" "+r.FormValue("parentVersion")] == nil {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	key := r.FormValue("projectName") + " " + r.FormValue("projectVersion")
	p := s.projects[key]
	if p == nil {
		if r.FormValue("autoCreate") != "true" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		p = &trackProject{UUID: uuid.NewString(), Name: r.FormValue("projectName"), Version: r.FormValue("projectVersion"), Active: true}
		s.projects[key] = p
	}
	p.tags, p.components = nil, nil
	if tags := r.FormValue("projectTags"); tags != "" {
		p.tags = strings.Split(tags, ",")
	}
	for _, c := range bom.Components {
		if c.PURL != "" {
			p.components = append(p.components, c.PURL)
		}
		for _, below := range c.Components {
			if below.PURL != "" {
				p.components = append(p.components, below.PURL)
			}
		}
	}
	slices.Sort(p.components)
	p.components = slices.Compact(p.components)
	s.uploads++
	_, _ = io.WriteString(w, `{"token":"`+uuid.NewString()+`"}`)
}

// state lists "name version active tags components" of all projects.
func (s *trackServer) state() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := []string{}
	for _, key := range slices.Sorted(maps.Keys(s.projects)) {
		p := s.projects[key]
		active := "inactive"
		if p.Active {
			active = "active"
		}
		var names []string
		for _, purl := range p.components {
			if name, found := strings.CutPrefix(purl, "pkg:deb/debian/"); found {
				names = append(names, strings.TrimSuffix(name, "@1.0"))
			}
		}
		all = append(all, fmt.Sprintf("%s %s %v %v", key, active, p.tags, names))
	}
	return append(all, s.problems...)
}

// dojoServer has the part of the API of DefectDojo that a sink uses, as its published ReImportScanSerializer and the parser of "Generic Findings Import" define it.
type dojoServer struct {
	*httptest.Server
	mu    sync.Mutex
	tests map[string]map[string]map[string]any
	hooks hooks
}

func newDojoServer(t *testing.T) *dojoServer {
	t.Helper()
	s := &dojoServer{tests: map[string]map[string]map[string]any{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/v2/reimport-scan/", s.reimport)
	s.Server = httptest.NewTLSServer(s.hooks.around(mux))
	t.Cleanup(s.Close)
	return s
}

func (s *dojoServer) files() map[string]string {
	return map[string]string{"url": s.URL, "token": "key", "ca.crt": caOf(s.Server)}
}

func (s *dojoServer) reimport(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	refuse := func(format string, args ...any) {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, format, args...)
	}
	if r.Header.Get("Authorization") != "Token key" {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	if err := r.ParseMultipartForm(1 << 20); err != nil {
		refuse("%v", err)
		return
	}
	known := []string{
		"scan_type", "product_type_name", "product_name", "engagement_name", "test_title", "auto_create_context", "close_old_findings", "do_not_reactivate",
		"minimum_severity",
	}
	for name := range r.MultipartForm.Value {
		if !slices.Contains(known, name) {
			refuse("unknown field %s", name)
			return
		}
	}
	file, _, err := r.FormFile("file")
	if err != nil || r.FormValue("scan_type") != "Generic Findings Import" || r.FormValue("auto_create_context") != "true" || r.FormValue("close_old_findings") != "true" {
		refuse("%v %v", err, r.MultipartForm.Value)
		return
	}
	var content struct {
		Findings []map[string]any `json:"findings"`
	}
	if err := json.NewDecoder(file).Decode(&content); err != nil {
		refuse("%v", err)
		return
	}
	// The fields of findings that all versions since 2.30 know.
	allowed := []string{
		"title", "severity", "description", "mitigation", "references", "date", "cwe", "cvssv3", "component_name", "component_version", "file_path", "vulnerability_ids",
		"unique_id_from_tool", "vuln_id_from_tool", "tags", "static_finding", "dynamic_finding", "active",
	}
	open := map[string]map[string]any{}
	for _, finding := range content.Findings {
		for name := range finding {
			if !slices.Contains(allowed, name) {
				refuse("Not allowed fields are present: %s", name)
				return
			}
		}
		severity, _ := finding["severity"].(string)
		if finding["title"] == nil || finding["description"] == nil || !slices.Contains([]string{"Critical", "High", "Medium", "Low", "Info"}, severity) {
			refuse("a finding is not valid: %v", finding)
			return
		}
		id, _ := finding["unique_id_from_tool"].(string)
		open[id] = finding
	}
	key := strings.Join([]string{r.FormValue("product_name"), r.FormValue("engagement_name"), r.FormValue("test_title")}, " | ")
	s.tests[key] = open
	w.WriteHeader(http.StatusCreated)
	_, _ = io.WriteString(w, `{"test_id": 1}`)
}

// state lists "product | engagement | test: titles".
func (s *dojoServer) state() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := []string{}
	for _, key := range slices.Sorted(maps.Keys(s.tests)) {
		var titles []string
		for _, finding := range s.tests[key] {
			titles = append(titles, fmt.Sprintf("%v (%v)", finding["title"], finding["severity"]))
		}
		slices.Sort(titles)
		all = append(all, key+": "+strings.Join(titles, ", "))
	}
	return all
}
