package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const cleanTimeout = time.Minute

// restoreFlags keep what the input does not name, and wait for the lock of iptables, which others on the machine take too.
var restoreFlags = []string{"--noflush", "--wait=30"}

// endContainers kills every container in our containerd. When that does not run any more, killShims ends what is left.
func (c *cluster) endContainers() error {
	ctx, cancel := context.WithTimeout(context.Background(), cleanTimeout)
	defer cancel()
	list, err := c.ctrOutput(ctx, "tasks", "list", "--quiet")
	if err != nil {
		return nil
	}
	for id := range strings.FieldsSeq(string(list)) {
		// A task that ends by itself meanwhile is no error.
		_ = c.ctr(ctx, "tasks", "kill", "--signal=SIGKILL", "--all", id)
		_ = c.ctr(ctx, "tasks", "delete", "--force", id)
	}
	list, err = c.ctrOutput(ctx, "containers", "list", "--quiet")
	if err != nil {
		return nil
	}
	for id := range strings.FieldsSeq(string(list)) {
		_ = c.ctr(ctx, "containers", "delete", id)
	}
	return nil
}

// killShims ends the shims of our containerd, which outlive it, and with them what they hold.
func (c *cluster) killShims() error {
	ctx, cancel := context.WithTimeout(context.Background(), cleanTimeout)
	defer cancel()
	return until(ctx, func() error {
		left := 0
		entries, err := os.ReadDir("/proc")
		if err != nil {
			return err
		}
		for _, entry := range entries {
			pid, err := strconv.Atoi(entry.Name())
			if err != nil || !c.ours(pid) {
				continue
			}
			left++
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		if left > 0 {
			return fmt.Errorf("%d processes of containers do not end", left)
		}
		return nil
	})
}

// ours says whether a process is a shim of our containerd or runs in our cgroup.
func (c *cluster) ours(pid int) bool {
	if _, err := startTime(pid); err != nil {
		return false
	}
	if cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err == nil {
		args := strings.Split(string(cmdline), "\x00")
		if strings.Contains(args[0], "containerd-shim") && slices.Contains(args, c.path("containerd.sock")) {
			return true
		}
	}
	groups, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	return err == nil && strings.Contains(string(groups), "/"+cgroup+"/")
}

// unmountBelow unmounts everything below a folder, the deepest first.
func unmountBelow(dir string) error {
	mounts, err := mountPoints(dir)
	if err != nil {
		return err
	}
	for _, mount := range mounts {
		if err := unix.Unmount(mount, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("unmount %s: %w", mount, err)
		}
	}
	return nil
}

func mountPoints(dir string) ([]string, error) {
	data, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return nil, err
	}
	return parseMountPoints(string(data), dir), nil
}

// parseMountPoints returns dir and what is below it from the text of /proc/self/mounts, the deepest first; of what is
// equally deep the last mounted first, since it may hide the one before.
func parseMountPoints(mounts, dir string) (points []string) {
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\043`, "#", `\134`, `\`)
	for line := range strings.Lines(mounts) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		if point := unescape.Replace(fields[1]); point == dir || strings.HasPrefix(point, dir+"/") {
			points = append(points, point)
		}
	}
	slices.Reverse(points)
	slices.SortStableFunc(points, func(a, b string) int { return strings.Count(b, "/") - strings.Count(a, "/") })
	return points
}

// removeNamespaces removes the network namespaces that CNI made for our pods.
func (c *cluster) removeNamespaces() error {
	var problems []error
	for _, name := range namespaces() {
		if slices.Contains(c.state.Memory.Namespaces, name) || !strings.HasPrefix(name, "cni-") {
			continue
		}
		path := filepath.Join("/run/netns", name)
		_ = unix.Unmount(path, unix.MNT_DETACH)
		problems = append(problems, os.Remove(path))
	}
	return errors.Join(problems...)
}

// removeNetwork removes the bridge and the rules that kube-proxy, the kubelet and CNI made.
func (c *cluster) removeNetwork() error {
	ctx, cancel := context.WithTimeout(context.Background(), cleanTimeout)
	defer cancel()
	if _, err := os.Stat("/sys/class/net/" + bridge); err == nil {
		if err := command(ctx, nil, "ip", "link", "delete", bridge); err != nil {
			return fmt.Errorf("remove the bridge of the pods: %w", err)
		}
	}
	tables, err := readTables(ctx)
	if err != nil {
		return err
	}
	var problems []error
	for _, t := range tables {
		if script := t.removal(c.state.Memory.Chains); script != "" {
			problems = append(problems, command(ctx, []byte(script), t.family+"-restore", restoreFlags...))
		}
	}
	return errors.Join(problems...)
}

// table is one table of iptables or ip6tables.
type table struct {
	family, name string
	chains       []string
	// rules are as "-A CHAIN …".
	rules []string
}

func (t table) id() string { return t.family + " " + t.name }

func readTables(ctx context.Context) ([]table, error) {
	var tables []table
	for _, family := range []string{"iptables", "ip6tables"} {
		if _, err := exec.LookPath(family + "-save"); err != nil {
			continue
		}
		saved, err := output(ctx, nil, family+"-save")
		if err != nil {
			if family == "ip6tables" {
				// A kernel without IPv6.
				continue
			}
			return nil, err
		}
		tables = append(tables, parseTables(family, string(saved))...)
	}
	return tables, nil
}

func parseTables(family, saved string) (tables []table) {
	for line := range strings.Lines(saved) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "*"):
			tables = append(tables, table{family: family, name: line[1:]})
		case len(tables) == 0:
		case strings.HasPrefix(line, ":"):
			chain, _, _ := strings.Cut(line[1:], " ")
			tables[len(tables)-1].chains = append(tables[len(tables)-1].chains, chain)
		case strings.HasPrefix(line, "-A "):
			tables[len(tables)-1].rules = append(tables[len(tables)-1].rules, line)
		}
	}
	return tables
}

// removal is the input of iptables-restore that removes the chains of Kubernetes and CNI which are not among known, and the
// rules of other chains that lead to them; "" when there is nothing to remove.
func (t table) removal(known []string) string {
	isOurs := func(chain string) bool {
		return (strings.HasPrefix(chain, "KUBE-") || strings.HasPrefix(chain, "CNI-")) && slices.Contains(t.chains, chain) &&
			!slices.Contains(known, t.id()+" "+chain)
	}
	var flush, remove, rules []string
	for _, chain := range t.chains {
		if isOurs(chain) {
			flush = append(flush, "-F "+chain)
			remove = append(remove, "-X "+chain)
		}
	}
	for _, rule := range t.rules {
		words := strings.Fields(rule)
		if isOurs(words[1]) {
			continue
		}
		for i, word := range words[:len(words)-1] {
			if (word == "-j" || word == "-g") && isOurs(words[i+1]) {
				rules = append(rules, "-D "+strings.TrimPrefix(rule, "-A "))
			}
		}
	}
	if len(flush) == 0 {
		return ""
	}
	lines := slices.Concat([]string{"*" + t.name}, rules, flush, remove, []string{"COMMIT", ""})
	return strings.Join(lines, "\n")
}

// removeCgroups removes our cgroup and all below it.
func (c *cluster) removeCgroups() error {
	ctx, cancel := context.WithTimeout(context.Background(), cleanTimeout)
	defer cancel()
	return until(ctx, func() error {
		// Also in hierarchies where this program made none: the kubelet and runc take all that there are.
		dirs, err := filepath.Glob("/sys/fs/cgroup/*/" + cgroup)
		if err != nil {
			return err
		}
		for _, dir := range append(dirs, "/sys/fs/cgroup/"+cgroup) {
			if err := removeCgroup(dir); err != nil {
				return err
			}
		}
		return nil
	})
}

func removeCgroup(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.IsDir() {
			if err := removeCgroup(filepath.Join(dir, entry.Name())); err != nil {
				return err
			}
		}
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove the cgroup %s: %w", dir, err)
	}
	return nil
}
