package notify

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// maxSecret bounds a file of a credential, in bytes.
const maxSecret = 64 << 10

// The files of a credential.
const (
	fileURL      = "url"
	fileToken    = "token"
	fileKey      = "key"
	fileCA       = "ca.crt"
	fileHost     = "host"
	fileTLS      = "tls"
	fileFrom     = "from"
	fileUsername = "username"
	filePassword = "password"
)

// secrets are the files of a credential. They are read for each message, so that a changed Secret is used as soon as the kubelet has updated the files.
type secrets struct{ dir, name string }

// read returns the content of a file without white space around it, "" if there is no such file. Errors do not contain the content.
func (s secrets) read(file string) (string, error) {
	f, err := os.Open(filepath.Join(s.dir, s.name, file))
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("the key %s of the credential %s cannot be read", file, s.name)
	}
	defer f.Close() //nolint:errcheck // It is only read.
	content, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	if err != nil {
		return "", fmt.Errorf("the key %s of the credential %s cannot be read", file, s.name)
	}
	if len(content) > maxSecret {
		return "", fmt.Errorf("the key %s of the credential %s has more than %d bytes", file, s.name, maxSecret)
	}
	return strings.TrimSpace(string(content)), nil
}

// need returns the content of a file, which must exist.
func (s secrets) need(file string) (string, error) {
	text, err := s.read(file)
	if err == nil && text == "" {
		err = fmt.Errorf("the Secret of the credential %s has no key %s", s.name, file)
	}
	return text, err
}
