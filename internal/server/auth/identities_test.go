package auth

import (
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
)

// What is remembered of one user is not taken for that of another, whatever names groups and values have. The order of groups does not matter, nor
// which token proved who the user is.
func TestIdentities(t *testing.T) {
	t.Parallel()
	type extra = map[string]authenticationv1.ExtraValue
	r := &reviewer{keys: newKeyer()}
	users := []authenticationv1.UserInfo{
		{Username: "a"},
		{Username: "a", UID: "b"},
		{Username: "a", Groups: []string{"b"}},
		{Username: "a", Groups: []string{"b", "c"}},
		{Username: "a", Groups: []string{"b\x00c"}},
		{Username: "a\x00b"},
		{Username: "a", Extra: extra{"k": {"v"}}},
		{Username: "a", Groups: []string{"k", "v"}},
		{Username: "a", Groups: []string{"1", "k", "v"}},
		{Username: "a", Groups: []string{"extra", "k", "v"}},
		{Username: "a", Extra: extra{"k": {"v", "l", "w"}}},
		{Username: "a", Extra: extra{"k": {"v"}, "l": {"w"}}},
		{Username: "a", Extra: extra{"k": {"v", "extra", "l", "w"}}},
	}
	known := map[cacheKey]int{}
	for i, user := range users {
		key := r.identityKey(user)
		if other, found := known[key]; found {
			t.Errorf("%+v and %+v are the same", users[other], user)
		}
		known[key] = i
	}
	one := r.identityKey(authenticationv1.UserInfo{Username: "a", Groups: []string{"b", "c"}, Extra: extra{credentialID: {"1"}}})
	if other := r.identityKey(authenticationv1.UserInfo{Username: "a", Groups: []string{"c", "b"}, Extra: extra{credentialID: {"2"}}}); one != other {
		t.Error("one user has two keys")
	}
}
