package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"

	"github.com/scanner-operator/scanner-operator/internal/catalog"
	"github.com/scanner-operator/scanner-operator/internal/registries"
	"github.com/scanner-operator/scanner-operator/internal/scanjob"
)

// Flags that several subcommands have. A flag of one name means the same in all of them.

const (
	// clusterDataDir is the default of --data-dir in a pod.
	clusterDataDir = "/var/lib/scanner-operator"
	// inClusterToken exists in every pod that has an API token.
	inClusterToken = "/var/run/secrets/kubernetes.io/serviceaccount/token" //nolint:gosec // a path, not a credential

	outputTable = "table"
	outputJSON  = "json"
)

func runsInCluster() bool {
	_, err := os.Stat(inClusterToken)
	return err == nil
}

// defaultDataDir is the same for all subcommands, so that "db" and "scan" use the databases of a manager of the same user or pod.
func defaultDataDir() string {
	if runsInCluster() {
		return clusterDataDir
	}
	if dir := os.Getenv("XDG_DATA_HOME"); dir != "" {
		return filepath.Join(dir, "scanner-operator")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "scanner-operator-data"
	}
	return filepath.Join(home, ".local", "share", "scanner-operator")
}

func addDataDirFlag(flags *pflag.FlagSet, dir *string, usage string) {
	flags.StringVar(dir, "data-dir", defaultDataDir(), usage)
}

func addDatabaseSourceFlags(flags *pflag.FlagSet, url *string, sample *bool) {
	flags.StringVar(url, "vulnerability-database-url", "",
		`URL of the directory that contains Grype's v6/latest.json, or URL of latest.json itself; "none" disables downloads (default: Grype's official URL)`)
	flags.BoolVar(sample, "sample-database", false,
		"Fall back to the built-in sample database, which contains only a few vulnerabilities, while no other database is available")
}

func addPlainHTTPFlag(flags *pflag.FlagSet, registries *[]string) {
	flags.StringSliceVar(registries, "plain-http-registries", nil,
		"Comma-separated registries, as HOST[:PORT], to access over plain HTTP; always allowed for loopback addresses")
}

// configuredRegistries reads how to reach registries from the environment.
func configuredRegistries() (registries.Config, error) {
	config, err := registries.Parse(os.Getenv(scanjob.RegistriesVariable))
	if err != nil {
		return registries.Config{}, fmt.Errorf("the environment variable %s: %w", scanjob.RegistriesVariable, err)
	}
	return config, nil
}

func addImageFlags(flags *pflag.FlagSet, request *catalog.Request, platform *string) {
	flags.StringVar(platform, "platform", "",
		"Platform to select from an image index, as OS/ARCHITECTURE[/VARIANT] (default: linux on the architecture of this machine)")
	flags.StringArrayVar(&request.DockerConfigs, "docker-config", nil,
		"Docker configuration file with registry credentials; may be repeated, and all matching entries are tried in order")
	addPlainHTTPFlag(flags, &request.PlainHTTP)
	flags.StringArrayVar(&request.TokenHosts, "token-host", nil,
		"Host of a token service outside the domain of the registry that may receive the credentials; may be repeated")
	request.Limits = catalog.DefaultLimits()
}

func checkDataDir(dir string) error {
	if dir == "" {
		return errors.New("--data-dir is empty: specify the data directory")
	}
	return nil
}
