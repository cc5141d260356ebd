package frontproxy_test

import (
	"encoding/pem"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/server/auth/frontproxy"
	"github.com/scanner-operator/scanner-operator/internal/server/auth/frontproxy/frontproxytest"
)

func encodePEM(kind string, content []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content})
}

// headers reads lines as a server does.
func headers(lines ...string) http.Header {
	h := http.Header{}
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		h.Add(name, value)
	}
	return h
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	p := newProxy(t, frontproxytest.New(t, "trusted").File(), nil)
	for name, test := range map[string]struct {
		headers http.Header
		// user is "" for nobody.
		user   string
		groups []string
	}{
		"nothing":                      {headers(), "", nil},
		"groups of nobody":             {headers("X-Remote-Group: a"), "", nil},
		"an empty name":                {headers("X-Remote-User: ", "X-Other-User:   "), "", nil},
		"a name":                       {headers("X-Remote-User: alice"), "alice", []string{"system:authenticated"}},
		"in lower case":                {headers("x-remote-user: alice", "x-remote-group: a"), "alice", []string{"a", "system:authenticated"}},
		"the first of two headers":     {headers("X-Other-User: mallory", "X-Remote-User: alice"), "alice", []string{"system:authenticated"}},
		"the second, without a first":  {headers("X-Other-User: bob", "X-Remote-User: "), "bob", []string{"system:authenticated"}},
		"spaces":                       {headers("X-Remote-User:  alice smith ", "X-Remote-Group:  a b "), "alice smith", []string{"a b", "system:authenticated"}},
		"a group per value":            {headers("X-Remote-User: a", "X-Remote-Group: CN=x,OU=y", "X-Other-Group: z", "X-Remote-Group: ", "X-Remote-Group: w"), "a", []string{"CN=x,OU=y", "w", "z", "system:authenticated"}},
		"names of Kubernetes":          {headers("X-Remote-User: system:serviceaccount:a:b", "X-Remote-Group: system:masters"), "system:serviceaccount:a:b", []string{"system:masters", "system:authenticated"}},
		"authenticated already":        {headers("X-Remote-User: a", "X-Remote-Group: system:authenticated"), "a", []string{"system:authenticated"}},
		"not authenticated":            {headers("X-Remote-User: a", "X-Remote-Group: system:unauthenticated"), "a", []string{"system:unauthenticated"}},
		"the user who has not":         {headers("X-Remote-User: system:anonymous", "X-Other-User: bob"), "", nil},
		"underscores":                  {headers("X_Remote_User: alice", "X-Remote_User: alice", "X_Remote_Group: a"), "", nil},
		"similar names":                {headers("X-Remote-Users: alice", "X-Remote-User-: alice", "Remote-User: alice", "X-Remote\u2010User: alice"), "", nil},
		"names beyond ASCII":           {headers("X-Remote-User: Zoë", "X-Remote-Group: équipe"), "Zoë", []string{"équipe", "system:authenticated"}},
		"another header, which is not": {headers("X-Remote-User: alice", "X-Remote-Groups: system:masters", "X-Remote-Extra-Scopes: a", "X-Remote-Uid: 1", "Impersonate-User: root", "Impersonate-Group: system:masters"), "alice", []string{"system:authenticated"}},
	} {
		if got := p.Names(test.headers); got != (test.user != "") {
			t.Errorf("%s: names somebody: %t", name, got)
			continue
		}
		if test.user == "" {
			continue
		}
		got, err := p.User(test.headers)
		if err != nil || got.Username != test.user || got.UID != "" || got.Extra != nil {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		if diff := cmp.Diff(test.groups, got.Groups); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestHeadersAreRefused(t *testing.T) {
	t.Parallel()
	p := newProxy(t, frontproxytest.New(t, "trusted").File(), nil)
	many := headers("X-Remote-User: alice")
	for i := range 500 {
		many.Add([]string{"X-Remote-Group", "X-Other-Group"}[i%2], "g"+strconv.Itoa(i))
	}
	if user, err := p.User(many); err != nil || len(user.Groups) != 501 {
		t.Errorf("500 groups: %d, %v", len(user.Groups), err)
	}
	many.Add("X-Other-Group", "one more")
	long := strings.Repeat("x", 512)
	if user, err := p.User(headers("X-Remote-User: "+long, "X-Remote-Group: "+long)); err != nil || user.Username != long {
		t.Errorf("names of 512 bytes: %v", err)
	}
	for name, test := range map[string]struct {
		headers http.Header
		want    string
	}{
		"two users":                {headers("X-Remote-User: mallory", "X-Remote-User: alice"), "the header X-Remote-User has 2 values: the proxy must replace those that clients send"},
		"the same user twice":      {headers("X-Remote-User: alice", "x-remote-user: alice"), "has 2 values"},
		"nobody and a user":        {headers("X-Remote-User: system:anonymous", "X-Remote-User: alice"), "has 2 values"},
		"too many groups":          {many, "the header X-Other-Group names group 501 and more, which exceeds the maximum of 500"},
		"a long name":              {headers("X-Remote-User: x" + long), "has 513 bytes, which exceeds the maximum of 512"},
		"a long group":             {headers("X-Remote-User: a", "X-Other-Group: x"+long), "the header X-Other-Group has 513 bytes"},
		"a control character":      {headers("X-Remote-User: a\x00b"), "is not text"},
		"a line break in a group":  {headers("X-Remote-User: a", "X-Remote-Group: a\nb"), "is not text"},
		"a C1 control in a group":  {headers("X-Remote-User: a", "X-Remote-Group: a\u0085b"), "is not text"},
		"other encodings":          {headers("X-Remote-User: Zo\xeb"), "is not text in UTF-8"},
		"other encodings of group": {headers("X-Remote-User: a", "X-Remote-Group: \xff"), "is not text in UTF-8"},
	} {
		if !p.Names(test.headers) {
			t.Errorf("%s: names nobody", name)
		}
		if user, err := p.User(test.headers); err == nil || !strings.Contains(err.Error(), test.want) || user.Username != "" {
			t.Errorf("%s: %+v, %v, want %q", name, user, err, test.want)
		}
	}
}

func TestConfigurationIsRefused(t *testing.T) {
	t.Parallel()
	file := frontproxytest.New(t, "trusted").File()
	for name, test := range map[string]struct {
		config frontproxy.Config
		want   string
	}{
		"no file":               {frontproxy.Config{UsernameHeaders: []string{"X-User"}}, "certificate authorities of proxies is missing"},
		"no header":             {frontproxy.Config{ClientCAFile: file}, "header with the user name is missing"},
		"many headers":          {frontproxy.Config{ClientCAFile: file, UsernameHeaders: slices.Repeat([]string{"X-User"}, 9)}, "at most 8"},
		"many groups":           {frontproxy.Config{ClientCAFile: file, UsernameHeaders: []string{"X-User"}, GroupHeaders: slices.Repeat([]string{"X-Group"}, 9)}, "at most 8"},
		"many names":            {frontproxy.Config{ClientCAFile: file, UsernameHeaders: []string{"X-User"}, AllowedNames: slices.Repeat([]string{"a"}, 33)}, "at most 32"},
		"an empty name":         {frontproxy.Config{ClientCAFile: file, UsernameHeaders: []string{"X-User"}, AllowedNames: []string{""}}, "is not a common name"},
		"an underscore":         {frontproxy.Config{ClientCAFile: file, UsernameHeaders: []string{"X_User"}}, `"X_User" is not a header that proxies pass on`},
		"an empty header":       {frontproxy.Config{ClientCAFile: file, UsernameHeaders: []string{"X-User", ""}}, "is not a header"},
		"a colon":               {frontproxy.Config{ClientCAFile: file, UsernameHeaders: []string{"X-User"}, GroupHeaders: []string{"X-Group:"}}, "is not a header"},
		"tokens":                {frontproxy.Config{ClientCAFile: file, UsernameHeaders: []string{"authorization"}}, "the header Authorization has another meaning"},
		"one for both purposes": {frontproxy.Config{ClientCAFile: file, UsernameHeaders: []string{"X-User"}, GroupHeaders: []string{"x-user"}}, "for user names and for groups"},
	} {
		if _, err := frontproxy.New(test.config); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}

// Whatever headers hold, a user has one name and a bounded number of groups, all of them text of bounded length.
func FuzzHeaders(f *testing.F) {
	p := newProxy(f, frontproxytest.New(f, "trusted").File(), nil)
	f.Add("X-Remote-User", "alice", "x-remote-group", "a", "X-Remote-Group", "b")
	f.Add("X-Remote-User", "alice", "X-REMOTE-USER", "mallory", "X-Other-User", "")
	f.Add("X-Remote-User", "system:anonymous", "X_Remote_User", "\x00", "X-Other-Group", strings.Repeat("x", 600))
	f.Fuzz(func(t *testing.T, name1, value1, name2, value2, name3, value3 string) {
		h := http.Header{}
		h.Add(name1, value1)
		h.Add(name2, value2)
		h.Add(name3, value3)
		if !p.Names(h) {
			return
		}
		user, err := p.User(h)
		if err != nil {
			return
		}
		if len(h.Values("X-Remote-User")) == 0 && len(h.Values("X-Other-User")) == 0 {
			t.Errorf("%q is named by %q", user.Username, h)
		}
		if len(user.Groups) == 0 || len(user.Groups) > 501 {
			t.Errorf("%d groups", len(user.Groups))
		}
		for _, text := range append(user.Groups, user.Username) {
			if text == "" || len(text) > 512 || !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
				t.Errorf("%q is a name", text)
			}
		}
	})
}
