package main

import (
	"fmt"
	"os"

	"sigs.k8s.io/yaml"
)

// kubeconfig is one cluster with one user.
type kubeconfig struct {
	server        string
	ca, cert, key []byte
}

func (k kubeconfig) encode() ([]byte, error) {
	const name = "devcluster"
	return yaml.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": name,
		"clusters": []any{map[string]any{"name": name, "cluster": map[string]any{
			"server": k.server, "certificate-authority-data": k.ca,
		}}},
		"users": []any{map[string]any{"name": name, "user": map[string]any{
			"client-certificate-data": k.cert, "client-key-data": k.key,
		}}},
		"contexts": []any{map[string]any{"name": name, "context": map[string]any{"cluster": name, "user": name}}},
	})
}

// readKubeconfig reads what encode wrote.
func readKubeconfig(path string) (kubeconfig, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return kubeconfig{}, err
	}
	var file struct {
		Clusters []struct {
			Cluster struct {
				Server string `json:"server"`
				CA     []byte `json:"certificate-authority-data"`
			} `json:"cluster"`
		} `json:"clusters"`
		Users []struct {
			User struct {
				Cert []byte `json:"client-certificate-data"`
				Key  []byte `json:"client-key-data"`
			} `json:"user"`
		} `json:"users"`
	}
	if err := yaml.Unmarshal(data, &file); err != nil {
		return kubeconfig{}, fmt.Errorf("%s: %w", path, err)
	}
	if len(file.Clusters) != 1 || len(file.Users) != 1 {
		return kubeconfig{}, fmt.Errorf("%s does not hold one cluster and one user", path)
	}
	cluster, user := file.Clusters[0].Cluster, file.Users[0].User
	return kubeconfig{server: cluster.Server, ca: cluster.CA, cert: user.Cert, key: user.Key}, nil
}
