// Package s3server runs a server with the interface of Amazon S3 for tests. It verifies the signatures of requests.
package s3server

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"github.com/scanner-operator/scanner-operator/test/gomodule"
)

// The keys of all servers.
const (
	AccessKeyID     = "AKIDEXAMPLE"
	SecretAccessKey = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
)

// Server is a running server.
type Server struct {
	// URL has neither a path nor the bucket.
	URL string `json:"url"`

	in    io.WriteCloser
	ended func() error
}

// Start builds the module in a folder, test/s3, and runs it with buckets. The program is kept in the user's cache.
func Start(module string, buckets ...string) (*Server, error) {
	program, err := gomodule.Build(module)
	if err != nil {
		return nil, fmt.Errorf("build the S3 server: %w", err)
	}
	command := exec.Command(program, "-access-key-id="+AccessKeyID, "-secret-access-key="+SecretAccessKey, "-buckets="+strings.Join(buckets, ","))
	command.Stderr = os.Stderr
	in, err := command.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start the S3 server: %w", err)
	}
	out, err := command.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start the S3 server: %w", err)
	}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("start the S3 server: %w", err)
	}
	s := &Server{in: in, ended: command.Wait}
	if err := json.NewDecoder(out).Decode(s); err != nil {
		return nil, errors.Join(fmt.Errorf("start the S3 server: %w", err), s.Close())
	}
	return s, nil
}

// Close stops the server: it ends with its input.
func (s *Server) Close() error { return errors.Join(s.in.Close(), s.ended()) }
