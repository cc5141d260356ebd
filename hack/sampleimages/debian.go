package sampleimages

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// aptTimeout bounds a download of packages.
const aptTimeout = 2 * time.Minute

// facts reads an embedded table: fields separated by blanks, lines that start with # are remarks.
func facts(name string) ([][]string, error) {
	content, err := embedded.ReadFile("data/" + name)
	if err != nil {
		return nil, err
	}
	var rows [][]string
	for line := range strings.Lines(string(content)) {
		if fields := strings.Fields(line); len(fields) > 0 && fields[0] != "#" {
			rows = append(rows, fields)
		}
	}
	return rows, nil
}

// buildDebian unpacks real packages and writes the database that dpkg would have written.
func buildDebian(ctx context.Context, w *workshop) (built, error) {
	packages, err := w.download(ctx, func(string) bool { return true })
	if err != nil {
		if ctx.Err() != nil {
			return built{}, err
		}
		files, factsErr := bullseye()
		if factsErr != nil {
			return built{}, factsErr
		}
		image, imageErr := w.sleeping(ctx, files)
		return built{image: image, note: fmt.Sprintf("no Debian packages could be had (%v); the image holds a package database of Debian 11 without the packages' files", err)}, imageErr
	}
	files := rootfs{}
	var status bytes.Buffer
	for _, deb := range packages {
		if err := installDeb(ctx, deb, files, &status); err != nil {
			return built{}, fmt.Errorf("install %s: %w", filepath.Base(deb), err)
		}
	}
	files.add("var/lib/dpkg/status", status.Bytes())
	image, err := w.sleeping(ctx, files)
	return built{image: image}, err
}

// download fetches the listed packages that this machine's apt knows, and returns the files' paths, sorted.
func (w *workshop) download(ctx context.Context, wanted func(string) bool) ([]string, error) {
	if !hasCommands("apt-get", "apt-cache", "dpkg-deb") {
		return nil, errors.New("this machine has no apt")
	}
	rows, err := facts("debian-packages.txt")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, aptTimeout)
	defer cancel()
	var names []string
	for _, row := range rows {
		if wanted(row[0]) {
			names = append(names, row[0])
		}
	}
	known, err := aptCandidates(ctx, names)
	if err != nil {
		return nil, err
	}
	if len(known) == 0 {
		return nil, errors.New("apt knows none of them, perhaps for want of `apt-get update`")
	}
	folder, err := os.MkdirTemp(w.temp, "debs-")
	if err != nil {
		return nil, err
	}
	command := exec.CommandContext(ctx, "apt-get", append([]string{"download", "-q", "-q"}, known...)...)
	command.Dir = folder
	command.Env = append(os.Environ(), "LC_ALL=C")
	if text, err := command.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("apt-get download: %w: %s", err, lastLines(text))
	}
	debs, err := filepath.Glob(filepath.Join(folder, "*.deb"))
	slices.Sort(debs)
	if len(debs) == 0 && err == nil {
		err = errors.New("apt-get download fetched nothing")
	}
	return debs, err
}

// aptCandidates returns those of the names that apt could install.
func aptCandidates(ctx context.Context, names []string) ([]string, error) {
	command := exec.CommandContext(ctx, "apt-cache", append([]string{"policy"}, names...)...)
	command.Env = append(os.Environ(), "LC_ALL=C")
	text, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("apt-cache policy: %w", err)
	}
	var known []string
	current := ""
	for line := range strings.Lines(string(text)) {
		if name, found := strings.CutSuffix(strings.TrimSpace(line), ":"); found && !strings.HasPrefix(line, " ") {
			current = name
		}
		if candidate, found := strings.CutPrefix(strings.TrimSpace(line), "Candidate: "); found && candidate != "(none)" {
			known = append(known, current)
		}
	}
	return known, nil
}

// installDeb adds a package's files and its entries in dpkg's database.
func installDeb(ctx context.Context, deb string, files rootfs, status *bytes.Buffer) error {
	own := rootfs{}
	if err := debFiles(ctx, deb, own, keepDebian); err != nil {
		return err
	}
	control, err := exec.CommandContext(ctx, "dpkg-deb", "--field", deb).Output()
	if err != nil {
		return fmt.Errorf("read its fields: %w", err)
	}
	fields := controlFields(string(control))
	name := fields["Package"]
	if name == "" {
		return errors.New("it has no name")
	}
	first, rest, _ := strings.Cut(strings.TrimSpace(string(control)), "\n")
	fmt.Fprintf(status, "%s\nStatus: install ok installed\n%s\n\n", first, rest)
	info := "var/lib/dpkg/info/" + name
	if fields["Multi-Arch"] == "same" {
		info += ":" + fields["Architecture"]
	}
	var list []string
	for path, n := range own {
		files[path] = n
		list = append(list, "/"+path)
	}
	slices.Sort(list)
	files.add(info+".list", []byte("/.\n"+strings.Join(list, "\n")+"\n"))
	// A package without the sums has no such member.
	if sums, err := exec.CommandContext(ctx, "dpkg-deb", "--info", deb, "md5sums").Output(); err == nil {
		files.add(info+".md5sums", sums)
	}
	return nil
}

// keepDebian leaves out what takes space and tells a scanner nothing.
func keepDebian(name string) bool {
	for _, prefix := range []string{"usr/share/man/", "usr/share/info/", "usr/share/locale/", "usr/share/i18n/", "usr/lib/x86_64-linux-gnu/gconv/", "usr/lib/aarch64-linux-gnu/gconv/", "usr/lib/python3/dist-packages/__pycache__/"} {
		if strings.HasPrefix(name, prefix) {
			return false
		}
	}
	return !strings.HasPrefix(name, "usr/share/doc/") || strings.HasSuffix(name, "/copyright")
}

func debFiles(ctx context.Context, deb string, files rootfs, keep func(string) bool) error {
	command := exec.CommandContext(ctx, "dpkg-deb", "--fsys-tarfile", deb)
	output, err := command.StdoutPipe()
	if err != nil {
		return err
	}
	if err := command.Start(); err != nil {
		return err
	}
	readErr := files.addTar(output, keep)
	if err := command.Wait(); err != nil && readErr == nil {
		return fmt.Errorf("unpack it: %w", err)
	}
	return readErr
}

func controlFields(control string) map[string]string {
	fields := map[string]string{}
	for line := range strings.Lines(control) {
		if key, value, found := strings.Cut(line, ":"); found && !strings.HasPrefix(line, " ") {
			fields[key] = strings.TrimSpace(value)
		}
	}
	return fields
}

func buildBullseye(ctx context.Context, w *workshop) (built, error) {
	files, err := bullseye()
	if err != nil {
		return built{}, err
	}
	image, err := w.sleeping(ctx, files)
	return built{image: image}, err
}

// bullseye is the package database of a Debian 11.0, without the packages' files.
func bullseye() (rootfs, error) {
	rows, err := facts("debian-bullseye.txt")
	if err != nil {
		return nil, err
	}
	files := rootfs{}
	files.add("etc/os-release", []byte("PRETTY_NAME=\"Debian GNU/Linux 11 (bullseye)\"\nNAME=\"Debian GNU/Linux\"\nVERSION_ID=\"11\"\nVERSION=\"11 (bullseye)\"\nVERSION_CODENAME=bullseye\nID=debian\n"))
	files.add("etc/debian_version", []byte("11.0\n"))
	var status bytes.Buffer
	for _, row := range rows {
		fmt.Fprintf(&status, "Package: %s\nStatus: install ok installed\nPriority: optional\nSection: misc\nArchitecture: amd64\n", row[0])
		switch len(row) {
		case 3:
			fmt.Fprintf(&status, "Source: %s\n", row[2])
		case 4:
			fmt.Fprintf(&status, "Source: %s (%s)\n", row[2], row[3])
		}
		fmt.Fprintf(&status, "Version: %s\nMaintainer: Debian Maintainers\nDescription: sample entry of the package database\n\n", row[1])
	}
	files.add("var/lib/dpkg/status", status.Bytes())
	return files, nil
}
