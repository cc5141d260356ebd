package main

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"sigs.k8s.io/yaml"
)

func TestWriteNodeConfig(t *testing.T) {
	c := &cluster{name: "a", dir: t.TempDir(), progress: t.Output(), state: state{Ports: map[string]int{}}}
	for i, port := range realPorts {
		c.state.Ports[port] = 10000 + i
	}
	if err := c.writeNodeConfig(); err != nil {
		t.Fatal(err)
	}
	placeholder := regexp.MustCompile(`\{[A-Za-z-]+\}`)
	files := 0
	if err := filepath.WalkDir(c.dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		files++
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if left := placeholder.FindAllString(string(data), -1); left != nil {
			t.Errorf("%s holds %q", path, left)
		}
		var content map[string]any
		switch filepath.Ext(path) {
		case ".yaml":
			err = yaml.UnmarshalStrict(data, &content)
		case ".conflist":
			err = json.Unmarshal(data, &content)
		}
		if err != nil {
			t.Errorf("%s: %v", path, err)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if want := 5 + lastRegistryPort - firstRegistryPort + 1; files != want {
		t.Errorf("%d files, want %d", files, want)
	}
	hosts, err := os.ReadFile(c.path("registries", "10.201.0.1:5000", "hosts.toml"))
	if err != nil || !strings.Contains(string(hosts), `[host."http://10.201.0.1:5000"]`) {
		t.Errorf("the registry is not asked over plain HTTP: %s, %v", hosts, err)
	}
}

func TestWritePauseImage(t *testing.T) {
	dir := t.TempDir()
	binary, archive := filepath.Join(dir, "pause"), filepath.Join(dir, "pause.tar")
	if err := os.WriteFile(binary, []byte("binary"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := writePauseImage(binary, archive); err != nil {
		t.Fatal(err)
	}
	tag, err := name.NewTag(pauseImage)
	if err != nil {
		t.Fatal(err)
	}
	image, err := tarball.ImageFromPath(archive, &tag)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.OS != "linux" || len(config.Config.Entrypoint) != 1 || config.Config.Entrypoint[0] != "/pause" {
		t.Errorf("got %+v", config)
	}
}

func TestLastLines(t *testing.T) {
	if got := lastLines("a\nb\nc\n\n", 2); got != "b\nc" {
		t.Errorf("got %q", got)
	}
	if got := lastLines("a", 2); got != "a" {
		t.Errorf("got %q", got)
	}
}
