// Command dex is the OpenID Connect provider dex for tests: it keeps everything in memory, and does what lines in JSON on its standard
// input say. It ends with its standard input.
package main

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"log/slog" //nolint:depguard // dex logs with it
	"math/big"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/dexidp/dex/server"
	"github.com/dexidp/dex/server/connectors"
	"github.com/dexidp/dex/server/session"
	"github.com/dexidp/dex/server/signer"
	"github.com/dexidp/dex/server/tokens"
	"github.com/dexidp/dex/storage"
	"github.com/dexidp/dex/storage/memory"
	"github.com/go-jose/go-jose/v4"
	"golang.org/x/crypto/bcrypt"
)

// idTokenLifetime is how long ID tokens are valid: longer than the clock of any test is ahead.
const idTokenLifetime = 48 * time.Hour

// localConnector is the ID of the connector for users with passwords.
const localConnector = "local"

// command is a line of the standard input. The first field that is set counts.
type command struct {
	// Client is a client to register, in place of the one with the same ID.
	Client *storage.Client
	// User is a user to register, in place of the one with the same e-mail address, and Password the password.
	User     *storage.Password
	Password string
	// DeleteUser is the e-mail address of a user to delete.
	DeleteUser string
	// RevokeAll deletes all refresh tokens.
	RevokeAll bool
}

func main() {
	address := flag.String("address", "127.0.0.1", "IP address to listen on, which is the host of the issuer")
	flag.Parse()
	if err := run(context.Background(), *address); err != nil {
		fmt.Fprintln(os.Stderr, "dex:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, address string) error {
	ip := net.ParseIP(address)
	if ip == nil {
		return fmt.Errorf("-address=%q is not an IP address", address)
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		return err
	}
	certificate, ca, err := newCertificate(ip)
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	kept := memory.New(log)
	if err := kept.CreateConnector(ctx, storage.Connector{ID: localConnector, Type: connectors.LocalConnector, Name: "Password"}); err != nil {
		return err
	}
	signing := &signer.LocalConfig{KeysRotationPeriod: "6h", Algorithm: jose.RS256}
	keys, err := signing.Open(ctx, kept, idTokenLifetime, time.Now, log)
	if err != nil {
		return err
	}
	// Each refresh token is valid once.
	policy := tokens.NewRefreshStrategy(true, 0, 0, 0, time.Now)
	issuer := "https://" + listener.Addr().String() + "/dex"
	dex, err := server.NewServer(ctx, server.Config{
		Issuer: issuer, Storage: kept, Signer: keys, Logger: log, SkipApprovalScreen: true, IDTokensValidFor: idTokenLifetime, RefreshTokenPolicy: policy,
		SessionConfig: &session.Config{
			CookieName: "dex-session", CookieEncryptionKey: []byte("0123456789abcdef0123456789abcdef"),
			AbsoluteLifetime: time.Hour, ValidIfNotUsedFor: time.Hour,
		},
	})
	if err != nil {
		return err
	}
	https := &http.Server{Handler: dex, TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}}, ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- https.ServeTLS(listener, "", "") }()

	out := json.NewEncoder(os.Stdout)
	if err := out.Encode(map[string]string{"issuer": issuer, "ca": string(ca)}); err != nil {
		return err
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var c command
		answer := ""
		if err := errors.Join(json.Unmarshal(lines.Bytes(), &c), c.apply(ctx, kept)); err != nil {
			answer = err.Error()
		}
		if err := out.Encode(map[string]string{"error": answer}); err != nil {
			return err
		}
	}
	return errors.Join(https.Close(), ignoreClosed(<-served))
}

func ignoreClosed(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

func (c *command) apply(ctx context.Context, kept storage.Storage) error {
	switch {
	case c.Client != nil:
		if err := kept.DeleteClient(ctx, c.Client.ID); err != nil && !errors.Is(err, storage.ErrNotFound) {
			return err
		}
		return kept.CreateClient(ctx, *c.Client)
	case c.User != nil:
		hash, err := bcrypt.GenerateFromPassword([]byte(c.Password), bcrypt.DefaultCost)
		if err != nil {
			return err
		}
		c.User.Hash = hash
		if err := kept.DeletePassword(ctx, c.User.Email); err != nil && !errors.Is(err, storage.ErrNotFound) {
			return err
		}
		if err := kept.CreatePassword(ctx, *c.User); err != nil {
			return err
		}
		// Refresh tokens tell what dex learned at the last login.
		err = kept.UpdateUserIdentity(ctx, c.User.UserID, localConnector, func(identity storage.UserIdentity) (storage.UserIdentity, error) {
			identity.Claims.Groups = c.User.Groups
			return identity, nil
		})
		if errors.Is(err, storage.ErrNotFound) {
			return nil
		}
		return err
	case c.DeleteUser != "":
		return kept.DeletePassword(ctx, c.DeleteUser)
	case c.RevokeAll:
		refreshTokens, err := kept.ListRefreshTokens(ctx)
		for _, token := range refreshTokens {
			err = errors.Join(err, kept.DeleteRefresh(ctx, token.ID))
		}
		return err
	}
	return errors.New("empty command")
}

// newCertificate makes a certificate for an address that signs itself.
func newCertificate(address net.IP) (tls.Certificate, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, IPAddresses: []net.IP{address},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}
