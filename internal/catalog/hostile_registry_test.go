package catalog

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

// A proxy connects to whatever it is told, so that addresses are refused before it is asked.
func TestHostileRedirectsThroughProxy(t *testing.T) {
	proxy := newBystander(t)
	t.Setenv("HTTPS_PROXY", proxy.url)
	for _, host := range []string{"169.254.169.254", "[fe80::1]", "[fe80::1%25eth0]", "[::ffff:169.254.169.254]", "100.100.100.200", "127.0.0.1", "0.0.0.0"} {
		t.Run(strings.Trim(host, "[]"), func(t *testing.T) {
			client, err := newHTTPClient(hostRules{registry: "registry.example"}, "")
			if err != nil {
				t.Fatal(err)
			}
			// The environment is read once in a process.
			client.Transport.(roundTripper).next.(*http.Transport).Proxy = func(*http.Request) (*url.URL, error) { return url.Parse(proxy.url) }
			defer client.CloseIdleConnections()
			_, err = client.Get("https://" + host + "/latest/meta-data/")
			wantFailure(t, withoutURL(err), model.ReasonRegistryUnavailable, "refused to connect")
		})
	}
	if proxy.asked() != 0 {
		t.Errorf("the proxy is asked %d times", proxy.asked())
	}
}
