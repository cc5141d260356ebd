package coverage

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

func TestOf(t *testing.T) {
	const id = "r.example/a@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	run := Container{Key: model.ImageKey{ImageID: id}}
	tests := map[string]struct {
		container Container
		image     Image
		build     string
		want      Result
	}{
		"skipped":                     {Container{Skip: "IgnoreLabel"}, Image{Build: "b"}, "b", Result{Skipped, "IgnoreLabel"}},
		"not pulled":                  {Container{}, Image{}, "b", Result{Pending, ReasonNotPulled}},
		"starting":                    {Container{WaitingReason: "ContainerCreating"}, Image{}, "b", Result{Pending, ReasonNotPulled}},
		"cannot be pulled":            {Container{WaitingReason: "ErrImagePull", WaitingMessage: "manifest unknown"}, Image{}, "b", Result{Failed, "ImageNotFound"}},
		"scanned":                     {run, Image{Cataloged: true, Build: "b"}, "b", Result{State: Scanned}},
		"scanned in part":             {run, Image{Cataloged: true, Build: "b", Partial: true}, "b", Result{Partial, ReasonFilesUnreadable}},
		"part, of an older database":  {run, Image{Cataloged: true, Build: "a", Partial: true}, "b", Result{Stale, ReasonNotMatched}},
		"part, to be matched":         {run, Image{Cataloged: true, Partial: true}, "b", Result{Pending, ReasonNotMatched}},
		"result of an older database": {run, Image{Cataloged: true, Build: "a"}, "b", Result{Stale, ReasonNotMatched}},
		"result, but database lost":   {run, Image{Cataloged: true, Build: "a"}, "", Result{Stale, ReasonNotMatched}},
		"failed":                      {run, Image{Reason: model.ReasonImageTooLarge}, "b", Result{Failed, "ImageTooLarge"}},
		"match failed":                {run, Image{Cataloged: true, Reason: model.ReasonMatchFailed}, "b", Result{Failed, "MatchFailed"}},
		"no database":                 {run, Image{Cataloged: true}, "", Result{Pending, ReasonNoDatabase}},
		"to be matched":               {run, Image{Cataloged: true}, "b", Result{Pending, ReasonNotMatched}},
		"to be cataloged":             {run, Image{}, "b", Result{Pending, ReasonNotCataloged}},
		"not a possible image ID": {
			Container{Key: model.ImageKey{ImageID: "r.example/ä@" + id[len("r.example/a@"):]}}, Image{}, "b", Result{Failed, "NotPullable"},
		},
		"no repository": {
			Container{Key: model.ImageKey{ImageID: id[len("r.example/a@"):]}}, Image{}, "b", Result{Failed, "NotPullable"},
		},
		"no repository, but on its node": {
			Container{Key: model.ImageKey{ImageID: id[len("r.example/a@"):]}, OnNode: true}, Image{}, "b", Result{Pending, ReasonNotCataloged},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, Of(tt.container, tt.image, tt.build)); diff != "" {
				t.Errorf("Of (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPullFailure(t *testing.T) {
	tests := []struct {
		reason, message string
		want            model.Reason
	}{
		{"ContainerCreating", "", ""},
		{"CrashLoopBackOff", "back-off", ""},
		{"InvalidImageName", "couldn't parse", model.ReasonNotPullable},
		{"ErrImageNeverPull", "policy is Never", model.ReasonNotPullable},
		{"ErrImagePull", "failed to resolve reference: r.example/a: not found", model.ReasonImageNotFound},
		{"ErrImagePull", "pull access denied, repository does not exist or may require authorization", model.ReasonImagePullDenied},
		{"ErrImagePull", "unexpected status from HEAD request: 401 Unauthorized", model.ReasonImagePullDenied},
		{"ErrImagePull", "429 Too Many Requests", model.ReasonRegistryRateLimited},
		{"ErrImagePull", "unexpected status code 429", model.ReasonRegistryRateLimited},
		{"ErrImagePull", "GET /v2/a/manifests/none: MANIFEST_UNKNOWN: Unknown manifest", model.ReasonImageNotFound},
		{"ErrImagePull", "unexpected status code [manifests none]: 404", model.ReasonImageNotFound},
		{"ErrImagePull", "a@sha256:04290e401f403d404: dial tcp: connection refused", model.ReasonRegistryUnavailable},
		{"ErrImagePull", "no match for platform in manifest: not found", model.ReasonPlatformMismatch},
		{"ErrImagePull", "dial tcp: connection refused", model.ReasonRegistryUnavailable},
		{"ErrImagePull", "write /var: no space left on device", model.ReasonOutOfDisk},
		{"ImagePullBackOff", "Back-off pulling image", model.ReasonRegistryUnavailable},
		{"RegistryUnavailable", "", model.ReasonRegistryUnavailable},
	}
	for _, tt := range tests {
		if got := PullFailure(tt.reason, tt.message); got != tt.want {
			t.Errorf("PullFailure(%q, %q) = %q, want %q", tt.reason, tt.message, got, tt.want)
		}
	}
}

func TestSummary(t *testing.T) {
	var s Summary
	if !s.Complete() || s.Percent() != "100%" {
		t.Errorf("nothing to cover: complete %v, %s", s.Complete(), s.Percent())
	}
	for _, r := range []Result{
		{State: Scanned}, {State: Scanned}, {Stale, ReasonNotMatched}, {Pending, ReasonNotMatched}, {Failed, "OutOfDisk"}, {Skipped, "IgnoreLabel"},
	} {
		s.Add(r)
	}
	want := Summary{
		Total: 6, Scanned: 2, Stale: 1, Pending: 1, Failed: 1, Skipped: 1,
		Reasons: map[string]int{ReasonNotMatched: 2, "OutOfDisk": 1},
	}
	if diff := cmp.Diff(want, s); diff != "" {
		t.Errorf("Summary (-want +got):\n%s", diff)
	}
	if s.Complete() || s.Percent() != "40%" || s.Ratio() != 0.4 {
		t.Errorf("complete %v, %s, %g; want false, 40%%, 0.4", s.Complete(), s.Percent(), s.Ratio())
	}
	if nothing := (&Summary{Total: 1, Skipped: 1}); nothing.Ratio() != 1 {
		t.Errorf("nothing to cover: %g", nothing.Ratio())
	}
}

func TestEveryReasonHasAdvice(t *testing.T) {
	reasons := []string{ReasonNotPulled, ReasonNotCataloged, ReasonNotMatched, ReasonNoDatabase, ReasonFilesUnreadable, "IgnoreLabel"}
	for _, reason := range model.Reasons() {
		reasons = append(reasons, string(reason))
	}
	for _, reason := range reasons {
		if Advice(reason) == "" {
			t.Errorf("nothing is said about %s", reason)
		}
	}
	if len(reasons) != len(advice) || Advice("") != "" {
		t.Errorf("%d reasons, but advice about %d", len(reasons), len(advice))
	}
}
