package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// memory is what the machine looked like before a real cluster was started, so that it can look so again.
type memory struct {
	Sysctls map[string]string `json:"sysctls"`
	// Paths are folders of paths that did not exist.
	Paths []string `json:"paths"`
	// Chains are the iptables chains that existed, as "iptables nat CHAIN".
	Chains []string `json:"chains"`
	// Namespaces are the named network namespaces that existed.
	Namespaces []string `json:"namespaces"`
}

// sysctls that the kubelet, kube-proxy or this program set.
var sysctls = []string{
	"net/ipv4/ip_forward", "vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops",
	"kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes",
}

// paths that the kubelet, containerd and CNI make whatever they are told.
var paths = []string{containerdState, "/var/lib/kubelet", "/var/log/containers", "/var/log/pods", "/run/containerd", "/var/lib/cni", "/run/netns"}

func (c *cluster) remember(ctx context.Context) error {
	m := memory{Sysctls: map[string]string{}}
	for _, name := range sysctls {
		if value, err := os.ReadFile("/proc/sys/" + name); err == nil {
			m.Sysctls[name] = strings.TrimSpace(string(value))
		}
	}
	for _, path := range paths {
		if _, err := os.Lstat(path); errors.Is(err, os.ErrNotExist) {
			m.Paths = append(m.Paths, path)
		}
	}
	if _, err := os.Stat("/sys/class/net/" + bridge); err == nil {
		return fmt.Errorf("the network interface %s exists already; another real cluster may be running, or one was not taken down: devcluster down --name=NAME", bridge)
	}
	tables, err := readTables(ctx)
	if err != nil {
		return err
	}
	for _, t := range tables {
		for _, chain := range t.chains {
			if chain == "KUBE-SERVICES" {
				return errors.New("another kube-proxy works on this machine; a second one would break both")
			}
			m.Chains = append(m.Chains, t.id()+" "+chain)
		}
	}
	m.Namespaces = namespaces()
	c.state.Memory = &m
	return c.save()
}

func namespaces() (names []string) {
	entries, _ := os.ReadDir("/run/netns")
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// prepareMachine makes the bridge, which has to exist before the API server listens on its address, and the cgroup.
func (c *cluster) prepareMachine(ctx context.Context) error {
	for _, args := range [][]string{
		{"link", "add", bridge, "type", "bridge"}, {"address", "add", gateway + "/24", "dev", bridge}, {"link", "set", bridge, "up"},
	} {
		if err := command(ctx, nil, "ip", args...); err != nil {
			return fmt.Errorf("make the bridge of the pods: %w", err)
		}
	}
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644); err != nil {
		return fmt.Errorf("let the machine forward packets: %w", err)
	}
	for _, dir := range cgroupDirs() {
		if err := makeCgroup(dir); err != nil {
			return fmt.Errorf("make the cgroup of the pods: %w", err)
		}
	}
	return nil
}

// cgroupDirs are the folders of our cgroup: one with version 2, one for each controller with version 1.
func cgroupDirs() []string {
	const root = "/sys/fs/cgroup"
	if _, err := os.Stat(root + "/cgroup.controllers"); err == nil {
		return []string{filepath.Join(root, cgroup)}
	}
	var dirs []string
	for _, controller := range []string{"blkio", "cpu", "cpuacct", "cpuset", "devices", "freezer", "hugetlb", "memory", "net_cls", "net_prio", "perf_event", "pids", "systemd"} {
		hierarchy, err := filepath.EvalSymlinks(filepath.Join(root, controller))
		if err != nil {
			continue
		}
		if dir := filepath.Join(hierarchy, cgroup); !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

func makeCgroup(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	// A cpuset without processors and memory takes no process, and a new one has none.
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		value, err := os.ReadFile(filepath.Join(filepath.Dir(dir), file))
		if err != nil {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, file), value, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// stopReal ends the node and every container on it, while containerd still runs.
func (c *cluster) stopReal() error {
	for _, p := range slices.Backward(c.state.Processes) {
		if p.Name == "kubelet" || p.Name == "kube-proxy" || p.Name == "coredns" {
			if err := p.stop(); err != nil {
				return err
			}
		}
	}
	return c.endContainers()
}

// cleanReal gives the machine back as it was.
func (c *cluster) cleanReal() error {
	if c.state.Memory == nil {
		return nil
	}
	var problems []error
	problems = append(problems, c.killShims(), unmountBelow(c.dir), c.removeNamespaces(), c.removeNetwork(), c.removeCgroups())
	for _, path := range c.state.Memory.Paths {
		problems = append(problems, unmountBelow(path), os.RemoveAll(path))
	}
	problems = append(problems, removeMatching("/var/lib/cni/results", bridge+"-"))
	for name, value := range c.state.Memory.Sysctls {
		file := "/proc/sys/" + name
		if now, err := os.ReadFile(file); err == nil && strings.TrimSpace(string(now)) != value {
			problems = append(problems, os.WriteFile(file, []byte(value), 0o644))
		}
	}
	return errors.Join(problems...)
}

func removeMatching(dir, prefix string) error {
	matches, err := filepath.Glob(filepath.Join(dir, prefix+"*"))
	if err != nil {
		return err
	}
	var problems []error
	for _, match := range matches {
		problems = append(problems, os.RemoveAll(match))
	}
	return errors.Join(problems...)
}
