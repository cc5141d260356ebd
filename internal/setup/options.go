// Package setup wires the operator together, for the program and for integration tests alike.
package setup

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/scanner-operator/scanner-operator/internal/controller/scanner"
	"github.com/scanner-operator/scanner-operator/internal/decision"
	"github.com/scanner-operator/scanner-operator/internal/matching"
	"github.com/scanner-operator/scanner-operator/internal/notify"
	"github.com/scanner-operator/scanner-operator/internal/registries"
	"github.com/scanner-operator/scanner-operator/internal/scanjob"
	"github.com/scanner-operator/scanner-operator/internal/server"
	"github.com/scanner-operator/scanner-operator/internal/sinks"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/tracing"
)

// CatalogMode says who catalogs images.
type CatalogMode string

// The modes.
const (
	CatalogJob       CatalogMode = "job"
	CatalogInProcess CatalogMode = "in-process"
)

// AuthMode says how users of the API are known.
type AuthMode string

// The modes.
const (
	AuthKubernetes AuthMode = "kubernetes"
	AuthNone       AuthMode = "none"
)

// Bounds of Options.EventRetention.
const (
	DefaultEventRetention = 72 * time.Hour
	minEventRetention     = time.Hour
)

// Bounds of Options.HistoryRetention, and of Options.ClusterName in bytes.
const (
	DefaultHistoryRetention = matching.DefaultRetention
	minHistoryRetention     = 24 * time.Hour
	maxClusterName          = 63
)

// Bounds of Options.DecisionRetention.
const (
	DefaultDecisionRetention = matching.DefaultDecisionRetention
	minDecisionRetention     = 24 * time.Hour
)

// Bounds of Options.AddressConnections.
const (
	DefaultAddressConnections = server.DefaultAddressConnections
	// NoAddressLimit is for a proxy in front of the API that limits connections itself.
	NoAddressLimit = -1
)

// Bounds of Options.Scans.
const (
	DefaultAuditInterval = 5 * time.Minute
	minAuditInterval     = time.Second
	DefaultScanDeadline  = scanjob.DefaultDeadline
	minScanDeadline      = 30 * time.Second
	maxScanDeadline      = 24 * time.Hour
	maxScans             = 1000
	DefaultMaxRetention  = scanner.DefaultMaxRetention
	minMaxRetention      = time.Hour
	maxMaxRetention      = 87600 * time.Hour
	maxImagePullSecrets  = 32
	maxOwnerKeys         = 16
)

// Scans bounds what scans cost. Zero fields mean the default.
type Scans struct {
	// Concurrency bounds the images that are cataloged at a time, for all Scanners together; RegistryConcurrency those of them that are
	// pulled from one registry, and NodeConcurrency those that are read from image volumes on one node.
	Concurrency         int
	RegistryConcurrency int
	NodeConcurrency     int
	// RecatalogPerHour is the maximum number of images in an hour that are cataloged again because another version of Syft cataloged them; 0
	// is none.
	RecatalogPerHour int
	// MaxMemory bounds, as a quantity, the memory that an image gets after a scan of its repository ran out of it.
	MaxMemory string
	// Deadline is how long one attempt may take, from 30 seconds to a day; a pod that cannot start counts.
	Deadline time.Duration
	// ChildMemory is the memory in bytes that all scans in child processes share; 0 is no limit.
	ChildMemory int64
	// PriorityClass is that of scan pods whose Scanner names none; it may be empty.
	PriorityClass string
	// AuditInterval is how often caches are compared with the API server and results that are not wanted any more are removed.
	AuditInterval time.Duration
	// MaxRetention bounds how long the results of images that run no more are kept, whatever a Scanner wants, from an hour to ten years.
	MaxRetention time.Duration
}

// Options are what a user can choose.
type Options struct {
	// Namespace is the operator's own.
	Namespace string
	// WatchNamespaces limits the operator to these namespaces; none means all.
	WatchNamespaces []string
	// Controllers says which controllers run: names, names after a "-", and "*" for all others; none means all.
	Controllers []string
	Catalog     CatalogMode
	Auth        AuthMode
	// APIAddress, MetricsAddress and HealthAddress are host:port; "0" switches metrics or health off.
	APIAddress     string
	MetricsAddress string
	HealthAddress  string
	// AddressConnections bounds the connections of one client address that have not authenticated; 0 for DefaultAddressConnections.
	AddressConnections int
	LeaderElection     bool
	// DataDir holds the sqlite file and the vulnerability databases.
	DataDir string
	// DatabaseType and DSN choose the SQL database. The DSN holds a password and must not be logged.
	DatabaseType string
	DSN          string
	// DatabaseConnections bounds the connections to it, from 2 to 1000; 0 is a default that suits the type.
	DatabaseConnections int
	Scans               Scans
	// VulnerabilityDatabase says where vulnerability databases come from.
	VulnerabilityDatabase VulnerabilityDatabase
	// EventRetention is how long the event log keeps events; at least an hour, 0 for DefaultEventRetention.
	EventRetention time.Duration
	// HistoryRetention is how long findings that closed, what databases changed, and where images ran are kept; at least a day, 0 for
	// DefaultHistoryRetention.
	HistoryRetention time.Duration
	// DecisionRetention is how long decisions of exceptions, and those of VEX documents that apply in full, are kept after their end; at least a day, 0 for
	// DefaultDecisionRetention.
	DecisionRetention time.Duration
	// ClusterName names the cluster in what is kept of when images ran; it may be empty.
	ClusterName string
	// OwnerKeys are the keys of labels and annotations that name the owners of workloads, in order of preference; at most 16. Without any,
	// workloads have no owners.
	OwnerKeys []string
	// BaseImages are patterns of images that others are built on, as of decision.ParseImagePattern; at most store.MaxListedBases.
	BaseImages []string
	// WriteExceptions lets users of the API change exceptions that they may change in Kubernetes.
	WriteExceptions bool
	// TrustExceptionAuthors says that an admission policy ensures that the annotation of exceptions with their author is true.
	TrustExceptionAuthors bool
	// VEXCredentials is a Docker configuration file with credentials for the servers and registries of VEXSources, "" for none.
	VEXCredentials string
	// PlainHTTPRegistries are reached without TLS, besides loopback.
	PlainHTTPRegistries []string
	// Registries is the text of a registries.Config, which scans get as it is; it may be empty.
	Registries string
	// Notifications says how messages about changes are sent.
	Notifications Notifications
	// ReportSinks says how reports are delivered to other systems.
	ReportSinks ReportSinks
	TLS         TLS
	SignIn      SignIn
	// ScanImage is the image of scan Jobs, APIURL this operator as scan pods reach it. CatalogJob needs both.
	ScanImage string
	APIURL    string
	// ScanImagePullSecrets name the Secrets in the operator's namespace with which the kubelet pulls ScanImage for scan pods there; at most 32.
	ScanImagePullSecrets []string
	// ScanServiceAccount is that of scan pods in the operator's namespace; empty for the default one.
	ScanServiceAccount string
	// OTLPEndpoint is the URL that traces are sent to, with OTLP over HTTP; "" for none.
	OTLPEndpoint string
	// Executable is this program, for CatalogInProcess.
	Executable string
	Log        logr.Logger
}

// VulnerabilityDatabase says where vulnerability databases come from.
type VulnerabilityDatabase struct {
	// URL of the listing; empty for the official one.
	URL      string
	Interval time.Duration
	// Sample allows the built-in sample while no other database can be had.
	Sample bool
}

func (o *Options) validate() error {
	if err := o.validateControllers(); err != nil {
		return err
	}
	switch o.Catalog {
	case CatalogJob:
		if o.ScanImage == "" {
			return errors.New("--catalog=job requires the image of scan Jobs: set --scan-image or the environment variable SCAN_IMAGE")
		}
		if o.APIURL == "" {
			return errors.New("--catalog=job requires --api-url, the URL to which scan Jobs upload SBOMs")
		}
	case CatalogInProcess:
	default:
		return fmt.Errorf("--catalog=%s: use job or in-process", o.Catalog)
	}
	switch o.Auth {
	case AuthKubernetes, AuthNone:
	default:
		return fmt.Errorf("--auth=%s: use kubernetes or none", o.Auth)
	}
	if err := o.validateTLS(); err != nil {
		return err
	}
	if err := o.SignIn.validate(o.Auth); err != nil {
		return err
	}
	if err := o.validateFrontProxy(); err != nil {
		return err
	}
	if _, _, err := net.SplitHostPort(o.APIAddress); err != nil {
		return fmt.Errorf("--api-bind-address: %w", err)
	}
	if o.AddressConnections < NoAddressLimit {
		return fmt.Errorf("--api-connections-per-address=%d: use 1 or more, 0 for the default of %d, or %d for no limit",
			o.AddressConnections, DefaultAddressConnections, NoAddressLimit)
	}
	if _, err := registries.Parse(o.Registries); err != nil {
		return fmt.Errorf("the environment variable %s: %w", scanjob.RegistriesVariable, err)
	}
	if _, err := notify.ParseConfig(o.Notifications.Config); err != nil {
		return fmt.Errorf("the environment variable %s: %w", notify.Variable, err)
	}
	if _, err := sinks.ParseConfig(o.ReportSinks.Config); err != nil {
		return fmt.Errorf("the environment variable %s: %w", sinks.Variable, err)
	}
	if o.OTLPEndpoint != "" {
		if _, err := tracing.ParseEndpoint(o.OTLPEndpoint); err != nil {
			return fmt.Errorf("--otlp-endpoint: %w", err)
		}
	}
	if problems := validation.IsDNS1123Subdomain(o.ScanServiceAccount); o.ScanServiceAccount != "" && len(problems) > 0 {
		return fmt.Errorf("--scan-service-account=%s: %s", o.ScanServiceAccount, strings.Join(problems, "; "))
	}
	if o.Namespace == "" {
		return errors.New("the namespace of the operator is unknown: set --namespace or the environment variable POD_NAMESPACE")
	}
	if o.DataDir == "" {
		return errors.New("--data-dir must not be empty")
	}
	if o.DatabaseConnections != 0 && (o.DatabaseConnections < 2 || o.DatabaseConnections > 1000) {
		return fmt.Errorf("--database-max-connections=%d: use 2 to 1000, or 0 for the default", o.DatabaseConnections)
	}
	if o.EventRetention == 0 {
		o.EventRetention = DefaultEventRetention
	}
	if o.EventRetention < minEventRetention {
		return fmt.Errorf("--event-retention=%s: use at least %s, so that clients that reconnect do not miss events", o.EventRetention, minEventRetention)
	}
	if err := o.Scans.validate(); err != nil {
		return err
	}
	if err := o.validatePullSecrets(); err != nil {
		return err
	}
	if err := o.validateOwnerKeys(); err != nil {
		return err
	}
	if err := o.validateBaseImages(); err != nil {
		return err
	}
	return o.validateHistory()
}

func (s *Scans) validate() error {
	defaults := scanner.DefaultLimits()
	s.Concurrency, s.RegistryConcurrency = cmp.Or(s.Concurrency, defaults.Scans), cmp.Or(s.RegistryConcurrency, defaults.PerRegistry)
	s.NodeConcurrency = cmp.Or(s.NodeConcurrency, defaults.PerNode)
	if s.Concurrency < 1 || s.Concurrency > maxScans {
		return fmt.Errorf("--scan-concurrency=%d: use 1 to %d", s.Concurrency, maxScans)
	}
	if s.RegistryConcurrency < 1 || s.RegistryConcurrency > maxScans {
		return fmt.Errorf("--scan-registry-concurrency=%d: use 1 to %d", s.RegistryConcurrency, maxScans)
	}
	if s.NodeConcurrency < 1 || s.NodeConcurrency > maxScans {
		return fmt.Errorf("--scan-node-concurrency=%d: use 1 to %d", s.NodeConcurrency, maxScans)
	}
	if s.RecatalogPerHour < 0 || s.RecatalogPerHour > maxScans {
		return fmt.Errorf("--scan-recatalog-per-hour=%d: use 1 to %d, or 0 to catalog no image again", s.RecatalogPerHour, maxScans)
	}
	if s.MaxMemory == "" {
		s.MaxMemory = new(scanjob.DefaultOptions().MaxMemory).String()
	}
	if most, err := resource.ParseQuantity(s.MaxMemory); err != nil || most.Value() <= 0 {
		return fmt.Errorf("--scan-max-memory=%s: use a quantity such as 8Gi", s.MaxMemory)
	}
	if problems := validation.IsDNS1123Subdomain(s.PriorityClass); s.PriorityClass != "" && len(problems) > 0 {
		return fmt.Errorf("--scan-priority-class=%s: %s", s.PriorityClass, strings.Join(problems, "; "))
	}
	s.Deadline = cmp.Or(s.Deadline, DefaultScanDeadline)
	if s.Deadline < minScanDeadline || s.Deadline > maxScanDeadline {
		return fmt.Errorf("--scan-deadline=%s: use %s to %s", s.Deadline, minScanDeadline, maxScanDeadline)
	}
	s.AuditInterval = cmp.Or(s.AuditInterval, DefaultAuditInterval)
	if s.AuditInterval < minAuditInterval {
		return fmt.Errorf("--audit-interval=%s: use at least %s", s.AuditInterval, minAuditInterval)
	}
	s.MaxRetention = cmp.Or(s.MaxRetention, DefaultMaxRetention)
	if s.MaxRetention < minMaxRetention || s.MaxRetention > maxMaxRetention {
		return fmt.Errorf("--max-retention=%s: use %s to %s", s.MaxRetention, minMaxRetention, maxMaxRetention)
	}
	return nil
}

func (o *Options) validatePullSecrets() error {
	if len(o.ScanImagePullSecrets) > maxImagePullSecrets {
		return fmt.Errorf("--scan-image-pull-secrets has %d names: use at most %d", len(o.ScanImagePullSecrets), maxImagePullSecrets)
	}
	for _, name := range o.ScanImagePullSecrets {
		if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
			return fmt.Errorf("--scan-image-pull-secrets=%s: %s", name, strings.Join(problems, "; "))
		}
	}
	return nil
}

func (o *Options) validateOwnerKeys() error {
	if len(o.OwnerKeys) > maxOwnerKeys {
		return fmt.Errorf("--owner-keys has %d keys: use at most %d", len(o.OwnerKeys), maxOwnerKeys)
	}
	for _, key := range o.OwnerKeys {
		if problems := validation.IsQualifiedName(key); len(problems) > 0 {
			return fmt.Errorf("--owner-keys=%s: %s", key, strings.Join(problems, "; "))
		}
	}
	return nil
}

func (o *Options) validateBaseImages() error {
	if len(o.BaseImages) > store.MaxListedBases {
		return fmt.Errorf("--base-images has %d entries: use at most %d; one entry can name all repositories below a path, as in registry.example.com/base/*",
			len(o.BaseImages), store.MaxListedBases)
	}
	for _, pattern := range o.BaseImages {
		if _, err := decision.ParseImagePattern(pattern); err != nil {
			return fmt.Errorf("--base-images: %w", err)
		}
	}
	return nil
}

func (o *Options) validateHistory() error {
	if o.HistoryRetention == 0 {
		o.HistoryRetention = DefaultHistoryRetention
	}
	if o.HistoryRetention < minHistoryRetention {
		return fmt.Errorf("--history-retention=%s: use at least %s", o.HistoryRetention, minHistoryRetention)
	}
	if o.DecisionRetention == 0 {
		o.DecisionRetention = DefaultDecisionRetention
	}
	if o.DecisionRetention < minDecisionRetention {
		return fmt.Errorf("--decision-retention=%s: use at least %s", o.DecisionRetention, minDecisionRetention)
	}
	if len(o.ClusterName) > maxClusterName || !utf8.ValidString(o.ClusterName) {
		return fmt.Errorf("--cluster-name has %d bytes: use valid UTF-8 of at most %d bytes", len(o.ClusterName), maxClusterName)
	}
	return nil
}

func (o *Options) dsn() string {
	if o.DSN == "" && (o.DatabaseType == "" || o.DatabaseType == "sqlite") {
		return filepath.Join(o.DataDir, "scanner-operator.db")
	}
	return o.DSN
}
