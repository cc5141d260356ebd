// Command devcluster builds and runs a local Kubernetes from Go modules: a simulated one, with a real control plane
// and nodes that kwok simulates, or a real one with a kubelet.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := newCommand().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "devcluster:", err)
		os.Exit(1)
	}
}

// options are the flags that all commands share.
type options struct {
	moduleDir, mode, name string
}

func newCommand() *cobra.Command {
	var o options
	root := &cobra.Command{
		Use: "devcluster", Short: "Build and run a local Kubernetes from Go modules",
		SilenceUsage: true, SilenceErrors: true,
	}
	root.PersistentFlags().StringVar(&o.moduleDir, "module-dir", "", "folder of hack/devcluster (default found)")
	root.PersistentFlags().StringVar(&o.mode, "mode", "", "simulated or real (default simulated)")
	root.PersistentFlags().StringVar(&o.name, "name", "", "name of the cluster (default its mode)")
	add := func(use, short string, args cobra.PositionalArgs, run func(cmd *cobra.Command, args []string) error) *cobra.Command {
		cmd := &cobra.Command{Use: use, Short: short, Args: args, RunE: run}
		root.AddCommand(cmd)
		return cmd
	}
	add("build", "Build the missing binaries and print their folder", cobra.NoArgs, func(cmd *cobra.Command, _ []string) error {
		return o.build(cmd, targetsFor(o.mode))
	})
	add("assets", "Print a folder with etcd, kube-apiserver and kubectl, for KUBEBUILDER_ASSETS", cobra.NoArgs, func(cmd *cobra.Command, _ []string) error {
		return o.build(cmd, assetTargets)
	})
	var settings settings
	up := add("up", "Start the cluster unless it runs", cobra.NoArgs, func(cmd *cobra.Command, _ []string) error {
		return o.locked(cmd, func(c *cluster) error {
			b, err := o.builder(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			if err := settings.validate(o.modeOrDefault()); err != nil {
				return err
			}
			return c.up(cmd.Context(), o.modeOrDefault(), settings, b)
		})
	})
	up.Flags().BoolVar(&settings.ResolveImages, "resolve-images", false, "simulated nodes ask registries for the digests of tags, as kubelets do")
	up.Flags().StringArrayVar(&settings.ContainerdEnv, "containerd-env", nil, "variable NAME=VALUE of a real node's containerd, for example HTTPS_PROXY; can be repeated")
	up.Flags().StringArrayVar(&settings.KubeletArgs, "kubelet-arg", nil, "argument of a real node's kubelet; can be repeated")
	add("down", "Stop the cluster and remove every trace of it", cobra.NoArgs, func(cmd *cobra.Command, _ []string) error {
		return o.locked(cmd, (*cluster).down)
	})
	add("status", "Say whether the cluster is healthy", cobra.NoArgs, func(cmd *cobra.Command, _ []string) error {
		c, err := o.open(cmd.ErrOrStderr())
		if err != nil {
			return err
		}
		if err := c.check(cmd.Context()); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%s is healthy\n", c.name)
		return nil
	})
	add("kubeconfig", "Print the path of the kubeconfig", cobra.NoArgs, func(cmd *cobra.Command, _ []string) error {
		return o.printKubeconfig(cmd, "%s\n")
	})
	add("env", "Print what a shell evaluates to use the cluster", cobra.NoArgs, func(cmd *cobra.Command, _ []string) error {
		return o.printKubeconfig(cmd, "export KUBECONFIG='%s'\n")
	})
	add("logs COMPONENT", "Print the log of a component", cobra.ExactArgs(1), func(cmd *cobra.Command, args []string) error {
		return o.printLog(cmd, args[0])
	})
	add("load ARCHIVE", "Import an OCI or docker archive into a real cluster's node", cobra.ExactArgs(1), func(cmd *cobra.Command, args []string) error {
		o.mode = modeReal
		c, err := o.open(cmd.ErrOrStderr())
		if err != nil {
			return err
		}
		return c.load(cmd.Context(), args[0])
	})
	add("kubectl -- ARGS", "Run kubectl on the cluster", cobra.ArbitraryArgs, func(cmd *cobra.Command, args []string) error {
		c, err := o.open(cmd.ErrOrStderr())
		if err != nil {
			return err
		}
		b, err := o.builder(cmd.ErrOrStderr())
		if err != nil {
			return err
		}
		dir, err := b.ensure(cmd.Context(), []target{kubectlTarget})
		if err != nil {
			return err
		}
		kubectl := exec.CommandContext(cmd.Context(), filepath.Join(dir, kubectlTarget.name), args...)
		kubectl.Env = append(os.Environ(), "KUBECONFIG="+c.path("kubeconfig"))
		kubectl.Stdin, kubectl.Stdout, kubectl.Stderr = os.Stdin, os.Stdout, os.Stderr
		return kubectl.Run()
	})
	return root
}

func (o *options) modeOrDefault() string {
	if o.mode == "" {
		return modeSimulated
	}
	return o.mode
}

func (o *options) builder(progress io.Writer) (*builder, error) {
	if !slices.Contains([]string{modeSimulated, modeReal}, o.modeOrDefault()) {
		return nil, fmt.Errorf("--mode=%s: use simulated or real", o.mode)
	}
	dir, err := findModuleDir(o.moduleDir)
	if err != nil {
		return nil, err
	}
	cache, err := cacheRoot()
	if err != nil {
		return nil, err
	}
	return &builder{moduleDir: dir, cacheRoot: cache, progress: progress}, nil
}

func (o *options) build(cmd *cobra.Command, targets []target) error {
	b, err := o.builder(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	dir, err := b.ensure(cmd.Context(), targets)
	if err != nil {
		return err
	}
	fmt.Fprintln(cmd.OutOrStdout(), dir)
	return nil
}

func (o *options) open(progress io.Writer) (*cluster, error) {
	name := o.name
	if name == "" {
		name = o.modeOrDefault()
	}
	return openCluster(name, progress)
}

// locked opens the cluster while no other devcluster works on it.
func (o *options) locked(cmd *cobra.Command, work func(*cluster) error) error {
	c, err := o.open(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	lock, err := acquireLock(cmd.Context(), c.dir+".lock", func() { c.say("another devcluster works on %s; waiting for it", c.name) })
	if err != nil {
		return err
	}
	defer func() {
		// Without a cluster the lock would be the last trace of it.
		if c.state.Mode == "" {
			lock.remove()
		} else {
			lock.release()
		}
	}()
	// Read again: the other one may have changed it.
	if c, err = o.open(cmd.ErrOrStderr()); err != nil {
		return err
	}
	return work(c)
}

func (o *options) printKubeconfig(cmd *cobra.Command, format string) error {
	c, err := o.open(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	if !c.state.Complete {
		return fmt.Errorf("%s does not run; start it with: devcluster up --name=%s", c.name, c.name)
	}
	fmt.Fprintf(cmd.OutOrStdout(), format, c.path("kubeconfig"))
	return nil
}

func (o *options) printLog(cmd *cobra.Command, component string) error {
	c, err := o.open(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	known := []string{}
	for _, p := range c.state.Processes {
		known = append(known, p.Name)
	}
	if !slices.Contains(known, component) {
		return fmt.Errorf("%s has no component %s; it has %v", c.name, component, known)
	}
	f, err := os.Open(c.path("logs", component+".log"))
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%s has no log", component)
	}
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(cmd.OutOrStdout(), f)
	return err
}
