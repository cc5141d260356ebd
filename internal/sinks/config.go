package sinks

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/clock"
	"sigs.k8s.io/yaml"
)

// Variable is the environment variable with the Config.
const Variable = "REPORT_SINKS"

// Bounds of a Config.
const (
	maxConfigBytes = 64 << 10
	maxCredentials = 64
	// maxCredentialName is shorter than a DNS label: names of volumes contain it.
	maxCredentialName = 40
)

// Config is what the administrator of the cluster permits. The zero value has no credentials.
type Config struct {
	// Credentials are the names of the entries that sinks can name.
	Credentials []string `json:"credentials,omitempty"`
}

// ParseConfig reads a Config from JSON or YAML. An empty text is the zero value. Errors name the invalid field.
func ParseConfig(text string) (*Config, error) {
	config := &Config{}
	if len(text) > maxConfigBytes {
		return nil, fmt.Errorf("%d bytes are more than the maximum of %d", len(text), maxConfigBytes)
	}
	if err := yaml.UnmarshalStrict([]byte(text), config); err != nil {
		return nil, fmt.Errorf("decode: %w", err)
	}
	if n := len(config.Credentials); n > maxCredentials {
		return nil, fmt.Errorf("credentials: %d entries, the maximum is %d", n, maxCredentials)
	}
	names := map[string]bool{}
	for _, name := range config.Credentials {
		if problems := validation.IsDNS1123Label(name); len(problems) > 0 || len(name) > maxCredentialName || names[name] {
			return nil, fmt.Errorf("credentials: the name %q is not a DNS label of at most %d bytes, or there are two entries with it", name, maxCredentialName)
		}
		names[name] = true
	}
	return config, nil
}

// Factory makes sinks that deliver.
type Factory struct {
	Config *Config
	// Dir has a directory with the files of each credential.
	Dir   string
	Clock clock.PassiveClock
	// PolicyObjects writes policy reports, nil if that is not permitted.
	PolicyObjects PolicyObjects
}
