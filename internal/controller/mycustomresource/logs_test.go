package mycustomresource

import (
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/scanner-operator/scanner-operator/internal/controller/controllertest"
)

// TestLogs checks that the log tells at level info when the health changed, and nothing once all is settled.
func TestLogs(t *testing.T) {
	r, _ := newReconciler(t, interceptor.Funcs{}, seeker())
	logs := &controllertest.Logs{}
	expect := func(step, want string) {
		t.Helper()
		if _, err := r.Reconcile(logs.Context(t.Context()), request); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(logs.Take(), "\n"); got != want {
			t.Errorf("%s: logs %q, want %q", step, got, want)
		}
	}
	expect("no friend", "")
	friend := pod("own", "funny-joe")
	if err := r.Client.Create(t.Context(), friend); err != nil {
		t.Fatal(err)
	}
	expect("found", `"level"=0 "msg"="Health changed" "pod"="funny-joe" "from"=false "to"=true`)
	expect("settled", "")
	if err := r.Client.Delete(t.Context(), friend); err != nil {
		t.Fatal(err)
	}
	expect("lost", `"level"=0 "msg"="Health changed" "pod"="funny-joe" "from"=true "to"=false`)
	expect("settled again", "")
}
