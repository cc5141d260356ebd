package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/net/netutil"
	controllermetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
)

// maxHeaderBytes bounds the headers of a request.
const maxHeaderBytes = 32 << 10

// Server answers HTTP requests. Make one with New, and start it once.
type Server struct {
	config  Config
	limits  Limits
	log     logr.Logger
	clock   func() time.Time
	routes  map[string]route
	metrics metrics
	reviews *reviewer
	hub     *hub
	http    http.Handler
	// requests bounds what each caller asks, failures the refused tokens of each address.
	requests, failures *limiter
	// reserve bounds those tokens of each address that are looked at although it used up what it may fail; throttled counts the tokens
	// of such addresses.
	reserve   *limiter
	throttled atomic.Uint64
	// uploads and decodes are slots for bodies that are being read and decoded, reports for those that are being written,
	// exports for documents about one image that are being made.
	uploads, decodes slots
	reports, exports slots
	// compress compresses answers.
	compress func(http.Handler) http.HandlerFunc
	// replays are slots for pages of the log that are being read for subscribers.
	replays slots

	ready   chan struct{}
	mu      sync.Mutex
	started bool
	stopped bool
	addr    string
}

// New makes a server. It fails when the configuration is incomplete, or would open the API to a network without
// authentication.
func New(config Config) (*Server, error) {
	if err := config.validate(); err != nil {
		return nil, err
	}
	if config.Clock == nil {
		config.Clock = time.Now
	}
	if config.Registerer == nil {
		config.Registerer = controllermetrics.Registry
	}
	if config.Auth == AuthNone {
		// All who use this machine are one caller.
		set(&config.Limits.RequestRate, 1000)
		set(&config.Limits.RequestBurst, 4000)
	}
	config.Limits = config.Limits.withDefaults()
	m, err := newMetrics(config.Registerer)
	if err != nil {
		return nil, err
	}
	s := &Server{
		config: config, limits: config.Limits, log: config.Log, clock: config.Clock, metrics: m,
		routes:   routes(config.Limits),
		requests: newLimiter(config.Limits.RequestRate, config.Limits.RequestBurst),
		failures: newLimiter(config.Limits.FailureRate, config.Limits.FailureBurst),
		reserve:  newLimiter(reserveFactor*config.Limits.FailureRate, config.Limits.FailureBurst),
		uploads:  make(slots, config.Limits.Uploads),
		decodes:  make(slots, config.Limits.Decodes),
		reports:  make(slots, config.Limits.Reports),
		exports:  make(slots, config.Limits.Exports),
		replays:  make(slots, config.Limits.Replays),
		ready:    make(chan struct{}),
	}
	if config.Auth == AuthKubernetes {
		s.reviews = newReviewer(config.Reviews, config.Clock)
	}
	if s.compress, err = newCompression(); err != nil {
		return nil, err
	}
	s.hub = newHub(config.Store, s.limits, s.log, m)
	s.http = s.handler()
	return s, nil
}

// Handler returns the handler of all requests. Subscriptions need a started server.
func (s *Server) Handler() http.Handler { return s.http }

// NeedLeaderElection is false: every replica answers.
func (s *Server) NeedLeaderElection() bool { return false }

// Addr returns the address that the server listens on, "" before it does.
func (s *Server) Addr() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.addr
}

// Ready returns a channel that is closed when the server listens.
func (s *Server) Ready() <-chan struct{} { return s.ready }

// Check is a readiness check for the manager: the server listens, is not stopping, and its store answers.
func (s *Server) Check(r *http.Request) error {
	s.mu.Lock()
	listening := s.addr != "" && !s.stopped
	s.mu.Unlock()
	if !listening {
		return errors.New("the API server does not listen")
	}
	return s.config.Store.Ready(r.Context())
}

// Start serves until the context ends. Then it stops accepting, closes WebSockets with 1001, waits for requests that are
// under way no longer than the limit, and returns nil.
func (s *Server) Start(ctx context.Context) error {
	s.mu.Lock()
	again := s.started
	s.started = true
	s.mu.Unlock()
	if again {
		return errors.New("the API server was started before")
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.config.BindAddress)
	if err != nil {
		return fmt.Errorf("API server: %w", err)
	}
	if tcp, ok := listener.Addr().(*net.TCPAddr); ok && s.config.Auth == AuthNone && !tcp.IP.IsLoopback() {
		return errors.Join(fmt.Errorf("API server: %q resolves to %s, which is not a loopback address", s.config.BindAddress, tcp.IP), listener.Close())
	}

	// Requests outlive ctx by the time that a graceful shutdown grants them.
	base, abandon := context.WithCancel(context.WithoutCancel(ctx))
	defer abandon()
	server := &http.Server{
		Handler:           s.http,
		ReadHeaderTimeout: s.limits.HeaderTimeout,
		ReadTimeout:       s.limits.ReadTimeout,
		WriteTimeout:      s.limits.WriteTimeout,
		IdleTimeout:       s.limits.IdleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		BaseContext:       func(net.Listener) context.Context { return base },
		ErrorLog:          errorLog(s.log),
	}
	stopHub := s.hub.start(base, s.config.Feed)
	served := make(chan error, 1)
	go func() { served <- server.Serve(netutil.LimitListener(listener, s.limits.Connections)) }()

	s.mu.Lock()
	s.addr = listener.Addr().String()
	s.mu.Unlock()
	close(s.ready)
	s.log.Info("API server listens", "address", listener.Addr().String(), "auth", string(s.config.Auth))

	select {
	case err = <-served:
		err = fmt.Errorf("API server: %w", err)
		served <- err
	case <-ctx.Done():
	}
	s.mu.Lock()
	s.stopped = true
	s.mu.Unlock()
	s.shutdown(server, stopHub, abandon)
	if ended := <-served; err == nil && !errors.Is(ended, http.ErrServerClosed) {
		err = fmt.Errorf("API server: %w", ended)
	}
	return err
}

// shutdown ends everything within the limit.
func (s *Server) shutdown(server *http.Server, stopHub func(context.Context), abandon func()) {
	bounded, cancel := context.WithTimeout(context.Background(), s.limits.ShutdownTimeout)
	defer cancel()
	stopHub(bounded)
	if err := server.Shutdown(bounded); err != nil {
		s.log.Info("Requests under way are cut off", "error", err.Error())
		abandon()
		if err := server.Close(); err != nil {
			s.log.Error(err, "API server did not close cleanly")
		}
	}
	s.log.Info("API server stopped")
}

// slots bounds how many do something at a time.
type slots chan struct{}

// acquire takes a slot, waiting until ctx ends.
func (s slots) acquire(ctx context.Context) error {
	select {
	case s <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// tryAcquire takes a slot if one is free.
func (s slots) tryAcquire() bool {
	select {
	case s <- struct{}{}:
		return true
	default:
		return false
	}
}

func (s slots) release() { <-s }
