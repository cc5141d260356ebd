package plugin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authenticationv1client "k8s.io/client-go/kubernetes/typed/authentication/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
)

const (
	// audience is who accepts the tokens that the plugin creates: the operator, and not the API server.
	audience = "scanner-operator"
	// tokenSeconds is how long they are valid: the shortest time that the API server grants.
	tokenSeconds = 600
	// renewBefore is how long before that they are replaced.
	renewBefore = 2 * time.Minute
)

// Headers that hold a token.
const (
	authorizationHeader = "Authorization"
	proxiedHeader       = "X-Scanner-Authorization"
)

// What a caller whom the operator does not know can do.
const (
	proxiedHint = "The API server removes your credentials from requests to the operator. Name a ServiceAccount whose tokens you may create with " +
		"--service-account [NAMESPACE/]NAME or the environment variable KUBECTL_SCANNER_SERVICE_ACCOUNT, or connect to the operator itself with --url"
	directHint = "Your kubeconfig has no token that the operator accepts. Name a ServiceAccount whose tokens you may create with --service-account [NAMESPACE/]NAME"
)

// accountTokens creates tokens of a ServiceAccount, one at a time. It is safe for concurrent use.
type accountTokens struct {
	accounts        corev1client.ServiceAccountsGetter
	namespace, name string
	now             func() time.Time

	mu      sync.Mutex
	token   string
	expires time.Time
}

// accountTokens is for the account that --service-account names, by default in the namespace of the context or of --namespace.
func (o *options) accountTokens(core corev1client.ServiceAccountsGetter) (*accountTokens, error) {
	namespace, name, found := strings.Cut(o.serviceAccount, "/")
	if !found {
		name = namespace
		var err error
		if namespace, _, err = o.kubeconfig().Namespace(); err != nil {
			return nil, err
		}
	}
	if namespace == "" || name == "" || strings.Contains(name, "/") {
		return nil, errors.New("--service-account must have the form [NAMESPACE/]NAME")
	}
	return &accountTokens{accounts: core, namespace: namespace, name: name, now: o.now}, nil
}

// proxiedTokens returns whose tokens go through the API server: those of --service-account, or of the caller's own account if the caller is a ServiceAccount
// that may create them. Nil without any: the operator may permit reading without a token.
func (o *options) proxiedTokens(
	ctx context.Context, config *rest.Config, httpClient *http.Client, core corev1client.ServiceAccountsGetter,
) (*accountTokens, error) {
	if o.serviceAccount != "" {
		return o.accountTokens(core)
	}
	reviews, err := authenticationv1client.NewForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	review, err := reviews.SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("ask the API server who you are: %w", err)
	}
	account, found := strings.CutPrefix(review.Status.UserInfo.Username, "system:serviceaccount:")
	if !found {
		return nil, nil //nolint:nilnil // no tokens is no error
	}
	in, name, _ := strings.Cut(account, ":")
	tokens := &accountTokens{accounts: core, namespace: in, name: name, now: o.now}
	if _, err := tokens.get(ctx); apierrors.IsForbidden(err) {
		return nil, nil //nolint:nilnil // as above
	} else if err != nil {
		return nil, err
	}
	return tokens, nil
}

// get returns a token that is valid for a while.
func (t *accountTokens) get(ctx context.Context) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.token != "" && t.now().Before(t.expires.Add(-renewBefore)) {
		return t.token, nil
	}
	seconds := int64(tokenSeconds)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{audience}, ExpirationSeconds: &seconds}}
	created, err := t.accounts.ServiceAccounts(t.namespace).CreateToken(ctx, t.name, request, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("create a token of the ServiceAccount %s in the namespace %s: %w", t.name, t.namespace, err)
	}
	t.token, t.expires = created.Status.Token, created.Status.ExpirationTimestamp.Time
	return t.token, nil
}
