package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"
)

const upTimeout = 3 * time.Minute

// cluster is one local cluster; everything that it leaves on disk is below dir.
type cluster struct {
	name     string
	dir      string
	progress io.Writer
	state    state
}

// state is what a later call must know to check and to stop the cluster. It is written before each step, so that a crash
// leaves nothing that the state does not name.
type state struct {
	Mode      string         `json:"mode"`
	Binaries  string         `json:"binaries"`
	Ports     map[string]int `json:"ports"`
	Processes []process      `json:"processes"`
	Complete  bool           `json:"complete"`
	settings
	// Memory is how the machine was before a real cluster was started.
	Memory *memory `json:"memory,omitempty"`
}

// settings are the flags of "up" that the cluster keeps.
type settings struct {
	// ResolveImages says that a simulated cluster asks registries for the digests of tags.
	ResolveImages bool `json:"resolveImages,omitempty"`
	// ContainerdEnv are variables, as NAME=VALUE, of a real node's containerd alone.
	ContainerdEnv []string `json:"containerdEnv,omitempty"`
	// KubeletArgs are arguments of a real node's kubelet beside those that it always has.
	KubeletArgs []string `json:"kubeletArgs,omitempty"`
}

// validate checks that the settings are for a mode.
func (s settings) validate(mode string) error {
	switch {
	case s.ResolveImages && mode != modeSimulated:
		return errors.New("--resolve-images is for --mode=simulated; a kubelet resolves images itself")
	case len(s.ContainerdEnv)+len(s.KubeletArgs) > 0 && mode != modeReal:
		return errors.New("--containerd-env and --kubelet-arg are for --mode=real; simulated nodes have no containerd and no kubelet")
	}
	for _, variable := range s.ContainerdEnv {
		if name, _, found := strings.Cut(variable, "="); !found || name == "" {
			return fmt.Errorf("--containerd-env=%s: use NAME=VALUE", variable)
		}
	}
	return nil
}

func openCluster(name string, progress io.Writer) (*cluster, error) {
	if !validName.MatchString(name) {
		return nil, fmt.Errorf("the name %q is not made of at most 32 lower-case letters, digits and dashes", name)
	}
	dir, err := stateDir(name)
	if err != nil {
		return nil, err
	}
	c := &cluster{name: name, dir: dir, progress: progress}
	data, err := os.ReadFile(c.path("state.json"))
	switch {
	case errors.Is(err, os.ErrNotExist):
		return c, nil
	case err != nil:
		return nil, err
	}
	if err := json.Unmarshal(data, &c.state); err != nil {
		return nil, fmt.Errorf("%s is damaged: %w", c.path("state.json"), err)
	}
	return c, nil
}

func (c *cluster) path(parts ...string) string {
	return filepath.Join(append([]string{c.dir}, parts...)...)
}

func (c *cluster) say(format string, args ...any) {
	fmt.Fprintf(c.progress, "devcluster: "+format+"\n", args...)
}

func (c *cluster) save() error {
	data, err := json.MarshalIndent(c.state, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return err
	}
	// Renamed into place: a reader never sees half of it.
	if err := os.WriteFile(c.path("state.json.new"), data, 0o600); err != nil {
		return err
	}
	return os.Rename(c.path("state.json.new"), c.path("state.json"))
}

// run starts a component and remembers it.
func (c *cluster) run(s spec) error {
	p, err := start(s, c.path("logs"))
	if err != nil {
		return err
	}
	c.state.Processes = append(c.state.Processes, p)
	return c.save()
}

// check returns nil when the cluster is complete and every component runs and answers.
func (c *cluster) check(ctx context.Context) error {
	if c.state.Mode == "" {
		return errors.New("there is no such cluster")
	}
	if !c.state.Complete {
		return errors.New("its last start did not come to an end")
	}
	if err := c.dead(); err != nil {
		return err
	}
	if err := c.apiReady(ctx); err != nil {
		return err
	}
	if c.state.Mode == modeReal {
		return c.nodesReady(ctx, 1)
	}
	return c.nodesReady(ctx, len(simulatedNodes))
}

// up starts the cluster unless it is healthy. What a crash or a failed start left behind is removed first.
func (c *cluster) up(ctx context.Context, mode string, settings settings, b *builder) error {
	ctx, cancel := context.WithTimeout(ctx, upTimeout+buildTimeout)
	defer cancel()
	if c.state.Mode != "" {
		check, done := context.WithTimeout(ctx, 5*time.Second)
		err := c.check(check)
		done()
		if err == nil && c.state.Mode == mode && reflect.DeepEqual(c.state.settings, settings) {
			c.say("%s runs already", c.name)
			return nil
		}
		if err == nil {
			return fmt.Errorf("%s runs with --mode=%s and %+v; stop it first", c.name, c.state.Mode, c.state.settings)
		}
		c.say("%s is not healthy (%v); cleaning up", c.name, err)
		if err := c.down(); err != nil {
			return err
		}
	}
	if mode == modeReal {
		if err := c.requireReal(ctx); err != nil {
			return err
		}
	}
	binaries, err := b.ensure(ctx, targetsFor(mode))
	if err != nil {
		return err
	}
	ctx, done := context.WithTimeout(ctx, upTimeout)
	defer done()
	c.state = state{Mode: mode, Binaries: binaries, Ports: map[string]int{}, settings: settings}
	if err := c.save(); err != nil {
		return err
	}
	begin := time.Now()
	if mode == modeReal {
		err = c.startReal(ctx)
	} else {
		err = c.startSimulated(ctx)
	}
	if err != nil {
		return fmt.Errorf("start %s: %w; the logs are in %s", c.name, err, c.path("logs"))
	}
	c.state.Complete = true
	if err := c.save(); err != nil {
		return err
	}
	c.say("%s is ready after %.1f s; KUBECONFIG=%s", c.name, time.Since(begin).Seconds(), c.path("kubeconfig"))
	return nil
}

// down stops everything, last started first, and removes every trace.
func (c *cluster) down() error {
	if c.state.Mode == "" {
		return os.RemoveAll(c.dir)
	}
	var problems []error
	if c.state.Mode == modeReal {
		problems = append(problems, c.stopReal())
	}
	for _, p := range slices.Backward(c.state.Processes) {
		problems = append(problems, p.stop())
	}
	if c.state.Mode == modeReal {
		problems = append(problems, c.cleanReal())
	}
	if err := errors.Join(problems...); err != nil {
		return fmt.Errorf("take %s down: %w", c.name, err)
	}
	if err := os.RemoveAll(c.dir); err != nil {
		return fmt.Errorf("remove the state of %s: %w", c.name, err)
	}
	c.state = state{}
	return nil
}
