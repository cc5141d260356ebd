package setup

import (
	"strings"
	"testing"

	"github.com/scanner-operator/scanner-operator/internal/server/auth/frontproxy"
)

func TestFrontProxyOptions(t *testing.T) {
	users, groups := []string{"X-Remote-User"}, []string{"X-Remote-Group"}
	trusted := frontproxy.Config{ClientCAFile: "/ca.crt", UsernameHeaders: users, GroupHeaders: groups}
	for name, test := range map[string]struct {
		front frontproxy.Config
		mode  AuthMode
		tls   TLSMode
		want  string
	}{
		"defaults":                {frontproxy.Config{UsernameHeaders: users, GroupHeaders: groups}, AuthNone, TLSOff, ""},
		"a certificate authority": {trusted, AuthKubernetes, TLSOperator, ""},
		"no groups":               {frontproxy.Config{ClientCAFile: "/ca.crt", UsernameHeaders: users}, AuthKubernetes, TLSFiles, ""},
		"no TLS":                  {trusted, AuthKubernetes, TLSOff, "requires TLS, --tls=operator or --tls=files"},
		"no permissions":          {trusted, AuthNone, TLSOperator, "requires --auth=kubernetes"},
		"names of nobody":         {frontproxy.Config{AllowedNames: []string{"a"}}, AuthKubernetes, TLSOperator, "--requestheader-allowed-names requires --requestheader-client-ca-file"},
		"no header":               {frontproxy.Config{ClientCAFile: "/ca.crt"}, AuthKubernetes, TLSOperator, "the other --requestheader flags: the header with the user name is missing"},
	} {
		options := Options{Auth: test.mode, TLS: TLS{Mode: test.tls}, SignIn: SignIn{FrontProxy: test.front}}
		err := options.validateFrontProxy()
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", name, err, test.want)
		}
	}
}
