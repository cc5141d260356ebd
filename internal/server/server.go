package server

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/semaphore"
	controllermetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/scanner-operator/scanner-operator/internal/server/auth"
	"github.com/scanner-operator/scanner-operator/internal/server/live"
	"github.com/scanner-operator/scanner-operator/internal/store"
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
	guard   *auth.Guard
	// store answers requests: each read says what it may see.
	store *sealedStore
	// duePolicies and dueGroups are the answers about policies, owners and namespaces.
	duePolicies *dueCounts[[]store.PolicySummary]
	dueGroups   *dueCounts[store.GroupPage]
	hub         *live.Hub
	// protection refuses requests that pages of other sites send.
	protection *http.CrossOriginProtection
	// page is the page of the UI, nil if it was not built.
	page []byte
	http http.Handler
	// uploads is memory for bodies that are being read, answers for answers that are held whole; reports are slots for reports that are
	// being written, exports for documents about one image that are being made.
	uploads, answers *semaphore.Weighted
	reports, exports *semaphore.Weighted
	// compress compresses answers.
	compress func(http.Handler) http.HandlerFunc

	ready   chan struct{}
	mu      sync.Mutex
	started bool
	stopped bool
	addr    string
}

// New makes a server. It fails when the configuration is incomplete, or would open the API to a network without
// authentication.
func New(config Config) (*Server, error) {
	set(&config.BasePath, "/")
	if err := config.validate(); err != nil {
		return nil, err
	}
	if config.Clock == nil {
		config.Clock = time.Now
	}
	if config.Registerer == nil {
		config.Registerer = controllermetrics.Registry
	}
	if config.Auth == auth.None {
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
		config: config, store: &sealedStore{Reader: config.Store}, limits: config.Limits, log: config.Log, clock: config.Clock, metrics: m,
		routes:  routes(config.Limits),
		guard:   auth.New(config.guard()),
		uploads: semaphore.NewWeighted(config.Limits.UploadMemory),
		answers: semaphore.NewWeighted(config.Limits.AnswerMemory),
		reports: semaphore.NewWeighted(int64(config.Limits.Reports)),
		exports: semaphore.NewWeighted(int64(config.Limits.Exports)),
		ready:   make(chan struct{}),
		page:    page(config.Assets, config.BasePath),
	}
	s.duePolicies, s.dueGroups = newDueCounts[[]store.PolicySummary](config.Clock), newDueCounts[store.GroupPage](config.Clock)
	if s.protection, err = newProtection(config.Origin); err != nil {
		return nil, err
	}
	if s.compress, err = newCompression(); err != nil {
		return nil, err
	}
	s.hub = live.NewHub(live.Config{
		Events: config.Store, Encode: func(e store.Event) ([]byte, error) { return json.Marshal(toEvent(e)) }, Refuse: s.writeProblem,
		Limits: config.Limits.SubscriberLimits, Metrics: m.live, Log: s.log, Origin: config.Origin,
	})
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
		return errors.New("the HTTP server is not listening")
	}
	return s.store.Ready(r.Context())
}

// Start serves until the context ends. Then it stops accepting, closes WebSockets with 1001, waits for requests that are
// under way no longer than the limit, and returns nil.
func (s *Server) Start(ctx context.Context) error {
	s.mu.Lock()
	again := s.started
	s.started = true
	s.mu.Unlock()
	if again {
		return errors.New("the HTTP server was already started")
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.config.BindAddress)
	if err != nil {
		return fmt.Errorf("HTTP server: %w", err)
	}
	if tcp, ok := listener.Addr().(*net.TCPAddr); ok && s.config.Auth == auth.None && !tcp.IP.IsLoopback() {
		return errors.Join(fmt.Errorf("HTTP server: %q resolves to %s, which is not a loopback address", s.config.BindAddress, tcp.IP), listener.Close())
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
	stopHub := s.hub.Start(base, s.config.Feed)
	follow(server)
	served := make(chan error, 1)
	var limited net.Listener = s.limitConnections(listener)
	if config := s.config.TLS; config != nil {
		if s.config.FrontProxy != nil {
			config = s.config.FrontProxy.TLSConfig(config)
		}
		limited = tls.NewListener(limited, config)
	}
	go func() { served <- server.Serve(limited) }()

	s.mu.Lock()
	s.addr = listener.Addr().String()
	s.mu.Unlock()
	close(s.ready)
	s.log.Info("HTTP server is listening", "address", listener.Addr().String(), "auth", string(s.config.Auth), "tls", s.config.TLS != nil)

	select {
	case err = <-served:
		err = fmt.Errorf("HTTP server: %w", err)
		served <- err
	case <-ctx.Done():
	}
	s.mu.Lock()
	s.stopped = true
	s.mu.Unlock()
	s.shutdown(server, stopHub, abandon)
	if ended := <-served; err == nil && !errors.Is(ended, http.ErrServerClosed) {
		err = fmt.Errorf("HTTP server: %w", ended)
	}
	return err
}

// shutdown ends everything within the limit.
func (s *Server) shutdown(server *http.Server, stopHub func(context.Context), abandon func()) {
	bounded, cancel := context.WithTimeout(context.Background(), s.limits.ShutdownTimeout)
	defer cancel()
	stopHub(bounded)
	if err := server.Shutdown(bounded); err != nil {
		s.log.Info("Aborting requests that are still running", "error", err.Error())
		abandon()
		if err := server.Close(); err != nil {
			s.log.Error(err, "Cannot close the HTTP server")
		}
	}
	s.log.Info("HTTP server stopped")
}
