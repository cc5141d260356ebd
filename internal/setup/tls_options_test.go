package setup

import (
	"slices"
	"strings"
	"testing"

	"github.com/scanner-operator/scanner-operator/internal/servingcert"
)

func TestTLSOptions(t *testing.T) {
	const api, secret = "https://api.system.svc:8000", "api-tls"
	tests := map[string]struct {
		options Options
		want    string
	}{
		"defaults":            {Options{}, ""},
		"plain HTTP":          {Options{Catalog: CatalogJob, APIURL: "http://api:8000", TLS: TLS{Mode: TLSOff}}, ""},
		"the operator's CA":   {Options{Catalog: CatalogJob, APIURL: api, TLS: TLS{Mode: TLSOperator, Secret: secret, Names: []string{"a.example", "10.0.0.1", "fd00::1"}}}, ""},
		"files":               {Options{Catalog: CatalogJob, APIURL: api, TLS: TLS{Mode: TLSFiles, Dir: "/tls"}}, ""},
		"no Jobs":             {Options{Catalog: CatalogInProcess, APIURL: "http://api:8000", TLS: TLS{Mode: TLSFiles, Dir: "/tls"}}, ""},
		"another mode":        {Options{TLS: TLS{Mode: "on"}}, "--tls=on: use operator, files or off"},
		"files of nowhere":    {Options{TLS: TLS{Mode: TLSFiles}}, "--tls=files requires --tls-dir"},
		"no name of a Secret": {Options{TLS: TLS{Mode: TLSOperator, Secret: "A_b"}}, "--tls-secret=A_b: "},
		"not a name":          {Options{TLS: TLS{Mode: TLSOperator, Secret: secret, Names: []string{"A b"}}}, `--tls-names: "A b" is neither`},
		"too many names":      {Options{TLS: TLS{Mode: TLSOperator, Secret: secret, Names: make([]string, 51)}}, "use at most 50"},
		"Jobs over HTTP":      {Options{Catalog: CatalogJob, APIURL: "HTTP://api:8000", TLS: TLS{Mode: TLSOperator, Secret: secret}}, "use https://, or --tls=off"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			err := tt.options.validateTLS()
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
	// A CA is given to scan Jobs for longer than the longest of them runs before a certificate needs it.
	if servingcert.Overlap < 2*maxScanDeadline {
		t.Errorf("scan Jobs of %s may outlive the overlap of CAs, %s", maxScanDeadline, servingcert.Overlap)
	}
}

func TestCertificateNames(t *testing.T) {
	local := []string{"localhost", "127.0.0.1", "::1"}
	for url, want := range map[string][]string{
		"":                            nil,
		"https://api.system.svc:8000": {"api.system.svc", "api.system", "api"},
		"https://scanner.example.com": {"scanner.example.com"},
		"https://[fd00::1]:8000":      {"fd00::1"},
	} {
		options := Options{APIURL: url, TLS: TLS{Names: []string{"more.example.com"}}}
		if got := options.certificateNames(); !slices.Equal(got, slices.Concat(want, options.TLS.Names, local)) {
			t.Errorf("%q: %q", url, got)
		}
	}
}
