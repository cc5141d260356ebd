package outbound

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

// The files that credentials of all types have.
const (
	FileURL   = "url"
	FileToken = "token"
	FileCA    = "ca.crt"
)

// Credential is a mounted Secret. Its files are read each time, so that a changed Secret is used as soon as the kubelet has updated the files.
type Credential struct {
	// Dir has a directory for each credential, with its name.
	Dir, Name string
}

// Read returns the content of a file without white space around it, "" if there is no such file. Errors do not contain the content.
func (c Credential) Read(file string) (string, error) {
	f, err := os.Open(filepath.Join(c.Dir, c.Name, file))
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("the key %s of the credential %s cannot be read", file, c.Name)
	}
	defer f.Close() //nolint:errcheck // It is only read.
	content, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	if err != nil {
		return "", fmt.Errorf("the key %s of the credential %s cannot be read", file, c.Name)
	}
	if len(content) > maxSecret {
		return "", fmt.Errorf("the key %s of the credential %s has more than %d bytes", file, c.Name, maxSecret)
	}
	return strings.TrimSpace(string(content)), nil
}

// Need returns the content of a file, which must exist.
func (c Credential) Need(file string) (string, error) {
	text, err := c.Read(file)
	if err == nil && text == "" {
		err = fmt.Errorf("the Secret of the credential %s has no key %s", c.Name, file)
	}
	return text, err
}
