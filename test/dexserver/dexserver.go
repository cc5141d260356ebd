// Package dexserver runs dex, a real OpenID Connect provider, for tests.
package dexserver

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"

	"github.com/scanner-operator/scanner-operator/test/gomodule"
)

// Server is a running dex.
type Server struct {
	// Issuer is its URL, CA the certificate authority of its certificate in PEM.
	Issuer, CA string

	mu    sync.Mutex
	in    io.WriteCloser
	out   *bufio.Scanner
	ended func() error
}

// Start builds the module in a folder, test/dex, and runs it on an IP address of this machine. The first build takes minutes; the program is kept
// in the user's cache.
func Start(module, address string) (*Server, error) {
	program, err := gomodule.Build(module)
	if err != nil {
		return nil, fmt.Errorf("build dex: %w", err)
	}
	command := exec.Command(program, "-address="+address)
	command.Stderr = os.Stderr
	in, err := command.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start dex: %w", err)
	}
	out, err := command.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start dex: %w", err)
	}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("start dex: %w", err)
	}
	s := &Server{in: in, out: bufio.NewScanner(out), ended: command.Wait}
	if err := s.read(s); err != nil {
		return nil, errors.Join(fmt.Errorf("start dex: %w", err), s.Close())
	}
	return s, nil
}

// Close stops dex: it ends with its input.
func (s *Server) Close() error { return errors.Join(s.in.Close(), s.ended()) }

// Client is a client of dex, with the names of its fields in dex's own configuration.
type Client struct {
	ID                     string   `json:"id"`
	Secret                 string   `json:"secret"`
	RedirectURIs           []string `json:"redirectURIs"`
	PostLogoutRedirectURIs []string `json:"postLogoutRedirectURIs"`
	BackchannelLogoutURI   string   `json:"backchannelLogoutURI"`
}

// User is a user of dex.
type User struct {
	Email         string   `json:"email"`
	Username      string   `json:"username"`
	UserID        string   `json:"userID"`
	EmailVerified bool     `json:"emailVerified"`
	Groups        []string `json:"groups"`
}

// SetClient registers a client, in place of the one with the same ID.
func (s *Server) SetClient(client Client) error { return s.command(map[string]any{"Client": client}) }

// SetUser registers a user, in place of the one with the same e-mail address.
func (s *Server) SetUser(user User, password string) error {
	return s.command(map[string]any{"User": user, "Password": password})
}

// DeleteUser deletes the user with an e-mail address.
func (s *Server) DeleteUser(email string) error {
	return s.command(map[string]any{"DeleteUser": email})
}

// RevokeAll revokes all refresh tokens.
func (s *Server) RevokeAll() error { return s.command(map[string]any{"RevokeAll": true}) }

func (s *Server) command(command map[string]any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := json.NewEncoder(s.in).Encode(command); err != nil {
		return fmt.Errorf("dex: %w", err)
	}
	var answer struct{ Error string }
	if err := s.read(&answer); err != nil {
		return fmt.Errorf("dex: %w", err)
	}
	if answer.Error != "" {
		return fmt.Errorf("dex: %s", answer.Error)
	}
	return nil
}

func (s *Server) read(into any) error {
	if !s.out.Scan() {
		return errors.Join(io.ErrUnexpectedEOF, s.out.Err())
	}
	return json.Unmarshal(s.out.Bytes(), into)
}
