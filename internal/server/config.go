package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/scanner-operator/scanner-operator/internal/deploymentfeed"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/report"
	"github.com/scanner-operator/scanner-operator/internal/server/auth"
	"github.com/scanner-operator/scanner-operator/internal/server/auth/frontproxy"
	"github.com/scanner-operator/scanner-operator/internal/server/auth/oidc"
	"github.com/scanner-operator/scanner-operator/internal/server/exceptions"
	"github.com/scanner-operator/scanner-operator/internal/server/live"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// Ingester keeps SBOMs. It decodes them with bounds of its own. Beside the errors of the store it returns *problem.RefusedError for what
// it does not accept, and lets errors of the reader through.
type Ingester interface {
	// IngestSBOM keeps what a scan Job delivered. The delivery names no Job and no source when authentication is off.
	IngestSBOM(ctx context.Context, key model.ImageKey, delivery store.Delivery, zstdBody io.Reader) error
	// IngestNewerTags keeps the result of a lookup of newer tags that a scan Job delivered. The body is a candidates.Report.
	IngestNewerTags(ctx context.Context, delivery store.Delivery, body io.Reader) error
	// IngestReport keeps a report from outside, and its components as the packages of the image.
	IngestReport(ctx context.Context, imageID string, report UploadedReport) error
}

// UploadedReport is a CycloneDX document that was uploaded.
type UploadedReport struct {
	// May has the namespaces that the report may touch: see store.Reader.
	May store.Namespaces
	// Content is the document in JSON, as it is given back.
	Content []byte
	// Document is what was uploaded, of the media type MediaType.
	Document  []byte
	MediaType string
	// Counts are those of its vulnerabilities.
	Counts store.Counts
}

// Config configures a server. Fields without a word about a default are required.
type Config struct {
	// BindAddress is "host:port"; port 0 takes any free one.
	BindAddress string
	// BasePath is the path below which browsers reach the server, from the first slash to the last; "/" by default. Requests are served below
	// it and, as a proxy may remove it and clients in the cluster do not use it, without it.
	BasePath string
	// Origin is where browsers reach the server, as "https://host[:port]"; "" if that is not known. Its pages may do what those of the host of
	// a request may, which a proxy may have changed.
	Origin string
	// TLS has the API served over TLS; nil serves plain HTTP.
	TLS *tls.Config
	// Auth says how callers prove who they are. auth.None needs a loopback address.
	Auth auth.Mode
	// Reviews asks the API server about tokens and permissions. Required by auth.Kubernetes.
	Reviews auth.Reviews
	// Uploads decides who may deliver the SBOM of an image. Required by auth.Kubernetes.
	Uploads auth.UploadAuthorizer
	// Provider signs users in, and needs auth.Kubernetes; nil leaves signing in to tokens.
	Provider *oidc.Provider
	// FrontProxy knows the proxies that are trusted to name users, and needs auth.Kubernetes and TLS; nil trusts none.
	FrontProxy *frontproxy.Proxy
	// AnonymousRead lets callers without a token read what the user system:anonymous may. It needs auth.Kubernetes.
	AnonymousRead bool
	// Assets holds the built UI with index.html at its root; nil when it was not built.
	Assets fs.FS
	Store  store.Store
	// Databases tells how up to date the vulnerability database is; nil when this process does not look after databases.
	Databases DatabaseStatusProvider
	// Rematcher has packages matched again; nil refuses it.
	Rematcher Rematcher
	// Exceptions reads and writes exceptions for users who may do the same; nil leaves that to other clients of Kubernetes.
	Exceptions *exceptions.Client
	// NotificationRules reads and tests notification rules; nil refuses to.
	NotificationRules NotificationRules
	// VEX keeps and applies VEX documents; nil refuses them.
	VEX VEXDocuments
	// Places resolves where an exception with selectors applies, in the namespaces that it is given; nil refuses to.
	Places Places
	// Leads says whether this process looks after databases at the moment: those of a process that does not are nobody's. nil: it does.
	Leads func() bool
	// Versions compares versions of packages; nil refuses to.
	Versions Versions
	// Previews matches packages in other versions; nil refuses to.
	Previews Previewer
	// Feed subscribes to all events from now on.
	Feed func(ctx context.Context) live.Subscription
	// Deployments tells what happens to Deployments; nil refuses it.
	Deployments *deploymentfeed.Feed
	// Ingest keeps delivered SBOMs.
	Ingest Ingester
	// Cluster names the cluster in VEX documents; it may be empty.
	Cluster string
	// Version of this program, for the reports that it writes.
	Version string
	// Tracer records a trace of each request that is admitted; nil records none.
	Tracer trace.Tracer
	// Registerer takes the metrics; controller-runtime's registry by default.
	Registerer prometheus.Registerer
	Log        logr.Logger
	// Clock tells the time; time.Now by default.
	Clock func() time.Time
	// Limits with their zero fields replaced by defaults.
	Limits Limits
}

// DefaultAddressConnections is the default of Limits.AddressConnections.
const DefaultAddressConnections = 200

// Limits bound what clients can make the server do.
type Limits struct {
	auth.RateLimits
	live.SubscriberLimits

	// ReportBody bounds the body of PUT /scan-results in bytes (32 MiB), Report what it may hold.
	ReportBody int64
	Report     report.Limits
	// VEXBody bounds the body of PUT /api/v1/vex/{name} in bytes (16 MiB).
	VEXBody int64
	// SBOMBody bounds the compressed body of PUT /api/v1/images/{imageId}/sbom in bytes (64 MiB).
	SBOMBody int64
	// Uploads bounds the bodies that are being read at a time (16), UploadMemory what they take together in bytes, twice their size
	// (256 MiB). Reports bounds the reports that are being written (4), Exports the documents about one image that are being made or
	// read (2), AnswerMemory what these take together in bytes until their clients have read them (256 MiB).
	Uploads      int
	UploadMemory int64
	Reports      int
	Exports      int
	AnswerMemory int64
	// SlotPatience is how long an upload, a report or an export waits for others to end before it is refused (10 s).
	SlotPatience time.Duration
	// Connections bounds open connections (10,000), AddressConnections those of one client address that have not authenticated (200;
	// a negative number is no limit). Where one more comes, the least recently used of them is closed.
	Connections        int
	AddressConnections int

	// HeaderTimeout bounds reading a request's headers (5 s), ReadTimeout its body (15 s), WriteTimeout the answer (60 s),
	// IdleTimeout the pause between requests (120 s), UnauthenticatedIdleTimeout that before the first request that was admitted with a
	// permission (10 s).
	HeaderTimeout              time.Duration
	ReadTimeout                time.Duration
	WriteTimeout               time.Duration
	IdleTimeout                time.Duration
	UnauthenticatedIdleTimeout time.Duration
	// UploadTimeout bounds reading an uploaded body (5 min).
	UploadTimeout time.Duration
	// ShutdownTimeout bounds the wait for requests that are under way when the server stops (15 s).
	ShutdownTimeout time.Duration
}

// withDefaults fills in the zero fields.
func (l Limits) withDefaults() Limits {
	set(&l.ReportBody, 32<<20)
	set(&l.SBOMBody, 64<<20)
	set(&l.VEXBody, store.MaxVEXDocumentBytes)
	set(&l.Report, report.DefaultLimits())
	set(&l.Uploads, 16)
	set(&l.UploadMemory, 256<<20)
	set(&l.Reports, 4)
	set(&l.Exports, 2)
	set(&l.AnswerMemory, 256<<20)
	set(&l.SlotPatience, 10*time.Second)
	set(&l.RequestRate, 50)
	set(&l.RequestBurst, 300)
	set(&l.FailureRate, 0.5)
	set(&l.FailureBurst, 20)
	set(&l.Connections, 10000)
	set(&l.AddressConnections, DefaultAddressConnections)
	set(&l.Subscribers, 5000)
	set(&l.SubscriberQueue, 4096)
	set(&l.Replays, 32)
	set(&l.ReplayPatience, 30*time.Second)
	set(&l.HeaderTimeout, 5*time.Second)
	set(&l.ReadTimeout, 15*time.Second)
	set(&l.WriteTimeout, time.Minute)
	set(&l.IdleTimeout, 2*time.Minute)
	set(&l.UnauthenticatedIdleTimeout, 10*time.Second)
	set(&l.UploadTimeout, 5*time.Minute)
	set(&l.PingInterval, 5*time.Second)
	set(&l.PongTimeout, 10*time.Second)
	set(&l.MessageTimeout, 10*time.Second)
	set(&l.ReadmitTimeout, time.Minute-auth.PermissionAge)
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
	if err == nil && c.Auth == auth.None && !IsLoopbackHost(host) {
		errs = append(errs, fmt.Errorf("auth %q requires a loopback bind address such as 127.0.0.1:8000, not %q: "+
			"without authentication, every client that can connect could read and delete results", auth.None, c.BindAddress))
	}
	if err := ValidateBasePath(c.BasePath); err != nil {
		errs = append(errs, err)
	}
	if err := c.guard().Validate(); err != nil {
		errs = append(errs, err)
	}
	if c.FrontProxy != nil && c.TLS == nil {
		errs = append(errs, errors.New("a front proxy requires TLS: it proves itself with a client certificate"))
	}
	if c.Store == nil || c.Feed == nil || c.Ingest == nil {
		errs = append(errs, errors.New("store, feed and ingest must be set"))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("server configuration: %w", err)
	}
	return nil
}

// namespaces lists the namespaces that there is anything of.
func (c Config) namespaces(ctx context.Context) ([]string, error) {
	names, err := c.Store.Namespaces(ctx)
	if err != nil || c.Deployments == nil {
		return names, err
	}
	names = append(names, c.Deployments.Namespaces()...)
	slices.Sort(names)
	return slices.Compact(names), nil
}

// guard configures who is let in.
func (c Config) guard() auth.Config {
	config := auth.Config{
		Mode: c.Auth, Reviews: c.Reviews, Uploads: c.Uploads, Namespaces: c.namespaces, Limits: c.Limits.RateLimits, Clock: c.Clock,
		BasePath: c.BasePath, FrontProxy: c.FrontProxy, AnonymousRead: c.AnonymousRead, HTTPS: c.isHTTPS, Log: c.Log.WithName("auth"),
	}
	if c.Provider != nil {
		config.Sessions = &auth.Sessions{Store: c.Store, Provider: c.Provider}
	}
	return config
}

// isHTTPS reports whether the browser speaks TLS: to us, or to a proxy in front of us that says so or that is known to. On this machine there
// is no proxy.
func (c Config) isHTTPS(r *http.Request) bool {
	return r.TLS != nil || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https") ||
		strings.HasPrefix(c.Origin, "https://") && !IsLoopbackHost(hostOnly(r.Host))
}

// IsLoopbackHost reports whether a host without port names this machine only.
func IsLoopbackHost(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return ip != nil && ip.IsLoopback()
}
