package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/zapr"
	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/scanner-operator/scanner-operator/internal/setup"
	"github.com/scanner-operator/scanner-operator/internal/version"
)

// inClusterToken exists in every pod that has an API token.
const inClusterToken = "/var/run/secrets/kubernetes.io/serviceaccount/token" //nolint:gosec // a path, not a credential

func newManagerCommand() *cobra.Command {
	var opts setup.Options
	var logLevel, catalogMode, authMode string
	cmd := &cobra.Command{
		Use:   "manager",
		Short: "Run the operator",
		Long: `Run the operator: the controllers, the API and the UI.

The cluster is the one that the pod runs in, or that KUBECONFIG names. The environment variables DATABASE_TYPE (sqlite,
postgres or mysql) and DSN choose the SQL database; by default it is a file in the data directory.`,
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
			opts.DatabaseType, opts.DSN = os.Getenv("DATABASE_TYPE"), os.Getenv("DSN")
			if opts.Executable, err = os.Executable(); err != nil {
				return fmt.Errorf("find the path of this program: %w", err)
			}
			config, err := ctrl.GetConfig()
			if err != nil {
				return fmt.Errorf("find a Kubernetes cluster: %w; set KUBECONFIG", err)
			}
			log.Info("Starting scanner-operator", "version", version.String(), "catalog", opts.Catalog, "auth", opts.Auth)
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
	flags.StringVar(&catalogMode, "catalog", choose("job", "in-process"), "who catalogues images: a Kubernetes job each, or this process (in-process)")
	flags.StringVar(&authMode, "auth", choose("kubernetes", "none"), "how users are known: by Kubernetes tokens (kubernetes), or not at all (none; loopback only)")
	flags.StringVar(&opts.APIAddress, "api-bind-address", choose(":8000", "127.0.0.1:8000"), "address of the API and the UI")
	flags.StringVar(&opts.MetricsAddress, "metrics-bind-address", choose(":8443", "127.0.0.1:8443"), `address of the metrics, "0" for none`)
	flags.StringVar(&opts.HealthAddress, "health-probe-bind-address", choose(":8081", "127.0.0.1:8081"), `address of the health probes, "0" for none`)
	flags.BoolVar(&opts.LeaderElection, "leader-elect", inCluster, "work only as the leader of all replicas")
	flags.StringVar(&opts.DataDir, "data-dir", choose("/var/lib/scanner-operator", userDataDir()), "folder of the sqlite file and of the vulnerability databases")
	flags.IntVar(&opts.DatabaseConnections, "database-max-connections", 0, "most connections to the SQL database, besides one that listens on postgres (default 16 on a server, 5 on sqlite)")
	flags.StringVar(&opts.Namespace, "namespace", envOr("POD_NAMESPACE", choose("", "default")), "the operator's own namespace (environment variable POD_NAMESPACE)")
	flags.StringSliceVar(&opts.WatchNamespaces, "watch-namespaces", nil, "namespaces to look at (default all)")
	flags.StringSliceVar(&opts.Controllers, "controllers", []string{"*"}, "controllers to run: * for all, NAME to run one, -NAME not to; the names are "+strings.Join(setup.ControllerNames(), ", "))
	flags.StringSliceVar(&opts.PlainHTTPRegistries, "plain-http-registries", nil, "registries, as host[:port], that are reached without TLS; loopback always is")
	flags.StringVar(&opts.VulnerabilityDatabase.URL, "vulnerability-database-url", "", "where vulnerability databases are downloaded from (default the official one)")
	flags.DurationVar(&opts.VulnerabilityDatabase.Interval, "vulnerability-database-interval", 2*time.Hour, "how often a new vulnerability database is looked for")
	flags.BoolVar(&opts.VulnerabilityDatabase.Sample, "sample-database", false, "use the built-in sample database while no other can be had; for demonstration only")
	flags.StringVar(&opts.ScanImage, "scan-image", os.Getenv("SCAN_IMAGE"), "image that scan Jobs run (environment variable SCAN_IMAGE)")
	flags.StringVar(&opts.APIURL, "api-url", "", "the API as scan Jobs reach it, such as http://NAME.NAMESPACE.svc:8000")
	flags.DurationVar(&opts.EventRetention, "event-retention", setup.DefaultEventRetention, "how long events are kept for clients that come back")
	flags.DurationVar(&opts.HistoryRetention, "history-retention", setup.DefaultHistoryRetention, "how long findings that closed, changes and past workloads are kept")
	flags.StringVar(&opts.ClusterName, "cluster-name", os.Getenv("CLUSTER_NAME"), "name of this cluster in what is kept of what ran when (environment variable CLUSTER_NAME)")
	addScanFlags(cmd, &opts.Scans)
	flags.StringVar(&logLevel, "log-level", "info", "error, info or debug")
	return cmd
}

func addScanFlags(cmd *cobra.Command, scans *setup.Scans) {
	flags := cmd.Flags()
	flags.IntVar(&scans.Concurrency, "scan-concurrency", 10, "most images that are catalogued at a time, for all Scanners together")
	flags.IntVar(&scans.RegistryConcurrency, "scan-registry-concurrency", 4, "most images that are pulled from one registry at a time")
	flags.StringVar(&scans.MaxMemory, "scan-max-memory", "8Gi", "most memory of a scan after scans of the same repository ran out of it")
	flags.DurationVar(&scans.Deadline, "scan-deadline", setup.DefaultScanDeadline, "most time of one attempt to catalogue an image, from 30s to 24h")
	flags.StringVar(&scans.PriorityClass, "scan-priority-class", "", "priority class of scan pods whose Scanner names none")
	flags.DurationVar(&scans.AuditInterval, "audit-interval", setup.DefaultAuditInterval, "how often caches are compared with the cluster and results past their retention removed")
}

func runsInCluster() bool {
	_, err := os.Stat(inClusterToken)
	return err == nil
}

func envOr(name, fallback string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return fallback
}

// userDataDir is the folder outside of a cluster.
func userDataDir() string {
	if dir := os.Getenv("XDG_DATA_HOME"); dir != "" {
		return filepath.Join(dir, "scanner-operator")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "scanner-operator-data"
	}
	return filepath.Join(home, ".local", "share", "scanner-operator")
}

// newLogger logs JSON to standard error.
func newLogger(level string) (logr.Logger, error) {
	levels := map[string]zapcore.Level{"error": zapcore.ErrorLevel, "info": zapcore.InfoLevel, "debug": zapcore.DebugLevel}
	zapLevel, known := levels[level]
	if !known {
		return logr.Logger{}, errors.New("--log-level: use error, info or debug")
	}
	config := zap.NewProductionConfig()
	config.Level = zap.NewAtomicLevelAt(zapLevel)
	config.EncoderConfig.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	config.DisableStacktrace = true
	logger, err := config.Build()
	if err != nil {
		return logr.Logger{}, fmt.Errorf("make the logger: %w", err)
	}
	return zapr.NewLogger(logger), nil
}
