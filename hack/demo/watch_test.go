package main

import (
	"encoding/json"
	"testing"
)

func TestSummary(t *testing.T) {
	const image = "r.example/a@sha256:035cdf44c0ee39d0eb8bb06f6aac549578ca124e2de1a5e4723f123705e303fd"
	for name, test := range map[string]struct{ imageID, data, want string }{
		"no data":    {image, `{}`, "r.example/a@035cdf44c0ee"},
		"cataloged":  {image, `{"packages":30,"size":4682353}`, "r.example/a@035cdf44c0ee  30 packages"},
		"matched":    {image, `{"counts":{"critical":4,"high":0,"low":2,"kev":1}}`, "r.example/a@035cdf44c0ee  findings: 4 critical, 2 low"},
		"no finding": {image, `{"counts":{"critical":0}}`, "r.example/a@035cdf44c0ee  findings: none"},
		"failed":     {image, `{"reason":"ImageNotFound","message":"404"}`, "r.example/a@035cdf44c0ee  ImageNotFound  404"},
		"rollout": {
			"a:1", `{"workload":{"namespace":"shop","kind":"Deployment","name":"web"},"opened":{"critical":0},"closed":{"high":3}}`,
			"a:1  shop/web  opened: none  closed: 3 high",
		},
		"scanner": {
			"", `{"object":{"namespace":"n","name":"s"},"detail":{"coverage":"95%","conditions":[{"type":"DatabaseReady","reason":"Current"},` +
				`{"type":"Ready","status":"True","reason":"Reconciled","message":"All is scanned."}]}}`,
			"n/s  coverage 95%  Reconciled: All is scanned.",
		},
		"deleted":  {"", `{"object":{"namespace":"n","name":"s"},"detail":{"deleted":true}}`, "n/s  deleted"},
		"not JSON": {"", `?`, "?"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := (message{ImageID: test.imageID, Data: json.RawMessage(test.data)}).summary(); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
