package plugin

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/scanner-operator/scanner-operator/internal/version"
)

// Names of the executable: kubectl starts the plugin and its completion by name.
const (
	executable = "kubectl-scanner"
	completion = "kubectl_complete-scanner"
)

// Limits of lists, in rows.
const (
	defaultLimit = 1000
	maxLimit     = 100_000
)

// options are what all commands share.
type options struct {
	loading   *clientcmd.ClientConfigLoadingRules
	overrides *clientcmd.ConfigOverrides
	// allNamespaces shows all namespaces that the caller may see.
	allNamespaces bool
	// serviceNamespace and serviceName name the operator's Service; it is searched without them.
	serviceNamespace, serviceName string
	// serviceAccount is whose token to create, [NAMESPACE/]NAME.
	serviceAccount string
	// url is the address of the operator itself, caFile has the CAs that verify it.
	url, caFile string
	// limit bounds the rows of a list.
	limit int
	// output is "", json, yaml or wide.
	output    string
	noHeaders bool

	out, errOut io.Writer
	now         func() time.Time
	// pollEvery is how often watch asks for new events.
	pollEvery time.Duration
}

// Command returns the command for an executable of this name with these arguments, nil if they are not for the plugin. kubectl starts kubectl-scanner with the
// arguments of the plugin, and kubectl_complete-scanner with those to complete. Under any other name, the first argument is "kubectl": the flags are those of
// kubectl, and so the plugin is no subcommand beside the others.
func Command(name string, arguments []string) *cobra.Command {
	var command *cobra.Command
	display := "kubectl scanner"
	switch strings.TrimSuffix(filepath.Base(name), ".exe") {
	case executable:
		command = NewCommand(executable)
		command.SetArgs(arguments)
	case completion:
		command = NewCommand(executable)
		command.SetArgs(append([]string{cobra.ShellCompRequestCmd}, arguments...))
	default:
		if len(arguments) == 0 || arguments[0] != "kubectl" {
			return nil
		}
		command, display = NewCommand(executable), "scanner-operator kubectl"
		command.SetArgs(arguments[1:])
	}
	command.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: display}
	command.Version = version.String()
	return command
}

// NewCommand returns the command with all its subcommands.
func NewCommand(use string) *cobra.Command {
	command, _ := newCommand(use)
	return command
}

func newOptions() *options {
	return &options{
		loading: clientcmd.NewDefaultClientConfigLoadingRules(), overrides: &clientcmd.ConfigOverrides{}, limit: defaultLimit, now: time.Now, pollEvery: pollEvery,
	}
}

func newCommand(use string) (*cobra.Command, *options) {
	o := newOptions()
	root := &cobra.Command{
		Use:   use,
		Short: "Show images and vulnerabilities of the cluster",
		Long: `Show the images that run in the cluster, their vulnerabilities, and how they change.

The plugin reaches the operator through the Kubernetes API server. The API server removes your own credentials from the request, so that
the operator needs others: a token of a ServiceAccount that the plugin requests for ten minutes. Name the ServiceAccount with
--service-account; you need the permission to create tokens of it. With --url, the plugin connects to the operator itself and sends
the token of your kubeconfig. What you see depends on the namespaces in which the ServiceAccount or you may list scanresults.

Each of the flags --service-account, --service-namespace, --service-name, --url and --ca-file can also be set by an environment variable, such as
KUBECTL_SCANNER_SERVICE_ACCOUNT.`,
		Example: `  # Images in the namespace of the current context, with the token of the ServiceAccount "viewer" of this namespace
  kubectl scanner images --service-account viewer

  # What to fix first: vulnerabilities that are known to be exploited and have a fix, in all namespaces
  kubectl scanner findings -A --kev --fixable

  # Why an image has a vulnerability, and where it runs
  kubectl scanner why nginx CVE-2024-0001

  # What was decided about findings, and until when
  kubectl scanner decisions`,
		SilenceUsage:  true,
		SilenceErrors: true,
		PersistentPreRun: func(cmd *cobra.Command, _ []string) {
			o.out, o.errOut = cmd.OutOrStdout(), cmd.ErrOrStderr()
		},
	}
	o.addFlags(root.PersistentFlags())
	must(root.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"json", "yaml", "wide"}, cobra.ShellCompDirectiveNoFileComp)))
	must(root.RegisterFlagCompletionFunc("namespace", o.completeNamespaces))
	root.AddCommand(o.imagesCommand(), o.findingsCommand(), o.whyCommand(), o.affectedCommand(), o.decisionsCommand(),
		o.coverageCommand(), o.rolloutsCommand(), o.reportCommand("kubectl scanner"), o.vexCommand(), o.watchCommand())
	return root, o
}

// must is for registrations of completions, which fail for flags that do not exist.
func must(err error) {
	if err != nil {
		panic(err) //nolint:forbidigo // a mistake in the code, which each test finds
	}
}

func (o *options) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.loading.ExplicitPath, "kubeconfig", "", "Path to the kubeconfig file")
	names := clientcmd.RecommendedConfigOverrideFlags("")
	clientcmd.BindOverrideFlags(o.overrides, flags, names)
	flags.BoolVarP(&o.allNamespaces, "all-namespaces", "A", false, "Show all namespaces that you may see")
	o.addService(flags)
	flags.StringVar(&o.caFile, "ca-file", "", "PEM file of certificate authorities that verify the operator at --url, in addition to those of the system")
	setFromEnvironment(flags, "ca-file")
	flags.StringVarP(&o.output, "output", "o", "", "Output format: json, yaml or wide. If absent, a table")
	flags.BoolVar(&o.noHeaders, "no-headers", false, "Print no headers in tables")
}

// addService adds the flags that say how the operator is reached.
func (o *options) addService(flags *pflag.FlagSet) {
	flags.StringVar(&o.serviceAccount, "service-account", "", "ServiceAccount, as [NAMESPACE/]NAME, whose token the operator gets; the plugin creates one for ten minutes")
	flags.StringVar(&o.serviceNamespace, "service-namespace", "", "Namespace of the operator's Service. If absent, the plugin searches for the Service")
	flags.StringVar(&o.serviceName, "service-name", "", "Name of the operator's Service. If absent, the plugin searches for the Service")
	flags.StringVar(&o.url, "url", "", "URL of the operator, to connect to it without the API server. The token of your kubeconfig is sent to it")
	setFromEnvironment(flags, "service-account", "service-namespace", "service-name", "url")
}

// setFromEnvironment sets flags whose environment variable is set.
func setFromEnvironment(flags *pflag.FlagSet, names ...string) {
	for _, name := range names {
		if value := os.Getenv("KUBECTL_SCANNER_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))); value != "" {
			must(flags.Lookup(name).Value.Set(value))
		}
	}
}

// addLimit adds the flag for the number of rows.
func (o *options) addLimit(flags *pflag.FlagSet) {
	flags.IntVar(&o.limit, "limit", defaultLimit, fmt.Sprintf("Maximum number of rows, up to %d", maxLimit))
}

// check refuses values of flags that are not valid.
func (o *options) check() error {
	switch o.output {
	case "", "json", "yaml", "wide":
	default:
		return fmt.Errorf("--output %q is not one of json, yaml, wide", o.output)
	}
	if o.limit < 1 || o.limit > maxLimit {
		return fmt.Errorf("--limit is %d, but must be between 1 and %d", o.limit, maxLimit)
	}
	return nil
}

// kubeconfig is the configuration that the flags and the environment name.
func (o *options) kubeconfig() clientcmd.ClientConfig {
	o.overrides.ClusterDefaults = clientcmdapi.Cluster{}
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(o.loading, o.overrides)
}

// namespace is the one to show, "" for all.
func (o *options) namespace() (string, error) {
	if o.allNamespaces {
		return "", nil
	}
	namespace, _, err := o.kubeconfig().Namespace()
	return cmp.Or(namespace, "default"), err
}

// run makes what cobra runs of a function that needs the operator.
func (o *options) run(do func(ctx context.Context, c *client, namespace string, arguments []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, arguments []string) error {
		if err := o.check(); err != nil {
			return err
		}
		namespace, err := o.namespace()
		if err != nil {
			return err
		}
		c, err := o.connect(cmd.Context())
		if err != nil {
			return err
		}
		defer c.http.CloseIdleConnections()
		return do(cmd.Context(), c, namespace, arguments)
	}
}
