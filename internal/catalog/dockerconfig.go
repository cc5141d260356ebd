package catalog

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/scanner-operator/scanner-operator/internal/registries"
)

// maxDockerConfigBytes bounds one docker configuration file; Kubernetes limits a Secret to 1 MiB.
const maxDockerConfigBytes = 1 << 20

// credential is one entry of a docker configuration. Its String never shows a secret.
type credential struct {
	username, password string
	// identityToken is exchanged for an access token; registryToken is used as it is.
	identityToken, registryToken string
}

func (c credential) String() string   { return "credential(redacted)" }
func (c credential) GoString() string { return c.String() }

func (c credential) anonymous() bool { return c == credential{} }

// basic is a header for servers that are no registries, "" if the credential has no password.
func (c credential) basic() string {
	if c.password == "" {
		return ""
	}
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(c.username+":"+c.password))
}

// secrets lists what must never be shown.
func (c credential) secrets() []string {
	var secrets []string
	if c.password != "" {
		secrets = append(secrets, c.password, base64.StdEncoding.EncodeToString([]byte(c.username+":"+c.password)))
	}
	for _, s := range []string{c.identityToken, c.registryToken} {
		if s != "" {
			secrets = append(secrets, s)
		}
	}
	return secrets
}

// dockerEntry is a credential and the registry, or part of one, that it is for.
type dockerEntry struct {
	host, path string
	credential credential
}

type dockerAuth struct {
	Username      string `json:"username"`
	Password      string `json:"password"`
	Auth          string `json:"auth"`
	IdentityToken string `json:"identitytoken"`
	RegistryToken string `json:"registrytoken"`
}

// What docker configuration files are called: as docker does today, and did once. Kubernetes has a type of Secret for each.
const (
	configFile    = "config.json"
	oldConfigFile = ".dockercfg"
)

// openDockerConfig opens a docker configuration file, or where there is none that of the old form beside it.
func openDockerConfig(file string) (*os.File, error) {
	f, err := os.Open(file)
	if errors.Is(err, os.ErrNotExist) && filepath.Base(file) == configFile {
		if old, err := os.Open(filepath.Join(filepath.Dir(file), oldConfigFile)); !errors.Is(err, os.ErrNotExist) {
			return old, err
		}
	}
	return f, err
}

// readDockerConfig reads a docker configuration file.
func readDockerConfig(file string) ([]dockerEntry, error) {
	f, err := openDockerConfig(file)
	if err != nil {
		return nil, fmt.Errorf("read the Docker configuration: %w", err)
	}
	defer func() { _ = f.Close() }()
	file = f.Name()
	content, err := io.ReadAll(io.LimitReader(f, maxDockerConfigBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read the Docker configuration: %w", err)
	}
	if len(content) > maxDockerConfigBytes {
		return nil, fmt.Errorf("the Docker configuration %s is larger than the limit of %d bytes", file, maxDockerConfigBytes)
	}
	entries, err := parseDockerConfig(content)
	if err != nil {
		return nil, fmt.Errorf("the Docker configuration %s: %w", file, err)
	}
	return entries, nil
}

// parseDockerConfig reads both forms: {"auths": {…}} and the older one that is the inner map alone. Entries that
// cannot be used are left out. Errors do not quote the content.
func parseDockerConfig(content []byte) ([]dockerEntry, error) {
	var config struct {
		Auths map[string]dockerAuth `json:"auths"`
	}
	if err := json.Unmarshal(content, &config); err != nil {
		return nil, errors.New("it is not a valid Docker configuration in JSON")
	}
	auths := config.Auths
	if auths == nil {
		var raw map[string]json.RawMessage
		if err := json.Unmarshal(content, &raw); err != nil {
			return nil, errors.New("it is not a valid Docker configuration in JSON")
		}
		auths = make(map[string]dockerAuth, len(raw))
		for key, value := range raw {
			var auth dockerAuth
			if json.Unmarshal(value, &auth) == nil {
				auths[key] = auth
			}
		}
	}
	entries := make([]dockerEntry, 0, len(auths))
	for key, auth := range auths {
		host, repositoryPath := splitRegistryKey(key)
		c := auth.credential()
		if host == "" || c.anonymous() {
			continue
		}
		entries = append(entries, dockerEntry{host: host, path: repositoryPath, credential: c})
	}
	// The most specific entry first, as the kubelet does.
	slices.SortFunc(entries, func(a, b dockerEntry) int {
		if d := len(b.path) - len(a.path); d != 0 {
			return d
		}
		return strings.Compare(a.host+"/"+a.path, b.host+"/"+b.path)
	})
	return entries, nil
}

func (a dockerAuth) credential() credential {
	c := credential{username: a.Username, password: a.Password, identityToken: a.IdentityToken, registryToken: a.RegistryToken}
	if a.Auth != "" {
		if decoded, err := base64.StdEncoding.DecodeString(strings.TrimSpace(a.Auth)); err == nil {
			if username, password, found := strings.Cut(string(decoded), ":"); found {
				c.username, c.password = username, strings.TrimRight(password, "\x00")
			}
		}
	}
	if c.password == "" {
		c.username = ""
	}
	return c
}

// splitRegistryKey takes "https://host[:port]/v1/", "host/path" and the like apart.
func splitRegistryKey(key string) (host, repositoryPath string) {
	key = strings.TrimPrefix(strings.TrimPrefix(strings.TrimSpace(key), "https://"), "http://")
	host, repositoryPath, _ = strings.Cut(key, "/")
	repositoryPath = strings.Trim(repositoryPath, "/")
	for _, version := range []string{"v1", "v2"} {
		if repositoryPath == version {
			repositoryPath = ""
		}
		repositoryPath = strings.TrimPrefix(repositoryPath, version+"/")
	}
	return registries.Canonical(host), repositoryPath
}

// matches reports whether the entry is meant for the repository. A host may hold wildcards within its labels.
func (e dockerEntry) matches(registry, repository string) bool {
	wantLabels, wantPort := splitHostPattern(registries.Canonical(registry))
	labels, port := splitHostPattern(e.host)
	if port != wantPort || len(labels) != len(wantLabels) {
		return false
	}
	for i, label := range labels {
		if ok, err := path.Match(label, wantLabels[i]); err != nil || !ok {
			return false
		}
	}
	return e.path == "" || e.path == repository || strings.HasPrefix(repository, e.path+"/")
}

// literal reports whether the host of the entry has no wildcard.
func (e dockerEntry) literal() bool { return !strings.ContainsAny(e.host, `*?[\`) }

func splitHostPattern(host string) (labels []string, port string) {
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.HasSuffix(host, "]") {
		host, port = host[:i], host[i+1:]
	}
	return strings.Split(host, "."), port
}

// credentials is what docker configuration files hold for one repository.
type credentials struct {
	// found lists the matching credentials without duplicates; the last one is anonymous.
	found []credential
	// sources names each file and says what it was good for.
	sources []string
	// problem says which files cannot be read, nil when none.
	problem error
}

// credentialsFor collects what fits the repository from all files. Files that cannot be read are reported beside, since others may do; one
// that does not exist is no problem: the Secret behind an imagePullSecret may be missing.
func credentialsFor(files []string, registry, repository string, literal bool) credentials {
	var c credentials
	var problems []error
	for _, file := range files {
		entries, err := readDockerConfig(file)
		matching := 0
		for _, entry := range entries {
			if !entry.matches(registry, repository) || literal && !entry.literal() {
				continue
			}
			matching++
			if !slices.Contains(c.found, entry.credential) {
				c.found = append(c.found, entry.credential)
			}
		}
		source := strconv.Quote(configName(file))
		switch {
		case errors.Is(err, os.ErrNotExist):
			source += " (does not exist)"
		case err != nil:
			source += " (cannot be read)"
			problems = append(problems, err)
		case matching == 0:
			source += " (has no credentials for " + registry + ")"
		}
		c.sources = append(c.sources, source)
	}
	c.found, c.problem = append(c.found, credential{}), errors.Join(problems...)
	return c
}

// configName is the name of a Docker configuration file in messages: its folder, if the file has the usual name. In a scan pod that is the
// name of the Secret.
func configName(file string) string {
	if dir := filepath.Base(filepath.Dir(file)); filepath.Base(file) == configFile && dir != "." && dir != "/" {
		return dir
	}
	return file
}

// explain adds to a refusal which files were tried. Their content stays out.
func (c *credentials) explain(refused *Error) *Error {
	err := refused.Err
	if len(c.sources) > 0 {
		err = fmt.Errorf("%w; tried the pull secrets %s, then no credentials", err, strings.Join(c.sources, ", "))
	}
	if c.problem != nil {
		err = errors.Join(err, c.problem)
	}
	return &Error{Reason: refused.Reason, Err: err}
}
