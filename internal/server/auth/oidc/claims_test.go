package oidc

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// Users and groups are those of kube-apiserver with the same flags and claims.
func TestUser(t *testing.T) {
	const issuer = "https://id.example/realm"
	for name, test := range map[string]struct {
		config Config
		claims string
		user   string
		groups []string
		fails  string
	}{
		"defaults":                                 {Config{}, `{"sub":"7"}`, issuer + "#7", nil, ""},
		"another claim":                            {Config{UsernameClaim: "name"}, `{"name":"a"}`, issuer + "#a", nil, ""},
		"a prefix":                                 {Config{UsernamePrefix: "oidc:"}, `{"sub":"a"}`, "oidc:a", nil, ""},
		"no prefix":                                {Config{UsernamePrefix: "-"}, `{"sub":"a"}`, "a", nil, ""},
		"e-mail has no default prefix":             {Config{UsernameClaim: "email"}, `{"email":"a@b"}`, "a@b", nil, ""},
		"e-mail with a prefix":                     {Config{UsernameClaim: "email", UsernamePrefix: "x"}, `{"email":"a@b"}`, "xa@b", nil, ""},
		"e-mail without a prefix":                  {Config{UsernameClaim: "email", UsernamePrefix: "-"}, `{"email":"a@b","email_verified":true}`, "a@b", nil, ""},
		"an e-mail that is not verified":           {Config{UsernameClaim: "email"}, `{"email":"a@b","email_verified":false}`, "", nil, "not verified"},
		"e-mail verified by a string":              {Config{UsernameClaim: "email"}, `{"email":"a@b","email_verified":"true"}`, "", nil, "another type"},
		"another claim with an unverified e-mail":  {Config{}, `{"sub":"a","email_verified":false}`, issuer + "#a", nil, ""},
		"a missing claim":                          {Config{UsernameClaim: "name"}, `{"sub":"a"}`, "", nil, "missing"},
		"an empty name":                            {Config{}, `{"sub":""}`, "", nil, "empty"},
		"a number":                                 {Config{}, `{"sub":1}`, "", nil, "another type"},
		"a name of Kubernetes":                     {Config{UsernamePrefix: "-"}, `{"sub":"system:admin"}`, "", nil, "reserved"},
		"a prefix that makes a name of Kubernetes": {Config{UsernamePrefix: "system"}, `{"sub":":admin"}`, "", nil, "reserved"},
		"a name of Kubernetes with a prefix":       {Config{UsernamePrefix: "oidc:"}, `{"sub":"system:admin"}`, "oidc:system:admin", nil, ""},
		"a name that is too long":                  {Config{}, fmt.Sprintf(`{"sub":%q}`, strings.Repeat("a", 512)), "", nil, "exceeds the maximum of 512"},
		"a name with control characters":           {Config{}, `{"sub":"a\u0000b"}`, "", nil, "not text"},
		"groups without a claim for them":          {Config{}, `{"sub":"a","groups":["x"]}`, issuer + "#a", nil, ""},
		"groups":                                   {Config{GroupsClaim: "groups"}, `{"sub":"a","groups":["x","y"]}`, issuer + "#a", []string{"x", "y"}, ""},
		"groups with a prefix":                     {Config{GroupsClaim: "roles", GroupsPrefix: "o:"}, `{"sub":"a","roles":["x","y"]}`, issuer + "#a", []string{"o:x", "o:y"}, ""},
		"a group as a string":                      {Config{GroupsClaim: "groups", GroupsPrefix: "o:"}, `{"sub":"a","groups":"x y"}`, issuer + "#a", []string{"o:x y"}, ""},
		"no groups":                                {Config{GroupsClaim: "groups"}, `{"sub":"a"}`, issuer + "#a", nil, ""},
		"an empty list of groups":                  {Config{GroupsClaim: "groups"}, `{"sub":"a","groups":[]}`, issuer + "#a", nil, ""},
		"groups that are null":                     {Config{GroupsClaim: "groups"}, `{"sub":"a","groups":null}`, issuer + "#a", nil, ""},
		"a group that is a number":                 {Config{GroupsClaim: "groups"}, `{"sub":"a","groups":["x",1]}`, "", nil, "neither a string nor a list"},
		"a group of Kubernetes":                    {Config{GroupsClaim: "groups"}, `{"sub":"a","groups":["system:masters"]}`, "", nil, "reserved"},
		"groups in another place":                  {Config{GroupsClaim: "groups"}, `{"sub":"a","_claim_names":{"groups":"s"}}`, "", nil, "too many"},
		"something else in another place":          {Config{GroupsClaim: "groups"}, `{"sub":"a","_claim_names":{"x":"s"}}`, issuer + "#a", nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			test.config.Issuer, test.config.ClientID = issuer, "client"
			if err := test.config.Validate(); err != nil {
				t.Fatal(err)
			}
			claims := claims{}
			if err := json.Unmarshal([]byte(test.claims), &claims); err != nil {
				t.Fatal(err)
			}
			user, err := test.config.user(claims)
			if test.fails != "" {
				if err == nil || !strings.Contains(err.Error(), test.fails) {
					t.Errorf("%+v, %v; want %q", user, err, test.fails)
				}
				return
			}
			if err != nil || user.Username != test.user || !slices.Equal(user.Groups, append(test.groups, "system:authenticated")) {
				t.Errorf("%q with %q, %v; want %q with %q", user.Username, user.Groups, err, test.user, test.groups)
			}
		})
	}
}
