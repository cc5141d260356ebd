package main

import (
	"fmt"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"sigs.k8s.io/yaml"
)

// krewPlugin is a manifest of krew, the plugin manager of kubectl.
type krewPlugin struct {
	APIVersion string       `json:"apiVersion"`
	Kind       string       `json:"kind"`
	Metadata   krewMetadata `json:"metadata"`
	Spec       krewSpec     `json:"spec"`
}

type krewMetadata struct {
	Name string `json:"name"`
}

type krewSpec struct {
	Version          string         `json:"version"`
	Homepage         string         `json:"homepage"`
	ShortDescription string         `json:"shortDescription"`
	Description      string         `json:"description"`
	Caveats          string         `json:"caveats"`
	Platforms        []krewPlatform `json:"platforms"`
}

type krewPlatform struct {
	Selector krewSelector `json:"selector"`
	URI      string       `json:"uri"`
	SHA256   string       `json:"sha256"`
	Files    []krewFile   `json:"files"`
	Bin      string       `json:"bin"`
}

type krewSelector struct {
	MatchLabels map[string]string `json:"matchLabels"`
}

type krewFile struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// kubectlPlugin is the name under which kubectl starts the operator's binary as a plugin.
const kubectlPlugin = "kubectl-scanner"

// writeKrew writes the manifest of the kubectl plugin: the binary of each archive under another name.
func writeKrew(src *source, platforms []v1.Platform, downloads, dir string) error {
	plugin := krewPlugin{
		APIVersion: "krew.googlecontainertools.github.com/v1alpha2", Kind: "Plugin", Metadata: krewMetadata{"scanner"},
		Spec: krewSpec{
			Version: src.Version, Homepage: repository, ShortDescription: "Show images and vulnerabilities of the cluster",
			Description: "Shows the images that run in the cluster, their vulnerabilities, why an image has one,\n" +
				"which workloads are affected, and events as they happen. It reads the API of\nscanner-operator, which must run in the cluster.\n",
			Caveats: "The operator needs a token of a ServiceAccount whose tokens you may create:\n  kubectl scanner images --service-account NAME\n" +
				"See " + repository + "/blob/main/docs/how-to/kubectl.md\n",
		},
	}
	for _, platform := range platforms {
		name := archiveName(src, platform)
		sum, err := fileSum(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		plugin.Spec.Platforms = append(plugin.Spec.Platforms, krewPlatform{
			Selector: krewSelector{map[string]string{"os": platform.OS, "arch": platform.Architecture}},
			URI:      downloads + "/" + src.Version + "/" + name, SHA256: sum,
			Files: []krewFile{{"scanner-operator", kubectlPlugin}, {"LICENSE", "."}}, Bin: kubectlPlugin,
		})
	}
	content, err := yaml.Marshal(plugin)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, fmt.Sprintf("scanner-operator_%s_krew.yaml", src.Version)), content, 0o644)
}
