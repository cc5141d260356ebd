package sampleimages

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// buildNodeApp installs an npm tree from a lock file.
func buildNodeApp(ctx context.Context, w *workshop) (built, error) {
	folder, err := os.MkdirTemp(w.temp, "node-app-")
	if err != nil {
		return built{}, err
	}
	if err := unpack("data/node-app", folder); err != nil {
		return built{}, err
	}
	files, note := rootfs{}, ""
	if err := npmInstall(ctx, folder); err != nil {
		if ctx.Err() != nil {
			return built{}, err
		}
		note = fmt.Sprintf("npm could not install the packages (%v); the image holds their package.json files alone", err)
		if err := npmFacts(files); err != nil {
			return built{}, err
		}
	} else if err := addFolder(files, folder, "app", keepNode); err != nil {
		return built{}, err
	}
	image, err := w.sleeping(ctx, files)
	return built{image: image, note: note}, err
}

func npmInstall(ctx context.Context, folder string) error {
	if !hasCommands("npm") {
		return errors.New("this machine has no npm")
	}
	command := exec.CommandContext(ctx, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--no-bin-links", "--loglevel=error")
	command.Dir = folder
	if text, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("npm ci: %w: %s", err, lastLines(text))
	}
	return nil
}

// keepNode leaves out what differs from one npm to the next, and what takes space for nothing.
func keepNode(name string) bool {
	return name != "node_modules/.package-lock.json" && !strings.HasSuffix(name, ".map") && !strings.HasSuffix(name, ".min.js")
}

// npmFacts writes package.json files with the names and versions of the lock file.
func npmFacts(files rootfs) error {
	content, err := embedded.ReadFile("data/node-app/package-lock.json")
	if err != nil {
		return err
	}
	var lock struct {
		Packages map[string]struct {
			Version string `json:"version"`
			License string `json:"license"`
		} `json:"packages"`
	}
	if err := json.Unmarshal(content, &lock); err != nil {
		return fmt.Errorf("read the lock file: %w", err)
	}
	for folder, p := range lock.Packages {
		if folder == "" {
			continue
		}
		name := folder[strings.LastIndex(folder, "node_modules/")+len("node_modules/"):]
		manifest, err := json.MarshalIndent(map[string]string{"name": name, "version": p.Version, "license": p.License}, "", "  ")
		if err != nil {
			return err
		}
		files.add("app/"+folder+"/package.json", manifest)
	}
	return nil
}

// addFolder takes over regular files of a folder of this machine.
func addFolder(files rootfs, folder, target string, keep func(string) bool) error {
	return filepath.WalkDir(folder, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		name, err := filepath.Rel(folder, file)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		if !keep(name) {
			return nil
		}
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		files.add(target+"/"+name, content)
		return nil
	})
}

// buildPythonApp has two parts: Debian's Python packages without Debian's database, and a site-packages folder with
// the metadata that wheels of old versions leave.
func buildPythonApp(ctx context.Context, w *workshop) (built, error) {
	rows, err := facts("python.txt")
	if err != nil {
		return built{}, err
	}
	files, note := rootfs{}, ""
	for _, row := range rows {
		folder := fmt.Sprintf("app/lib/python3.8/site-packages/%s-%s.dist-info/", row[0], row[1])
		files.add(folder+"METADATA", fmt.Appendf(nil, "Metadata-Version: 2.1\nName: %s\nVersion: %s\nSummary: sample entry\n\n", row[0], row[1]))
		files.add(folder+"WHEEL", []byte("Wheel-Version: 1.0\nGenerator: sampleimages\nRoot-Is-Purelib: true\nTag: py3-none-any\n"))
		files.add(folder+"INSTALLER", []byte("pip\n"))
	}
	debs, err := w.download(ctx, func(name string) bool { return strings.HasPrefix(name, "python3-") })
	if err != nil {
		if ctx.Err() != nil {
			return built{}, err
		}
		note = fmt.Sprintf("no Python packages could be had from Debian (%v); the image holds metadata of wheels alone", err)
	}
	for _, deb := range debs {
		keep := func(name string) bool { return strings.HasPrefix(name, "usr/lib/python3/dist-packages/") }
		if err := debFiles(ctx, deb, files, keep); err != nil {
			return built{}, fmt.Errorf("unpack %s: %w", filepath.Base(deb), err)
		}
	}
	image, err := w.sleeping(ctx, files)
	return built{image: image, note: note}, err
}

// buildAlpine writes the database of apk.
func buildAlpine(ctx context.Context, w *workshop) (built, error) {
	rows, err := facts("alpine.txt")
	if err != nil {
		return built{}, err
	}
	var installed bytes.Buffer
	for _, row := range rows {
		fmt.Fprintf(&installed, "P:%s\nV:%s\nA:x86_64\nS:1\nI:4096\nT:sample entry of the package database\nL:various\no:%s\nF:usr\nF:usr/share\nF:usr/share/%s\nR:facts\n\n", row[0], row[1], row[2], row[0])
	}
	files := rootfs{}
	files.add("lib/apk/db/installed", installed.Bytes())
	files.add("etc/os-release", []byte("NAME=\"Alpine Linux\"\nID=alpine\nVERSION_ID=3.11.0\nPRETTY_NAME=\"Alpine Linux v3.11\"\n"))
	files.add("etc/alpine-release", []byte("3.11.0\n"))
	image, err := w.sleeping(ctx, files)
	return built{image: image}, err
}

// buildJavaApp writes archives as Maven leaves them: one per library, and one that holds all of them.
func buildJavaApp(ctx context.Context, w *workshop) (built, error) {
	rows, err := facts("java.txt")
	if err != nil {
		return built{}, err
	}
	files, nested := rootfs{}, map[string][]byte{}
	for _, row := range rows {
		group, artifact, version := row[0], row[1], row[2]
		jar, err := zipped(map[string][]byte{
			"META-INF/MANIFEST.MF": fmt.Appendf(nil, "Manifest-Version: 1.0\r\nImplementation-Title: %s\r\nImplementation-Version: %s\r\nImplementation-Vendor-Id: %s\r\n\r\n", artifact, version, group),
			fmt.Sprintf("META-INF/maven/%s/%s/pom.properties", group, artifact): fmt.Appendf(nil, "groupId=%s\nartifactId=%s\nversion=%s\n", group, artifact, version),
		})
		if err != nil {
			return built{}, err
		}
		files.add(fmt.Sprintf("app/lib/%s-%s.jar", artifact, version), jar)
		nested[fmt.Sprintf("BOOT-INF/lib/%s-%s.jar", artifact, version)] = jar
	}
	nested["META-INF/MANIFEST.MF"] = []byte("Manifest-Version: 1.0\r\nImplementation-Title: java-app\r\nImplementation-Version: 1.0.0\r\n\r\n")
	whole, err := zipped(nested)
	if err != nil {
		return built{}, err
	}
	files.add("app/java-app-1.0.0.jar", whole)
	image, err := w.sleeping(ctx, files)
	return built{image: image}, err
}

// zipped writes an archive with the files in order and without times.
func zipped(files map[string][]byte) ([]byte, error) {
	names := make([]string, 0, len(files))
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	var out bytes.Buffer
	archive := zip.NewWriter(&out)
	for _, name := range names {
		file, err := archive.Create(name)
		if err != nil {
			return nil, err
		}
		if _, err := file.Write(files[name]); err != nil {
			return nil, err
		}
	}
	if err := archive.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
