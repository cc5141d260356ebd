package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/zapr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/scanner-operator/scanner-operator/internal/notify"
	"github.com/scanner-operator/scanner-operator/internal/scanjob"
	"github.com/scanner-operator/scanner-operator/internal/server/auth/frontproxy"
	"github.com/scanner-operator/scanner-operator/internal/setup"
	"github.com/scanner-operator/scanner-operator/internal/sinks"
	"github.com/scanner-operator/scanner-operator/internal/version"
)

func newManagerCommand() *cobra.Command {
	var opts setup.Options
	var logLevel, catalogMode, authMode, tlsMode string
	cmd := &cobra.Command{
		Use:   "manager",
		Short: "Run the operator",
		Long: `Run the operator: the controllers, the API and the UI.

The manager connects to the cluster of its pod, or to the cluster that the environment variable KUBECONFIG specifies. The
environment variables DATABASE_TYPE (sqlite, postgres or mysql) and DSN select the SQL database; the default is an SQLite
file in the data directory. The environment variable MEMORY_LIMIT is the memory limit of the container in bytes.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := newLogger(logLevel)
			if err != nil {
				return err
			}
			ctrl.SetLogger(log)
			klog.SetLogger(log)
			opts.Log = log
			opts.Catalog, opts.Auth = setup.CatalogMode(catalogMode), setup.AuthMode(authMode)
			opts.TLS.Mode = setup.TLSMode(tlsMode)
			if opts.Scans.ChildMemory, err = setup.LimitMemory(opts.Catalog); err != nil {
				return err
			}
			opts.DatabaseType, opts.DSN, opts.Registries = os.Getenv("DATABASE_TYPE"), os.Getenv("DSN"), os.Getenv(scanjob.RegistriesVariable)
			opts.Notifications.Config, opts.ReportSinks.Config = os.Getenv(notify.Variable), os.Getenv(sinks.Variable)
			if opts.Executable, err = os.Executable(); err != nil {
				return fmt.Errorf("determine the path of this executable: %w", err)
			}
			config, err := ctrl.GetConfig()
			if err != nil {
				return fmt.Errorf("load the configuration of the Kubernetes client: %w; set KUBECONFIG", err)
			}
			log.Info("Starting scanner-operator", "version", version.String(), "catalog", opts.Catalog, "auth", opts.Auth, "tls", opts.TLS.Mode)
			operator, err := setup.New(cmd.Context(), config, opts)
			if err != nil {
				return err
			}
			return operator.Start(cmd.Context())
		},
	}

	inCluster := runsInCluster()
	choose := func(in, out string) string {
		if inCluster {
			return in
		}
		return out
	}
	flags := cmd.Flags()
	flags.StringVar(&catalogMode, "catalog", choose("job", "in-process"),
		`Where images are scanned: "job" creates one Kubernetes Job per image, "in-process" starts a child process of the manager`)
	flags.StringVar(&authMode, "auth", choose("kubernetes", "none"),
		`Authentication of API clients: "kubernetes" validates bearer tokens with the Kubernetes API, "none" is allowed only with a loopback --api-bind-address`)
	flags.StringVar(&opts.APIAddress, "api-bind-address", choose(":8000", "127.0.0.1:8000"), "Address on which the API and the UI are served")
	flags.IntVar(&opts.AddressConnections, "api-connections-per-address", setup.DefaultAddressConnections,
		"Maximum connections to the API per client address that have not authenticated (-1: no limit)")
	addTLSFlags(flags, &opts.TLS, &tlsMode, choose("operator", "off"))
	addSignInFlags(flags, &opts.SignIn)
	flags.StringVar(&opts.MetricsAddress, "metrics-bind-address", choose(":8443", "127.0.0.1:8443"), `Address on which metrics are served; "0" disables them`)
	flags.StringVar(&opts.HealthAddress, "health-probe-bind-address", choose(":8081", "127.0.0.1:8081"),
		`Address on which the health probes are served; "0" disables them`)
	flags.BoolVar(&opts.LeaderElection, "leader-elect", inCluster, "Enable leader election, so that only one replica runs the controllers")
	addDataDirFlag(flags, &opts.DataDir, `Directory of the SQLite file and of the vulnerability databases (subdirectory "db")`)
	flags.IntVar(&opts.DatabaseConnections, "database-max-connections", 0,
		"Maximum open connections to the SQL database, plus one that listens for notifications on PostgreSQL (0: 5 for SQLite, 16 for PostgreSQL and MySQL)")
	flags.StringVar(&opts.Namespace, "namespace", envOr("POD_NAMESPACE", choose("", "default")),
		"Namespace of the operator (environment variable POD_NAMESPACE)")
	flags.StringSliceVar(&opts.WatchNamespaces, "watch-namespaces", nil, "Comma-separated namespaces to watch (default: all namespaces)")
	flags.StringSliceVar(&opts.Controllers, "controllers", []string{"*"},
		`Comma-separated controllers to run: "*" enables all, NAME enables and -NAME disables one. Names: `+strings.Join(setup.ControllerNames(), ", "))
	flags.StringSliceVar(&opts.OwnerKeys, "owner-keys", nil,
		"Comma-separated keys of labels and annotations that name the owner of a workload, in order of preference, for example team,example.com/owner (default: workloads have no owners)")
	flags.StringSliceVar(&opts.BaseImages, "base-images", nil,
		"Comma-separated repositories of images that others are built on, for example registry.example.com/base/*; they are base images before any image that shares layers")
	flags.BoolVar(&opts.WriteExceptions, "write-exceptions", true,
		"Let users of the API and the UI create, change and delete exceptions if they have the permission in Kubernetes; the operator needs it, too")
	flags.BoolVar(&opts.TrustExceptionAuthors, "trust-exception-authors", false,
		"Record the annotation scanner.zoltankerezsi.xyz/author of exceptions as the author of decisions; only the admission policy exception-authors makes it reliable")
	addReceiverFlags(flags, &opts)
	addPlainHTTPFlag(flags, &opts.PlainHTTPRegistries)
	flags.StringVar(&opts.VEXCredentials, "vex-credentials-file", "", "Docker configuration file with credentials for the servers and registries of VEXSources")
	addDatabaseSourceFlags(flags, &opts.VulnerabilityDatabase.URL, &opts.VulnerabilityDatabase.Sample)
	flags.DurationVar(&opts.VulnerabilityDatabase.Interval, "vulnerability-database-interval", 2*time.Hour,
		"Interval between checks for a newer vulnerability database")
	flags.StringVar(&opts.ScanImage, "scan-image", os.Getenv("SCAN_IMAGE"), "Container image of scan Jobs (environment variable SCAN_IMAGE)")
	flags.StringSliceVar(&opts.ScanImagePullSecrets, "scan-image-pull-secrets", nil,
		"Comma-separated Secrets in the namespace of the operator to pull the image of scan Jobs that run there")
	flags.StringVar(&opts.ScanServiceAccount, "scan-service-account", "",
		"ServiceAccount in the namespace of the operator of the scan pods that run there; no token for the Kubernetes API is mounted (default: the default ServiceAccount)")
	flags.StringVar(&opts.APIURL, "api-url", "", "URL at which scan Jobs reach the API, for example https://NAME.NAMESPACE.svc:8000")
	addRetentionFlags(flags, &opts)
	flags.StringVar(&opts.ClusterName, "cluster-name", os.Getenv("CLUSTER_NAME"), "Name of this cluster in the recorded history (environment variable CLUSTER_NAME)")
	addScanFlags(cmd, &opts.Scans)
	flags.StringVar(&logLevel, "log-level", "info", "Log level: error, info or debug")
	return cmd
}

// addRetentionFlags adds the flags for how long is kept what has ended.
func addRetentionFlags(flags *pflag.FlagSet, opts *setup.Options) {
	flags.DurationVar(&opts.EventRetention, "event-retention", setup.DefaultEventRetention,
		"Retention period of events; a client that was disconnected for longer must reload the current state")
	flags.DurationVar(&opts.HistoryRetention, "history-retention", setup.DefaultHistoryRetention,
		"Retention period of closed findings, recorded changes and terminated workloads")
	flags.DurationVar(&opts.DecisionRetention, "decision-retention", setup.DefaultDecisionRetention,
		"Retention period of decisions about findings that have ended: those of exceptions, and of VEX documents that apply in full")
}

// addReceiverFlags adds the flags about receivers of messages, reports and traces.
func addReceiverFlags(flags *pflag.FlagSet, opts *setup.Options) {
	flags.StringVar(&opts.Notifications.CredentialsDir, "notification-credentials-dir", "/var/run/scanner-operator/notifications",
		"Directory with a directory of files for each credential of notification rules; the environment variable NOTIFICATIONS states which namespaces may use them")
	flags.StringVar(&opts.ReportSinks.CredentialsDir, "report-sink-credentials-dir", "/var/run/scanner-operator/report-sinks",
		"Directory with a directory of files for each credential of ReportSinks; the environment variable REPORT_SINKS lists their names")
	flags.BoolVar(&opts.ReportSinks.PolicyReports, "policy-reports", false, "Let ReportSinks write policy reports (openreports.io) into namespaces; the operator needs the permission")
	flags.StringVar(&opts.OTLPEndpoint, "otlp-endpoint", os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT"),
		"URL of a receiver of traces with the OpenTelemetry protocol over HTTP, for example http://collector.observability:4318 "+
			"(environment variable OTEL_EXPORTER_OTLP_ENDPOINT; default: no traces)")
}

func addTLSFlags(flags *pflag.FlagSet, options *setup.TLS, mode *string, fallback string) {
	flags.StringVar(mode, "tls", fallback, `Certificate with which the API and the UI are served over TLS 1.3: "operator" is issued by a CA that the operator creates and renews `+
		`(--tls-secret), "files" is in --tls-dir, "off" serves plain HTTP`)
	flags.StringVar(&options.Secret, "tls-secret", "scanner-operator-api-tls",
		"Secret in the namespace of the operator, at first without data, that holds the CA and the certificate of --tls=operator")
	flags.StringSliceVar(&options.Names, "tls-names", nil,
		"Comma-separated DNS names and IP addresses for the certificate of --tls=operator, in addition to the host of --api-url and localhost")
	flags.StringVar(&options.Dir, "tls-dir", "", "Directory with the files tls.crt, tls.key and, unless clients trust it anyway, ca.crt of --tls=files; new files are loaded")
}

// addSignInFlags adds the flags about users who sign in. Those that kube-apiserver has too mean the same.
func addSignInFlags(flags *pflag.FlagSet, options *setup.SignIn) {
	flags.StringVar(&options.ExternalURL, "external-url", "", "URL at which browsers reach the API and the UI, for example https://scanner.example.com or https://example.com/scanner/")
	flags.StringVar(&options.BasePath, "base-path", "",
		"Path below which a proxy serves the API and the UI, for example /scanner/; defaults to the path of --external-url")
	flags.BoolVar(&options.AnonymousRead, "anonymous-read", false,
		"Let clients without a token read the results that the user system:anonymous has permission to read")
	provider := &options.OIDC
	flags.StringVar(&provider.Issuer, "oidc-issuer-url", "", "URL of the OpenID Connect provider with which users sign in to the UI")
	flags.StringVar(&provider.ClientID, "oidc-client-id", "", "Client ID of scanner-operator at the OpenID Connect provider")
	flags.StringVar(&provider.ClientSecretFile, "oidc-client-secret-file", "", "File with the client secret; without it, the client is a public one")
	flags.StringVar(&provider.CAFile, "oidc-ca-file", "",
		"PEM file of certificate authorities that verify the OpenID Connect provider, instead of those of the system")
	flags.StringSliceVar(&provider.Scopes, "oidc-scopes", []string{"openid", "profile", "email", "offline_access"},
		"Comma-separated scopes to request; without offline_access, most providers end a session when the ID token expires")
	flags.StringVar(&provider.UsernameClaim, "oidc-username-claim", "sub", "Claim with the user name")
	flags.StringVar(&provider.UsernamePrefix, "oidc-username-prefix", "",
		`Prefix of user names; the default is the issuer and "#", or none if the claim is "email"; "-" means no prefix`)
	flags.StringVar(&provider.GroupsClaim, "oidc-groups-claim", "", "Claim with the groups of a user, a string or a list of strings")
	flags.StringVar(&provider.GroupsPrefix, "oidc-groups-prefix", "", "Prefix of groups")
	flags.StringVar(&provider.Name, "oidc-name", "", "Name of the provider on the sign-in page; defaults to the host of --oidc-issuer-url")
	addFrontProxyFlags(flags, &options.FrontProxy)
}

func addFrontProxyFlags(flags *pflag.FlagSet, front *frontproxy.Config) {
	flags.StringVar(&front.ClientCAFile, "requestheader-client-ca-file", "",
		"PEM file of certificate authorities that verify the TLS client certificate of a proxy that names users in headers; without it, such headers are ignored. "+
			"A new file is loaded")
	flags.StringSliceVar(&front.AllowedNames, "requestheader-allowed-names", nil,
		"Comma-separated common names of client certificates that may name users in headers (default: all certificates that the authorities signed)")
	flags.StringSliceVar(&front.UsernameHeaders, "requestheader-username-headers", []string{"X-Remote-User"},
		"Comma-separated headers with the user name; the first that a request has counts")
	flags.StringSliceVar(&front.GroupHeaders, "requestheader-group-headers", []string{"X-Remote-Group"},
		"Comma-separated headers with the groups of the user, one group per value")
}

func addScanFlags(cmd *cobra.Command, scans *setup.Scans) {
	flags := cmd.Flags()
	flags.IntVar(&scans.Concurrency, "scan-concurrency", 10, "Maximum concurrent scans of all Scanners")
	flags.IntVar(&scans.RegistryConcurrency, "scan-registry-concurrency", 4, "Maximum concurrent scans per registry")
	flags.IntVar(&scans.NodeConcurrency, "scan-node-concurrency", 2, "Maximum concurrent scans of image volumes per node")
	flags.IntVar(&scans.RecatalogPerHour, "scan-recatalog-per-hour", 0,
		"Maximum images per hour that are cataloged again because another version of Syft cataloged them, from 1 to 1000 (0: none)")
	flags.StringVar(&scans.MaxMemory, "scan-max-memory", "8Gi",
		"Maximum memory limit of a scan; the limit grows up to it after scans of the same repository ran out of memory")
	flags.DurationVar(&scans.Deadline, "scan-deadline", setup.DefaultScanDeadline, "Deadline of one scan attempt, from 30s to 24h")
	flags.StringVar(&scans.PriorityClass, "scan-priority-class", "", "PriorityClass of scan pods, unless the Scanner specifies one")
	flags.DurationVar(&scans.AuditInterval, "audit-interval", setup.DefaultAuditInterval,
		"Interval at which caches are compared with the Kubernetes API and expired results are deleted")
	flags.DurationVar(&scans.MaxRetention, "max-retention", setup.DefaultMaxRetention,
		"Maximum retention of the results of images that do not run, from 1h to 87600h; a longer spec.retention of a Scanner has no effect")
}

func envOr(name, fallback string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return fallback
}

// newLogger logs JSON to standard error.
func newLogger(level string) (logr.Logger, error) {
	levels := map[string]zapcore.Level{"error": zapcore.ErrorLevel, "info": zapcore.InfoLevel, "debug": zapcore.DebugLevel}
	zapLevel, known := levels[level]
	if !known {
		return logr.Logger{}, errors.New("--log-level must be error, info or debug")
	}
	config := zap.NewProductionConfig()
	config.Level = zap.NewAtomicLevelAt(zapLevel)
	config.EncoderConfig.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	config.DisableStacktrace = true
	logger, err := config.Build()
	if err != nil {
		return logr.Logger{}, fmt.Errorf("create the logger: %w", err)
	}
	return zapr.NewLogger(logger), nil
}
