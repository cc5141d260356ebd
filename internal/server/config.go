package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/scanner-operator/scanner-operator/internal/report"
	"github.com/scanner-operator/scanner-operator/internal/rollout"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/vuln"
)

// AuthMode says how callers prove who they are.
type AuthMode string

// The modes.
const (
	// AuthKubernetes asks the Kubernetes API server about bearer tokens and about what their owners may do.
	AuthKubernetes AuthMode = "kubernetes"
	// AuthNone lets everybody in who can reach the address, which must be a loopback one.
	AuthNone AuthMode = "none"
)

// Ingester keeps SBOMs. It decodes them with bounds of its own. Beside the errors of the store it returns *RefusedError for what
// it does not accept, and lets errors of the reader through.
type Ingester interface {
	// IngestSBOM keeps what a scan Job delivered.
	IngestSBOM(ctx context.Context, key vuln.ImageKey, zstdBody io.Reader) error
	// IngestReport keeps a report from outside, and its components as the packages of the image.
	IngestReport(ctx context.Context, imageID string, report UploadedReport) error
}

// UploadedReport is a CycloneDX document that was uploaded.
type UploadedReport struct {
	// Content is the document in JSON, as it is given back.
	Content []byte
	// Document is what was uploaded, of the media type MediaType.
	Document  []byte
	MediaType string
	// Counts are those of its vulnerabilities.
	Counts store.Counts
}

// RefusedError says that a body is refused, and why.
type RefusedError struct {
	// Status is the HTTP status to answer with: 400, 413 or 422; anything else becomes 400.
	Status int
	// Detail is shown to the caller.
	Detail string
}

// Error returns the detail.
func (e *RefusedError) Error() string { return e.Detail }

// Subscription is a running subscription of the event feed. Its channel is closed when the context of the subscription ends
// or when the feed gives it up; Err then says why. Since is the sequence number after which it delivers every event, if that is
// known already.
type Subscription interface {
	C() <-chan store.Event
	Since() (sequence int64, known bool)
	Err() error
}

// Config configures a server. Fields without a word about a default are required.
type Config struct {
	// BindAddress is "host:port"; port 0 takes any free one.
	BindAddress string
	Auth        AuthMode
	// Reviews asks the API server about tokens and permissions. Required by AuthKubernetes.
	Reviews Reviews
	// Uploads decides who may deliver the SBOM of an image. Required by AuthKubernetes.
	Uploads UploadAuthorizer
	// Assets holds the built UI with index.html at its root; nil when it was not built.
	Assets fs.FS
	Store  store.Store
	// Databases tells how up to date the vulnerability database is; nil when this process does not look after databases.
	Databases DatabaseStatusProvider
	// Rematcher has packages matched again; nil refuses it.
	Rematcher Rematcher
	// Leads says whether this process looks after databases at the moment: those of a process that does not are nobody's. nil: it does.
	Leads func() bool
	// Versions compares versions of packages; nil refuses to.
	Versions Versions
	// Feed subscribes to all events from now on.
	Feed func(ctx context.Context) Subscription
	// Deployments tells what happens to Deployments; nil refuses it.
	Deployments *rollout.Feed
	// Ingest keeps delivered SBOMs.
	Ingest Ingester
	// Version of this program, for the reports that it writes.
	Version string
	// Registerer takes the metrics; controller-runtime's registry by default.
	Registerer prometheus.Registerer
	Log        logr.Logger
	// Clock tells the time; time.Now by default.
	Clock func() time.Time
	// Limits with their zero fields replaced by defaults.
	Limits Limits
}

// Limits bound what clients can make the server do.
type Limits struct {
	// ReportBody bounds the body of PUT /scan-results in bytes (32 MiB), Report what it may hold.
	ReportBody int64
	Report     report.Limits
	// SBOMBody bounds the compressed body of PUT /api/v1/images/{imageId}/sbom in bytes (64 MiB).
	SBOMBody int64
	// Uploads bounds the bodies that are being read at a time (8), Decodes those of them that are reports and being decoded (2),
	// Reports the reports that are being written (4), Exports the documents in other formats about one image that are being
	// made (2).
	Uploads int
	Decodes int
	Reports int
	Exports int
	// SlotPatience is how long an upload or an export waits for others to end before it is refused (10 s).
	SlotPatience time.Duration
	// RequestRate is how many requests a second a caller may make in the long run (50), RequestBurst how many at once (300); without
	// authentication 1,000 and 4,000. A caller is a user or, before it is known who that is, a client address. Requests that go
	// through everything that is stored count 20 times. The UI's own files do not count.
	RequestRate  float64
	RequestBurst int
	// FailureRate is how many tokens a second that nobody accepts an address may present in the long run (0.5), FailureBurst how
	// many at once (20).
	FailureRate  float64
	FailureBurst int
	// Connections bounds open connections (10,000); Subscribers those of them that are WebSockets (5,000).
	Connections int
	Subscribers int
	// SubscriberQueue is how many events a subscriber may be behind (4,096); one more and it is disconnected. They are kept once for
	// all.
	SubscriberQueue int
	// Replays bounds the pages of the log that are read at a time for subscribers that catch up (32), ReplayPatience the wait for a store that is
	// away meanwhile (30 s).
	Replays        int
	ReplayPatience time.Duration

	// HeaderTimeout bounds reading a request's headers (5 s), ReadTimeout its body (15 s), WriteTimeout the answer (60 s),
	// IdleTimeout the pause between requests (120 s).
	HeaderTimeout time.Duration
	ReadTimeout   time.Duration
	WriteTimeout  time.Duration
	IdleTimeout   time.Duration
	// UploadTimeout bounds reading an uploaded body (5 min).
	UploadTimeout time.Duration
	// PingInterval is how often a subscriber is pinged (5 s), PongTimeout how long it may be silent (10 s), and
	// MessageTimeout how long one message may take to be written to it (10 s).
	PingInterval   time.Duration
	PongTimeout    time.Duration
	MessageTimeout time.Duration
	// ShutdownTimeout bounds the wait for requests that are under way when the server stops (15 s).
	ShutdownTimeout time.Duration
}

// withDefaults fills in the zero fields.
func (l Limits) withDefaults() Limits {
	set(&l.ReportBody, 32<<20)
	set(&l.SBOMBody, 64<<20)
	set(&l.Report, report.DefaultLimits())
	set(&l.Uploads, 8)
	set(&l.Decodes, 2)
	set(&l.Reports, 4)
	set(&l.Exports, 2)
	set(&l.SlotPatience, 10*time.Second)
	set(&l.RequestRate, 50)
	set(&l.RequestBurst, 300)
	set(&l.FailureRate, 0.5)
	set(&l.FailureBurst, 20)
	set(&l.Connections, 10000)
	set(&l.Subscribers, 5000)
	set(&l.SubscriberQueue, 4096)
	set(&l.Replays, 32)
	set(&l.ReplayPatience, 30*time.Second)
	set(&l.HeaderTimeout, 5*time.Second)
	set(&l.ReadTimeout, 15*time.Second)
	set(&l.WriteTimeout, time.Minute)
	set(&l.IdleTimeout, 2*time.Minute)
	set(&l.UploadTimeout, 5*time.Minute)
	set(&l.PingInterval, 5*time.Second)
	set(&l.PongTimeout, 10*time.Second)
	set(&l.MessageTimeout, 10*time.Second)
	set(&l.ShutdownTimeout, 15*time.Second)
	return l
}

func set[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// validate says what is missing, and refuses to open the API to a network without authentication.
func (c Config) validate() error {
	var errs []error
	host, _, err := net.SplitHostPort(c.BindAddress)
	if err != nil {
		errs = append(errs, fmt.Errorf("bind address %q is not host:port: %w", c.BindAddress, err))
	}
	switch c.Auth {
	case AuthNone:
		if err == nil && !isLoopbackHost(host) {
			errs = append(errs, fmt.Errorf("auth %q needs a loopback bind address such as 127.0.0.1:8000, not %q: "+
				"everybody who reaches the address could read and delete results", AuthNone, c.BindAddress))
		}
	case AuthKubernetes:
		if c.Reviews.Tokens == nil || c.Reviews.Access == nil || c.Uploads == nil {
			errs = append(errs, fmt.Errorf("auth %q needs reviews and an upload authorizer", AuthKubernetes))
		}
	default:
		errs = append(errs, fmt.Errorf("auth %q is neither %q nor %q", c.Auth, AuthKubernetes, AuthNone))
	}
	if c.Store == nil || c.Feed == nil || c.Ingest == nil {
		errs = append(errs, errors.New("store, feed and ingest must be set"))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("server configuration: %w", err)
	}
	return nil
}

// isLoopbackHost reports whether a host without port names this machine only.
func isLoopbackHost(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return ip != nil && ip.IsLoopback()
}
