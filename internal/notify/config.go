package notify

import (
	"fmt"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"
)

// Bounds of a Config.
const (
	// maxConfigBytes leaves room for the name of the variable: Linux permits 128 KiB for both. The chart has the same bound.
	maxConfigBytes = 120 << 10
	maxCredentials = 256
	maxNetworks    = 64
	// maxCredentialName is shorter than a DNS label: names of volumes contain it.
	maxCredentialName = 40
)

// Variable is the environment variable with the Config.
const Variable = "NOTIFICATIONS"

// Config is what the administrator of the cluster permits. The zero value has no credentials, and permits public addresses only.
type Config struct {
	// AllowedNetworks are CIDRs besides the public addresses to which rules may send without a credential, also over plain HTTP.
	AllowedNetworks []string `json:"allowedNetworks,omitempty"`
	// Credentials are the entries that rules can name.
	Credentials []Credential `json:"credentials,omitempty"`

	// Templates are those of the texts of messages.
	Templates Templates `json:"templates,omitzero"`

	networks []netip.Prefix
	texts    *texts
}

// Credential is an entry of secrets. Its files are in a directory with its name.
type Credential struct {
	Name string `json:"name"`
	// Namespaces are those whose rules may use it, "*" for all. Rules of the cluster may use each.
	Namespaces []string `json:"namespaces,omitempty"`
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
	if n := len(config.AllowedNetworks); n > maxNetworks {
		return nil, fmt.Errorf("allowedNetworks: %d entries, the maximum is %d", n, maxNetworks)
	}
	for _, text := range config.AllowedNetworks {
		network, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("allowedNetworks: %q is not a network such as 10.0.0.0/8", text)
		}
		config.networks = append(config.networks, network.Masked())
	}
	if n := len(config.Credentials); n > maxCredentials {
		return nil, fmt.Errorf("credentials: %d entries, the maximum is %d", n, maxCredentials)
	}
	names := map[string]bool{}
	for i := range config.Credentials {
		c := &config.Credentials[i]
		if problems := validation.IsDNS1123Label(c.Name); len(problems) > 0 || len(c.Name) > maxCredentialName || names[c.Name] {
			return nil, fmt.Errorf("credentials: the name %q is not a DNS label of at most %d bytes, or there are two entries with it", c.Name, maxCredentialName)
		}
		names[c.Name] = true
	}
	var err error
	if config.texts, err = newTexts(config.Templates); err != nil {
		return nil, err
	}
	return config, nil
}

// permits refuses a credential that rules of a namespace may not use. It does not tell whether there is such an entry.
func (c *Config) permits(credential, namespace string) error {
	for i := range c.Credentials {
		one := &c.Credentials[i]
		if one.Name == credential && (namespace == "" || slices.Contains(one.Namespaces, namespace) || slices.Contains(one.Namespaces, "*")) {
			return nil
		}
	}
	if namespace == "" {
		return fmt.Errorf("the chart value notifications.credentials has no entry %q", credential)
	}
	return fmt.Errorf("the chart value notifications.credentials has no entry %q for the namespace %s", credential, namespace)
}

// allows reports whether a network in AllowedNetworks contains an address.
func (c *Config) allows(address netip.Addr) bool {
	return slices.ContainsFunc(c.networks, func(n netip.Prefix) bool { return n.Contains(address) })
}
