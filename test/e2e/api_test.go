//go:build e2e

package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// api is the operator's API through its ClusterIP, as a user with a token.
type api struct {
	base  string
	token string
}

func newAPI(t *testing.T) api {
	t.Helper()
	address, err := serviceAddress(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return api{base: address, token: userToken(t)}
}

// serviceAddress is the API's URL by the ClusterIP of its Service.
func serviceAddress(ctx context.Context) (string, error) {
	var services corev1.ServiceList
	if err := e2e.client.List(ctx, &services, client.InNamespace(operatorNamespace)); err != nil {
		return "", err
	}
	for _, service := range services.Items {
		for _, port := range service.Spec.Ports {
			if port.Port == 8000 {
				return fmt.Sprintf("https://%s:8000", service.Spec.ClusterIP), nil
			}
		}
	}
	return "", errors.New("there is no Service with port 8000")
}

// userToken makes a user who may read and remove results.
func userToken(t *testing.T) string {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: operatorNamespace, GenerateName: "user-"}}
	create(t, account)
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "e2e-user-"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"scanner.zoltankerezsi.xyz"}, Resources: []string{"scanresults"}, Verbs: []string{"get", "list", "delete"}}},
	}
	create(t, role)
	create(t, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "e2e-user-"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: account.Namespace, Name: account.Name}},
	})
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{"scanner-operator"}}}
	if err := e2e.client.SubResource("token").Create(t.Context(), account, request); err != nil {
		t.Fatal(err)
	}
	return request.Status.Token
}

// tlsConfig trusts the CA of the operator, which trustOperator adds. Tests connect to the address of the Service, as the machine does not
// resolve its name.
var tlsConfig = &tls.Config{RootCAs: x509.NewCertPool(), ServerName: serviceName}

// serviceName is the name of the Service in the cluster.
const serviceName = "scanner-controller-manager-api-service." + operatorNamespace + ".svc"

// httpClient connects anew for each request: a connection that was opened while the node's rules for the Service changed may lead elsewhere,
// and would for ever.
var httpClient = &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: tlsConfig}}

// trustOperator reads the CA of the operator, which is there once the operator is ready.
func trustOperator(ctx context.Context) error {
	var secret corev1.Secret
	key := client.ObjectKey{Namespace: operatorNamespace, Name: "scanner-controller-manager-api-tls"}
	if err := e2e.client.Get(ctx, key, &secret); err != nil {
		return err
	}
	if !tlsConfig.RootCAs.AppendCertsFromPEM(secret.Data["ca.crt"]) {
		return fmt.Errorf("the Secret %s contains no CA", key)
	}
	return nil
}

// dialer connects WebSockets as httpClient does.
var dialer = &websocket.Dialer{TLSClientConfig: tlsConfig, HandshakeTimeout: time.Minute}

func (a api) do(ctx context.Context, method, path string) (int, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, a.base+path, http.NoBody)
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Authorization", "Bearer "+a.token)
	res, err := httpClient.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, 64<<20))
	return res.StatusCode, body, err
}

// get reads a JSON document.
func (a api) get(ctx context.Context, path string, into any) error {
	status, body, err := a.do(ctx, http.MethodGet, path)
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		return fmt.Errorf("%s was answered with %d: %.300s", path, status, body)
	}
	return json.Unmarshal(body, into)
}

// result is a scan result of GET /scan-results.
type result struct {
	ImageID string `json:"imageId"`
	Report  struct {
		BOMFormat       string            `json:"bomFormat"`
		SpecVersion     string            `json:"specVersion"`
		Components      []json.RawMessage `json:"components"`
		Vulnerabilities []struct {
			ID string `json:"id"`
		} `json:"vulnerabilities"`
	} `json:"report"`
}

// results lists all scan results by image ID.
func (a api) results(ctx context.Context) (map[string]result, error) {
	var list []result
	if err := a.get(ctx, "/scan-results", &list); err != nil {
		return nil, err
	}
	byID := map[string]result{}
	for _, r := range list {
		byID[r.ImageID] = r
	}
	return byID, nil
}

// image is the state of an image in /api/v1.
type image struct {
	State    string `json:"state"`
	Reason   string `json:"reason"`
	Message  string `json:"message"`
	Attempts int    `json:"attempts"`
	// SizeClass is that of the image's repository.
	SizeClass   string    `json:"sizeClass"`
	ScannedIn   string    `json:"scannedIn"`
	CatalogedAt time.Time `json:"catalogedAt"`
}

func (a api) image(ctx context.Context, imageID string) (image, error) {
	var i image
	err := a.get(ctx, "/api/v1/images/"+url.PathEscape(imageID), &i)
	return i, err
}

// container is a row of the coverage.
type container struct {
	ImageID     string    `json:"imageId"`
	State       string    `json:"state"`
	Reason      string    `json:"reason"`
	Message     string    `json:"message"`
	NextAttempt time.Time `json:"nextAttempt"`
}

// coverage lists the containers of a namespace by image ID.
func (a api) coverage(ctx context.Context, namespace string) (map[string]container, error) {
	var page struct {
		Items []container `json:"items"`
	}
	if err := a.get(ctx, "/api/v1/coverage?namespace="+namespace, &page); err != nil {
		return nil, err
	}
	byID := map[string]container{}
	for _, c := range page.Items {
		byID[c.ImageID] = c
	}
	return byID, nil
}

func (a api) remove(t *testing.T, imageID string) {
	t.Helper()
	status, body, err := a.do(t.Context(), http.MethodDelete, "/scan-results/"+url.PathEscape(imageID))
	if err != nil || status != http.StatusNoContent {
		t.Fatalf("remove %s: status %d, %v, %s", imageID, status, err, body)
	}
}

// subscribe returns the image IDs that /subscribe names.
func (a api) subscribe(t *testing.T) <-chan string {
	t.Helper()
	header := http.Header{"Authorization": {"Bearer " + a.token}}
	conn, res, err := dialer.DialContext(t.Context(), "ws"+strings.TrimPrefix(a.base, "http")+"/subscribe", header)
	if err != nil {
		t.Fatalf("subscribe: %v", err)
	}
	_ = res.Body.Close()
	t.Cleanup(func() { _ = conn.Close() })
	ids := make(chan string, 100)
	go func() {
		defer close(ids)
		for {
			var id string
			if conn.ReadJSON(&id) != nil {
				return
			}
			ids <- id
		}
	}()
	return ids
}

func create(t *testing.T, obj client.Object) {
	t.Helper()
	if err := e2e.client.Create(t.Context(), obj); err != nil {
		t.Fatalf("create %T %s: %v", obj, obj.GetName(), err)
	}
}
