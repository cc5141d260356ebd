//go:build scale

package scale

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	"github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/scanner-operator/scanner-operator/internal/server/api"
	"github.com/scanner-operator/scanner-operator/internal/setup"
)

// auditInterval is long enough for audits not to be most of the work, and short enough for two of them to be waited for.
const auditInterval = 10 * time.Second

// operator is the program in this process, which can be stopped and started again on the same data.
type operator struct {
	requests requests
	options  setup.Options
	address  atomic.Pointer[string]
	token    string
	cancel   context.CancelFunc
	ended    chan error
}

// requests counts what an operator asks of the API server.
type requests struct {
	mu     sync.Mutex
	writes []string
	reads  int
	audits int
}

// wrap counts requests that change something, and audits by their last list.
func (r *requests) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		r.count(request)
		return next.RoundTrip(request)
	})
}

func (r *requests) count(request *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if request.Method != http.MethodGet {
		r.writes = append(r.writes, request.Method+" "+request.URL.Path)
		return
	}
	r.reads++
	if strings.HasSuffix(request.URL.Path, "/jobs") && request.URL.Query().Get("limit") == "500" {
		r.audits++
	}
}

// soFar returns the writes and how many audits there were.
func (r *requests) soFar() (writes []string, audits int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.writes), r.audits
}

// writesSoFar returns the writes.
func (r *requests) writesSoFar() []string {
	writes, _ := r.soFar()
	return writes
}

// figures describes how many requests there were.
func (r *requests) figures() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	count := map[string]int{}
	for _, write := range r.writes {
		method, path, _ := strings.Cut(write, " ")
		what := path[strings.LastIndex(path, "/")+1:]
		if method != http.MethodPost {
			what = map[bool]string{true: "pods", false: "status"}[strings.Contains(path, "/pods/")]
		}
		count[method+" "+what]++
	}
	return fmt.Sprintf("%d reads and %d writes (%v)", r.reads, len(r.writes), count)
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

// newOperator describes an operator that has not been started.
func newOperator(t *testing.T, namespace string) *operator {
	t.Helper()
	return &operator{token: readerToken(t, namespace), options: setup.Options{
		Namespace: namespace, Catalog: setup.CatalogJob, Auth: setup.AuthKubernetes,
		APIAddress: "127.0.0.1:0", MetricsAddress: "0", HealthAddress: "0", DataDir: t.TempDir(),
		ScanImage: "operator:test", APIURL: "http://operator.invalid:8000", Log: testr.New(t),
		Scans:                 setup.Scans{Concurrency: bounds.total, RegistryConcurrency: bounds.perRegistry, AuditInterval: auditInterval},
		VulnerabilityDatabase: setup.VulnerabilityDatabase{URL: "none", Sample: true},
	}}
}

// start runs the operator until stop, or the end of the test.
func (o *operator) start(t *testing.T) {
	t.Helper()
	config := rest.CopyConfig(cluster)
	config.Wrap(o.requests.wrap)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	program, err := setup.New(ctx, config, o.options)
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	o.cancel, o.ended = cancel, make(chan error, 1)
	go func() { o.ended <- program.Start(ctx) }()
	t.Cleanup(func() { o.stop(t) })
	gomega.NewWithT(t).Eventually(program.APIAddr, patience, tick).ShouldNot(gomega.BeEmpty())
	o.address.Store(new("http://" + program.APIAddr()))
}

// stop ends the operator, unless it has ended, and waits.
func (o *operator) stop(t *testing.T) {
	t.Helper()
	if o.cancel == nil {
		return
	}
	o.address.Store(nil)
	o.cancel()
	o.cancel = nil
	select {
	case err := <-o.ended:
		if err != nil {
			t.Errorf("the operator ended with %v", err)
		}
	case <-time.After(time.Minute):
		t.Error("the operator did not stop within a minute")
	}
}

// api is where the operator is, "" while it is down.
func (o *operator) api() string {
	if address := o.address.Load(); address != nil {
		return *address
	}
	return ""
}

// coverage reads all of /api/v1/coverage.
func (o *operator) coverage(ctx context.Context) (rows []api.ContainerCoverage, summary api.CoverageSummary, err error) {
	for token, more := "", true; more; more = token != "" {
		var page api.CoveragePage
		if err := o.get(ctx, "/api/v1/coverage?pageSize=1000&pageToken="+url.QueryEscape(token), &page); err != nil {
			return nil, api.CoverageSummary{}, err
		}
		rows, summary, token = append(rows, page.Items...), page.Summary, ""
		if page.NextPageToken != nil {
			token = *page.NextPageToken
		}
	}
	return rows, summary, nil
}

func (o *operator) get(ctx context.Context, path string, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, o.api()+path, http.NoBody)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+o.token)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s was answered with %s", path, response.Status)
	}
	return json.NewDecoder(response.Body).Decode(into)
}

// readerToken makes an account that may see everything, and a token of it.
func readerToken(t *testing.T, namespace string) string {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "reader"}}
	create(t, account)
	create(t, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "reader"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: account.Name}},
	})
	request := &authenticationv1.TokenRequest{}
	if err := c.SubResource("token").Create(t.Context(), account, request); err != nil {
		t.Fatal(err)
	}
	return request.Status.Token
}
