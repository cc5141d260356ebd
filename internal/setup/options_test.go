package setup

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestPullSecretOptions(t *testing.T) {
	for name, tt := range map[string]struct {
		names []string
		want  string
	}{
		"none":       {nil, ""},
		"two":        {[]string{"one", "two.example"}, ""},
		"not a name": {[]string{"one", "Two"}, "--scan-image-pull-secrets=Two"},
		"too many":   {slices.Repeat([]string{"one"}, 33), "--scan-image-pull-secrets has 33 names: use at most 32"},
	} {
		err := (&Options{ScanImagePullSecrets: tt.names}).validatePullSecrets()
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q", name, err, tt.want)
		}
	}
}

func TestOwnerKeyOptions(t *testing.T) {
	for name, tt := range map[string]struct {
		keys []string
		want string
	}{
		"none":      {nil, ""},
		"two":       {[]string{"team", "example.com/owner"}, ""},
		"not a key": {[]string{"team", "a team"}, "--owner-keys=a team: "},
		"empty":     {[]string{""}, "--owner-keys=: "},
		"too many":  {slices.Repeat([]string{"team"}, 17), "--owner-keys has 17 keys: use at most 16"},
	} {
		err := (&Options{OwnerKeys: tt.keys}).validateOwnerKeys()
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q", name, err, tt.want)
		}
	}
}

func TestBaseImageOptions(t *testing.T) {
	const digest = "sha256:0123456789012345678901234567890123456789012345678901234567890123"
	for name, tt := range map[string]struct {
		patterns []string
		want     string
	}{
		"none":         {nil, ""},
		"some":         {[]string{"registry.example/base/*", "docker.io/library/debian", "*@" + digest, digest}, ""},
		"a tag":        {[]string{"docker.io/library/debian:12"}, `--base-images: the image pattern "docker.io/library/debian:12" has a tag: remove ":12"`},
		"no registry":  {[]string{"docker.io/library/debian", "debian"}, `--base-images: the image pattern "debian" does not begin with a registry`},
		"empty":        {[]string{""}, "--base-images: "},
		"too long":     {[]string{"docker.io/" + strings.Repeat("a", 503)}, "--base-images: an image pattern has 513 bytes, the maximum is 512"},
		"the most":     {slices.Repeat([]string{"docker.io/library/debian"}, 100), ""},
		"one too many": {slices.Repeat([]string{"docker.io/library/debian"}, 101), "--base-images has 101 entries: use at most 100; one entry can name"},
	} {
		err := (&Options{BaseImages: tt.patterns}).validateBaseImages()
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q", name, err, tt.want)
		}
	}
}

func TestHistoryOptions(t *testing.T) {
	tests := map[string]struct {
		options Options
		want    string
	}{
		"defaults":                {Options{}, ""},
		"a day and a long name":   {Options{HistoryRetention: 24 * time.Hour, ClusterName: strings.Repeat("c", 63)}, ""},
		"less than a day":         {Options{HistoryRetention: 23 * time.Hour}, "--history-retention=23h0m0s: use at least 24h0m0s"},
		"decisions for a day":     {Options{DecisionRetention: 24 * time.Hour}, ""},
		"decisions for hours":     {Options{DecisionRetention: 23 * time.Hour}, "--decision-retention=23h0m0s: use at least 24h0m0s"},
		"too long a cluster name": {Options{ClusterName: strings.Repeat("c", 64)}, "--cluster-name has 64 bytes"},
		"a name that is no text":  {Options{ClusterName: "\xff"}, "--cluster-name has 1 bytes: use valid UTF-8"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			err := tt.options.validateHistory()
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			if err == nil && (tt.options.HistoryRetention == 0 || tt.options.DecisionRetention == 0) {
				t.Error("there is no default")
			}
		})
	}
}
