// Command credentialprovider is a credential provider of the kubelet. It is started with the name of a file with user:password, which are the
// credentials for all images that the kubelet asks for.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

const version = "credentialprovider.kubelet.k8s.io/v1"

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "credentialprovider:", err)
		os.Exit(1)
	}
}

func run() error {
	var request struct {
		Kind       string `json:"kind"`
		APIVersion string `json:"apiVersion"`
		Image      string `json:"image"`
	}
	if err := json.NewDecoder(os.Stdin).Decode(&request); err != nil {
		return fmt.Errorf("decode the request: %w", err)
	}
	if request.Kind != "CredentialProviderRequest" || request.APIVersion != version {
		return fmt.Errorf("unexpected request %s of %s", request.Kind, request.APIVersion)
	}
	content, err := os.ReadFile(os.Args[1])
	if err != nil {
		return err
	}
	user, password, _ := strings.Cut(string(content), ":")
	registry, _, _ := strings.Cut(request.Image, "/")
	return json.NewEncoder(os.Stdout).Encode(map[string]any{
		"kind": "CredentialProviderResponse", "apiVersion": version, "cacheKeyType": "Image", "cacheDuration": "0s",
		"auth": map[string]any{registry: map[string]string{"username": user, "password": password}},
	})
}
